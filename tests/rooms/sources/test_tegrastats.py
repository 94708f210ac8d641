"""What `tegrastats` prints, by case folders, and the program itself: a script of that name as a real process."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.rooms.sys_tree import SysTree
from vedette.model import Sample
from vedette.monitor import Monitor
from vedette.monitor.record import Record
from vedette.sensing.sensor import Absent, Target
from vedette.sources import power
from vedette.sources.power import tegrastats
from vedette.sources.power.board import Board, groups
from vedette.sources.power.tegrastats import Tegrastats

CASES = sorted((Path(__file__).parents[1] / "cases" / "tegrastats").iterdir())
LINE = "RAM 1/2MB VDD_IN 6000mW/1mW VDD_CPU_GPU_CV 2000mW/1mW VDD_SOC 1000mW/1mW"
STUBBORN = f"trap '' PIPE\nwhile :; do echo '{LINE}'; sleep 0.05; done"  # a reader that has gone does not end it


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lines_of_every_board(case):
    """Each rail that a line tells of, with its power now, and the groups that it adds up to."""
    expected = json.loads((case / "expected.json").read_text())
    found = tegrastats.parse((case / "line.txt").read_text())

    assert found == expected["rails"]
    assert groups(found) == pytest.approx(expected["groups"])


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Put a `tegrastats` on PATH; return a function that tells its pid once it runs."""
    path = tmp_path / "bin" / "tegrastats"
    path.parent.mkdir()
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")

    def put(script):
        path.write_text(
            f'#!/bin/sh\necho "$$ $*" > {tmp_path}/told.new\nmv {tmp_path}/told.new {tmp_path}/told\n{script}\n'
        )
        path.chmod(0o755)

    def begun():
        wait((tmp_path / "told").exists)
        pid, *args = (tmp_path / "told").read_text().split()
        assert args == ["--interval", "1000"]
        return int(pid)

    return put, begun


def wait(condition, seconds=60):
    """Wait until something is so; tell whether it has come."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def gone(pid):
    """Tell whether there is no such process, not even a zombie."""
    return not os.path.exists(f"/proc/{pid}")


def look(sensor):
    return {reading.tags.get("rail") or "=" + reading.tags["group"]: reading.values for reading in sensor.look()}


def test_a_running_program(program, tmp_path):
    """Its newest line is what is seen, energy grows with each, and closing ends it without a zombie."""
    put, begun = program
    put(STUBBORN)
    sensor = power.sensor(Target(os.getpid(), "/proc", str(tmp_path)))
    assert wait(lambda: look(sensor).get("=in", {}).get("energy_j", 0) > 0)
    found = look(sensor)
    assert {name: values["power_w"] for name, values in found.items()} == {
        "VDD_IN": 6.0, "VDD_CPU_GPU_CV": 2.0, "VDD_SOC": 1.0, "=in": 6.0, "=cpu_gpu_cv": 2.0, "=soc": 1.0,
    }  # fmt: skip
    sensor.close()
    sensor.close()

    assert wait(lambda: gone(begun()))
    assert wait(lambda: not any(thread.name == "vedette-tegrastats" for thread in threading.enumerate()))


@pytest.mark.parametrize(
    ("looks", "end_s"), [((0.0, 5.0, 10.0), 12.0), ((0.0,), 2.5), ((0.0,), 1.2), (tuple(range(30)), 29.9)]
)
def test_constant_power(looks, end_s):
    """A constant power adds up to power times time, whenever somebody looks: 4980 mW for 12 s are 59.76 J."""
    board, record = Board("tegrastats", 0.0), Record(100)
    lines = iter([1.04 + n for n in range(40)])
    line_s = next(lines)
    for at_s in (*looks, end_s):
        while line_s <= at_s:
            board.take({"VDD_IN": 4.98}, line_s)
            line_s = next(lines)
        values = [reading for reading in board.readings_until(at_s, at_s - 5) if "group" in reading.tags]
        samples = [Sample(1, 0, reading.values, "host-a", dict(reading.tags)) for reading in values]
        if at_s == 0:
            record.begin(Tegrastats.metrics, samples)
        else:
            record.add(samples, int(at_s * 1e9), 1.0)

    assert record.summary()["host_energy_j[group=in]"]["total"] == pytest.approx(4.98 * end_s)


def test_a_job_shorter_than_an_interval(program):
    """A monitor whose only look is its last one tells the energy of all its time."""
    put, _ = program
    put(STUBBORN)
    monitor = Monitor(interval_s=60, where="thread", sensors=["power"])
    with monitor:
        assert wait(lambda: look(monitor._form._rounds._sensors["power"]))
        time.sleep(0.3)
    found = monitor.summary()

    assert found["samples"] == 1
    assert found["host_energy_j[group=in]"]["total"] == pytest.approx(6.0 * found["seconds"], rel=0.2)


def test_where_sys_tells_no_program_is_started(program, tmp_path):
    """Rails in /sys are enough."""
    put, _ = program
    put(STUBBORN)
    SysTree(tmp_path / "sys").monitor((("VDD_IN", 5000, 1200),))
    sensor = power.sensor(Target(os.getpid(), "/proc", str(tmp_path / "sys")))
    sensor.close()

    assert list(sensor.parts) == ["ina3221"]


@pytest.mark.parametrize(
    "script",
    ["exit 3", "exec sleep 60", "printf 'VDD_IN 1'; exec sleep 60", "exec head -c 300000 /dev/zero",
     "exec head -c 300000 /dev/urandom", "kill -9 $$", "echo; echo; exit", "exec >&-; exec sleep 60"],
)  # fmt: skip
def test_a_program_that_is_no_use(program, script):
    """One that ends, says nothing, or says anything else: nothing is seen, no look waits, no zombie is left."""
    put, begun = program
    put(script)
    sensor = tegrastats.sensor(Target(os.getpid()))
    pid = begun()
    assert [sensor.look() for _ in range(100)] == [[]] * 100
    sensor.close()

    assert wait(lambda: gone(pid))


@pytest.mark.parametrize("content", [b"\x7fELF nonsense", b"#!/nowhere/sh\n"])
def test_a_program_that_cannot_be_run(program, tmp_path, content):
    """What cannot be executed is tried, and is no error."""
    (tmp_path / "bin" / "tegrastats").write_bytes(content)
    (tmp_path / "bin" / "tegrastats").chmod(0o755)
    sensor = tegrastats.sensor(Target(os.getpid()))

    assert sensor.look() == []
    sensor.close()


def test_no_program(monkeypatch, tmp_path):
    """Without the program the sensor is absent."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert tegrastats.sensor(Target(os.getpid())) == Absent("no tegrastats on PATH")


def test_it_outlives_the_thread_that_asked_for_it(program):
    """A program that was started for a thread which has ended goes on: its death signal hangs on our own thread."""
    put, begun = program
    put(STUBBORN)
    found = []
    thread = threading.Thread(target=lambda: found.append(tegrastats.sensor(Target(os.getpid()))))
    thread.start()
    thread.join()
    pid = begun()
    assert wait(lambda: look(found[0]))
    before = look(found[0])["VDD_IN"]["energy_j"]
    assert wait(lambda: look(found[0])["VDD_IN"]["energy_j"] > before + 1)
    assert not gone(pid)
    found[0].close()


@pytest.mark.parametrize("first", ["child", "parent"])
def test_a_fork(program, first):
    """A forked child that closes what it has inherited leaves the program to its parent, and does not keep it alive."""
    put, begun = program
    put(STUBBORN)
    sensor = tegrastats.sensor(Target(os.getpid()))
    pid = begun()
    ear, voice = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(voice)
        os.read(ear, 1)
        sensor.close()
        os._exit(0)
    os.close(ear)
    if first == "parent":
        sensor.close()  # though the child holds all of its ends
        assert wait(lambda: gone(pid))
    os.close(voice)
    os.waitpid(child, 0)
    if first == "child":
        assert wait(lambda: look(sensor))
        before = look(sensor)["VDD_IN"]["energy_j"]
        assert wait(lambda: look(sensor)["VDD_IN"]["energy_j"] > before)
        sensor.close()

    assert wait(lambda: gone(pid))


WATCHER = """
import os, sys, time
from vedette.sensing.sensor import Target
from vedette.sources.power import tegrastats
{change}
sensor = tegrastats.sensor(Target(os.getpid()))
while not sensor.look():
    time.sleep(0.01)
if os.fork() == 0:  # a worker that has inherited the pipe, and lives on
    time.sleep(300)
    os._exit(0)
print("ready", flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize(
    ("change", "ends"), [("", True), ("sys.executable = ''", False)], ids=["as it is", "without a death signal"]
)
def test_it_dies_with_us(program, change, ends):
    """After a kill -9 of the watching process nothing is left of the program, though it cares for no broken pipe and a
    worker holds the other end; without a death signal it is left, and this sees it.
    """
    put, begun = program
    put(STUBBORN)
    watcher = subprocess.Popen(
        [sys.executable, "-c", WATCHER.format(change=change)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert watcher.stdout.readline() == b"ready\n"
    pid = begun()
    try:
        watcher.kill()
        watcher.wait()
        assert wait(lambda: gone(pid) or _is_zombie(pid), 60 if ends else 1) == ends
    finally:
        os.killpg(watcher.pid, signal.SIGKILL)  # the worker
        watcher.stdout.close()
        if not gone(pid):
            os.killpg(pid, signal.SIGKILL)


def _is_zombie(pid):
    """Tell whether it is dead and only the machine's first process, which is not ours, has not reaped it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
