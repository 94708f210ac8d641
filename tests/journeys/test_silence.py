"""Lost and found again, with real processes: by hubs that die and come back."""

import os
import signal
import time

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from vedette import app
from vedette.query.runs import select
from vedette.store.sqlite_file import open_reader

JOB = """
import sys, vedette
run = vedette.init()
run.log({"x": 1.0})
print("ready", flush=True)
sys.stdin.readline()
"""


def look(home, lost_after_s):
    """Look at the store as it is, without a hub."""
    [run] = select(open_reader(home.store), lost_after_s=lost_after_s)
    return run


def test_lost_with_its_hub_and_found_by_the_next(home, start, monkeypatch):
    """A hub dies, and nothing is heard of a job that lives: it is lost; the next hub hears it at once."""
    job = start(JOB, stdin=-1)
    job.stdout.readline()
    eventually(lambda: (r := read_runs(home)) and r[0].heard_t)
    end_hub(home)
    time.sleep(4.5)
    seen = look(home, 4.0)
    assert seen.state == "lost"
    assert seen.silent_s > 4
    assert [row.state for row in seen.processes()] == ["lost"]
    monkeypatch.setenv("VEDETTE_LOST_AFTER_S", "4")

    [run] = app.runs()  # which starts a hub, and waits for its first turn only
    assert run.state == "running"
    job.communicate("end\n", 20)
    assert eventually(lambda: (r := app.runs()[0]).end_t and r).state == "done"


def test_a_process_is_on_record_as_soon_as_it_is_watched(home, start):
    """A job need not live for ten seconds to be heard: its hub may die before that."""
    job = start(JOB, stdin=-1)
    job.stdout.readline()

    assert eventually(lambda: (r := read_runs(home)) and r[0].heard_t, 8)
    job.communicate("end\n", 20)


def test_one_worker_that_is_silent(home, finish):
    """A worker that was stopped for good is dead to nobody: the kernel still has it, so it is not lost."""
    code, _, err = finish(
        """
        import os, signal, time, vedette
        run = vedette.init()
        pid = os.fork()
        if pid == 0:
            run.log({"x": 1.0})
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        os.waitpid(pid, os.WUNTRACED)
        vedette.mark("stopped")
        seen = vedette.get(run.id)
        states = sorted(row.state for row in seen.processes())
        os.kill(pid, signal.SIGCONT)
        os.waitpid(pid, 0)
        assert (seen.state, states) == ("running", ["running", "running"]), (seen.state, states)
        """,
        environ={"VEDETTE_LOST_AFTER_S": "15"},
    )

    assert (code, err) == (0, "")
    assert eventually(lambda: (r := read_runs(home)) and r[0].end_t and r[0]).state == "done"


def test_all_die_at_once(home, start):
    """Job and hub are killed together, as when a node dies: lost while nobody looks after it, then its end is named."""
    job = start(JOB, stdin=-1)
    job.stdout.readline()
    eventually(lambda: read_runs(home))
    os.kill(home.hub_pid(), signal.SIGKILL)
    job.kill()
    job.communicate()
    end_hub(home)
    time.sleep(1.1)
    assert look(home, 1.0).state == "lost"

    assert eventually(lambda: (r := read_runs(home)) and r[0].end_t and r[0]).state == "ended"
