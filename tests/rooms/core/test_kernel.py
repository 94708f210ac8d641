"""What Linux tells: of processes that are not ours, and of file systems."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from vedette import kernel


def kind_by_stat(path):
    """Ask the other way round: what `stat -f` says."""
    return subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("path", ["/dev/shm", "/proc", "/sys"])
def test_file_systems_of_the_kernel(path):
    """A path is on the file system that is mounted there, and so is what would be below it."""
    expected = {"/dev/shm": "tmpfs", "/proc": "proc", "/sys": "sysfs"}[path]

    assert expected == kernel.file_system(path)
    assert expected == kernel.file_system(f"{path}/not/there/yet")


def test_the_file_system_of_files(tmp_path):
    """A disk is told from a tmpfs, by the name that decides whether a spool can be mapped."""
    on_disk, in_memory = kernel.file_system(str(tmp_path)), kernel.file_system("/dev/shm")

    assert in_memory == "tmpfs"
    assert on_disk in kernel.MAPPABLE_FILE_SYSTEMS or on_disk not in ("", "tmpfs")
    assert kind_by_stat(str(tmp_path)).startswith(on_disk[:3])


def test_links_are_followed(tmp_path):
    """The file system of a link is that of its end."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        link = tmp_path / "link"
        link.symlink_to(memory)

        assert kernel.file_system(str(link / "below")) == "tmpfs"


def mounted(kind, source, point, *options):
    """Mount something, if this user may; tell whether."""
    done = subprocess.run(["mount", "-t", kind, *options, source, point], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("name", ["plain", "with blank", "with\\backslash", "größe", "with\ttab"])
def test_mount_points_of_any_name(tmp_path, name):
    """A mount is found by its place, whatever letters that has, and the nearest mount counts."""
    point = tmp_path / name
    point.mkdir()
    if not mounted("tmpfs", "none", str(point), "-o", "size=64k"):
        pytest.skip("may not mount here")
    try:
        assert kernel.file_system(str(point / "home")) == "tmpfs"
        assert kernel.file_system(str(tmp_path / (name + "x"))) == kernel.file_system(str(tmp_path))
    finally:
        subprocess.run(["umount", str(point)], check=True)


def test_hosts_and_boots():
    """The host has a name; the boot names this boot and this pid namespace, and does not change."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()

    assert kernel.host() == os.uname().nodename
    assert kernel.boot() == f"{boot}/{os.readlink('/proc/self/ns/pid')}"


def test_another_namespace_is_another_boot():
    """The same pid in another pid namespace is another process, and its boot says so."""
    code = f"import sys; sys.path[:0] = {sys.path!r}; from vedette import kernel; print(kernel.boot())"
    done = subprocess.run(
        ["unshare", "--pid", "--fork", sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("may not make a namespace here")

    assert done.stdout.strip() != kernel.boot()
    assert done.stdout.partition("/")[0] == kernel.boot().partition("/")[0]


def test_start_ticks_tell_processes_apart():
    """A process has one start time for as long as it lives, later ones are not earlier, and the dead have none."""
    mine = kernel.start_ticks(os.getpid())
    with subprocess.Popen(["sleep", "60"]) as other:
        assert mine is not None
        assert mine == kernel.start_ticks(os.getpid())
        assert kernel.start_ticks(other.pid) >= mine
        other.kill()

    assert kernel.start_ticks(other.pid) is None
    assert kernel.start_ticks(2**22 + 1) is None


@pytest.mark.parametrize("name", ["a b) R 1 2 3 (", "))) (((", "x\n1 2 3"])
def test_a_process_cannot_lie_by_its_name(name):
    """A process whose name looks like fields of /proc does not change what is read of it."""
    code = "import sys, time; open('/proc/self/comm', 'w').write(sys.argv[1]); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, name[:15]], stdout=subprocess.PIPE) as other:
        before = kernel.start_ticks(os.getpid())
        other.stdout.readline()

        assert before <= kernel.start_ticks(other.pid) < before + 100 * 86400 * 365
        assert kernel.wait_status(other.pid, os.pidfd_open(other.pid)) is None
        other.kill()


GRANDCHILD = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.readline()
child.stdin.close()
child.wait()
print("reaped", flush=True)
sys.stdin.readline()
"""


def tells_exits():
    """Whether this kernel tells the exit status of a reaped process by its pidfd (since 6.15)."""
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 15)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(3)", 3 << 8),
        ("os.kill(os.getpid(), 9)", 9),
        ("os.kill(os.getpid(), 15)", 15),
        ("os.abort()", signal.SIGABRT | 0x80),
    ],
)
def test_how_a_process_ended_that_is_not_our_child(end, status):
    """The wait status of somebody else's child is known after its parent has reaped it."""
    code = f"import os, sys, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); sys.stdin.read(); {end}"
    with subprocess.Popen(
        [sys.executable, "-c", GRANDCHILD, code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        pid = int(parent.stdout.readline())
        pidfd = os.pidfd_open(pid)

        assert kernel.wait_status(pid, pidfd) is None
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "reaped\n"
        found = kernel.wait_status(pid, pidfd)
        parent.communicate("\n")
    os.close(pidfd)

    if found is None and not tells_exits():
        pytest.skip("this kernel does not tell")
    assert status & ~0x80 == found & ~0x80


def test_how_a_zombie_ended():
    """The wait status of a process that nobody has reaped yet is known too."""
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(5)"])
    pidfd = os.pidfd_open(child.pid)
    deadline = time.monotonic() + 20
    while (status := kernel.wait_status(child.pid, pidfd)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.close(pidfd)
    child.wait()

    assert status == 5 << 8


def test_no_process_at_all():
    """Where there is nothing to be known, the answer is None and not an error."""
    with open(os.devnull) as file:
        assert kernel.wait_status(2**22 + 1, file.fileno()) is None


def test_waiting_with_more_files_open_than_select_knows():
    """A descriptor beyond 1023 can be waited for, to be read and to be written to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    reading, writing = os.pipe()
    try:
        far = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, 1500)

        assert kernel.wait([far], (), 0) == []
        assert kernel.wait((), [writing], 0) == [writing]
        os.write(writing, b"x")
        assert kernel.wait([far]) == [far]
        os.close(far)
    finally:
        os.close(reading)
        os.close(writing)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
