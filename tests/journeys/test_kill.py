"""Kill anything at any moment: what had been logged is there, once."""

import contextlib
import mmap
import os
import random
import signal
import threading
import time

import numpy as np
import pytest
from msgspec import structs

import vedette
from tests.conftest import begin_hub, end_hub
from tests.journeys.conftest import eventually, read_runs
from vedette.client import run as client_run
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.settings import Hub, Settings
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import open_reader

_COUNTER = 16


def _kill_clients(home, times, seed=1):
    """Fork children that log without pause, kill each at random; return {run: (what it had logged, last index)}."""
    random.seed(seed)
    shared = mmap.mmap(-1, times * _COUNTER)
    for index in range(times):
        whole_group = index % 3 == 0
        pid = os.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)
                _log_for_ever(shared, index, with_grandchild=whole_group)
            finally:
                os._exit(1)
        begin = index * _COUNTER
        deadline = time.monotonic() + 20
        while shared[begin : begin + 8] == bytes(8):
            assert time.monotonic() < deadline, "the client never logged"
            time.sleep(0.0005)
        time.sleep(random.random() * 0.02)
        try:
            (os.killpg if whole_group else os.kill)(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(pid, 0)
    counts = {}
    for index in range(times):
        begin = index * _COUNTER
        counts[f"job{index}"] = int.from_bytes(shared[begin : begin + 8], "little")
    return counts


def _log_for_ever(shared, index, *, with_grandchild):
    begin = index * _COUNTER
    run = vedette.init(name=f"job{index}", resume=False)
    name = "y" if with_grandchild and os.fork() == 0 else "x"
    for count in range(1, 10_000_000):
        run.log({name: float(count)}, step=count)
        if name == "x":
            shared[begin : begin + 8] = count.to_bytes(8, "little")


def _losses(home, counts):
    """Return, for each run, how many of the points whose `log` had returned are not there."""
    lost = {}
    for view in read_runs(home):
        there = any(row.name == "x" for row in view.series())
        points = view.history("x").value if there else np.empty(0)
        assert np.array_equal(points, np.arange(1, len(points) + 1)), "a point came twice, or out of order"
        assert len(points) <= counts[view.name] + 1
        lost[view.name] = max(0, counts[view.name] - len(points))
    return lost


def test_nothing_that_was_logged_is_lost_when_clients_are_killed(home, hub):
    """40 clients killed with -9 at random, a third with their whole group: 0 lost, at most 1 torn record each."""
    counts = _kill_clients(home, 40)

    assert _losses(home, counts) == dict.fromkeys(counts, 0)
    assert sum(counts.values()) > 1000
    views = eventually(lambda: (v := read_runs(home)) and all(view.state == "failed" for view in v) and v)
    processes = [process for view in views for process in view.processes()]
    assert len(processes) > 40  # grandchildren spoke under their own, those that had the time
    assert sum(row.damaged for row in open_reader(home.store).origins()) <= len(processes)


def test_a_lossy_client_is_caught(home, hub, monkeypatch):
    """The check above fails for a client that keeps records in memory before it writes them."""
    kept = []

    def lossy(self, values, step=None):
        kept.append((values, step))
        if len(kept) >= 500:
            for item in kept:
                careful(self, *item)
            kept.clear()

    careful = client_run.Run.log
    monkeypatch.setattr(client_run.Run, "log", lossy)

    counts = _kill_clients(home, 6)
    assert any(count > 0 for count in _losses(home, counts).values())


def _clients(start, count):
    jobs = [
        start(
            """
            import sys, time, vedette
            run = vedette.init(name=f"job{sys.argv[1]}")
            print("ready", flush=True)
            total, stop = 0, []
            import threading
            threading.Thread(target=lambda: stop.append(sys.stdin.read()), daemon=True).start()
            while not stop:
                total += 1
                run.log({"x": float(total), "y": total * 2}, step=total)
                if total % 20 == 0:
                    run.mark(total)
                    time.sleep(0.01)
            print(total)
            """,
            str(index),
            stdin=-1,
        )
        for index in range(count)
    ]
    for job in jobs:
        assert job.stdout.readline() == "ready\n"
    return jobs


def test_nothing_is_lost_or_doubled_when_the_hub_is_killed(home, hub, start):
    """The hub is killed with -9 twenty times under load: 0 lost, 0 twice."""
    jobs = _clients(start, 3)
    for _ in range(20):
        pid = eventually(home.hub_pid)
        time.sleep(random.random() * 0.3)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: home.hub_pid() != pid)  # noqa: B023 - it is called at once
        begin_hub(home)
    totals = {f"job{index}": int(job.communicate("stop")[0]) for index, job in enumerate(jobs)}

    assert min(totals.values()) > 1000
    views = {view.name: view for view in read_runs(home)}
    for name, total in totals.items():
        history = views[name].history("x")
        assert np.array_equal(history.step, np.arange(1, total + 1)), name
        assert np.array_equal(history.value, np.arange(1.0, total + 1))
        assert np.array_equal(views[name].history("y").value, 2 * np.arange(1, total + 1))
        marks = [int(event.text) for event in views[name].logs() if event.kind == "mark"]
        assert marks == list(range(20, total + 1, 20))
        [series] = [row for row in views[name].series() if row.name == "x"]
        assert (series.count, series.last) == (total, total)


@pytest.mark.parametrize("fault", ["none", "mark apart from data", "free before commit"])
def test_a_faulty_hub_is_caught(home, fault, monkeypatch):
    """A keeper that forgets its mark doubles points, one that frees too early loses them; ours does neither."""
    home.prepare()
    lock = home.take_lock()  # this test is the hub
    run = vedette.init(name="victim")
    keeper = Keeper(home, SqliteStore(home.store), Settings(hub=Hub(seal_s=3600, sync_s=0)))
    if fault == "mark apart from data":
        keep = keeper.store.keep
        forget = lambda batches, *more: keep([structs.replace(b, end=0) for b in batches], *more)  # noqa: E731
        monkeypatch.setattr(keeper.store, "keep", forget)
    elif fault == "free before commit":
        monkeypatch.setattr(SpoolReader, "free", _free_all_samples)
    for step in range(3000):
        run.log({"x": 1.0}, step=step)
    keeper.turn(seal={""} if fault == "mark apart from data" else None)
    keeper.start_over(RuntimeError("killed"))  # go on as a new hub would
    keeper.turn(seal={""})
    count = sum(row.count for row in keeper.store.series(None, "x"))
    vedette.finish()
    keeper.close()
    os.close(lock)

    assert (count == 3000) == (fault == "none")


def _free_all_samples(reader):
    for name in os.listdir(reader.directory):
        if name.startswith("s."):
            os.unlink(os.path.join(reader.directory, name))


def test_a_slow_program_is_not_taken_for_dead_by_a_new_hub(home, hub, start):
    """A hub that starts while a program has been quiet for minutes leaves its spool alone, and hears it later."""
    job = start(
        """
        import sys, vedette
        run = vedette.init(name="slow")
        run.log({"x": 0.0}, step=0)
        print("ready", flush=True)
        for step in range(1, 1001):
            if step % 100 == 0:
                sys.stdin.readline()
            run.log({"x": float(step)}, step=step)
        """,
        stdin=-1,
    )
    assert job.stdout.readline() == "ready\n"
    read_runs(home)
    for _ in range(10):
        end_hub(home)
        for folder, _, names in os.walk(home.spool):
            for name in ["", *names]:
                os.utime(os.path.join(folder, name), (1, 1))
        begin_hub(home)
        read_runs(home)
        read_runs(home)
        job.stdin.write("go\n")
        job.stdin.flush()
    job.communicate()

    [run] = eventually(lambda: (r := read_runs(home)) and r[0].end_t and r)
    assert run.state == "done"
    assert np.array_equal(run.history("x").value, np.arange(1001))


def test_a_live_client_brings_the_hub_back(home, start, monkeypatch):
    """A hub that was killed comes back by the client alone, at its next look."""
    job = start(
        """
        import sys, time, vedette
        from vedette import voice
        voice._WAKE_EVERY_NS = 10**8
        run = vedette.init()
        print("ready", flush=True)
        for step in range(600):
            run.log({"x": step})
            time.sleep(0.01)
        """
    )
    job.stdout.readline()
    first = eventually(home.hub_pid)
    end_hub(home)

    second = eventually(home.hub_pid)
    assert second != first


def test_two_clients_starting_at_once_end_up_with_one_hub(home, start):
    """Eight clients at once: one hub, and all of their data."""
    jobs = [start("import vedette, time\nvedette.log({'x': 1})\ntime.sleep(1)") for _ in range(8)]
    eventually(home.hub_pid)
    for job in jobs:
        job.wait(20)

    assert len(read_runs(home)) == 8
    pids = [
        pid
        for pid in os.listdir("/proc")
        if pid.isdigit() and _argv(pid)[-1:] and "hub" in _argv(pid) and home.asked in _argv(pid)
    ]
    assert [int(pid) for pid in pids] == [home.hub_pid()]


def _argv(pid):
    try:
        with open(f"/proc/{pid}/cmdline", errors="replace") as file:
            return file.read().split("\0")
    except OSError:
        return []


def test_threads_logging_through_many_rolls_lose_nothing(home, hub):
    """Eight threads log through many rolls: every record whose call returned is there."""
    run = vedette.init(name="threads")
    each = 5000

    def log(number):
        for step in range(each):
            run.log({f"t{number}": float(step)}, step=step)

    threads = [threading.Thread(target=log, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.finish()

    [view] = read_runs(home)
    for number in range(8):
        assert np.array_equal(view.history(f"t{number}").value, np.arange(each))
