"""Processes as the kernel counts them, read from a made-up /proc and from the real one."""

import os
import subprocess
import sys
import time

import pytest

from tests.rooms.proc_tree import ProcTree
from vedette import kernel
from vedette.sources.process import snapshot
from vedette.sources.process import command, look, rates


@pytest.fixture(params=[True, False], ids=["lists of children", "no lists of children"])
def tree(tmp_path, request):
    """A made-up /proc, of a kernel with and without lists of children."""
    return ProcTree(tmp_path, lists=request.param)


def test_a_pass_sees_the_whole_tree_and_nothing_else(tree):
    """All descendants of a root are seen, those of other threads too; strangers are not."""
    for pid, parent, threads in (
        (10, 1, 1),
        (20, 10, 3),
        (30, 20, 1),
        (31, 20, 1),
        (32, 20, 1),
        (40, 32, 1),
        (50, 1, 1),
    ):
        tree.add(pid, parent, threads=threads)
    snapshot = look([10], proc=tree.root)
    assert set(snapshot.processes) == {10, 20, 30, 31, 32, 40}
    assert snapshot.processes[20].threads == 3
    assert [snapshot.processes[pid].ppid for pid in (20, 40)] == [10, 32]


def test_those_apart_are_left_out_with_all_below_them(tree):
    """A process that is counted elsewhere is not walked into, unless it is asked for itself."""
    for pid, parent in ((10, 1), (20, 10), (30, 20), (40, 10)):
        tree.add(pid, parent)
    assert set(look([10], {20}, tree.root).processes) == {10, 40}
    assert set(look([10, 20], {20}, tree.root).processes) == {10, 20, 30, 40}


def test_what_a_process_says(tree):
    """CPU, memory, threads, bytes and start are read, whatever its name is made of."""
    tree.add(10, 7, name="a) b (c", started=4711, cpu_s=1.5, pages=3, threads=2, io=(1000, 2000))
    found = look([10], proc=tree.root).processes[10]
    assert found == (10, 4711, 7, "a) b (c", 1.5, 3 * os.sysconf("SC_PAGE_SIZE"), 2, 1000, 2000)


def test_what_cannot_be_read_is_absent(tree):
    """A process of somebody else does not tell what it reads and writes; then that is None, and has no rate."""
    tree.add(10, io=None)
    found = look([10], proc=tree.root).processes[10]
    assert (found.read_bytes, found.written_bytes) == (None, None)
    assert set(rates(found, found, 1.0)) == {"cpu_percent"}


def test_the_dead_and_the_damaged_are_passed_over(tree):
    """A zombie, one that is gone, and one whose file makes no sense cost nothing but themselves."""
    tree.add(10)
    tree.add(20, 10, state="Z")
    tree.add(30, 10)
    with open(f"{tree.root}/30/stat", "w") as file:
        file.write("30 (odd) S nonsense\n")
    tree.add(40, 10)
    assert set(look([10, 99], proc=tree.root).processes) == {10, 40}


def test_two_looks_give_rates(tree):
    """Percent of a core and bytes a second are the difference by the time; a counter that falls is no negative rate."""
    tree.add(10, cpu_s=1.0, io=(0, 500))
    before = look([10], proc=tree.root).processes[10]
    tree.add(10, cpu_s=2.0, io=(4096, 100))
    after = look([10], proc=tree.root).processes[10]
    assert rates(before, after, 2.0) == {"cpu_percent": 50.0, "read_bytes_per_s": 2048.0, "written_bytes_per_s": 0.0}


def test_a_pid_that_is_used_again_is_another_process(tree):
    """The start tells two processes of one pid apart."""
    tree.add(10, started=100)
    before = look([10], proc=tree.root).processes[10]
    tree.add(10, started=200)
    assert look([10], proc=tree.root).processes[10].started != before.started


def test_the_command_line(tree):
    """Words are cut apart, and a very long line is cut; one that has none is empty."""
    tree.add(10, argv=("sleep", "", "5"))
    tree.add(20, argv=("x" * 10_000,))
    tree.add(30)
    assert command(10, tree.root) == ["sleep", "", "5"]
    assert [len(word) for word in command(20, tree.root)] == [4096]
    assert command(30, tree.root) == command(99, tree.root) == []


def test_a_real_tree():
    """A child and a grandchild of a real process are seen with the start that the kernel gives them."""
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as child:
        grandchild = int(child.stdout.readline())
        try:
            found = look([os.getpid()]).processes
            assert found[child.pid].ppid == os.getpid()
            assert found[grandchild].ppid == child.pid
            assert found[grandchild].started == kernel.start_ticks(grandchild)
            assert found[os.getpid()].memory_bytes > 1 << 20
        finally:
            os.kill(grandchild, 9)
            child.stdin.close()


def test_psutil_sees_the_same():
    """Where there is no /proc, the tree is found all the same."""
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            time.sleep(0.05)
            here, there = look([os.getpid()]).processes, snapshot._by_psutil([os.getpid()], ())
            assert child.pid in there
            assert [there[child.pid][2:4], there[child.pid].threads] == [here[child.pid][2:4], here[child.pid].threads]
            assert child.pid not in snapshot._by_psutil([os.getpid()], {child.pid})
            assert snapshot._by_psutil([1 << 22], ()) == {}
        finally:
            child.kill()
