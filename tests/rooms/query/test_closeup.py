"""One run from nearby: its lines, bars and processes."""

import pytest

from tests.rooms.conftest import BORN, SECOND
from vedette.errors import NotFoundError
from vedette.model import Span
from vedette.query.closeup import closeup
from vedette.wire import Newest

NOW = BORN + 100 * SECOND


def test_lines_come_once(store, make):
    """A look has the lines after the one that was seen last, of very many the newest."""
    make.run("a")
    make.events("a", *(f"line {number}" for number in range(10)))
    first = closeup(store, "a", last=4, now=NOW)
    make.events("a", "more")
    second = closeup(store, "a", after=first.events[-1].id, now=NOW)

    assert [event.text for event in first.events] == ["line 6", "line 7", "line 8", "line 9"]
    assert [event.text for event in second.events] == ["more"]


def test_processes(store, make):
    """Processes that live come first, each with its newest numbers and its curve; who has ended uses nothing."""
    make.run("a", state="running", end_t=None, heard_t=NOW)
    for n, state in ((1, "done"), (2, "running")):
        make.facts(
            "a", Span(f"a/1/p{n}", BORN + n, "running", kind="process", name=f"p{n}", attrs={"pid": n, "host": "h"})
        )
        make.facts("a", Span(f"a/1/p{n}", BORN + SECOND, state))
        make.points(f"a/1/p{n}", "cpu_percent", [10.0, 20.0])
    fresh = [Newest("a/1/p2", "cpu_percent", {}, NOW, 30.0)]
    fresh += [Newest("a/1/p2", "gpu_memory_bytes", {"gpu": gpu}, NOW, 5) for gpu in "01"]
    near = closeup(store, "a", fresh=fresh, now=NOW)

    assert [(line.name, line.pid, line.state) for line in near.processes] == [("p2", 2, "running"), ("p1", 1, "done")]
    assert near.processes[0].values == {"cpu_percent": 30.0, "gpu_memory_bytes": 10.0}
    assert near.processes[0].trends == {"cpu_percent": [10.0, 20.0]}
    assert near.processes[1].values == {}


def test_config_and_values(store, make):
    """It has the config, flat, and the newest value of each series, the hub's before the store's."""
    make.run("a", **{"config.model.depth": 18})
    make.points("a", "loss", [2.0, 1.0])
    make.points("a", "acc", [0.5])
    near = closeup(store, "a", fresh=[Newest("a", "loss", {}, NOW, 0.5)])

    assert near.config == {"model.depth": 18}
    assert near.values == {"acc": 0.5, "loss": 0.5}


def test_a_run_that_is_gone(store):
    """A run that is not there is said to be so."""
    with pytest.raises(NotFoundError):
        closeup(store, "nobody")
