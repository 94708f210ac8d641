"""The whole machine, made up and real."""

import os
import time

import pytest

from vedette.sensing.sensor import Absent, Target
from vedette.sources import host

TICKS = os.sysconf("SC_CLK_TCK")


class Machine:
    """As much of /proc as tells of the machine."""

    def __init__(self, root):
        self.root = root
        self.say()

    def say(self, busy=(0, 0), memory="MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n", load="0.5 0.25 0.1"):
        """`busy`: ticks of each core, half of them stolen."""
        lines = [f"cpu{core} {n // 2} 0 0 999 99 0 0 {n - n // 2} 0 0" for core, n in enumerate(busy)]
        total = f"cpu  {sum(busy)} 0 0 9 9 0 0 0 0 0"
        (self.root / "stat").write_text("\n".join([total, *lines, "intr 1 2 3", "ctxt 5"]) + "\n")
        (self.root / "meminfo").write_text(memory)
        (self.root / "loadavg").write_text(f"{load} 1/2 3\n")


@pytest.fixture
def machine(tmp_path):
    """A made-up machine of two cores."""
    return Machine(tmp_path)


def watch(machine):
    return host.sensor(Target(1, str(machine.root)))


def test_what_stands_and_what_was_done(machine, monkeypatch):
    """Memory and load come at once; the share of each core and of all with the second look, by the time between."""
    machine.say((100, 200), "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n")
    watching = watch(machine)
    [first] = watching.look()
    assert first.values == {
        "memory_bytes": 600 * 1024, "memory_share_percent": 60.0, "swap_bytes": 30 * 1024,
        "load_1": 0.5, "load_5": 0.25, "load_15": 0.1,
    }  # fmt: skip
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 10)
    machine.say((100 + 5 * TICKS, 200 + 10 * TICKS))
    whole, *cores = watching.look()
    assert whole.values["cpu_percent"] == pytest.approx(150, rel=0.02)
    assert whole.values["cpu_share_percent"] == pytest.approx(75, rel=0.02)
    assert {one.tags["core"]: round(one.values["cpu_percent"], -1) for one in cores} == {"0": 50, "1": 100}
    assert {one.scope for one in (whole, *cores)} == {"host"}
    watching.close()


def test_cores_that_go_and_counters_that_fall(machine):
    """A core that is taken away is left out, and nothing is ever negative."""
    machine.say((100, 200))
    watching = watch(machine)
    watching.look()
    machine.say((50,))
    whole, core = watching.look()
    assert whole.values["cpu_percent"] == core.values["cpu_percent"] == 0


def test_an_old_kernel(machine):
    """Where no memory is said to be available, that which is free or a cache is."""
    machine.say(memory="MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 50 kB\nCached: 250 kB\n")
    (machine.root / "stat").write_text("cpu 1 2 3 4\n")
    assert watch(machine).look()[0].values["memory_bytes"] == 600 * 1024


@pytest.mark.parametrize(
    "text", ["", "cpu\n", "cpu x y\ncpu0 -1\n", "cpu " + "9" * 5000 + "\n", "MemTotal:\n:\n", "\0\xff"]
)
def test_files_that_make_no_sense(machine, text):
    """What cannot be understood is left out; nothing raises."""
    watching = watch(machine)
    watching.look()
    for name in ("stat", "meminfo", "loadavg"):
        (machine.root / name).write_text(text)
    assert watching.look()[0].values == {}
    for name in ("stat", "meminfo", "loadavg"):
        (machine.root / name).unlink()
    watching.close()
    assert watching.look()[0].values == {}


def test_without_proc_psutil_tells():
    """Where there is no /proc the same is known by psutil."""
    here, there = (host.sensor(Target(1, proc)) for proc in ("/proc", "/nowhere"))
    for one in (here, there):
        assert not isinstance(one, Absent)
        one.look()
    time.sleep(0.05)
    first, second = here.look(), there.look()
    assert [set(one.values) for one in first] == [set(one.values) for one in second]
    assert [one.tags for one in first] == [one.tags for one in second]
    assert second[0].values["memory_bytes"] == pytest.approx(first[0].values["memory_bytes"], rel=0.2)
