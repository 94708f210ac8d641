"""/proc/PID/stat: the fields of real processes, whatever their names are."""

import os
import subprocess
import sys
import time

import pytest

from vedette import kernel, proc_stat

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="there is no /proc")


def test_the_fields_of_this_process():
    """The numbers of the fields say what the system says in other ways."""
    fields = proc_stat.fields_of(proc_stat.read(os.getpid()))
    ids = [int(fields[at]) for at in (proc_stat.PARENT, proc_stat.GROUP, proc_stat.SESSION)]
    used = (int(fields[proc_stat.USER_TICKS]) + int(fields[proc_stat.SYSTEM_TICKS])) / os.sysconf("SC_CLK_TCK")

    assert ids == [os.getppid(), os.getpgid(0), os.getsid(0)]
    assert abs(used - time.process_time()) < 0.5
    assert int(fields[proc_stat.THREADS]) == len(os.listdir("/proc/self/task"))
    assert int(fields[proc_stat.STARTED_TICKS]) == kernel.start_ticks(os.getpid())
    assert not proc_stat.has_ended(fields)


@pytest.mark.parametrize("name", [b"a) R 1", b"(b c", b") (", b"\xff\xfe)", b"a\nb"])
def test_odd_names(name):
    """A process can give itself a name with brackets, spaces or bytes that are no text."""
    code = f"open('/proc/self/comm', 'wb').write({name!r}); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        stat = proc_stat.read(process.pid)
        started = kernel.start_ticks(process.pid)
        process.kill()

    fields = proc_stat.fields_of(stat)
    assert proc_stat.name_of(stat) == name.decode(errors="replace")
    assert int(fields[proc_stat.PARENT]) == os.getpid()
    assert int(fields[proc_stat.STARTED_TICKS]) == started


def test_a_zombie():
    """A process that its parent has not waited for has ended, and its line has its wait status."""
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "raise SystemExit(3)"], os.environ)
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        fields = proc_stat.fields_of(proc_stat.read(pid))
        assert proc_stat.has_ended(fields)
        assert os.waitstatus_to_exitcode(int(fields[proc_stat.WAIT_STATUS])) == 3
    finally:
        os.waitpid(pid, 0)
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        proc_stat.read(pid)


def test_an_empty_line():
    """A line that could not be read has no fields and no name."""
    assert proc_stat.fields_of(b"") == []
    assert proc_stat.name_of(b"") == ""
