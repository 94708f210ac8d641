"""fork, spawn and forkserver: children join the run, each under its own process, and nothing hangs."""

import subprocess
import sys

import numpy as np
import pytest

from tests.journeys.conftest import eventually, read_runs
from vedette import kernel

POOL = """
import multiprocessing, os, sys, threading, time
import vedette

def work(number):
    if number % 2:
        vedette.init(config={"child": number})
    for step in range(200):
        vedette.log({f"c{number}": float(step)}, step=step)

def chatter(run, stop):
    step = 0
    while not stop:
        run.log({"main": float(step)}, step=step)
        run.mark(step)
        step += 1
        time.sleep(pause_s)

if __name__ == "__main__":
    method, count = sys.argv[1], int(sys.argv[2])
    pause_s = 0 if method == "fork" else 0.001  # a fork may happen while any lock is held
    run = vedette.init(name="pool")
    stop = []
    threads = [threading.Thread(target=chatter, args=(run, stop)) for _ in range(3)]
    for thread in threads: thread.start()
    context = multiprocessing.get_context(method)
    for first in range(0, count, 4):
        children = [context.Process(target=work, args=(number,)) for number in range(first, first + 4)]
        for child in children: child.start()
        for child in children:
            child.join(60)
            assert child.exitcode == 0, child.exitcode
    stop.append(1)
    for thread in threads: thread.join()
"""


@pytest.mark.parametrize(("method", "count"), [("fork", 20), ("spawn", 4), ("forkserver", 8)])
def test_children_of_any_kind_join_the_run(home, hub, finish, method, count):
    """Children while threads log: no deadlock, and every child's data is there, under its own process."""
    code, _, err = finish(POOL, method, str(count), timeout=200)

    assert code == 0, err
    run = eventually(lambda: (r := read_runs(home)) and r[0].end_t and r[0], 20)
    assert len(read_runs(home)) == 1
    assert run.state == "done"
    for number in range(count):
        assert np.array_equal(run.history(f"c{number}").value, np.arange(200))
    processes = run.processes()
    assert len(processes) == count + 1
    assert len({process.attrs["pid"] for process in processes}) == count + 1
    assert [process.state for process in processes] == ["done"] * (count + 1)
    assert run.config["child"] in range(count)
    main = run.history("main")
    assert len(main) > 100


def test_a_plain_fork_is_a_new_origin(home, hub, finish):
    """os.fork in the middle of logging: parent and child both go on, and neither's points are lost or mixed."""
    code, _, err = finish(
        """
        import os, vedette
        run = vedette.init()
        handle = run.series("h")
        for step in range(10):
            handle(float(step), step)
        pid = os.fork()
        me = "child" if pid == 0 else "parent"
        for step in range(5000):
            run.log({me: float(step)}, step=step)
            handle(float(step), 100 + step) if pid == 0 else None
        if pid: os.waitpid(pid, 0)
        """
    )

    assert code == 0, err
    run = eventually(lambda: (r := read_runs(home)) and r[0].end_t and r[0])
    assert np.array_equal(run.history("parent").value, np.arange(5000))
    assert np.array_equal(run.history("child").value, np.arange(5000))
    assert len(run.history("h")) == 5010
    assert len(run.processes()) == 2


def test_a_failing_child_fails_alone(home, hub, finish):
    """A worker that dies of an exception is failed, with its traceback; the run goes on."""
    finish(
        """
        import multiprocessing, vedette
        def work():
            vedette.log({"x": 1.0})
            raise RuntimeError("worker trouble")
        run = vedette.init()
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        """
    )

    run = eventually(lambda: (r := read_runs(home)) and r[0].end_t and r[0])
    assert run.state == "done"
    [main, child] = sorted(run.processes(), key=lambda process: not process.attrs["main"])
    assert main.state == "done"
    assert (child.state, child.cause) == ("failed", "RuntimeError: worker trouble")
    assert "worker trouble" in next(event for event in run.logs() if event.kind == "exception").text


def test_other_programs_that_are_started_join_too(home, hub, finish):
    """A script started by subprocess joins its parent's run; resume=False opens one of its own below it."""
    finish(
        """
        import subprocess, sys, vedette
        run = vedette.init(name="parent")
        subprocess.run([sys.executable, "-c", "import vedette; vedette.log({'y': 2.0})"], check=True)
        own = "import vedette; vedette.init(name='own', resume=False).log({'z': 3.0})"
        subprocess.run([sys.executable, "-c", own], check=True)
        """
    )

    found = eventually(lambda: len(r := read_runs(home)) == 2 and r)
    runs = {view.name: view for view in found}
    assert runs["parent"].history("y").value.tolist() == [2.0]
    assert runs["own"].history("z").value.tolist() == [3.0]
    assert runs["own"]._row.parent == runs["parent"].id


def test_a_child_that_says_nothing_leaves_no_trace(home, hub, finish):
    """A fork that never logs makes no process span and no files."""
    finish(
        """
        import os, sys, vedette
        run = vedette.init()
        run.log({"x": 1.0})
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        os.waitpid(pid, 0)
        """
    )

    run = eventually(lambda: (r := read_runs(home)) and r[0].end_t and r[0])
    assert len(run.processes()) == 1
    assert run.state == "done"


def test_the_hub_is_not_a_child_of_the_user(home):
    """The user's own os.wait() never sees our hub, and no zombie stays."""
    code = """
import os, vedette
vedette.init().log({"x": 1.0})
try:
    os.wait()
    print("a child")
except ChildProcessError:
    print("no child")
"""
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)

    assert done.stdout.strip() == "no child"


def test_children_that_leave_by_exit_are_done_and_counted_once(home, hub, finish):
    """A child that logs and calls os._exit(0) is done, and no second process stands beside it."""
    code, _, err = finish(
        """
        import os, vedette
        run = vedette.init(console=False)
        for number in range(60):
            if os.fork() == 0:
                run.log({"x": number})
                os._exit(0)
            if number % 10 == 9:
                for _ in range(10):
                    os.wait()
        """,
        environ={"VEDETTE_USAGE_INTERVAL_S": "0.1", "VEDETTE_USAGE_ENABLE": "true"},
    )

    assert (code, err) == (0, "")
    [run] = eventually(lambda: (found := read_runs(home)) and found[0].state == "done" and found)
    asked = run._store.connection.execute("SELECT state, id LIKE '%/pid-%' FROM spans WHERE kind = 'process'")
    wanted = "done" if kernel.tells_exit_status() else "ended"
    assert sorted(asked.fetchall()) == sorted([(wanted, 0)] * 60 + [("done", 0)])
