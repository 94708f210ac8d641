"""What every sensor promises: it is there or says why not, its numbers are known by name, and nothing raises."""

import importlib
import math
import os
import re
from pathlib import Path

import pytest

from vedette.sensing.sensor import Absent, Target
from vedette.sources import SENSORS

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
[UNITS] = re.findall(r"^A name ends in its unit: .*", REFERENCE.read_text(), re.MULTILINE)


def made(name, target):
    return importlib.import_module(SENSORS[name]).sensor(target)


@pytest.fixture(params=SENSORS)
def name(request):
    return request.param


def test_its_life(name):
    """On this machine it is looked at again and again, and closed twice without harm; or it says why it is absent."""
    sensor = made(name, Target(os.getpid()))
    if isinstance(sensor, Absent):
        assert sensor.why
        assert "\n" not in sensor.why
        return
    for _ in range(3):
        for reading in sensor.look():
            assert reading.scope in ("process", "host")
            assert set(reading.values) <= set(sensor.metrics)
            assert all(math.isfinite(value) for value in reading.values.values())
            assert all(isinstance(word, str) for pair in reading.tags.items() for word in pair)
    sensor.close()
    sensor.close()


def test_its_names(name):
    """A name ends in a unit of the reference, or is a count that is listed there; what it means is said."""
    units, counts = tuple(re.findall(r"`(_\w+)`", UNITS)), re.findall(r"`([a-z]\w*)`", UNITS)
    sensor = made(name, Target(os.getpid()))
    if isinstance(sensor, Absent):
        pytest.skip(sensor.why)
    for own, metric in sensor.metrics.items():
        assert own.endswith(units) or own in counts, own
        assert metric.kind in ("gauge", "counter")
        assert metric.help
    sensor.close()


def test_a_machine_that_shows_nothing(name, tmp_path, monkeypatch):
    """Below an empty /proc and /sys it is absent or sees nothing of it, and does not raise."""
    monkeypatch.setenv("PATH", str(tmp_path))
    sensor = made(name, Target(os.getpid(), str(tmp_path), str(tmp_path)))
    if not isinstance(sensor, Absent):
        sensor.look()
        sensor.look()
        sensor.close()


def test_a_process_that_is_not_there(name):
    """Of a process that has gone it tells what it can, and does not raise."""
    sensor = made(name, Target(1 << 22))
    if not isinstance(sensor, Absent):
        sensor.look()
        sensor.look()
        sensor.close()
