"""What cgroups allow, in trees of both versions that are made here."""

import pytest

from vedette.sensing import cgroup

V2 = "30 25 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "30 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "31 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
IN_V1 = "4:memory:/a/b\n2:cpu,cpuacct:/a/b\n0::/\n"


@pytest.fixture
def put(tmp_path):
    """Puts files into a made-up machine."""

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    write.proc, write.sys = str(tmp_path / "proc"), str(tmp_path / "sys")
    return write


def allowed(put, mounts, line):
    put("proc/self/mountinfo", mounts)
    put("proc/7/cgroup", line)
    return cgroup.cores(7, put.proc, put.sys), cgroup.memory(7, put.proc, put.sys)


def test_version_2(put):
    """The tightest above a process holds, wherever it stands; `max` is no limit."""
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    put("sys/fs/cgroup/a/cpu.max", "150000 100000\n")
    put("sys/fs/cgroup/cpu.max", "400000 100000\n")
    put("sys/fs/cgroup/a/b/memory.max", "9000\n")
    put("sys/fs/cgroup/a/memory.max", "5000\n")
    assert allowed(put, V2, "0::/a/b\n") == (1.5, 5000)


def test_version_1(put):
    """Each controller has a tree of its own; -1 and a very large number are no limit."""
    put("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n")
    put("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n")
    put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "25000\n")
    put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "50000\n")
    put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n")
    put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "7000\n")
    assert allowed(put, V1, IN_V1) == (0.5, 7000)


def test_a_container(put):
    """Where the mount shows a part of the tree, the path is taken from there; in a namespace of its own it is `/`."""
    put("sys/fs/cgroup/cpu.max", "200000 100000\n")
    assert allowed(put, V2.replace(" / /sys", " /docker/1 /sys"), "0::/docker/1\n") == (2.0, None)
    assert allowed(put, V2, "0::/\n") == (2.0, None)
    assert allowed(put, V2, "0::/../..\n") == (2.0, None)


@pytest.mark.parametrize(
    "text", ["", "max", "max 100000", "x y", "1 2 3", "0 100000", "5 0", "-1 1", "nan nan", "9" * 5000]
)
def test_nothing_that_is_a_limit(put, text):
    """Where nothing limits, or nothing is understood, there is no limit."""
    put("sys/fs/cgroup/a/cpu.max", text)
    put("sys/fs/cgroup/a/memory.max", text)
    assert allowed(put, V2, "0::/a\n") == (None, None)


def test_no_cgroups(put):
    """A machine without them, and a process that is gone, have no limit."""
    assert (cgroup.cores(7, put.proc, put.sys), cgroup.memory(7, put.proc, put.sys)) == (None, None)
    assert allowed(put, "nonsense\n - \n", "also:nonsense\n") == (None, None)
