"""Processes as the kernel counts them, read from a made-up /proc and from the real one."""

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from tests.rooms.proc_tree import ProcTree
from vedette import kernel
from vedette.sensing.sensor import Absent, Target
from vedette.sources.process import look, rates, sensor, slow_metrics, snapshot


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
    assert kernel.command(10, tree.root) == ["sleep", "", "5"]
    assert [len(word) for word in kernel.command(20, tree.root)] == [4096]
    assert kernel.command(30, tree.root) == kernel.command(99, tree.root) == []


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


def watched(tree, pid=10, **told):
    """Return the sensor of a made-up tree."""
    return sensor(Target(pid, tree.root, tree.root + "/sys", **told))


def look_at(watching):
    [reading] = watching.look()
    assert reading.scope == "process"
    assert set(reading.values) <= set(watching.metrics)
    return reading.values


def later(monkeypatch, seconds):
    """Have the clock stand so much later."""
    real, offset = time.monotonic, seconds
    monkeypatch.setattr(time, "monotonic", lambda: real() + offset)


def test_a_tree_added_up(tree, monkeypatch):
    """Counters and what stands come with the first look, rates with the second, over the time that has passed."""
    tree.add(10, threads=2, pages=5, cpu_s=1.0, io=(100, 200))
    tree.add(20, 10, pages=7, cpu_s=2.0, io=(1, 2))
    tree.add(30, 1, pages=1000)
    tree.machine(cores=4, memory_kb=1000)
    watching = watched(tree)
    first = look_at(watching)
    assert first["cpu_s"] == 3.0
    assert (first["processes"], first["threads"]) == (2, 3)
    assert first["memory_bytes"] == 12 * os.sysconf("SC_PAGE_SIZE")
    assert first["memory_share_percent"] == pytest.approx(100 * first["memory_bytes"] / 1024_000)
    assert (first["read_bytes"], first["written_bytes"]) == (101, 202)
    assert not [name for name in first if name.endswith("_per_s") or name.startswith("cpu_percent")]
    later(monkeypatch, 10)
    tree.add(10, threads=2, pages=5, cpu_s=6.0, io=(1100, 200))
    second = look_at(watching)
    assert second["cpu_percent"] == pytest.approx(50, rel=0.05)
    assert second["cpu_share_percent"] == pytest.approx(12.5, rel=0.05)
    assert second["read_bytes_per_s"] == pytest.approx(100, rel=0.05)
    assert second["written_bytes_per_s"] == 0


def test_who_comes_and_goes(tree, monkeypatch):
    """Children are found within a second or at once, those that are gone stay counted, a zombie too."""
    tree.add(10)
    watching = watched(tree)
    look_at(watching)
    tree.add(20, 10, cpu_s=1.0)
    later(monkeypatch, 2)
    assert look_at(watching)["cpu_s"] == 1.0
    tree.add(20, 10, cpu_s=1.5, state="Z")
    values = look_at(watching)
    assert (values["cpu_s"], values["processes"], values["threads"]) == (1.5, 1, 1)
    tree.remove(20)
    assert look_at(watching)["cpu_s"] == 1.5
    tree.add(20, 10, cpu_s=0.5, started=777)
    later(monkeypatch, 2)
    assert look_at(watching)["cpu_s"] == 2.0


def test_the_newest_pid_leads_to_the_new(tmp_path):
    """Where the kernel tells the newest pid a child is found at once, without a pass over all; a thread is no child."""
    tree = ProcTree(tmp_path, lists=False)
    tree.add(10)
    os.symlink(str(os.getpid()), f"{tree.root}/self")
    (tmp_path / "loadavg").write_text("0 0 0 1/1 10\n")
    watching = watched(tree)
    look_at(watching)
    tree.add(12, 10, cpu_s=1.0)
    tree.add(13, 12, cpu_s=1.0)
    tree.add(11, 10, cpu_s=1.0)
    (tmp_path / "11" / "status").write_text("Tgid:\t10\nPid:\t11\n")
    (tmp_path / "loadavg").write_text("0 0 0 1/1 13\n")
    values = look_at(watching)
    assert (values["processes"], values["cpu_s"]) == (3, 2.0)


def test_an_orphan_is_known_by_its_group_or_session(tmp_path, monkeypatch):
    """One whose parent was never seen belongs to the tree when its group or session began there, and a stranger not."""
    tree = ProcTree(tmp_path, lists=False)
    tree.add(1, 0, session=1, group=1)
    tree.add(5, 1, session=5, group=5)  # a shell
    tree.add(10, 5, session=5, group=10)
    watching = watched(tree)
    look_at(watching)
    tree.add(20, 1, session=5, group=10)  # an orphan of the tree
    tree.add(21, 5, session=5, group=10)  # a stranger whom the shell has put into the group
    tree.add(22, 1, session=5, group=5)  # an orphan of somebody else
    tree.add(23, 10, session=23, group=23)
    tree.add(24, 1, session=23, group=24)  # of a session that began in the tree
    later(monkeypatch, 2)
    look_at(watching)
    assert set(watching._members.all) == {10, 20, 23} | {24}


def test_those_apart_are_no_part_of_the_tree(tree):
    """A monitor leaves itself out, with all below it."""
    tree.add(10)
    tree.add(20, 10)
    tree.add(30, 20)
    tree.add(40, 10)
    assert look_at(watched(tree, apart=(20,)))["processes"] == 2


@pytest.mark.parametrize("name", ["a) b (c", "x\ny", ") R 1 1 (", "\\", "é\udcff"])
def test_names_made_of_anything(tree, name):
    """What stands behind the last parenthesis counts."""
    tree.add(10, name=name.encode(errors="surrogateescape").decode(errors="replace"), cpu_s=2.0)
    assert look_at(watched(tree))["cpu_s"] == 2.0


def test_files_that_vanish_lie_or_say_nothing(tree, monkeypatch):
    """Whatever a file holds nothing raises; what is known stays, what makes no sense is left out."""
    tree.add(10, cpu_s=1.0)
    tree.add(20, 10, cpu_s=1.0)
    watching = watched(tree)
    look_at(watching)
    for text in ("", "20", "20 (job) S", "20 (job) S x y z" + " 0" * 40, "20 (job) S 10" + " 9" * 4000, "\0" * 99):
        for file in ("stat", "io", "status", "schedstat"):
            with open(f"{tree.root}/20/{file}", "w") as odd:
                odd.write(text)
        later(monkeypatch, 2)
        assert look_at(watching)["cpu_s"] >= 2.0
    tree.add(20, 10, cpu_s=10**18, pages=1 << 63, io=(1 << 70, -5))
    values = look_at(watching)
    assert all(0 <= value < 1 << 63 for value in values.values())
    tree.remove(20)
    tree.remove(10)
    assert look_at(watching)["processes"] == 0
    watching.close()


def test_a_file_that_may_not_be_read(tree):
    """What others may not see is left out: a process of another user tells neither bytes nor files."""
    tree.add(10, io=None)
    os.symlink("nowhere", f"{tree.root}/10/io")
    values = look_at(watched(tree))
    assert "cpu_s" in values
    assert not {"open_files", "memory_pss_bytes", "memory_limit_percent"} & set(values)


def test_what_is_dear_is_read_rarely(monkeypatch):
    """Open files, shares of memory and switches come with the first look, are then left out, and come again."""
    watching = sensor(Target(os.getpid()))
    dear = {"open_files", "switches", "forced_switches", "memory_pss_bytes"}
    first = look_at(watching)
    assert dear <= set(first)
    assert first["open_files"] >= 3
    assert not dear & set(look_at(watching))
    later(monkeypatch, 1000)
    again = look_at(watching)
    assert again["switches"] >= first["switches"]
    assert 0 < first["memory_pss_bytes"] <= first["memory_bytes"]
    watching.close()


def test_switches_of_all_threads_are_counted():
    """A thread that waits often counts, and still does when it is gone."""
    watching = slow_metrics.SlowMetrics("/proc")
    ready, go = threading.Event(), threading.Event()

    def wait_often():
        for _ in range(200):
            time.sleep(0.0001)
        ready.set()
        go.wait()

    before = watching.look([os.getpid()], 0.0)["switches"]
    thread = threading.Thread(target=wait_often)
    thread.start()
    ready.wait()
    during = watching.look([os.getpid()], 1e6)["switches"]
    go.set()
    thread.join()
    assert during - before >= 200
    assert watching.look([os.getpid()], 2e6)["switches"] >= during


def test_no_such_process(tree):
    """It is absent, with a reason; by psutil too."""
    tree.add(10)
    assert watched(tree, 99) == Absent("there is no process 99")
    assert sensor(Target(1 << 22, "/nowhere")) == Absent(f"there is no process {1 << 22}")


def test_quota_and_limit_of_a_cgroup(tree, tmp_path, monkeypatch):
    """Shares are those of what the process may have: the quota where that is less than the machine, and the limit."""
    tree.add(10, pages=100)
    tree.machine(cores=4, memory_kb=1 << 20)
    tree.write("self/mountinfo", "30 25 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    tree.write("10/cgroup", "0::/job\n")
    tree.write("sys/fs/cgroup/job/cpu.max", "50000 100000\n")
    tree.write("sys/fs/cgroup/job/memory.max", f"{1000 * os.sysconf('SC_PAGE_SIZE')}\n")
    watching = watched(tree)
    assert look_at(watching)["memory_limit_percent"] == 10.0
    later(monkeypatch, 1)
    tree.add(10, pages=100, cpu_s=0.25)
    values = look_at(watching)
    assert values["cpu_share_percent"] == pytest.approx(2 * values["cpu_percent"])


def test_many_processes_keep_few_files_open(tree):
    """The program that we live in needs descriptors itself."""
    tree.add(10)
    for pid in range(100, 300):
        tree.add(pid, 10)
    gc.collect()  # what other tests have left behind is not to be closed meanwhile
    before = len(os.listdir("/proc/self/fd"))
    watching = watched(tree)
    assert look_at(watching)["processes"] == 201
    assert len(os.listdir("/proc/self/fd")) - before < 150
    watching.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_descriptors_left(tree, monkeypatch):
    """A process that cannot be read for want of descriptors is not taken for one that is gone."""
    tree.add(10, cpu_s=1.0)
    watching = watched(tree)
    look_at(watching)
    watching._members.all[10].close()

    def refuse(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    assert look_at(watching)["processes"] == 1
    monkeypatch.undo()
    tree.add(10, cpu_s=2.0)
    assert look_at(watching)["cpu_s"] == 2.0


def test_without_proc_psutil_tells():
    """Where there is no /proc the same is known by psutil: the tree, its CPU time, who has ended."""
    code = "import time\ninput()\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1) as child:
        watching = sensor(Target(child.pid, "/nowhere"))
        first = look_at(watching)
        child.stdin.write(b"burn\n")
        child.stdin.flush()
        while look_at(watching)["cpu_s"] < 0.3:
            time.sleep(0.05)
        values = look_at(watching)
        assert {"cpu_percent", "cpu_share_percent", "memory_bytes", "memory_share_percent"} <= set(values)
        assert (values["processes"], values["threads"]) == (1, 1)
        assert {"open_files", "switches"} <= set(first)
        child.stdin.close()
    after = look_at(watching)
    assert after["cpu_s"] >= values["cpu_s"]
    assert after["processes"] == 0


def test_a_real_process_that_writes():
    """What goes to storage is counted in bytes, and stays when the child that did it is gone."""
    if kernel.file_system(".") == "tmpfs":
        pytest.skip("nothing goes to storage here")
    code = (
        "import os, subprocess, sys, tempfile\n"
        "input()\n"
        "subprocess.run([sys.executable, '-c', 'import os, sys; f = open(sys.argv[1], \"wb\");"
        " f.write(bytes(4 << 20)); f.flush(); os.fsync(f.fileno())', sys.argv[1]])\n"
        "print(flush=True); input()"
    )
    with (
        tempfile.NamedTemporaryFile(dir=".") as file,
        subprocess.Popen([sys.executable, "-c", code, file.name], stdin=-1, stdout=-1) as child,
    ):
        watching = sensor(Target(child.pid))
        before = look_at(watching)
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        after = look_at(watching)
        child.stdin.close()
    watching.close()
    assert 4 << 20 <= after["written_bytes"] - before["written_bytes"] < 6 << 20
