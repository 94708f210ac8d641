"""GPUs through the real pynvml, with a driver made for the test: cases/nvml/driver.c."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rooms.proc_tree import ProcTree
from vedette.sensing.sensor import Target
from vedette.sources.gpu import descendants

SOURCE = Path(__file__).parents[1] / "cases" / "nvml" / "driver.c"

LOOK = """
import json
from vedette.sources.gpu import Gpus
gpus = Gpus()
first, second = gpus.look(), gpus.look()
assert first == second
gpus.shut(); gpus.shut()
print(json.dumps([first, gpus.look()]))
"""

SENSE = """
import ctypes, json, os, subprocess, sys, time
from vedette.sensing.sensor import Absent, Target
from vedette.sources import gpu
gpu._PATIENCE_S = 30  # however busy this machine is
sensor = gpu.sensor(Target(os.getpid()))
if not isinstance(sensor, Absent):
    driver = ctypes.CDLL("libnvidia-ml.so.1")
def told(scope="host", among=None):
    return {r.tags["gpu"]: r.values for r in (sensor.look() if among is None else among) if r.scope == scope}
"""


@pytest.fixture
def driven(tmp_path):
    """Return what a program prints as JSON with a driver of this kind; None: without any."""

    def run(code, *flags):
        environ = dict(os.environ)
        if flags != (None,):
            if (compiler := shutil.which("gcc")) is None:
                pytest.skip("NO GPU WAS LOOKED AT: there is no gcc to make a driver with")
            library = str(tmp_path / "libnvidia-ml.so.1")
            given = {"COUNT": "2", "INIT": "0"} | dict(flag.split("=") for flag in flags)
            defined = [f"-D{key}={value}" for key, value in given.items()]
            subprocess.run([compiler, "-shared", "-fPIC", *defined, "-o", library, str(SOURCE)], check=True)
            environ["LD_LIBRARY_PATH"] = str(tmp_path)
        done = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


@pytest.fixture
def gpus(driven):
    """Return what is seen with a driver of this kind; None: without any."""

    def see(*flags):
        found, after = driven(LOOK, *flags)
        assert after == {}
        return found

    return see


def test_what_two_gpus_do(gpus):
    """Use, memory, power and temperature, memory of each process; an error of one call costs its value alone."""
    assert gpus() == {
        "0": [41.0, 1 << 33, 123.456, 61.0, {"7": 7000, "8": 8000}, 1 << 35, 5.0],
        "1": [42.0, 1 << 33, None, 61.0, {"7": 7000}, 1 << 35, None],
    }


def test_an_old_driver(gpus):
    """What the driver has no function for is absent."""
    assert gpus("OLD=1", "COUNT=1") == {"0": [41.0, None, None, None, {}, None, None]}


def test_a_gpu_that_is_cut_into_instances(gpus):
    """Under MIG there is no utilisation; processes are summed over the instances where the whole does not tell."""
    assert gpus("MIG=1", "COUNT=1") == {"0": [None, 1 << 33, 123.456, 61.0, {"7": 14000}, 1 << 35, 5.0]}


@pytest.mark.parametrize("flags", [(None,), ("INIT=9",), ("COUNT=0",)], ids=["no library", "no driver", "no GPU"])
def test_nothing_there(gpus, flags):
    """Without library, driver or GPU there is nothing to see, and no error."""
    assert gpus(*flags) == {}


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ((None,), "no NVIDIA driver (libnvidia-ml.so.1)"),
        (("INIT=9",), "NVML: Driver Not Loaded"),
        (("COUNT=0",), "the NVIDIA driver finds no GPU"),
    ],
)
def test_an_absent_sensor_says_why(driven, flags, why):
    """Without library, driver or GPU the sensor is absent, and says what is missing."""
    assert driven(SENSE + "print(json.dumps(sensor))", *flags) == [why]


def test_the_sensor_tells_of_the_host_and_of_the_watched_tree(driven):
    """Numbers of each GPU are the host's; memory of the watched process's descendants is the process's, and falls to 0
    when they have gone.
    """
    code = """
child = subprocess.Popen(["sleep", "60"])
driver.set_job(child.pid)
seen = sensor.look()
child.kill(); child.wait()
gone = told("process")
sensor.close()
print(json.dumps([told(among=seen), told("process", seen), child.pid, gone]))
"""
    host, process, pid, gone = driven(SENSE + code)
    assert host == {
        "0": {
            "gpu_percent": 41.0, "gpu_memory_bytes": 1 << 33, "gpu_memory_share_percent": 25.0,
            "gpu_power_w": 123.456, "gpu_temperature_c": 61.0, "gpu_energy_j": 0.0,
        },
        "1": {
            "gpu_percent": 42.0, "gpu_memory_bytes": 1 << 33, "gpu_memory_share_percent": 25.0,
            "gpu_temperature_c": 61.0,
        },
    }  # fmt: skip
    assert process == {"0": {"gpu_memory_bytes": pid * 1000}, "1": {"gpu_memory_bytes": pid * 1000}}
    assert gone == {"0": {"gpu_memory_bytes": 0}, "1": {"gpu_memory_bytes": 0}}


def test_energy_is_what_the_driver_has_counted_since_the_first_look(driven):
    """The driver's own counter is taken from the first look on; one that was reset never makes ours fall."""
    code = """
found = []
for mj in (5000, 6500, 6500, 100, 350):
    driver.set_energy(ctypes.c_ulonglong(mj))
    found.append(told()["0"]["gpu_energy_j"])
print(json.dumps(found))
"""
    assert driven(SENSE + code, "COUNT=1") == [0.0, 1.5, 1.5, 1.5, 1.75]


def test_energy_is_added_up_where_the_driver_does_not_count(driven):
    """Without a counter, energy is power over the time that really passed between two looks."""
    code = """
told()
before = time.monotonic(); a = told()["0"]["gpu_energy_j"]
time.sleep(0.3)
b = told()["0"]["gpu_energy_j"]; passed = time.monotonic() - before
print(json.dumps([(b - a) / 123.456, passed]))
"""
    seconds, passed = driven(SENSE + code, "COUNT=1", "COUNTLESS=1")
    assert 0.3 <= seconds <= passed


def test_a_gpu_that_falls_off_the_bus(driven):
    """A GPU that is lost is left out, the others go on, and it is seen again once it is back."""
    code = """
found = [told()]
driver.lose(0); found.append(told()); found.append(told())
driver.bring_back(0); told(); found.append(told())
print(json.dumps([sorted(one) for one in found] + [found[-1]["0"]["gpu_percent"]]))
"""
    assert driven(SENSE + code) == [["0", "1"], ["1"], ["1"], ["0", "1"], 41.0]


def test_a_driver_that_hangs_hangs_nobody_else(driven):
    """While the driver does not answer there is nothing to see, and looks are not waited for; then it is back."""
    code = """
first = sorted(told())
gpu._PATIENCE_S = 0.05
driver.hang_up(1)
hung = [sensor.look() for _ in range(1000)]
driver.hang_up(0)
while not (back := sorted(told())):
    time.sleep(0.01)
driver.hang_up(1); sensor.look(); sensor.close()
print(json.dumps([first, [one for one in hung if one], back]))
"""
    assert driven(SENSE + code) == [["0", "1"], [], ["0", "1"]]


def test_a_driver_that_is_slow(driven):
    """A driver that takes longer than a look waits is seen all the same, a look later, never as it was long ago."""
    code = """
told()
gpu._PATIENCE_S = 0
found = []
while len(found) < 3:
    if seen := sensor._driver.ask():
        found.append(seen[0])
    time.sleep(0.001)
while not sensor._driver._answered.is_set():
    time.sleep(0.001)
gpu._STALE_S = -1
print(json.dumps([found == sorted(set(found)), sensor._driver.ask()]))
"""
    assert driven(SENSE + code) == [True, None]


def test_many_gpus(driven):
    """Sixteen GPUs are sixteen readings."""
    code = "print(json.dumps(list(told())))"
    assert driven(SENSE + code, "COUNT=16") == [str(index) for index in range(16)]


def test_who_descends_from_the_watched_process(tmp_path):
    """A process is of the tree by its parents; strangers, those that are gone, and nonsense in /proc are not."""
    tree = ProcTree(tmp_path)
    tree.add(10)
    tree.add(20, 10, name="a) S 10 (b")
    tree.add(30, 20)
    tree.add(40)
    os.makedirs(tmp_path / "50")
    (tmp_path / "50" / "stat").write_text("50 (x")
    os.makedirs(tmp_path / "60")
    (tmp_path / "60" / "stat").write_text("60 (x) S 60 0")  # its own parent

    assert descendants([10, 20, 30, 40, 50, 60, 70, 0], Target(10, str(tmp_path))) == [10, 20, 30]
