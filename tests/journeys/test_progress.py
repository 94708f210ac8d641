"""Bars that many processes move, killed at any moment, seen by hubs that are killed too: totals are exact."""

import os
import signal
import struct
import subprocess
import time

import pytest

from tests.conftest import begin_hub, end_hub
from tests.journeys.conftest import eventually, read_runs, spools
from tests.journeys.test_relay import VEDETTE, connect_string, listen, runs
from vedette import wire
from vedette.access.follower import Follower
from vedette.access.hub_socket import ask
from vedette.home import Home
from vedette.hub.processes.progress import ProgressRecorder
from vedette.hub.turn.keeper import Keeper
from vedette.settings import Settings
from vedette.store.sqlite import SqliteStore

FOR_EVER = """
    import os, struct, sys, vedette
    run = vedette.init(name="for ever")
    bar = vedette.Progress.new(None, "x")
    if "lossy" in sys.argv:  # the positive control: it says how far it is at the end, and not before
        class Lossy:
            count = 0
            def advance(self):
                self.count += 1
        bar = Lossy()
    fd = int(sys.argv[1])
    for count in range(1, 10_000_000):
        bar.advance()
        os.pwrite(fd, struct.pack("<q", count), 0)
"""


def _kill_in_mid_advance(start, tmp_path, *more):
    """Start one that advances without pause and writes down how far it is; kill it; return what it wrote."""
    fd = os.open(tmp_path / "count", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(fd, bytes(8), 0)
        process = start(FOR_EVER, str(fd), *more, pass_fds=[fd])
        eventually(lambda: struct.unpack("<q", os.pread(fd, 8, 0))[0] > 1000)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return struct.unpack("<q", os.pread(fd, 8, 0))[0]
    finally:
        os.close(fd)


@pytest.mark.parametrize("hub_lives", [True, False], ids=["watched", "no hub until it is dead"])
def test_what_was_advanced_is_there_after_a_kill(home, start, tmp_path, monkeypatch, hub_lives):
    """Killed with -9 in mid-advance, a bar has got as far as its process had, and ended as that did."""
    if not hub_lives:
        monkeypatch.setenv("VEDETTE_HUB_IDLE_S", "60")
        home.prepare()
        lock = home.take_lock()  # so that none can begin
    count = _kill_in_mid_advance(start, tmp_path)
    if not hub_lives:
        os.close(lock)

    [bar] = eventually(lambda: (v := read_runs(home)) and v[0].end_t and v[0].progress())
    assert count <= bar.done <= count + 1
    assert bar.state == ("failed" if hub_lives else "ended")  # nobody saw how it ended
    if hub_lives:
        assert "SIGKILL" in bar.cause
    eventually(lambda: spools(home) == [])
    assert read_runs(home)[0].progress() == [bar]


def test_a_lossy_bar_is_caught(home, hub, start, tmp_path):
    """The check above fails for a bar that is told at the end alone."""
    count = _kill_in_mid_advance(start, tmp_path, "lossy")

    [view] = eventually(lambda: (v := read_runs(home)) and v[0].end_t and v)
    assert count > 1000
    assert sum(bar.done for bar in view.progress()) < count


def _bury(home, start, tmp_path, monkeypatch):
    """Have a keeper bury one that was killed, and die; return what happened in which order, and what is lost of it."""
    home.prepare()
    lock = home.take_lock()
    count = _kill_in_mid_advance(start, tmp_path)
    [spool] = spools(home)
    keeper = Keeper(home, SqliteStore(home.store), Settings())
    order = []
    say, flush = keeper.own.say, keeper.flush
    with monkeypatch.context() as patch:
        patch.setattr(keeper.progress, "_say", lambda *told: (order.append("say"), say(*told)))
        patch.setattr(keeper, "flush", lambda: (order.append(f"flush {spool in os.listdir(home.spool)}"), flush()))
        eventually(lambda: keeper.turn() and spool not in os.listdir(home.spool))
    keeper.let_go()  # as killed: its own spool alone knows
    os.close(lock)
    return order, count - read_runs(home)[0].progress()[0].done


def test_the_word_on_the_dead_is_safe_before_their_spool_goes(home, start, tmp_path, monkeypatch):
    """No spool is removed before what its gauges said is said again, and on disk."""
    order, lost = _bury(home, start, tmp_path, monkeypatch)

    assert "flush True" in order[order.index("say") :]
    assert lost in (0, -1)


def test_a_hub_that_does_not_look_before_it_buries_is_caught(home, start, tmp_path, monkeypatch):
    """The check above fails for a hub that believes that it has heard all there is."""

    def blind(_gauges, readers, _now, **_how):
        for reader in readers.values():
            reader.progress_recorded = True

    monkeypatch.setattr(ProgressRecorder, "look", blind)
    _, lost = _bury(home, start, tmp_path, monkeypatch)

    assert lost > 1000


TEAM = """
    import os, sys, time, vedette
    run = vedette.init(name="team")
    bar = vedette.Progress.new(None, "all")
    children = []
    for rank in range(8):
        pid = os.fork()
        if pid == 0:
            marks = 0
            while not os.path.exists(sys.argv[1]):
                for _ in range(1000):
                    bar.advance()
                run.mark(rank, marks)
                marks += 1
                time.sleep(0.01)
            os.write(1, b"%d\\n" % marks)  # in one piece, whatever the buffering
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    bar.complete()
"""


def test_hubs_are_killed_while_eight_processes_advance_and_log(home, hub, start, tmp_path):
    """However often the hub dies meanwhile, the total is exact, and so is the number of marks."""
    over = tmp_path / "over"
    process = start(TEAM, str(over))
    for _ in range(5):
        eventually(home.hub_pid)
        time.sleep(0.1)
        end_hub(home)
        begin_hub(home)
    over.touch()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    marks = sum(map(int, out.split()))

    [view] = eventually(lambda: (v := read_runs(home)) and v[0].end_t and v)
    [bar] = view.progress()
    assert marks > 8
    assert (bar.done, bar.state) == (marks * 1000, "done")
    assert len([event for event in view.logs() if event.kind == "mark"]) == marks


POOL = """
    import concurrent.futures, multiprocessing, os, sys
    import vedette

    def work(bar):
        for _ in range(100):
            bar.advance(1, distributed=True)
        with bar:  # a copy ends nothing
            pass
        return os.getpid()

    def later(_):
        return None

    if __name__ == "__main__":
        method, missing = sys.argv[1], sys.argv[2] == "missing"
        run = vedette.init(name=method)
        context = multiprocessing.get_context(method)
        bar = vedette.Progress.new(2020, ("pool", method))
        if missing:
            for name in ("VEDETTE_RUN", "VEDETTE_TRY"):
                del os.environ[name]
        with context.Pool(3) as pool:
            pids = set(pool.map(work, [bar] * 10, chunksize=1))
            pool.close()
            pool.join()
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            for future in [pool.submit(work, bar) for _ in range(10)]:
                future.add_done_callback(lambda _: bar.advance(1))
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for _ in range(10):
                threads.submit(bar.advance, 1)
        assert os.getpid() not in pids
        assert not bar.is_finished
        bar.complete()
        print(run.id)
"""


@pytest.mark.parametrize("environment", ["there", "missing"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools(home, hub, finish, method, environment):
    """Workers of any pool, and callbacks, move the one bar of the run; only its maker ends it."""
    code, out, err = finish(POOL, method, environment)
    assert (code, err) == (0, "")

    [view] = eventually(lambda: (v := read_runs(home)) and v[0].end_t and v)
    [bar] = view.progress()
    assert view.id == out.strip()
    assert (bar.done, bar.state, bar.name) == (2020.0, "done", f"pool | {method}")


def test_threads_and_signal_handlers(home, hub, finish):
    """Threads and a signal handler that interrupts them move one bar: each step counts once."""
    code, out, err = finish("""
        import signal, threading, vedette
        bar = vedette.Progress.new(None, "x")
        hits = 0
        def hit(*_):
            global hits
            hits += 1
            bar.advance()
        signal.signal(signal.SIGALRM, hit)
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        def work():
            for _ in range(100_000):
                bar.advance()
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        work()
        [thread.join() for thread in threads]
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(hits)
    """)
    assert (code, err) == (0, "")

    [view] = eventually(lambda: (v := read_runs(home)) and v[0].end_t and v)
    assert int(out) > 50
    assert view.progress()[0].done == 500_000 + int(out)


def test_a_follower_sees_it_move(home, hub, start, tmp_path):
    """While a process advances, those who follow its run hear of the bar, and the last value soon after it stops."""
    process = start("""
        import os, sys, time, vedette
        run = vedette.init()
        bar = vedette.Progress.new(None, "x")
        print(run.id, bar.id, flush=True)
        while not os.path.exists(sys.argv[1]):  # it has been heard of
            bar.advance()
            time.sleep(0.1)
        bar.update(77)
        sys.stdin.read()
    """, str(tmp_path / "heard"), stdin=-1)  # fmt: skip
    run, bar = process.stdout.readline().split()
    ask(home, wire.Seal(""))
    follower, deadline = Follower(home, run, least_s=0), time.monotonic() + 20
    heard = 0
    while heard < 3 and time.monotonic() < deadline:
        heard += (change := follower.wait(1)) is not None and bar in change.spans
    follower.close()
    assert heard >= 3
    (tmp_path / "heard").touch()
    eventually(lambda: read_runs(home, fresh=False)[0].progress()[0].done >= 77, 20)
    assert read_runs(home, fresh=False)[0].progress()[0].state == "running"


def test_a_worker_that_dies_leaves_what_it_did(home, hub, finish):
    """What a killed worker had done stays in the total, and the bar goes on."""
    code, _, err = finish("""
        import os, vedette
        vedette.init()
        with vedette.Progress.new(10, "x") as bar:
            if (pid := os.fork()) == 0:
                bar.advance(4)
                os.kill(os.getpid(), 9)
            os.waitpid(pid, 0)
            bar.advance(6)
    """)
    assert (code, err) == (0, "")

    [view] = eventually(lambda: (v := read_runs(home)) and v[0].end_t and v)
    assert [(bar.done, bar.state) for bar in view.progress()] == [(10.0, "done")]


def test_on_another_host(lan):
    """A bar on a far host is seen on the one that keeps it: while it moves, and what was there after a kill -9."""
    far, here = lan(2)
    listen(here)
    job = far.start(
        """
        import os, sys, time, vedette
        run = vedette.init(name="far")
        bar = vedette.Progress.new(100, "x")
        bar.advance(10)
        print("ten", flush=True)
        sys.stdin.readline()
        bar.advance(32)
        os.kill(os.getpid(), 9)
        """,
        VEDETTE_HUB=connect_string(here),
    )
    assert job.stdout.readline() == "ten\n"
    eventually(lambda: (r := runs(here)) and r[0].progress() and r[0].progress()[0].done == 10.0, 30)
    job.stdin.write("\n")
    job.stdin.flush()

    def ended():
        found = runs(here)
        return found and found[0].end_t and found[0].progress()[0].done == 42.0 and found[0].progress()

    [bar] = eventually(ended, 30)
    assert bar.state == "failed"
    assert bar.cause.startswith("killed by SIGKILL")
    eventually(lambda: not [n for n in os.listdir(os.path.join(far.home, "spool")) if not n.startswith("hub-")], 30)


def test_a_spool_that_is_taken_in(home, hub, start, tmp_path):
    """`vedette sync` of another home's spools brings how far its bars were."""
    other = Home(str(tmp_path / "other"))
    other.prepare()
    lock = other.take_lock()  # so that no hub begins there
    process = start(
        """
        import os, vedette
        vedette.init(name="away")
        vedette.Progress.new(10, "x").advance(7)
        os.kill(os.getpid(), 9)
        """,
        environ={"VEDETTE_HOME": other.asked},
    )
    process.wait()
    os.close(lock)
    for _ in range(2):  # twice is the same as once
        done = subprocess.run([*VEDETTE, "sync", other.asked], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    [view] = read_runs(home)
    assert [(bar.name, bar.done) for bar in view.progress()] == [("x", 7.0)]
