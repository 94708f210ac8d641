"""Want of memory, as cgroups of both versions and the kernel's log tell of it, in trees that are made here."""

import os
import time

import pytest

from vedette.deaths import memory
from vedette.deaths.memory import Shortage

V2 = "30 25 0:27 / {root} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "30 25 0:27 / {root} rw,nosuid - cgroup cgroup rw,memory\n31 25 0:28 / /elsewhere rw - cgroup2 cgroup2 rw\n"


class Machine:
    """A tree of files such as the kernel shows."""

    def __init__(self, path, mounts, line):
        self.root, self.proc = path / "cgroup", path / "proc"
        self.write(self.proc / "self" / "mountinfo", mounts.format(root=self.root))
        self.write(self.proc / "7" / "cgroup", line)

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def v2(self, name, *, kills, ooms, limit="max", peak=None, local=None):
        self.write(self.root / name / "memory.events", f"low 0\nhigh 0\nmax 9\noom {ooms}\noom_kill {kills}\n")
        self.write(self.root / name / "memory.max", f"{limit}\n")
        if local is not None:
            self.write(self.root / name / "memory.events.local", f"max 9\noom {local}\noom_kill {kills}\n")
        if peak is not None:
            self.write(self.root / name / "memory.peak", f"{peak}\n")

    def v1(self, name, *, kills, fails, limit, peak=0):
        control = f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
        self.write(self.root / name / "memory.oom_control", control)
        self.write(self.root / name / "memory.limit_in_bytes", f"{limit}\n")
        self.write(self.root / name / "memory.failcnt", f"{fails}\n")
        self.write(self.root / name / "memory.max_usage_in_bytes", f"{peak}\n")

    def begin(self):
        return memory.begin(7, str(self.proc))


@pytest.fixture
def log(tmp_path):
    """A kernel's log in which nothing stands."""
    (tmp_path / "kmsg").write_text("")
    return str(tmp_path / "kmsg")


def test_version_2(tmp_path, log):
    """A kill that was counted since the beginning is found, and the limit is that of the level which ran into it."""
    machine = Machine(tmp_path, V2, "0::/slurm/job/step\n")
    machine.v2("slurm/job/step", kills=0, ooms=0, limit=900, local=0)
    machine.v2("slurm/job", kills=5, ooms=5, limit=500, peak=499, local=5)
    machine.v2("slurm", kills=5, ooms=5)
    before = machine.begin()
    assert memory.shortage(before, log) is None

    machine.v2("slurm/job/step", kills=1, ooms=0, limit=900, local=0)
    machine.v2("slurm/job", kills=6, ooms=6, limit=500, peak=499, local=6)
    assert memory.shortage(before, log) == Shortage(500, 499)


def test_version_2_with_a_count_at_the_top_alone(tmp_path, log):
    """The whole way up is looked at: here only the uppermost level has counted."""
    machine = Machine(tmp_path, V2, "0::/a/b\n")
    machine.v2("a/b", kills=0, ooms=0)
    machine.v2("a", kills=0, ooms=0, limit=700)
    before = machine.begin()
    machine.v2("a", kills=1, ooms=1, limit=700)
    assert memory.shortage(before, log) == Shortage(700, None)


def test_version_1(tmp_path, log):
    """Version 1 counts the kill where the process was, and the failure where the limit is."""
    none = 9223372036854771712
    machine = Machine(tmp_path, V1, "9:pids:/\n4:memory:/job/step\n0::/\n")
    machine.v1("job/step", kills=0, fails=0, limit=none)
    machine.v1("job", kills=0, fails=3, limit=500, peak=500)
    before = machine.begin()
    assert memory.shortage(before, log) is None

    machine.v1("job/step", kills=1, fails=0, limit=none)
    machine.v1("job", kills=0, fails=9, limit=500, peak=500)
    assert memory.shortage(before, log) == Shortage(500, 500)


def test_a_container_sees_its_own_root(tmp_path, log):
    """Where the mount shows only a part of the tree, the path of the process is taken from there on."""
    machine = Machine(tmp_path, V2.replace(" / ", " /docker/abc ", 1), "0::/docker/abc/job\n")
    machine.v2("job", kills=0, ooms=0, limit=5)
    before = machine.begin()
    machine.v2("job", kills=1, ooms=1, limit=5)
    assert memory.shortage(before, log) == Shortage(5, None)


def test_no_limit_is_the_machine(tmp_path, log):
    """A kill where no level has a limit is for want of the machine's memory."""
    machine = Machine(tmp_path, V2, "0::/a\n")
    machine.v2("a", kills=0, ooms=0)
    before = machine.begin()
    machine.v2("a", kills=1, ooms=1)
    assert memory.shortage(before, log) == Shortage(None, None)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Out of memory: Killed process 7 (python3) total-vm:1kB, anon-rss:1kB", True),
        ("Memory cgroup out of memory: Killed process 7 (python3) total-vm:1kB", True),
        ("Out of memory: Killed process 77 (python3) total-vm:1kB", False),
        ("Out of coffee: Killed process 7", False),
    ],
)
def test_the_log_of_the_kernel(tmp_path, line, found):
    """The kernel's log names the process, if it is of its time; what stood there before is another's."""
    now_us = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    before = memory.Baseline(7, (), now_us / 1e6)
    log = tmp_path / "kmsg"
    log.write_text(f"6,1,{now_us},-;{line}\n")
    assert (memory.shortage(before, str(log)) is not None) == found
    log.write_text(f"6,1,{now_us - 60_000_000},-;{line}\n")
    assert memory.shortage(before, str(log)) is None


def test_where_nothing_can_be_read(tmp_path):
    """Without cgroups, and without a log, nothing is said and nothing raised."""
    before = memory.begin(7, str(tmp_path / "nowhere"))
    assert before.levels == ()
    assert memory.shortage(before, str(tmp_path / "nothing")) is None


def test_here():
    """On this machine our own cgroups are found, where there are any."""
    if not os.path.exists("/proc/self/cgroup"):
        pytest.skip("there are no cgroups here")
    assert memory.begin(os.getpid()).pid == os.getpid()
