"""Trees of processes: found whole, and ended whole, while they grow."""

import os
import select
import signal
import subprocess
import sys
import time

import pytest

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
    return subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **environ}, stdout=subprocess.PIPE)


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
