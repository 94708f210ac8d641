"""When processes died, though nobody looks for a while; real processes."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading

import pytest

from tests.rooms.hubs import serving, until
from vedette.hub.processes.death_clock import DeathClock
from vedette.ids import origin_of
from vedette.store import SpanQuery

RANK = """
import sys, vedette
run = vedette.init(name="job")
run.log({"loss": 1.0})
print(run._journal.process, flush=True)
sys.stdin.readline()
raise ConnectionError("the other rank does not answer")
"""


@pytest.fixture
def start():
    """Start processes that live as long as their input is open."""
    started = []

    def begin(code="import sys; sys.stdin.read()", **environ):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environ},
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def kill(process):
    """Kill a process, and return when it is dead; nobody has reaped it then."""
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_deaths_are_noted_in_their_order(start):
    """Those who died before anybody looked have times in the order of their deaths, and one that lives has none."""
    clock = DeathClock()
    processes = [start() for _ in range(6)]
    pidfds = [os.pidfd_open(process.pid) for process in processes]
    for pidfd in pidfds:
        clock.watch(pidfd)
    for number in (3, 0, 4, 1, 2):
        kill(processes[number])
    clock.note()

    *times, living = [clock.died_t(pidfd) for pidfd in pidfds]
    assert sorted(range(5), key=times.__getitem__) == [3, 0, 4, 1, 2]
    assert living is None
    for pidfd in pidfds:
        os.close(pidfd)


def test_a_death_is_noted_once(start):
    """The first time counts, also when the dead process is reaped; an event loop is not woken again."""
    clock = DeathClock()
    process = start()
    pidfd = os.pidfd_open(process.pid)
    clock.watch(pidfd)
    kill(process)
    assert select.select([clock], [], [], 0)[0]
    clock.note()
    t = clock.died_t(pidfd)
    process.wait()
    clock.note()

    assert clock.died_t(pidfd) == t
    assert not select.select([clock], [], [], 0)[0]
    os.close(pidfd)


def test_a_number_that_is_used_again_is_another_process(start):
    """A descriptor that was forgotten tells nothing of the process that has its number now, though a copy is open."""
    clock = DeathClock()
    first, second = start(), start()
    copied = os.pidfd_open(first.pid)
    pidfd = os.dup(copied)
    clock.watch(pidfd)
    clock.forget(pidfd)
    again = os.pidfd_open(second.pid)
    os.dup2(again, pidfd)
    clock.watch(pidfd)
    kill(first)
    clock.note()

    assert clock.died_t(pidfd) is None
    for fd in (copied, again, pidfd):
        os.close(fd)


def test_threads_that_note_and_forget_mistake_nobody(start):
    """While another thread notes all the time, a number that is forgotten and used again never has an old death."""
    clock, living = DeathClock(), start()
    stopping = threading.Event()

    def note():
        while not stopping.is_set():
            clock.note()

    thread = threading.Thread(target=note)
    thread.start()
    alive = os.pidfd_open(living.pid)
    pidfd = os.dup(alive)
    for _ in range(200):
        dead = subprocess.Popen(["/bin/true"])
        fd = os.pidfd_open(dead.pid)
        os.dup2(fd, pidfd)
        clock.watch(pidfd)
        dead.wait()
        clock.forget(pidfd)
        os.dup2(alive, pidfd)
        clock.watch(pidfd)
        clock.note()
        assert clock.died_t(pidfd) is None
        clock.forget(pidfd)
        os.close(fd)
    stopping.set()
    thread.join()
    os.close(alive)
    os.close(pidfd)


def test_the_first_rank_to_die_is_named_though_the_keeper_is_held_up(home, start):
    """A rank that is killed is the first to fail, and not the one that fails for want of it before a turn is taken."""
    job = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    held, release = threading.Event(), threading.Event()

    def hold(_keeper):
        held.set()
        release.wait(60)

    async def watched(service, process):
        name = origin_of((await asyncio.to_thread(process.stdout.readline)).strip())
        await until(lambda: name in service.keeper.watcher.watches)
        return service.keeper.watcher.watches[name].fileno()

    async def act():
        async with serving(home) as service:
            other, killed = (start(RANK, **job, OMPI_COMM_WORLD_RANK=str(rank)) for rank in range(2))
            await watched(service, other)
            pidfd = await watched(service, killed)
            holding = asyncio.ensure_future(service.in_keeper(hold))
            await until(held.is_set)
            try:
                killed.send_signal(signal.SIGKILL)
                await until(lambda: service.keeper.watcher.clock.died_t(pidfd))
                await asyncio.to_thread(other.communicate, "\n")
            finally:
                release.set()
            await holding

            def ended(keeper):
                [row] = keeper.store.spans(SpanQuery(kind="try"))
                return row.end_t and (row.state, row.cause)

            while not (found := await service.in_keeper(ended)):  # a turn each
                pass
            return found

    state, cause = asyncio.run(asyncio.wait_for(act(), 60))
    assert state == "failed"
    assert cause.startswith("rank 1 was the first to fail: killed by SIGKILL")
