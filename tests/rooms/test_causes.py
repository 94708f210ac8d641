"""Causes of death in words; cases/tracebacks holds outputs, each below the cause that it should give."""

import os
import signal
from pathlib import Path

import pytest

from vedette import kernel
from vedette.deaths import causes
from vedette.deaths.liveness import Death, Watch, verdict
from vedette.deaths.memory import Baseline, Shortage
from vedette.launch.ending import name
from vedette.launch.local import Ending
from vedette.model import Origin

CASES = sorted((Path(__file__).parent / "cases" / "tracebacks").glob("*.txt"))
STACKS = """Fatal Python error: Segmentation fault

Thread 0x00007f (most recent call first):
  File "/usr/lib/threading.py", line 355 in wait

Current thread 0x00007e (most recent call first):
  File "/x/train.py", line 12 in step
  File "/x/train.py", line 20 in <module>
"""


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_traceback_at_the_end_is_the_cause(path):
    """The name of an exception is found behind the last traceback, if that is the end of the output."""
    cause, _, output = path.read_text().partition("\n--\n")
    assert causes.raised(output.splitlines()) == cause


def test_where_it_crashed():
    """The frame is the topmost one of the thread that crashed, not of another."""
    assert causes.frame_of(STACKS) == "train.py:12 (step)"
    assert causes.fatal_signal(STACKS) == signal.SIGSEGV
    assert causes.crash(["before", *STACKS.splitlines()]) == STACKS.rstrip("\n")


def test_stacks_of_a_crash_tell_the_signal_where_nobody_saw_the_status():
    """Of a process whose exit status nobody saw, what faulthandler wrote is the cause; without, SIGTERM is."""
    assert verdict(Death(None, None), "running", 0, STACKS) == ("failed", "killed by SIGSEGV in train.py:12 (step)")
    assert verdict(Death(None, None), "running", 0, "Current thread 0x1") == ("cancelled", "SIGTERM")


def test_a_machine_that_went_down():
    """After a reboot of its host a process is dead, and that is the cause."""
    origin = Origin("o", kernel.host(), "another-boot/pid:[1]", 7, 1, "r", "r/1/o")
    death = Watch(origin, {}).death
    assert verdict(death, "running", 0, "") == ("failed", "the machine went down, and was started again since")


@pytest.mark.parametrize(
    ("short", "text"),
    [
        (Shortage(512_000_000, 512_000_000), "the memory limit of its cgroup (512 MB) was hit"),
        (Shortage(64_000_000_000, 63_000_000_000), "the memory limit of its cgroup (64 GB, peak 63 GB) was hit"),
        (Shortage(None, None), "the machine ran out of memory"),
    ],
)
def test_want_of_memory_in_words(short, text):
    """The limit is told, and the peak where it is another."""
    assert causes.of_shortage(short) == text


@pytest.mark.parametrize(
    ("status", "sent", "last", "told"),
    [
        (0, {}, [], ("done", "")),
        (3 << 8, {}, [], ("failed", "exit code 3")),
        (126 << 8, {}, [], ("failed", "exit code 126: what it should run cannot be executed")),
        (143 << 8, {}, [], ("cancelled", "exit code 143: probably SIGTERM killed what it had started")),
        (1 << 8, {15: "ada"}, [], ("cancelled", "exit code 1 after SIGTERM, sent by ada")),
        (0, {15: "ada"}, [], ("done", "")),
        (15, {15: "ada"}, [], ("cancelled", "killed by SIGTERM: sent by ada")),
        (2, {}, [], ("cancelled", "killed by SIGINT: Ctrl-C")),
        (9, {}, [], ("failed", "killed by SIGKILL: kill -9, a scheduler, or the kernel for want of memory")),
        (25, {}, [], ("failed", "killed by SIGXFSZ: its limit of a file's size (ulimit -f) was reached")),
        (11, {}, STACKS.splitlines(), ("failed", "killed by SIGSEGV in train.py:12 (step)")),
        (11 | 0x80, {}, [], ("failed", "killed by SIGSEGV")),
        (139 << 8, {}, STACKS.splitlines(),
         ("failed", "exit code 139: probably SIGSEGV killed what it had started in train.py:12 (step)")),
        (40, {}, [], ("failed", "killed by signal 40")),
        (1 << 8, {}, ["tar: x: No space left on device"],
         ("failed", "exit code 1: disk full: tar: x: No space left on device")),
    ],
)  # fmt: skip
def test_an_ending_has_its_name(status, sent, last, told):
    """From status, signals that were passed on and the last lines comes one state and one cause."""
    ending = Ending(status, Baseline(os.getpid(), (), 0.0), sent, timed_out=False, killed=False)
    assert name(ending, last, "", {}) == told
