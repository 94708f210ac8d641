"""How a hub is ended: over its socket, or through a pidfd of whoever listens there, and never by a number in a file."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from tests.conftest import begin_hub, end_hub
from tests.journeys.conftest import eventually
from tests.rooms.told_hub import ToldHub
from vedette import hub_lock, kernel, wire
from vedette.access import hub_end
from vedette.access.hub_socket import ask
from vedette.errors import HubError
from vedette.hub_lock import HubProcess


@contextlib.contextmanager
def hub_process(home, *, takes=(), greets=True, deaf=False):
    """A process that holds the lock and the socket of a home; `deaf`: it ignores SIGTERM, too."""
    home.prepare()
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else signal.SIG_DFL)
        hub = ToldHub(home, takes=takes, greets=greets)
        while hub:
            signal.pause()
    try:
        eventually(lambda: os.path.exists(home.socket) and home.hub_pid() == pid)
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def ended_by(pid):
    """Return the signal that has ended a child."""
    return -os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_hub_is_asked_and_leaves(home, hub):
    """A hub that lives is asked over its socket; it stores all that it has, and says that it will leave."""
    said = hub_end.end_hub(home)

    assert (said.hub.pid, said.killed) == (hub, False)
    assert (home.hub(), os.path.exists(home.socket)) == (None, False)
    assert hub_end.end_hub(home) is None


@pytest.mark.parametrize("listens", [True, False])
def test_a_hub_that_is_stopped(home, hub, listens):
    """A hub that was stopped goes on, and leaves as if it had been asked, even if it has no socket yet."""
    eventually(lambda: os.path.exists(home.socket))
    os.kill(hub, signal.SIGSTOP)
    eventually(lambda: kernel.is_stopped(hub))
    before = home.hub()
    if not listens:
        os.unlink(home.socket)

    assert hub_end.end_hub(home) == hub_end.Ended(before)
    assert home.hub() is None


def test_an_older_hub_gets_a_signal(home):
    """A hub that does not know the message is ended by SIGTERM, through a pidfd."""
    with hub_process(home) as pid:
        assert hub_end.end_hub(home, 10).hub.pid == pid
        assert ended_by(pid) == signal.SIGTERM


def test_a_hub_that_hangs_is_killed(home, monkeypatch):
    """A hub that neither answers nor heeds SIGTERM is killed in the end, and the lock is free."""
    monkeypatch.setattr("vedette.access.hub_socket.HELLO_TIMEOUT_S", 0.1)
    with hub_process(home, greets=False, deaf=True) as pid:
        assert hub_end.end_hub(home, 0.1).killed
        assert ended_by(pid) == signal.SIGKILL


def test_the_number_in_the_lock_is_not_believed(home):
    """Whatever the lock says, no process gets a signal that does not hold it: a pid may be another process by now."""
    with subprocess.Popen(["sleep", "60"]) as innocent, hub_process(home) as pid:
        fd = os.open(home.lock, os.O_WRONLY)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{innocent.pid} {kernel.start_ticks(innocent.pid)} {kernel.boot()}\n".encode(), 0)
        with pytest.raises(HubError, match="cannot be seen from here"):
            hub_end.end_hub(home, 0.1)
        os.unlink(home.socket)
        assert home.hub().is_here()  # it looks right, but for the lock
        assert hub_end._pidfd(home, home.hub(), 0) is None
        assert (innocent.poll(), os.waitpid(pid, os.WNOHANG)) == (None, (0, 0))
        innocent.kill()
        os.close(fd)


def test_who_listens_without_the_lock_is_no_hub(home):
    """A process that has put its socket in the hub's place gets no signal: it does not hold the lock."""
    home.prepare()
    lock = home.take_lock()
    with socket.socket(socket.AF_UNIX) as listening, subprocess.Popen(["sleep", "60"]) as other:
        listening.bind(home.socket)
        listening.listen()
        assert hub_end._pidfd(home, home.hub(), other.pid) is None
        other.kill()
    os.close(lock)


def test_a_leave_is_for_this_machine_only(home, hub):
    """The message is in what the hub says that it takes, and ends it; TCP is refused like every command."""
    assert isinstance(ask(home, wire.Leave()), wire.Done)
    eventually(lambda: home.hub() is None)


def test_what_the_lock_says(home):
    """The lock has pid, start and namespace of the hub, for messages; a pid of elsewhere is said to be one."""
    home.prepare()
    lock = home.take_lock()
    hub = home.hub()
    assert hub == HubProcess(os.getpid(), kernel.start_ticks(os.getpid()), kernel.boot())
    assert (str(hub), hub.is_here()) == (str(os.getpid()), True)
    elsewhere = hub._replace(scope="other/pid:[1]")
    assert (str(elsewhere), elsewhere.is_here()) == (f"{os.getpid()} of another container", False)
    assert not hub._replace(started=1).is_here()
    assert hub_lock._parsed(b"4711") == HubProcess(4711)  # an older hub's
    os.close(lock)


# A hub outside, and a process inside a container that has the same number there.
INSIDE = """
wanted=$1
shift
echo $((wanted - 1)) > /proc/sys/kernel/ns_last_pid || exit 3
sleep 60 & innocent=$!
[ $innocent = $wanted ] || exit 3
"$@"
code=$?
kill -0 $innocent && echo "the innocent lives"
kill -9 $innocent
exit $code
"""


def inside(pid, *argv):
    """Run a command in a pid namespace in which another process has this pid."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("NO CONTAINER WAS MADE: that needs root, and unshare")
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INSIDE, "sh", str(pid), *argv]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 3:
        pytest.skip(f"NO CONTAINER WAS MADE: {done.stdout}{done.stderr}")
    return done


def test_a_hub_of_another_container_is_stopped(home, hub):
    """`hub --stop` in a container ends the hub outside of it, and not the process that has its number there."""
    done = inside(hub, sys.executable, "-m", "vedette", "hub", "--stop")

    assert done.stdout == f"hub {hub} of another container ended\nthe innocent lives\n", done.stderr
    assert home.hub() is None


def test_the_old_way_would_have_hit_the_innocent(home, hub):
    """The test above is not blind: a signal to the number in the lock kills the process in the container."""
    done = inside(hub, "sh", "-c", "kill $(cut -d ' ' -f 1 $VEDETTE_HOME/hub.lock); sleep 0.1")

    assert "the innocent lives" not in done.stdout
    assert home.hub_pid() == hub


def test_a_hub_of_another_container_that_does_not_answer(home, hub):
    """It cannot be ended from here, which is said in a sentence; nobody gets a signal."""
    eventually(lambda: os.path.exists(home.socket))
    os.kill(hub, signal.SIGSTOP)
    try:
        done = inside(hub, sys.executable, "-m", "vedette", "hub", "--stop")
    finally:
        os.kill(hub, signal.SIGCONT)

    assert (done.returncode, done.stdout) == (2, "the innocent lives\n")
    assert f"the hub (pid {hub} of another container) does not answer" in done.stderr
    assert "end it where it runs" in done.stderr
    assert home.hub_pid() == hub


def test_a_hub_takes_the_place_of_another(home):
    """`hub --address` ends the hub that runs over its socket, and takes its place."""
    before = begin_hub(home)
    argv = [sys.executable, "-m", "vedette", "hub", "--address", "127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as after:
        assert after.stdout.readline() == f"hub {before} ended\n"
        eventually(lambda: os.path.exists(home.connect))
        assert home.hub_pid() == after.pid
        end_hub(home)
