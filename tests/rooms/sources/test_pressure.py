"""What is waited for, by made-up files."""

import os

import pytest

from vedette.sensing.sensor import Absent, Target
from vedette.sources import pressure

TEXT = "some avg10={avg:.2f} avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"


def say(root, avg=0.0, total=0, names=("cpu", "memory", "io")):
    (root / "pressure").mkdir(exist_ok=True)
    for name in names:
        (root / "pressure" / name).write_text(TEXT.format(avg=avg, total=total))


def told(watching):
    return {(one.tags["resource"], one.tags["kind"]): one.values for one in watching.look()}


def test_what_is_waited_for(tmp_path):
    """Each resource has its share of the last 10 s and its time, once for some tasks and once for all."""
    say(tmp_path, 12.5, 3_000_000)
    watching = pressure.sensor(Target(1, str(tmp_path)))
    found = told(watching)
    assert len(found) == 6
    assert found["io", "some"] == {"pressure_percent": 12.5, "stalled_s": 3.0}
    watching.close()


def test_a_counter_that_begins_again(tmp_path):
    """It goes on growing."""
    say(tmp_path, total=3_000_000)
    watching = pressure.sensor(Target(1, str(tmp_path)))
    told(watching)
    say(tmp_path, total=1_000_000)
    assert told(watching)["cpu", "some"]["stalled_s"] == 4.0


def test_absent(tmp_path):
    """A kernel without it, or one that has it turned off, is told apart."""
    assert "there is no" in pressure.sensor(Target(1, str(tmp_path))).why
    say(tmp_path, names=())
    assert "psi=1" in pressure.sensor(Target(1, str(tmp_path))).why


@pytest.mark.parametrize(
    "text", ["", "some\n", "some avg10=x total=y\n", "odd avg10=1 total=1\n", "some avg10=nan total=-1"]
)
def test_files_that_make_no_sense(tmp_path, text):
    """They are left out, and the others stay."""
    say(tmp_path, 1.0, 1)
    watching = pressure.sensor(Target(1, str(tmp_path)))
    (tmp_path / "pressure" / "cpu").write_text(text)
    assert {resource for resource, _ in told(watching)} == {"memory", "io"}


@pytest.mark.skipif(not os.path.isdir("/proc/pressure"), reason="this kernel does not tell")
def test_the_real_one():
    """The files of this machine are understood."""
    watching = pressure.sensor(Target(os.getpid()))
    assert isinstance(watching, Absent) or all(0 <= one["pressure_percent"] <= 100 for one in told(watching).values())
