"""How runs end: what the owner says, what the hub sees, and in what time."""

import signal
import time

import pytest

from tests.conftest import begin_hub
from tests.journeys.conftest import eventually, read_runs
from tests.journeys.ends import SEEN_BY_ALL, end_many

PRELUDE = """
import os, signal, sys, time
import vedette
run = vedette.init()
run.log({"x": 1.0})
"""


def only(home):
    [run] = read_runs(home)
    return run


def ended(home):
    return eventually(lambda: (run := only(home)).end_t is not None and run)


@pytest.mark.parametrize(
    ("ending", "state", "cause"),
    [
        ("", "done", ""),
        ("run.finish()", "done", ""),
        ("run.finish('failed')", "failed", ""),
        ("sys.exit(0)", "done", ""),
        ("sys.exit(3)", "failed", "exit code 3"),
        ("raise ValueError('boom')", "failed", "ValueError: boom"),
        ("raise KeyboardInterrupt", "cancelled", "KeyboardInterrupt (Ctrl-C)"),
        ("os._exit(0)", "done", ""),
        ("os._exit(7)", "failed", "exit code 7"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "failed", "killed by SIGKILL: "),
        ("os.kill(os.getpid(), signal.SIGTERM)", "cancelled", "killed by SIGTERM: "),
        ("os.abort()", "failed", "killed by SIGABRT in script0.py:6 (<module>)"),
        ("with run: raise KeyError('k')", "failed", "KeyError: 'k'"),
        ("with run: sys.exit(4)", "failed", "exit code 4"),
        ("with run: pass", "done", ""),
    ],
)
def test_an_ending_has_its_state_and_cause(home, finish, request, ending, state, cause):
    """Whatever ends a process, the run says how, and the last point is there."""
    if "os." not in ending:  # else the hub that this run starts finds it dead, and tells how it ended all the same
        request.getfixturevalue("hub")
    finish(PRELUDE + ending)

    run = ended(home)
    shown = run.cause[: len(cause)] if cause.endswith(": ") else run.cause  # who killed it is more than is known here
    assert (run.state, shown) == (state, cause)
    assert run.history("x").value.tolist() == [1.0]
    assert [p.state for p in run.processes()] == [state]


def test_an_exception_is_recorded_with_its_traceback(home, hub, finish):
    """The traceback of the exception that ended the program is on the run's record, and still on stderr."""
    code, _, err = finish(PRELUDE + "def inner():\n    raise ValueError('boom')\ninner()")

    assert code == 1
    assert "in inner" in err
    [event] = only(home).logs(level="critical")
    assert event.kind == "exception"
    assert "in inner" in event.text
    assert "ValueError: boom" in event.text


def test_sigterm_kills_at_once_in_a_c_call_and_leaves_stacks(home, hub, start):
    """SIGTERM is not delayed by a long call in C, and where the program was is on record."""
    job = start(PRELUDE + "print('ready', flush=True)\nsum(range(10**12))")
    job.stdout.readline()
    begin = time.monotonic()
    job.send_signal(signal.SIGTERM)
    job.wait(10)

    assert time.monotonic() - begin < 2
    assert job.returncode == -signal.SIGTERM
    run = ended(home)
    assert run.state == "cancelled"
    [stacks] = [event for event in run.logs() if event.kind == "stacks"]
    assert "script0.py" in stacks.text


def test_what_the_program_sets_for_its_death_stands(home, hub, finish):
    """A handler of SIGTERM and a faulthandler that are set after `init` outlive forks and the run."""
    code, out, err = finish("""
        import faulthandler, os, signal, sys, vedette
        vedette.init()
        got = []
        signal.signal(signal.SIGTERM, lambda *_: got.append(1))
        faulthandler.enable(sys.stderr)
        if not (child := os.fork()):
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(10 * faulthandler.is_enabled() + len(got))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        vedette.finish()
        os.kill(os.getpid(), signal.SIGTERM)
        print(faulthandler.is_enabled(), got)
        faulthandler.disable()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        vedette.init()
        print(faulthandler.is_enabled())
        vedette.finish()
        print(faulthandler.is_enabled())
    """)

    assert (code, out.split("\n")) == (0, ["11", "True [1]", "True", "False", ""]), err


def test_ctrl_c_cancels(home, hub, start):
    """Ctrl-C makes the run cancelled."""
    job = start(PRELUDE + "print('ready', flush=True)\ntime.sleep(60)")
    job.stdout.readline()
    job.send_signal(signal.SIGINT)
    job.wait(10)

    assert ended(home).state == "cancelled"


def test_a_death_is_found_by_the_hub_alone(home, hub, start):
    """A process that is killed is known to be dead at once, without anybody asking."""
    job = start(PRELUDE + "print('ready', flush=True)\ntime.sleep(60)")
    job.stdout.readline()
    eventually(lambda: read_runs(home))
    job.kill()
    job.wait()

    run = eventually(lambda: (runs := read_runs(home, fresh=False)) and runs[0].end_t and runs[0], 10)
    assert abs(run.end_t / 1e9 - time.time()) < 3


def test_a_death_that_nobody_saw_is_found_later(home, start):
    """Process and hub are killed together, as a scheduler does: the next reader learns that it died, and when."""
    job = start(PRELUDE + "print('ready', flush=True)\ntime.sleep(60)")
    job.stdout.readline()
    from tests.conftest import end_hub

    job.kill()
    job.wait()
    end_hub(home)
    died = time.time()
    time.sleep(1.1)

    run = ended(home)
    assert (run.state, run.cause[:17]) in (("ended", "it ended without "), ("failed", "killed by SIGKILL"))
    assert run.end_t / 1e9 < died + 1
    assert run.history("x").value.tolist() == [1.0]


def test_an_exception_in_a_thread_is_recorded_and_does_not_end_the_run(home, hub, finish):
    """A thread may die of an exception: it is on record, and the run goes on."""
    finish(
        PRELUDE
        + "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\nrun.log({'x': 2.0})"
    )

    run = ended(home)
    assert (run.state, run.cause[:7]) == ("done", "thread ")
    assert "ZeroDivisionError" in next(e for e in run.logs() if e.kind == "exception").text
    assert run.history("x").value.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("ending", "state", "cause"),
    [("sys.exit(3)", "failed", "exit code 3"), ("sys.exit('bad')", "failed", "exit code 1: bad"), ("", "done", "")],
)
def test_a_short_script_ends_as_it_did_while_a_hub_is_up(home, hub, finish, ending, state, cause):
    """A script that dies right after its first word is not taken for another's end, nor for a good one."""
    finish(PRELUDE)
    ended(home)
    for _ in range(5):
        finish("import sys, vedette\nvedette.init()\n" + ending)

    runs = eventually(lambda: (r := read_runs(home)) and all(run.end_t for run in r) and r)[1:]
    assert [(run.state, run.cause) for run in runs] == [(state, cause)] * 5


@pytest.mark.parametrize(
    ("hub", "ways"),
    [
        ("starting", ["raise SystemExit(3)", "raise SystemExit(0)", "os._exit(0)", "SIGKILL"]),
        ("cold", ["raise SystemExit(3)"]),
        ("stopped", ["os._exit(6)", "sys.exit(5), caught"]),
        ("killed", ["raise SystemExit(3)", "os._exit(0)", "SIGTERM"]),
    ],
)
def test_no_end_is_shown_wrong_whatever_the_hub_does(home, hub, ways):
    """A process that ends right after `init` ends as it did or, where nobody could see that, as `ended`."""
    if hub in ("stopped", "killed"):
        begin_hub(home)
    found = list(end_many(home, hub, ways))

    assert [one for one in found if not one.is_right and not one.is_unseen] == []
    assert hub not in SEEN_BY_ALL or all(one.is_right for one in found), found
    known = [one.way for one in found if one.is_right]  # whoever exits notes its code itself, without any hub
    assert [way for way in ways if "xit(3)" in way] == [way for way in known if "xit(3)" in way]


def test_sys_exit_in_a_thread_ends_the_thread_alone(home, hub, finish):
    """What a thread hands to sys.exit is not the exit code of the program."""
    code, _, err = finish("""
        import sys, threading, vedette
        vedette.init()
        thread = threading.Thread(target=sys.exit, args=(3,))
        thread.start()
        thread.join()
    """)

    assert code == 0, err
    run = ended(home)
    assert run.state == "done"
    assert "exit_code" not in run.processes()[0].attrs
