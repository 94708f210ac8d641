"""Commands as the hub of a host obeys them: once, by all who are meant, and answered if that can be."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

import pytest

from vedette import kernel
from vedette.deaths.process_watch import Watch
from vedette.hub.turn.orders import Orders
from vedette.model import Command, Origin

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
OBEDIENT = "import time; print(flush=True); time.sleep(60)"


@pytest.fixture
def processes():
    """Start processes of a run, each with its origin and a watch."""
    started = []

    def start(code, name, run="r", upstream=""):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        process.said = process.stdout.readline()
        ticks = kernel.start_ticks(process.pid)
        origin = Origin(name, kernel.host(), kernel.boot(), process.pid, ticks, run, f"{run}/1/{name}", upstream)
        watch = Watch(origin)
        started.append((process, watch))
        return process, origin, watch

    yield start
    for process, watch in started:
        process.kill()
        process.communicate()
        watch.shut()


@pytest.fixture
def answers():
    """What was answered: to whom, and what."""
    return []


@pytest.fixture
def orders(answers):
    return Orders(lambda facts, upstream: answers.extend((upstream, fact.text) for fact in facts))


def command(to="r", verb="stop", **args):
    return Command("c", to, verb, time.time_ns() + 10**11, args)


def test_a_command_is_new_once(orders):
    """A command that comes again is not new, until so many others have come that it cannot come any more."""
    assert orders.is_new(command())
    assert not orders.is_new(command())


def test_each_hub_above_commands_its_own(orders):
    """One that comes from two hubs above is new to each, as other processes are meant; given here, it was for all."""
    assert orders.is_new(command(), "one:1")
    assert orders.is_new(command(), "two:1")
    assert not orders.is_new(command(), "one:1")

    assert orders.is_new(Command("d", "r", "stop", 0))
    assert not orders.is_new(Command("d", "r", "stop", 0), "one:1")


def test_only_those_who_are_meant_stop(orders, answers, processes):
    """A stop ends the processes of its run, or the one that it names, and no other; the answer goes to their hub."""
    meant, us, watch = processes(OBEDIENT, "a", upstream="up:1")
    other, them, theirs = processes(OBEDIENT, "b", run="other")
    assert orders.obey(command(), [(us, watch), (them, theirs)]) == 1
    assert meant.wait(10) == -signal.SIGTERM
    assert other.poll() is None
    assert answers == [("up:1", f"SIGTERM sent to process {meant.pid} on {kernel.host()}")]

    assert orders.obey(command(to="other/1/b"), [(them, theirs)]) == 1
    assert other.wait(10) == -signal.SIGTERM


def test_a_full_disk_keeps_nobody_from_obeying(processes):
    """When no answer can be put on record, all who are meant are stopped all the same, the stubborn ones killed."""

    def fail(_facts, _upstream):
        raise OSError("no room")

    orders = Orders(fail)
    found = [processes(code, name) for name, code in (("a", OBEDIENT), ("b", STUBBORN), ("c", OBEDIENT))]
    assert orders.obey(command(grace_s=0), [(origin, watch) for _, origin, watch in found]) == 3
    orders.tend({origin.name: watch for _, origin, watch in found})
    assert [process.wait(10) for process, _, _ in found][1] == -signal.SIGKILL


def test_who_does_not_stop_in_time_is_killed(orders, answers, processes):
    """After its time of grace, and not before, a process is killed, also by a watch that was begun anew since."""
    process, origin, watch = processes(STUBBORN, "a")
    orders.obey(command(grace_s=0.3), [(origin, watch)])
    orders.tend({"a": watch})
    assert process.poll() is None
    watch.shut()
    again = Watch(origin)
    try:
        time.sleep(0.4)
        orders.tend({"a": again})
        assert process.wait(10) == -signal.SIGKILL
        orders.tend({"a": again})
    finally:
        again.shut()
    assert [text.partition(" to ")[0] for _, text in answers] == [
        "SIGTERM sent", "it did not stop in time: SIGKILL sent",
    ]  # fmt: skip


@pytest.mark.parametrize("grace_s", ["soon", None, float("nan"), -5, 1 << 62])
def test_a_time_of_grace_that_is_none(orders, processes, grace_s):
    """Whatever stands where the time of grace should, the process is asked to stop."""
    process, origin, watch = processes(OBEDIENT, "a")
    assert orders.obey(command(grace_s=grace_s), [(origin, watch)]) == 1
    assert process.wait(10) == -signal.SIGTERM


def test_what_is_no_command_is_answered(orders, answers, processes):
    """A verb that nobody knows does nothing, and says so."""
    process, origin, watch = processes(OBEDIENT, "a")
    assert orders.obey(command(verb="x" * 1000), [(origin, watch)]) == 1
    assert process.poll() is None
    [(_, text)] = answers
    assert "there is no command 'xxx" in text
    assert len(text) < 200


@pytest.fixture
def orphan():
    """Leave processes behind that name a run, as `{ cmd & }` does; return the pid of each, and whether it lives."""
    left = []

    def leave(run, command="sleep 60"):
        environ = {**os.environ, "VEDETTE_RUN": run, "VEDETTE_TRY": "1"}
        words = ["sh", "-c", f"{{ {command} & }} >/dev/null; echo $!"]
        done = subprocess.run(words, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True, check=True)
        pid = int(done.stdout)
        left.append(os.pidfd_open(pid))
        return pid, lambda fd=left[-1]: not select.select([fd], [], [], 0)[0]

    yield leave
    for fd in left:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)


def until(check):
    deadline = time.monotonic() + 20
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_run_has_left_behind_stops_with_it(orders, answers, processes, orphan):
    """Orphans of a run get SIGTERM with it, and SIGKILL after the time of grace; those of other runs live on.

    They stop also when no other process of the run lives, but not for a hub above, which may not be meant.
    """
    run = f"r{os.getpid()}"
    process, origin, watch = processes(OBEDIENT, "a", run)
    _, obedient_lives = orphan(run)
    _, stubborn_lives = orphan(run, "sh -c \"trap '' TERM; sleep 60; true\"")
    _, other_lives = orphan(f"{run}x")
    time.sleep(0.2)  # until the stubborn one has its trap
    assert orders.obey(command(f"{run}/1/a"), []) == 0
    assert orders.obey(command(run, grace_s=0.1), [(origin, watch)]) == 4  # the stubborn one is two
    assert process.wait(10) == -signal.SIGTERM
    until(lambda: not obedient_lives())
    assert stubborn_lives()
    assert orders.busy
    assert "that the run has left behind" in answers[-1][1]
    time.sleep(0.2)
    orders.tend({})
    until(lambda: not stubborn_lives())
    assert (other_lives(), orders.busy) == (True, False)

    _, late_lives = orphan(run)
    assert orders.obey(command(run), [], "up:1") == 0
    assert late_lives()
    assert orders.obey(command(run), []) == 1
    until(lambda: not late_lives())


@pytest.mark.parametrize(("to", "ends"), [("", True), ("/1/a", False)])
def test_what_was_started_is_ended_though_nothing_tells_whose_it_is(orders, processes, to, ends):
    """What a process had started when its run was told to stop is ended, even if its environment does not name the run.

    A command for that process alone leaves it.
    """
    code = """
import subprocess, time
print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
time.sleep(60)
"""
    run = f"f{os.getpid()}"
    process, origin, watch = processes(code, "a", run)
    child = os.pidfd_open(int(process.said))
    try:
        assert orders.obey(command(run + to, grace_s=0.0), [(origin, watch)]) == 1
        process.wait(10)
        orders.tend({})
        assert bool(select.select([child], [], [], 10 if ends else 0.2)[0]) is ends
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(child, signal.SIGKILL)
        os.close(child)
