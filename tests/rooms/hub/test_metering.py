"""Who is measured: the keeper starts a meter for those who wish it, and tells a new one everything."""

import os
import signal
import subprocess
import sys

import pytest

from tests.journeys.conftest import eventually
from tests.rooms.conftest import keeping
from vedette.hub import helper_process

JOB = """
import subprocess, sys, vedette
vedette.init(usage=sys.argv[1] == "measured", console=False)
child = subprocess.Popen(["sleep", "600"])
print("ready", flush=True)
sys.stdin.readline()
child.kill()
child.wait()
"""


@pytest.fixture
def keeper(home, monkeypatch):
    """A keeper that has processes measured; a meter that failed is started again soon."""
    monkeypatch.setattr(helper_process, "_AGAIN_S", 0.1)
    monkeypatch.setenv("VEDETTE_USAGE_INTERVAL_S", "0.1")
    with keeping(home, measure=True) as made:
        yield made


@pytest.fixture
def begin():
    """Begin a job that waits to be told; end it with the test."""
    begun = []

    def start(wish):
        job = subprocess.Popen([sys.executable, "-c", JOB, wish], stdin=-1, stdout=-1, text=True)
        begun.append(job)
        assert job.stdout.readline() == "ready\n"
        return job

    yield start
    for job in begun:
        job.communicate()


def turned(keeper, look):
    """Take turns until `look` is true; return that."""

    def turn():
        keeper.turn(seal={""})
        return look()

    return eventually(turn)


def silent_ones(keeper):
    """Return the spans of processes that the meter has named, with their states."""
    rows = keeper.store.connection.execute("SELECT id, state FROM spans WHERE id LIKE '%/pid-%'")
    return dict(rows.fetchall())


def test_who_wishes_no_usage_needs_no_meter(keeper, begin):
    """It is known who it is, and nobody is started for it."""
    begin("not measured")
    turned(keeper, lambda: keeper.metering._told)
    keeper.turn()

    assert keeper.metering._meter.pid is None


def test_a_new_meter_is_told_everything(keeper, begin):
    """One that was killed is replaced; the next goes on with what the last has opened, and leaves with the last job."""
    job = begin("measured")
    [span] = turned(keeper, lambda: silent_ones(keeper))
    first = keeper.metering._meter.pid
    os.kill(first, signal.SIGKILL)
    assert turned(keeper, lambda: keeper.helper_troubles) == ["the meter was killed by signal 9; it is started again"]
    turned(keeper, lambda: keeper.metering._meter.pid not in (None, first))
    [wish] = keeper.metering._told.values()
    assert wish.open == [span]
    job.communicate()
    turned(keeper, lambda: silent_ones(keeper) == {span: "ended"})
    turned(keeper, lambda: keeper.metering._meter.pid is None)

    assert keeper.metering._told == {}
