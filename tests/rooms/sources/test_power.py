"""Power from made-up trees of /sys: RAPL, boards with an INA3221, batteries, and all of them broken."""

import math
import os
import re
import shutil
import tempfile

import pytest

from tests.rooms.sys_tree import SysTree
from vedette.sensing.sensor import Absent, Target
from vedette.sources import SENSORS, power
from vedette.sources.power import battery, rails, rapl

NX = (("VDD_IN", 5000, 1200), ("VDD_CPU_GPU_CV", 5000, 400), ("VDD_SOC", 5000, 200))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A /sys of its own, on a machine without `tegrastats`."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return SysTree(tmp_path / "sys")


def place(tree):
    return Target(os.getpid(), "/proc", tree.root)


class Clock:
    """A clock that is told what time it is."""

    now = 100.0

    def __call__(self):
        return self.now


def told(readings, name="power_w"):
    """Return one number of each rail and group."""
    return {
        reading.tags.get("rail") or "=" + reading.tags["group"]: pytest.approx(reading.values[name])
        for reading in readings
        if name in reading.values
    }


def test_it_stands_in_the_table():
    """`power` is the one sensor of all that tell of power, and `gpu` that of GPUs."""
    assert SENSORS["power"] == "vedette.sources.power"
    assert SENSORS["gpu"] == "vedette.sources.gpu"


def test_nothing_there(tree):
    """Where nothing tells of power the sensor is absent, and says all that is missing."""
    found = power.sensor(place(tree))

    assert isinstance(found, Absent)
    for words in ("no INA3221", "no tegrastats", "no RAPL", "no battery"):
        assert words in found.why


def test_packages_are_counted_once(tree):
    """Cores lie in their package, memory beside it, psys around all: the total counts each joule once, the group `in`
    is psys, and the same package by another driver is no other.
    """
    for zone, name in {
        "intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "uncore", "intel-rapl:0:2": "dram",
        "intel-rapl:1": "package-1", "intel-rapl:1:0": "dram", "intel-rapl:2": "psys", "intel-rapl-mmio:0": "package-0",
    }.items():  # fmt: skip
        tree.zone(zone, name, 1_000_000)
    tree.write("class/powercap/intel-rapl/enabled", 1)
    clock = Clock()
    sensor = rapl.sensor(place(tree), clock)

    first = sensor.look()
    assert told(first) == {}
    assert all(reading.values == {"energy_j": 0.0} for reading in first)

    for zone, watts in {
        "intel-rapl:0": 30, "intel-rapl:0:0": 20, "intel-rapl:0:1": 5, "intel-rapl:0:2": 4, "intel-rapl:1": 10,
        "intel-rapl:1:0": 1, "intel-rapl:2": 60, "intel-rapl-mmio:0": 30,
    }.items():  # fmt: skip
        tree.count(zone, 1_000_000 + watts * 2_500_000)
    clock.now += 2.5
    second = sensor.look()
    sensor.close()

    rails_w = {
        "package-0": 30, "package-0/core": 20, "package-0/uncore": 5, "package-0/dram": 4, "package-1": 10,
        "package-1/dram": 1, "psys": 60,
    }  # fmt: skip
    assert told(second) == {**rails_w, "total": 45, "=in": 60}
    assert told(second, "energy_j")["total"] == 112.5


def test_a_counter_that_wraps(tree):
    """A counter that has begun anew at its range goes on, and one that was set back counts nothing."""
    tree.zone("intel-rapl:0", "package-0", 262_000_000_000)
    clock = Clock()
    sensor = rapl.sensor(place(tree), clock)
    sensor.look()

    tree.count("intel-rapl:0", 6_671_150)
    clock.now += 10
    assert told(sensor.look())["package-0"] == 15.0
    tree.count("intel-rapl:0", 5)
    clock.now += 1
    found = sensor.look()
    assert told(found) == {}
    assert told(found, "energy_j") == {"package-0": 150.0, "total": 150.0}
    tree.count("intel-rapl:0", 7_000_005)
    clock.now += 1
    assert told(sensor.look(), "energy_j")["package-0"] == 157.0


def test_rapl_without_permission():
    """Where only root may read the counters, RAPL is absent and the reason is told."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as root:
        tree = SysTree(root)
        tree.zone("intel-rapl:0", "package-0", 1)
        for folder, _, files in os.walk(root):
            os.chmod(folder, 0o755)
            for file in files:
                os.chmod(f"{folder}/{file}", (0o400 if os.geteuid() == 0 else 0) if file == "energy_uj" else 0o444)
        ear, voice = os.pipe()
        child = os.fork()
        if child == 0:
            if os.geteuid() == 0:
                os.seteuid(65534)
            os.write(voice, repr(rapl.sensor(place(tree))).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(voice)
        with open(ear, "rb") as file:
            assert file.read().startswith(b"Absent(why='RAPL cannot be read")


BOARDS = {
    "Xavier NX": (NX, {"in": 6.0, "cpu_gpu_cv": 2.0, "soc": 1.0}),
    "TX2 NX": ((("VDD_IN", 5000, 1000), ("VDD_CPU_GPU", 5000, 200), ("VDD_SOC", 5000, 100)),
               {"in": 5.0, "cpu_gpu_cv": 1.0, "soc": 0.5}),
    "Nano": ((("POM_5V_IN", 5000, 1000), ("POM_5V_GPU", 5000, 100), ("POM_5V_CPU", 5000, 200)),
             {"in": 5.0, "cpu_gpu_cv": 1.5}),
    "TX1": ((("VDD_IN", 5000, 1000), ("VDD_GPU", 5000, 100), ("VDD_CPU", 5000, 200)), {"in": 5.0, "cpu_gpu_cv": 1.5}),
    "unknown": ((("VDD_NEW", 5000, 1000), ("NC", 5000, 100)), {}),
    "unknown, with its input": ((("VDD_IN", 5000, 1000), ("VDD_NEW", 5000, 100)), {"in": 5.0}),
}  # fmt: skip


@pytest.mark.parametrize(("channels", "groups"), BOARDS.values(), ids=BOARDS)
def test_boards_as_jetpack_5_shows_them(tree, channels, groups):
    """Power is voltage times current of each channel; what is not connected and the sum of shunts are no rails."""
    tree.monitor(channels)
    found = told(rails.sensor(place(tree)).look())

    expected = {label: mv * ma / 1e6 for label, mv, ma in channels if label != "NC"}
    assert found == {**expected, **{f"={group}": power_w for group, power_w in groups.items()}}


def test_boards_as_jetpack_4_shows_them(tree):
    """Power is told in milliwatts; several monitors are one board, in any order."""
    tree.old_monitor((("VDD_SYS_GPU", 150), ("VDD_SYS_SOC", 300), ("VDD_4V0_WIFI", 0)), address="0-0040")
    tree.old_monitor((("VDD_IN", 1700), ("VDD_SYS_CPU", 310), ("VDD_SYS_DDR", 170)), address="0-0041")
    found = told(rails.sensor(place(tree)).look())

    assert (found["=in"], found["=cpu_gpu_cv"], found["=soc"]) == (1.7, 0.46, 0.3)
    assert (found["VDD_SYS_DDR"], len(found)) == (0.17, 9)


def test_boards_without_a_rail_for_all(tree):
    """AGX: the whole input is the sum of the rails; cores and SoC are told only where they have rails of their own."""
    tree.monitor((("GPU", 1000, 1), ("CPU", 1000, 2), ("SOC", 1000, 4)))
    tree.monitor((("CV", 1000, 8), ("VDDRQ", 1000, 16), ("SYS5V", 1000, 32)), address="1-0041", hwmon="hwmon4")
    found = told(rails.sensor(place(tree)).look())
    assert (found["=in"], found["=cpu_gpu_cv"], found["=soc"]) == (0.063, 0.011, 0.004)

    shutil.rmtree(tree.root)
    tree.monitor((("VDD_GPU_SOC", 1000, 1), ("VDD_CPU_CV", 1000, 2), ("VIN_SYS_5V0", 1000, 4)))
    tree.monitor((("NC", 0, 0), ("VDDQ_VDD2_1V8AO", 1000, 8), ("NC", 0, 0)), address="1-0041", hwmon="hwmon4")
    found = told(rails.sensor(place(tree)).look())
    assert found == {
        "VDD_GPU_SOC": 1e-3,
        "VDD_CPU_CV": 2e-3,
        "VIN_SYS_5V0": 4e-3,
        "VDDQ_VDD2_1V8AO": 8e-3,
        "=in": 15e-3,
    }


def test_energy_of_rails_is_added_up_over_real_times(tree):
    """Energy is the trapezoid between looks, however uneven their times are; a rail that fails is left out."""
    tree.monitor(NX)
    clock = Clock()
    sensor = rails.sensor(place(tree), clock)
    for passed_s, current_ma in ((0, 100), (0.5, 200), (2.5, 400), (0.25, 400)):
        clock.now += passed_s
        tree.write("bus/i2c/devices/1-0040/hwmon/hwmon3/curr1_input", current_ma)
        found = sensor.look()
    joules = 5 * (0.15 * 0.5 + 0.3 * 2.5 + 0.4 * 0.25)
    assert told(found, "energy_j")["VDD_IN"] == joules
    assert told(found, "energy_j")["=in"] == joules

    tree.write("bus/i2c/devices/1-0040/hwmon/hwmon3/curr1_input", "")
    assert set(told(sensor.look())) == {"VDD_CPU_GPU_CV", "VDD_SOC"}
    tree.write("bus/i2c/devices/1-0040/hwmon/hwmon3/curr1_input", 400)
    clock.now += 1
    assert told(sensor.look(), "energy_j")["VDD_IN"] == joules + 2
    sensor.close()


def test_other_chips_on_the_bus_are_no_rails(tree):
    """A chip of another kind that has labels too is passed over."""
    tree.monitor((("vin", 12000, 1000),), name="pmbus")

    assert rails.sensor(place(tree)) == Absent("no INA3221 below /sys/bus/i2c")


def test_a_battery_gives_and_takes(tree):
    """What a battery gives and takes is labelled, and counted apart; while it alone feeds the machine, that is the
    input. A driver may write its current below zero.
    """
    tree.supply("BAT0", type="Battery", status="Discharging", power_now=12_000_000)
    tree.supply("AC", type="Mains", online=0)
    tree.supply("hidpp_battery_0", type="Battery", scope="Device", status="Discharging", power_now=5)
    clock = Clock()
    sensor = battery.sensor(place(tree), clock)
    sensor.look()
    clock.now += 2
    given = sensor.look()
    assert (told(given), told(given, "energy_j")) == ({"BAT0": 12.0, "=in": 12.0}, {"BAT0": 24.0, "=in": 24.0})
    assert given[0].tags == {"by": "battery", "rail": "BAT0", "flow": "discharging"}

    tree.write("class/power_supply/AC/online", 1)
    tree.supply("BAT0", status="Charging", power_now=-30_000_000)
    for _ in range(2):
        clock.now += 1
        taken = sensor.look()
    assert (told(taken), told(taken, "energy_j")) == ({"BAT0": 30.0}, {"BAT0": 30.0})
    assert taken[0].tags["flow"] == "charging"

    tree.write("class/power_supply/AC/online", 0)
    tree.supply("BAT0", status="Discharging", power_now=6_000_000)
    for _ in range(2):
        clock.now += 1
        again = sensor.look()
    assert told(again, "energy_j") == {"BAT0": 30.0, "=in": 30.0}
    sensor.close()


def test_a_battery_of_current_and_voltage(tree):
    """Without power, it is current times voltage; a battery that tells neither is absent."""
    tree.supply("BAT1", type="Battery", status="Full", current_now=-500_000, voltage_now=12_000_000)
    found = battery.sensor(place(tree)).look()
    assert (told(found), found[0].tags["flow"]) == ({"BAT1": 6.0}, "idle")

    shutil.rmtree(tree.root)
    tree.supply("BAT1", type="Battery", status="Full", capacity=80)
    assert isinstance(battery.sensor(place(tree)), Absent)


def full(tree):
    """Put everything there that tells of power."""
    tree.zone("intel-rapl:0", "package-0", 1_000_000)
    tree.zone("intel-rapl:0:0", "core", 1_000_000)
    tree.zone("intel-rapl:1", "psys", 1_000_000)
    tree.monitor(NX)
    tree.old_monitor((("VDD_OLD", 150),))
    tree.supply("BAT0", type="Battery", status="Discharging", power_now=12_000_000)
    tree.supply("BAT1", type="Battery", status="Discharging", current_now=1, voltage_now=1)
    tree.supply("AC", type="Mains", online=0)


def test_all_together(tree):
    """Each tells of its own rails; of a group one alone tells, the board before RAPL before batteries."""
    full(tree)
    sensor = power.sensor(place(tree))
    found = sensor.look()
    sensor.close()

    assert {reading.tags["by"] for reading in found if "by" in reading.tags} == {"ina3221", "rapl", "battery"}
    groups = [reading for reading in found if "group" in reading.tags]
    assert sorted(reading.tags["group"] for reading in groups) == ["cpu_gpu_cv", "in", "soc"]
    assert told(groups)["=in"] == 6.0
    assert {name for reading in found for name in reading.values} <= set(sensor.metrics)


def test_what_is_absent_is_said_of_each(tree):
    """Beside what is there it is known why the others are not."""
    tree.supply("BAT0", type="Battery", status="Discharging", power_now=12_000_000)
    sensor = power.sensor(place(tree))

    assert list(sensor.parts) == ["battery"]
    assert set(sensor.absent) == {"ina3221", "tegrastats", "rapl"}


def _folder(path):
    os.unlink(path)
    os.mkdir(path)


def _pipe(path):
    os.unlink(path)
    os.mkfifo(path)


def _dangling(path):
    os.unlink(path)
    os.symlink("nowhere", path)


def _writes(data):
    def write(path):
        with open(path, "wb") as file:
            file.write(data)

    return write


def _mend(path, whole):
    if os.path.lexists(path):
        (os.rmdir if os.path.isdir(path) else os.unlink)(path)
    _writes(whole)(path)


BREAKS = {
    "gone": os.unlink,
    "folder": _folder,
    "pipe": _pipe,
    "dangling": _dangling,
    "empty": _writes(b""),
    "garbage": _writes(b"\xff\xfe\x00 [31m\x1b,=]{\n\n"),
    "negative": _writes(b"-9\n"),
    "huge": _writes(b"9" * 18),
    "endless": _writes(b"9" * 100_000),
    "not a number": _writes(b"nan\n"),
    "underscores": _writes(b"1_000\n"),
    "hex": _writes(b"0x10\n"),
    "long name": _writes(b"A" * 5000 + b"\n"),
}


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("when", ["before", "between"])
def test_nothing_raises(tree, how, when):
    """Whatever an attribute is, before the first look or from some look on: no error, numbers that are numbers,
    counters that never fall, tags of plain letters.
    """
    full(tree)
    paths = [os.path.join(folder, file) for folder, _, files in os.walk(tree.root) for file in files]
    for path in paths:
        with open(path, "rb") as file:
            whole = file.read()
        if when == "before":
            BREAKS[how](path)
        sensor = power.sensor(place(tree))
        if isinstance(sensor, Absent):
            _mend(path, whole)
            continue
        before = {}
        for turn in range(3):
            if when == "between" and turn == 1:
                BREAKS[how](path)
            for reading in sensor.look():
                assert all(math.isfinite(value) and value >= 0 for value in reading.values.values()), path
                assert all(re.fullmatch(r"[A-Za-z0-9_.:+/-]{1,150}", text) for text in reading.tags.values()), path
                key = tuple(reading.tags.items())
                assert reading.values.get("energy_j", math.inf) >= before.get(key, 0.0), path
                before[key] = reading.values.get("energy_j", before.get(key, 0.0))
        sensor.close()
        _mend(path, whole)


def test_everything_broken(tree):
    """A tree in which nothing at all can be read is absent, and so is one that is a file or has a NUL in its name."""
    for how in BREAKS.values():
        shutil.rmtree(tree.root, ignore_errors=True)
        full(tree)
        for folder, _, files in list(os.walk(tree.root)):
            for file in files:
                how(os.path.join(folder, file))
        found = power.sensor(place(tree))
        if not isinstance(found, Absent):
            found.look()
            found.close()
    for root in (__file__, "/nowhere", "a\0b", ""):
        assert isinstance(power.sensor(Target(1, "/proc", root)), Absent)


def test_no_descriptor_is_left_open(tree):
    """After closing, nothing of the tree is open any more."""
    full(tree)
    before = os.listdir("/proc/self/fd")
    sensor = power.sensor(place(tree))
    sensor.look()
    sensor.close()

    assert len(os.listdir("/proc/self/fd")) == len(before)
