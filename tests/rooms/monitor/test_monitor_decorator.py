"""`vedette.monitored` around a block, a function, a generator, a coroutine: one monitor for each, ended with it."""

import asyncio

import pytest

import vedette
from vedette.errors import VedetteError
from vedette.monitor.decorator import monitored


def test_a_block():
    """The block has its monitor, which has ended with it."""
    with monitored(interval_s=60) as monitor:
        assert monitor.running
    assert not monitor.running
    assert monitor.summary()


@pytest.mark.parametrize("parentheses", [True, False])
def test_a_function(parentheses):
    """Each call has a monitor of its own, with or without parentheses; what the function returns and raises is its."""

    def halve(number):
        """Halve it."""
        assert call.monitor.running
        return 1 // number

    call = monitored(interval_s=60)(halve) if parentheses else monitored(halve)
    assert call(1) == 1
    first = call.monitor
    with pytest.raises(ZeroDivisionError):
        call(0)
    assert call.monitor is not first
    assert not call.monitor.running
    assert (call.__name__, call.__doc__) == ("halve", "Halve it.")


def test_a_generator():
    """It is monitored from its first value to its last, and hands on what is returned."""

    @monitored(interval_s=60)
    def count():
        yield 1
        return 2

    def through():
        found.append((yield from count()))

    found = []
    walk = through()
    assert next(walk) == 1
    assert count.monitor.running
    assert list(walk) == []
    assert found == [2]
    assert not count.monitor.running


def test_a_coroutine_and_a_stream():
    """So are functions that are async, also those that yield, and one that is left early."""

    @monitored(interval_s=60)
    async def wait():
        return wait.monitor.running

    @monitored(interval_s=60)
    async def stream():
        yield 1
        yield 2

    async def act():
        assert await wait()
        items = stream()
        assert await anext(items) == 1
        assert stream.monitor.running
        await items.aclose()

    asyncio.run(act())
    assert not wait.monitor.running
    assert not stream.monitor.running


def test_what_cannot_be_is_raised_at_once():
    """A wish that makes no sense is refused before the code begins."""
    with pytest.raises(VedetteError):
        vedette.monitored(interval_s=-1)
    with pytest.raises(VedetteError):
        vedette.monitored("no such sink")
