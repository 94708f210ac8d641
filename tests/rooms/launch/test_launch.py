"""A command from its start to its end, launched by this very process; and one that waits at a gate."""

import contextlib
import ctypes  # noqa: F401 - the child needs it between fork and exec, where nothing should be imported
import errno
import os
import pty
import signal
import subprocess
import threading
import time

import pytest

from vedette import kernel
from vedette.deaths import tree
from vedette.deaths.verdict import verdict
from vedette.launch.ending import evidence
from vedette.launch.gate import Gate
from vedette.launch.local import Launch, Options, blocked

MAIN = threading.main_thread().ident


@contextlib.contextmanager
def standing_on(stdout, stderr):
    """Have our own descriptors 1 and 2 be these."""
    saved = {fd: os.dup(fd) for fd in (1, 2)}
    try:
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        yield
    finally:
        for fd, old in saved.items():
            os.dup2(old, fd)
            os.close(old)


@pytest.fixture
def launch():
    """Launch a command; return its ending and what was taken down of it. `ready`: a file that it makes first."""
    threads = []

    def run(*argv, options=Options(), signals=(), left=set, ready=None):  # noqa: B008 - frozen
        taken = []

        def started(pid):
            # A test runs beside threads that do not block SIGCHLD, as no launcher does: one of them may swallow it.
            thread = threading.Thread(target=tell, args=(pid,))
            thread.start()
            threads.append(thread)
            while ready is not None and not ready.exists():
                time.sleep(0.01)
            for number in signals:
                signal.pthread_kill(MAIN, number)

        job = Launch(list(argv), os.environ, options, lambda *took: taken.append(took), left=left, on_start=started)
        return job.run(), taken

    def tell(pid):
        with contextlib.suppress(ChildProcessError):  # it was seen without our help
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            signal.pthread_kill(MAIN, signal.SIGCHLD)

    yield run
    for thread in threads:
        thread.join()


@pytest.fixture
def pipes():
    """Two pipes, as (reader, writer)."""
    made = [os.pipe(), os.pipe()]
    yield made
    for pair in made:
        for fd in pair:
            os.close(fd)


def text(taken, name):
    return b"".join(data for stream, data in taken if stream == name)


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_signal_that_the_command_ignores_told_it_nothing(launch, tmp_path, name):
    """A command that ignores a signal and comes to its end is done; one that handles it was told to stop."""
    number, ready = signal.Signals[f"SIG{name}"], tmp_path / "ready"
    script = f"trap '%s' {name}; touch {ready}; sleep 0.3; exit 0"
    ending, _ = launch("sh", "-c", script % "", signals=[number], ready=ready)
    assert (ending.status, ending.sent) == (0, {})
    assert verdict(evidence(ending, [], "", {})).state == "done"

    ready.unlink()
    ending, _ = launch("sh", "-c", script % "exit 0", signals=[number], ready=ready)
    assert list(ending.sent) == [number]
    assert verdict(evidence(ending, [], "", {})).state == "cancelled"


def test_output_goes_where_it_always_went_and_is_taken_down(launch, pipes):
    """What a command prints comes out of our own descriptors as it is, and is handed over, stream by stream."""
    (out, ours), (err, errors) = pipes
    with standing_on(ours, errors):
        ending, taken = launch("sh", "-c", "printf out; printf err >&2; exit 3")
    assert (ending.status, ending.sent, ending.timed_out, ending.output_errno) == (3 << 8, {}, False, 0)
    assert (os.read(out, 100), os.read(err, 100)) == (b"out", b"err")
    assert (text(taken, "stdout"), text(taken, "stderr")) == (b"out", b"err")
    assert verdict(evidence(ending, [], "", {})).cause == "exit code 3"


def test_streams_that_go_to_one_place_keep_their_order(launch, tmp_path):
    """Where both streams are one file they share one way."""
    path = tmp_path / "both"
    with open(path, "wb") as file, standing_on(file.fileno(), file.fileno()):
        _, taken = launch("sh", "-c", "for n in 1 2 3; do echo out $n; echo err $n >&2; done")
    expected = "".join(f"out {n}\nerr {n}\n" for n in (1, 2, 3))
    assert path.read_text() == expected
    assert text(taken, "stdout").decode() == expected


def test_a_command_below_a_terminal_has_one(launch):
    """Where we print to a terminal the command does too, of the same size, and line ends are left as they are."""
    master, slave = pty.openpty()
    try:
        with standing_on(slave, slave):
            ending, taken = launch("sh", "-c", "test -t 1 && stty size <&1", signals=[signal.SIGWINCH])
        assert ending.status == 0
        assert text(taken, "stdout") == b"0 0\n"
        assert os.read(master, 100) == b"0 0\r\n"
    finally:
        os.close(master)
        os.close(slave)


def test_without_capture_the_descriptors_are_ours(launch, pipes):
    """Nothing stands between: what is printed comes out, and nothing of it is taken down."""
    (out, ours), _ = pipes
    with standing_on(ours, ours):
        ending, taken = launch("sh", "-c", "echo out", options=Options(capture=False))
    assert (ending.status, os.read(out, 100), taken) == (0, b"out\n", [])


def test_a_command_that_cannot_be_started(launch):
    """It is an OSError with the kernel's word; signals come as they did before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(FileNotFoundError):
        launch("/no/such/command")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_signal_is_passed_on_and_its_sender_known(launch):
    """SIGTERM ends the command, and what it has left behind; the ending says who sent it."""
    left = subprocess.Popen(["sleep", "60"])
    try:
        ending, _ = launch(
            "sleep", "60", signals=[signal.SIGTERM], left=lambda: {left.pid} if left.poll() is None else set()
        )
        assert left.wait(10) == -signal.SIGTERM
    finally:
        left.kill()
        left.wait()
    assert ending.status == signal.SIGTERM
    assert f"(process {os.getpid()} of " in ending.sent[signal.SIGTERM]
    assert verdict(evidence(ending, [], "", {})).cause == f"killed by SIGTERM: sent by {ending.sent[signal.SIGTERM]}"


def test_what_is_left_and_does_not_stop_is_killed(launch, monkeypatch):
    """What a command that was told to end leaves behind is killed if it does not end."""
    monkeypatch.setattr("vedette.launch.local._LEFTOVER_S", 0.1)
    left = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; sleep 60; true"], stdout=subprocess.PIPE)
    try:
        left.stdout.readline()

        def find():
            return {left.pid, *tree.below(left.pid)} if left.poll() is None else set()

        launch("sleep", "60", signals=[signal.SIGTERM], left=find)
        assert left.wait(10) == -signal.SIGKILL
    finally:
        left.kill()
        left.communicate()


def test_the_time_limit(launch):
    """A command whose time is over is told to stop."""
    ending, _ = launch("sleep", "60", options=Options(limit_s=0.1))
    assert (ending.status, ending.timed_out, ending.killed) == (signal.SIGTERM, True, False)
    assert verdict(evidence(ending, [], "0.1s", {})).cause == "time limit of 0.1s"


def test_the_time_limit_of_one_that_does_not_stop(launch, tmp_path):
    """After its grace it is killed, with what it has started."""
    code = f"trap '' TERM; sleep 60 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/ready; wait"
    ending, _ = launch("sh", "-c", code, options=Options(limit_s=0.1, grace_s=0.2), ready=tmp_path / "ready")
    assert (ending.status, ending.timed_out, ending.killed) == (signal.SIGKILL, True, True)
    below = int((tmp_path / "ready").read_text())
    deadline = time.monotonic() + 10
    while below in kernel.parents() and kernel.command(below):  # a zombie has none
        assert time.monotonic() < deadline


def test_who_still_holds_the_output_is_not_waited_for(launch, pipes):
    """What a command has started and left behind may go on; what was printed before the end is all there."""
    (out, ours), _ = pipes
    started = time.monotonic()
    with standing_on(ours, ours):
        ending, _ = launch("sh", "-c", "sleep 60 & echo $!")
    os.kill(int(os.read(out, 100)), signal.SIGKILL)
    assert (ending.status, time.monotonic() - started < 30) == (0, True)


def test_a_full_disk_below_the_output(launch):
    """Where our own output is refused the command gets SIGPIPE as without us, and the full disk is the cause."""
    with open("/dev/full", "wb", buffering=0) as full, standing_on(full.fileno(), full.fileno()):
        ending, _ = launch("yes")
    assert (ending.status, ending.output_errno) == (signal.SIGPIPE, errno.ENOSPC)
    assert verdict(evidence(ending, [], "", {})).cause == "disk full: its output could not be written any more"


def test_a_gate_holds_a_command_back(tmp_path):
    """Its pid is known before it begins; it begins when it may, and ends as any command does."""
    with blocked() as mask:
        gate = Gate(["sh", "-c", f"echo ran > {tmp_path}/ran; exit 4"], os.environ, mask)
    assert not os.path.exists(tmp_path / "ran")
    gate.open()
    assert os.waitpid(gate.pid, 0) == (gate.pid, 4 << 8)
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_gate_that_stays_shut(tmp_path):
    """A command that may not begin never does; one that is not there is an OSError when it should begin."""
    gate = Gate(["touch", f"{tmp_path}/ran"], os.environ, ())
    gate.shut()
    assert os.listdir(tmp_path) == []
    gate = Gate(["/no/such/command"], os.environ, ())
    with pytest.raises(FileNotFoundError):
        gate.open()
