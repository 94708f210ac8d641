"""Trees of processes: found whole, and ended whole, while they grow."""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

from tests.rooms.proc_tree import ProcTree
from vedette.deaths import tree

# A tree that grows as long as it may: its root starts another process every few milliseconds, and each stays.
GROWING = """
import os, time
print(flush=True)
for _ in range(2000):
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    time.sleep(0.003)
"""


def start(code, **environ):
    return subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **environ}, stdout=subprocess.PIPE, start_new_session=True
    )  # a session of its own: the tests may run in a user's terminal


def test_what_is_below():
    """Children and theirs are found, and nobody else."""
    process = subprocess.Popen(["sh", "-c", "sh -c 'sleep 60; true' & sleep 60; true"])
    other = subprocess.Popen(["sleep", "60"])
    try:
        deadline = time.monotonic() + 10
        while len(tree.below(process.pid)) < 3:
            assert time.monotonic() < deadline
        assert other.pid not in tree.below(process.pid)
        assert process.pid in tree.below(os.getpid())
        assert tree.end(lambda: tree.below(process.pid)) == 3
        assert process.wait(10) == 0
        assert other.poll() is None
    finally:
        process.kill()
        other.kill()
        process.wait()
        other.wait()


def kill_in_turn(find):
    """Do what a simpler way would: look once, and kill.

    Between the two the tree grows. On a busy machine it may not come to that by itself, so this waits until it has.
    """
    found = find()
    while find() <= found:
        time.sleep(0.001)
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue


@pytest.mark.parametrize(
    ("end", "rounds", "patience_s", "survives"),
    [(tree.end, 5, 20, False), (kill_in_turn, 1, 0.5, True)],
    ids=["ours", "control"],
)
def test_a_tree_that_grows_meanwhile(end, rounds, patience_s, survives):
    """A tree that grows while it is ended is ended whole; by looking once it is not."""
    outcomes = []
    for number in range(rounds):
        run = f"growing{number}{os.getpid()}{survives}"
        process = start(GROWING, VEDETTE_RUN=run, VEDETTE_TRY="1")
        process.stdout.readline()
        time.sleep(0.1)
        end(lambda run=run: tree.of_try(run, "1"))
        alive = not select.select([process.stdout], [], [], patience_s)[0]  # whoever lives holds its other end
        outcomes.append(alive)
        tree.end(lambda run=run: tree.of_try(run, "1"))
        process.communicate()
    assert any(outcomes) == survives


def test_never_ourselves():
    """Whoever finds us, we are not ended by our own hand."""
    assert tree.end(lambda: {os.getpid(), 1}) == 0


def test_what_a_user_is_typing_in_is_no_orphan(tmp_path):
    """A shell on a terminal and its jobs are left out; what an ended job left in the shell's session is not.

    Neither are processes that name no try, or are another user's.
    """
    proc = ProcTree(tmp_path)
    proc.add(10, 1, session=10, terminal=34816)  # an interactive shell
    proc.add(11, 10, session=10, terminal=34816)  # a job of it
    proc.add(12, 11, session=10, terminal=34816)
    proc.add(20, 1, session=10, terminal=34816)  # what such a job has left behind
    proc.add(30, 11, session=30)  # what began a session of its own
    assert [tree.is_a_users(pid, proc.root) for pid in (10, 11, 12, 20, 30, 99)] == [True, True, True] + [False] * 3

    proc.environ(20, VEDETTE_RUN="r", VEDETTE_TRY="2", OTHER="x")
    proc.environ(30, VEDETTE_RUN="r")
    assert [tree.named_try(pid, proc.root) for pid in (10, 20, 30, 99)] == [None, ("r", "2"), None, None]
    os.chown(f"{proc.root}/20", 1234, -1) if os.getuid() == 0 else None
    assert os.getuid() != 0 or tree.named_try(20, proc.root) is None


def test_a_signal_goes_to_whom_is_found_twice():
    """A process that is not found any more when its pidfd is open may be another by then: it is left alone."""
    processes = [start("import time; time.sleep(60)") for _ in range(2)]
    found = iter([{one.pid for one in processes}, {processes[0].pid}])
    try:
        assert tree.tell(lambda: next(found), signal.SIGTERM) == 1
        assert processes[0].wait(10) == -signal.SIGTERM
        assert processes[1].poll() is None
    finally:
        for process in processes:
            process.kill()
            process.communicate()
