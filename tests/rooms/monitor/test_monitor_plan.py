"""What a monitor is asked for: a mistake is a sentence, before anything begins."""

import math
from pathlib import Path

import msgspec
import pytest

import vedette
from vedette.errors import NotFoundError, SettingError, VedetteError
from vedette.monitor import Monitor
from vedette.monitor.plan import Plan, names
from vedette.sinks import jsonl
from vedette.sources import SENSORS


@pytest.mark.parametrize("interval_s", [0, -1, math.nan, math.inf, "1", None, True, 1e9])
def test_intervals(interval_s):
    """An interval is a number of seconds, and not any."""
    with pytest.raises(SettingError, match=r"an interval is from 0\.001 to 86400 seconds"):
        vedette.monitored(interval_s=interval_s)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"sensors": ["proces"]}, "there is no sensor 'proces'; did you mean process?"),
        ({"sensors": "process,xyzzy"}, "there is no sensor 'xyzzy'; there are process"),
        ({"sensors": ()}, "a monitor needs at least one sensor"),
        ({"where": "moon"}, "where is 'thread' or 'process', not 'moon'"),
        ({"pid": -1}, "pid is the number of a process"),
        ({"pid": "1"}, "pid is the number of a process"),
        ({"keep": 0}, "keep is a number of moments"),
        ({"to": "usage.xyzzy"}, "usage.xyzzy"),
        ({"to": [3]}, "a sink is a path"),
    ],
)
def test_mistakes(wish, said):
    """Each mistake is one sentence that says what would be right, when the monitor is made."""
    with pytest.raises(VedetteError) as caught:
        vedette.monitored(**wish)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("where", ["thread", "process"])
def test_what_only_shows_at_the_start(where, tmp_path):
    """A directory that is not there, and a process that is not, are said before the user's work begins."""
    with (
        pytest.raises(SettingError, match=r"no/usage\.jsonl cannot be written"),
        vedette.monitored(tmp_path / "no" / "usage.jsonl", where=where),
    ):
        raise AssertionError("the work has begun")
    with pytest.raises(NotFoundError, match="there is no process 4194304"):
        Monitor(pid=4194304, where=where).start()


def test_ways_to_name_a_sink():
    """A path, a Path, NAME:TEXT, a Config, a name with a Config; one of them or several."""
    config = jsonl.Config("a.jsonl")
    for to in ("a.jsonl", Path("a.jsonl"), "jsonl:a.jsonl", config, ("jsonl", config), ("jsonl", {"path": "a.jsonl"})):
        for given in (to, [to]):
            [(name, found)] = Monitor(given).plan.sinks
            assert (name, found["path"]) == ("jsonl", "a.jsonl")
    assert len(Monitor(("a.jsonl", "b.jsonl")).plan.sinks) == 2


def test_sensors():
    """Some, a text with commas, or all; each once."""
    assert names("process, host,process") == ("process", "host")
    assert set(SENSORS) <= set(names("all"))


def test_a_plan_is_json():
    """What goes to the process beside is plain data."""
    plan = Monitor("a.jsonl", pid=7, where="process", interval_s=2).plan

    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
