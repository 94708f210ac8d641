"""Whom the hub watches, and what it says of those who died without a last word; real processes, spools of our own."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from itertools import count

import msgspec
import pytest

from tests.journeys.conftest import eventually
from vedette import kernel, pidfds, segment, wire
from vedette.deaths import memory, process_watch, tree
from vedette.hub.processes import watcher
from vedette.hub.processes.watcher import Watcher
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import HUB, Event, Origin, Sample, Span
from vedette.segment import EXIT_CODE
from vedette.spool import Spool
from vedette.store import Mark

WAIT = "import sys; sys.stdin.read()"
STACKS = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
STACKS += '  File "/x/train.py", line 12 in step\n'


class Stage:
    """A watcher, the processes that it watches, and what it said."""

    def __init__(self, root):
        self.root, self.readers, self.said = str(root), {}, []
        self.stopped = {}
        self.full = False
        self.pids = pidfds.listen(f"{self.root}/pids")
        self.watcher = Watcher(self.say, self.pids, self.stopped)
        self._processes, self._spools, self._numbers = [], [], count()

    def say(self, facts, upstream):
        if self.full:
            raise OSError(28, "No space left on device")
        self.said.append((facts, upstream))

    def start(self, code=WAIT, *words, **environ):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **environ},
            start_new_session=True,  # the tests may run in a user's terminal
        )  # fmt: skip
        self._processes.append(process)
        return process

    def spool(self, pid, *facts, **told):
        """Make the spool of a process, as it would write it itself; return it and its reader."""
        name = f"o{next(self._numbers)}"
        found = {
            "host": kernel.host(), "boot": kernel.boot(), "pid": pid, "started": kernel.start_ticks(pid) or 0,
            "span": "r", "process": f"r/1/{name}", **told,
        }  # fmt: skip
        spool = Spool(self.root, lambda: Origin(name, **found), 1 << 30, 0.5)
        for fact in facts or (Span(found["process"], 1, state="running"),):
            spool.facts.append(wire.frame(wire.encode(fact)))
        self._spools.append(spool)
        reader = self.readers[name] = SpoolReader(spool.directory, Mark(), Mark())
        return spool, reader

    def end(self, process, number=None):
        """Have a process end: by a signal, or else as its input does. Nobody reaps it before it was looked at."""
        if number is None:
            process.stdin.close()
        else:
            process.send_signal(number)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    def look_until(self, *readers):
        """Look until all of these are found dead; each look is told by what it returned."""
        looks = []
        deadline = time.monotonic() + 20
        while not all(reader.gone for reader in readers):
            assert time.monotonic() < deadline
            looks.append(self.watcher.look(self.readers))
        return looks

    def ends(self):
        """Return what was said of spans: id, state and cause."""
        return [(fact.id, fact.state, fact.cause) for facts, _ in self.said for fact in facts if type(fact) is Span]

    def close(self):
        for process in self._processes:
            process.kill()
            process.stdin.close()
            process.wait()
            process.stdout.close()
        for name in list(self.watcher.watches):
            self.watcher.remove(name)
        for reader in self.readers.values():
            reader.shut()
        os.close(self.pids)


@pytest.fixture
def stage(tmp_path):
    made = Stage(tmp_path)
    yield made
    made.close()


def test_the_end_of_a_living_process_is_said_once(stage):
    """Of one that lives nothing is said; when it exits, its end and that of its try are, to the hub that is meant."""
    process = stage.start(f"{WAIT}; sys.exit(3)")
    _, reader = stage.spool(process.pid, main=True, upstream="up:1")
    assert not stage.watcher.look(stage.readers)
    assert not reader.gone
    assert stage.watcher.heard_t(reader) > time.time_ns() - 60 * 10**9
    assert stage.said == []

    stage.end(process)
    assert stage.look_until(reader)[-1]
    assert stage.ends() == [("r/1/o0", "failed", "exit code 3"), ("r/1", "failed", "exit code 3")]
    [(facts, upstream)] = stage.said
    assert upstream == "up:1"
    assert {fact.after for fact in facts} == {(("o0", *reader.written_until()),)}
    assert [(fact.by, fact.kind, fact.parent) for fact in facts] == [(HUB, "", ""), (HUB, "try", "r")]
    assert not stage.watcher.look(stage.readers)
    assert len(stage.said) == 1


def test_of_a_worker_only_its_own_end_is_said(stage):
    """A process that did not begin the try ends alone."""
    process = stage.start()
    _, reader = stage.spool(process.pid)
    stage.watcher.look(stage.readers)
    stage.end(process, signal.SIGTERM)
    stage.look_until(reader)
    assert stage.ends() == [("r/1/o0", "cancelled", "killed by SIGTERM")]


def test_who_said_how_it_ended_is_believed(stage):
    """Of a process that said its own end nothing more is said, whatever its status is; what it said last is heard."""
    process = stage.start(f"{WAIT}; sys.exit(3)")
    spool, reader = stage.spool(process.pid)
    stage.watcher.look(stage.readers)
    spool.facts.append(wire.frame(wire.encode(Span("r/1/o0", 2, state="done"))))
    stage.end(process)
    stage.look_until(reader)
    assert (reader.end_recorded, stage.said) == (True, [])


def test_a_kill_says_whether_memory_ran_out(stage):
    """The counters of memory are known from the first look on, so that a plain kill -9 is told from the kernel's."""
    process = stage.start()
    _, reader = stage.spool(process.pid)
    stage.watcher.look(stage.readers)
    stage.end(process, signal.SIGKILL)
    stage.look_until(reader)
    [(_, state, cause)] = stage.ends()
    assert state == "failed"
    assert cause in (
        "killed by SIGKILL: kill -9 or a scheduler; the memory limit was not reached",
        "killed by SIGKILL: kill -9, a scheduler, or the kernel because memory ran out",  # where there are no cgroups
    )


@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (signal.SIGTERM, "killed by SIGTERM: told to stop by ada"),
        (signal.SIGKILL, "told to stop by ada, and killed by SIGKILL as it did not"),
    ],
)
def test_who_was_told_to_stop_is_cancelled(stage, number, cause):
    """An end that somebody asked for is cancelled, and says who asked."""
    process = stage.start()
    _, reader = stage.spool(process.pid)
    stage.watcher.look(stage.readers)
    stage.stopped["o0"] = "ada"
    stage.end(process, number)
    stage.look_until(reader)
    assert stage.ends() == [("r/1/o0", "cancelled", cause)]
    stage.watcher.remove("o0")
    assert stage.stopped == {}


def test_stacks_are_put_on_record_with_the_end(stage):
    """What faulthandler wrote in the spool is an event, and tells where it crashed."""
    process = stage.start()
    spool, reader = stage.spool(process.pid)
    stage.watcher.look(stage.readers)
    with open(os.path.join(spool.directory, "stacks"), "w") as file:
        file.write(STACKS)
    stage.end(process, signal.SIGSEGV)
    stage.look_until(reader)
    [([event, span], _)] = stage.said
    assert (type(event), event.span, event.kind, event.text) == (Event, "r", "stacks", STACKS)
    assert span.cause == "killed by SIGSEGV in train.py:12 (step)"


def test_stacks_of_who_ended_well_are_none_of_a_death(stage):
    """Stacks that lie there though the process ended well are not put on record."""
    process = stage.start()
    spool, reader = stage.spool(process.pid)
    stage.watcher.look(stage.readers)
    with open(os.path.join(spool.directory, "stacks"), "w") as file:
        file.write(STACKS)
    stage.end(process)
    stage.look_until(reader)
    assert [fact.state for facts, _ in stage.said for fact in facts] == ["done"]


def test_without_room_it_is_said_later(stage):
    """When the end cannot be put on record the reader is not done with, and it is said as soon as there is room."""
    process = stage.start(f"{WAIT}; sys.exit(3)")
    _, reader = stage.spool(process.pid)
    stage.watcher.look(stage.readers)
    stage.full = True
    stage.end(process)
    stage.look_until(reader)
    assert not reader.end_recorded
    assert "No space left" in stage.watcher.trouble
    stage.full = False
    stage.watcher.look(stage.readers)
    assert (reader.end_recorded, stage.ends()) == (True, [("r/1/o0", "failed", "exit code 3")])


def test_what_a_killed_launcher_leaves_is_ended(stage):
    """What belongs to the try of a launcher that is killed -9 is ended; where another signal killed it, it is not."""
    run = f"run{os.getpid()}"
    left = stage.start(VEDETTE_RUN=run, VEDETTE_TRY="1")
    launchers = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        launcher = stage.start()
        name = f"{run}/1/l{number}"
        said = Span(name, 1, state="running", attrs={"launches": True})
        _, reader = stage.spool(launcher.pid, said, span=run, process=name)
        launchers.append((number, launcher, reader))
    while left.pid not in tree.of_try(run, "1"):  # its environment is seen once it has begun
        time.sleep(0.01)
    for number, launcher, reader in launchers:
        assert left.poll() is None
        stage.watcher.look(stage.readers)
        stage.end(launcher, number)
        stage.look_until(reader)
    assert left.wait(10) == -signal.SIGKILL


def test_one_that_was_dead_before_anybody_looked(stage):
    """Of a process that is gone, or whose pid is another's by now, it is said that nobody saw how it ended."""
    gone = stage.start("")
    gone.communicate()
    other = stage.start()
    _, first = stage.spool(gone.pid)
    _, second = stage.spool(other.pid, started=1)
    stage.look_until(first, second)
    causes = [(state, cause) for _, state, cause in stage.ends()]
    assert causes == [("ended", "it ended without a word, and nobody saw how")] * 2


def test_ends_of_many_are_said_a_part_at_a_time(stage, monkeypatch):
    """Thousands that died while no hub looked hold up nobody: a look says some of their ends, and that more wait."""
    monkeypatch.setattr(watcher, "_ENDS_S", -1.0)
    gone = stage.start("")
    gone.communicate()
    readers = [stage.spool(gone.pid)[1] for _ in range(3)]
    looks = [(stage.watcher.look(stage.readers), len(stage.ends())) for _ in range(4)]
    assert looks == [(True, 1), (True, 2), (False, 3), (False, 3)]
    assert all(reader.end_recorded for reader in readers)


def test_the_end_that_nobody_saw_is_the_last_word(stage):
    """Where nobody saw a process end, its end is the time of its last sample, though nobody has read that yet."""
    gone = stage.start("")
    gone.communicate()
    spool, reader = stage.spool(gone.pid)
    for t in range(2, 20_001):  # more than one segment
        spool.samples.append(wire.frame(wire.encode(Sample(t, t, {"loss": 0.5}))))
    stage.look_until(reader)

    [[end]] = [facts for facts, _ in stage.said]
    assert (end.state, end.t) == ("ended", 20_000)


def test_one_that_was_leaving(stage):
    """Of one that had said that it was leaving, and with which code, that counts where nobody saw its status."""
    gone = stage.start("")
    gone.communicate()
    words = [Span("r/1/o0", 1, attrs={"exit_code": 4}), Span("r/1/o0", 2, state="leaving")]
    _, reader = stage.spool(gone.pid, *words)
    stage.look_until(reader)
    assert stage.ends() == [("r/1/o0", "failed", "exit code 4")]


@pytest.mark.parametrize(("before_s", "is_its_end"), [(1, True), (60, False)])
def test_one_that_leaves_ended_when_it_said_so(stage, before_s, is_its_end):
    """The end of a program that shuts down is what its console counted, unless its shutdown took long."""
    process = stage.start(f"{WAIT}; sys.exit(3)")
    left_t = time.time_ns() - before_s * 10**9
    _, reader = stage.spool(process.pid, Span("r/1/o0", left_t, state="leaving"))
    stage.watcher.look(stage.readers)
    stage.end(process)
    stage.look_until(reader)

    [[end]] = [facts for facts, _ in stage.said]
    assert (end.t == left_t) is is_its_end


def test_one_that_is_killed_while_it_leaves_ends_then(stage):
    """A process that a signal kills in its shutdown ended with that: it is not the first who died of all ranks."""
    process = stage.start()
    left_t = time.time_ns() - 10**9
    _, reader = stage.spool(process.pid, Span("r/1/o0", left_t, state="leaving"))
    stage.watcher.look(stage.readers)
    stage.end(process, signal.SIGKILL)
    stage.look_until(reader)

    [[end]] = [facts for facts, _ in stage.said]
    assert end.state == "failed"
    assert end.t >= left_t + 10**9


def test_a_hub_that_looks_late_takes_the_time_at_which_the_code_was_noted(stage):
    """A program ended when its exit code was written, however much later a hub sees that."""
    process = stage.start(f"{WAIT}; sys.exit(3)")
    left_t = time.time_ns() - 60 * 10**9
    _, reader = stage.spool(process.pid, Span("r/1/o0", left_t, state="leaving"))
    noted = os.path.join(reader.directory, EXIT_CODE)
    with open(noted, "wb") as file:
        file.write(b"\3")
    os.utime(noted, ns=(left_t + 10**8, left_t + 10**8))
    stage.watcher.look(stage.readers)
    stage.end(process)
    stage.look_until(reader)

    [[end]] = [facts for facts, _ in stage.said]
    assert end.t == left_t


def test_one_whose_exit_code_nobody_knows(stage):
    """Of one that was leaving, if nobody saw its status and it did not note its code, that is said, and no more."""
    gone = stage.start("")
    gone.communicate()
    _, reader = stage.spool(gone.pid, Span("r/1/o0", 2, state="leaving"))
    stage.look_until(reader)
    assert stage.ends() == [("r/1/o0", "ended", "its exit code was not seen")]


@pytest.mark.parametrize("code", ["raise SystemExit(5)", "import os; os._exit(5)"])
def test_the_pidfd_that_a_process_sent_tells_of_the_dead(stage, code):
    """A process that was dead and reaped before the first look is known by the pidfd that it had sent."""
    process = stage.start(f"from vedette import pidfds; print(pidfds.send('{stage.root}/pids', 'o0')); {code}")
    started = kernel.start_ticks(process.pid)
    assert process.communicate()[0] in (b"True\n", b"")  # os._exit writes no buffer
    _, reader = stage.spool(process.pid, started=started)
    stage.look_until(reader)
    assert stage.ends() == [("r/1/o0", "failed", "exit code 5")]


@pytest.mark.parametrize("here", [True, False])
def test_the_limits_of_another_process_with_that_pid_are_not_looked_at(stage, here):
    """A process of another pid namespace has another pid here: of it nothing is said but what its pidfd tells."""
    code = f"from vedette import pidfds; pidfds.send('{stage.root}/pids', 'o0'); {WAIT}"
    process = stage.start(code)
    eventually(lambda: select.select([stage.pids], [], [], 0)[0])
    told = {} if here else {"boot": kernel.boot_alone(kernel.boot()) + "/pid:[1]"}
    _, reader = stage.spool(process.pid if here else os.getpid(), **told)
    stage.watcher.look(stage.readers)
    stage.end(process, signal.SIGKILL)
    process.wait()  # only then does a pidfd tell how it ended
    stage.look_until(reader)

    [(_, state, cause)] = stage.ends()
    watched = bool(memory.begin(os.getpid()).levels)  # this machine counts memory
    if kernel.tells_exit_status():
        assert (state, "memory limit was not reached" in cause) == ("failed", here and watched)
    else:
        assert "memory limit was not reached" not in cause


def test_what_is_sent_in_place_of_a_pidfd_is_closed(stage):
    """Descriptors that are no pidfds, pidfds of nobody, and connections without any are taken, and none stays open."""
    before = len(os.listdir("/proc/self/fd"))
    connections = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for connection in connections:
        connection.connect(f"{stage.root}/pids")
    socket.send_fds(connections[0], [b"o0"], [0])
    socket.send_fds(connections[1], [b"o0"], [0, 1])
    for connection in connections:
        connection.close()
    assert pidfds.send(f"{stage.root}/pids", "")
    assert pidfds.receive(stage.pids, 100) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_machine_that_was_started_again(stage):
    """One that spoke on this host before it was started again is dead, and that is the cause."""
    _, reader = stage.spool(7, boot="another/pid:[1]")
    stage.look_until(reader)
    assert stage.ends() == [("r/1/o0", "failed", "the machine went down, and was started again since")]


@pytest.mark.parametrize("told", [{"host": "elsewhere", "boot": "another/pid:[1]"}, {"boot": ""}, {"boot": "other ns"}])
def test_a_stranger_is_gone_when_it_says_so(stage, told, monkeypatch):
    """Who lives where nobody here can look, and has no locks, is believed alive until it closes its spool."""
    monkeypatch.setattr(segment, "_lock", lambda _fd: False)  # a file system of the network, or an older vedette
    if told["boot"] == "other ns":
        told = {"boot": kernel.boot().partition("/")[0] + "/pid:[1]"}
    spool, reader = stage.spool(os.getpid(), Span("r/1/o0", 77, state="running"), **told)
    assert not stage.watcher.look(stage.readers)
    assert stage.watcher.is_unwatchable("o0")
    reader.read_facts()
    assert stage.watcher.heard_t(reader) == 77
    spool.close()
    reader.read_facts()
    assert stage.watcher.look(stage.readers)
    assert (reader.gone, reader.end_recorded) == (True, True)
    assert [state for _, state, _ in stage.ends()] == ["ended"]


HOLD = """
import sys
from vedette import kernel, wire
from vedette.model import Origin, Sample, Span
from vedette.spool import Spool
spool = Spool(sys.argv[1], lambda: Origin("o0", sys.argv[2], sys.argv[3], 7, 1, "r", "r/1/o0"), 1 << 30, 0.5)
spool.facts.append(wire.frame(wire.encode(Span("r/1/o0", 77, state="running"))))
for number in range(int(sys.argv[4])):
    spool.samples.append(wire.frame(wire.encode(Sample(77, number, {"x": 0.5 * number}))))
print(flush=True)
"""


@pytest.mark.parametrize(("count", "fork"), [(0, False), (20_000, False), (5, True)])
def test_one_in_another_namespace_lives_as_long_as_it_holds_its_locks(stage, monkeypatch, count, fork):
    """The kernel releases them however it ends, also if a child that it has forked lives on; that is said as such."""
    monkeypatch.setattr(watcher, "_LOCK_S", 0.0)
    boot = kernel.boot_alone(kernel.boot()) + "/pid:[1]"
    code = HOLD + ("import os\nif os.fork() == 0: spool.renew()\n" if fork else "") + WAIT
    process = stage.start(code, stage.root, "a-container", boot, str(count))
    process.stdout.readline()
    reader = stage.readers["o0"] = SpoolReader(os.path.join(stage.root, "o0"), Mark(), Mark())
    for _ in range(3):
        assert not stage.watcher.look(stage.readers)
    assert not stage.watcher.is_unwatchable("o0")
    assert stage.watcher.heard_t(reader) > 77
    stage.end(process, signal.SIGKILL)
    stage.look_until(reader)
    [(_, state, cause)] = stage.ends()
    assert (state, "in another container" in cause) == ("ended", True)


def test_runs_of_one_process_share_its_pidfd(stage):
    """However many runs a process begins, the hub holds one descriptor of it, and knows how each of them ended."""
    process = stage.start(f"{WAIT}; sys.exit(3)")
    before = count_pidfds()
    readers = [stage.spool(process.pid)[1] for _ in range(5)]
    for _ in range(5):
        assert pidfds.send(f"{stage.root}/pids", "nobody")  # and whoever sends one again is not held twice
    stage.watcher.look(stage.readers)
    assert count_pidfds() == before + 2  # that of nobody waits for a spool
    stage.watcher.remove("o0")
    del stage.readers["o0"]
    stage.end(process)
    stage.look_until(*readers[1:])
    assert stage.ends() == [(f"r/1/o{number}", "failed", "exit code 3") for number in range(1, 5)]
    for number in range(5):
        stage.watcher.remove(f"o{number}")
    assert count_pidfds() == before + 1


def count_pidfds():
    fds = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return sum("pidfd" in os.readlink(path) for path in fds if os.path.lexists(path))


def test_without_pidfds_processes_are_looked_for(stage, monkeypatch):
    """Beyond the number of descriptors that there are, an end is seen by the pid and its start time, and told."""
    monkeypatch.setattr(process_watch, "_POLL_S", 0.0)
    stage.watcher._most_pidfds = 0
    process = stage.start(f"{WAIT}; sys.exit(3)")
    _, reader = stage.spool(process.pid)
    assert not stage.watcher.look(stage.readers)
    assert stage.watcher.watches["o0"].fileno() is None
    assert stage.watcher.watches["o0"].send(0)
    stage.end(process)
    stage.look_until(reader)
    assert stage.ends() == [("r/1/o0", "failed", "exit code 3")]
    assert not stage.watcher.watches["o0"].send(0)


def test_the_dead_take_no_descriptors_from_the_living(stage):
    """However many dead processes wait to be read, one that lives is watched by a pidfd."""
    stage.watcher._most_pidfds = 2
    dead = [stage.spool(pid, started=1)[1] for pid in (os.getpid(),) * 3]
    for number, reader in enumerate(dead):  # of three processes
        reader.origin = msgspec.structs.replace(reader.origin, started=1 + number)
    stage.watcher.look(stage.readers)
    stage.spool(stage.start().pid)
    stage.watcher.look(stage.readers)
    assert all(reader.gone for reader in dead)
    assert stage.watcher.watches["o3"].fileno() is not None


def test_one_that_cannot_be_watched_now_is_tried_again(stage):
    """An error on the way to a pidfd says nothing of the process: it is told as trouble, and tried at the next look."""
    _, reader = stage.spool(1 << 40, started=1)
    assert not stage.watcher.look(stage.readers)
    assert not reader.gone
    assert stage.watcher.watches == {}
    assert stage.watcher.trouble


def test_how_it_died_is_remembered_until_it_is_buried(stage):
    """A spool that is found again tells the same end, though its process can no longer be looked at."""
    process = stage.start(f"{WAIT}; sys.exit(3)")
    spool, reader = stage.spool(process.pid)
    stage.watcher.look(stage.readers)
    stage.full = True
    stage.end(process)
    stage.look_until(reader)
    stage.watcher.forget("o0")
    reader.shut()

    stage.full = False
    reader = stage.readers["o0"] = SpoolReader(spool.directory, Mark(), Mark())
    stage.look_until(reader)
    assert stage.ends() == [("r/1/o0", "failed", "exit code 3")]
    stage.watcher.remove("o0")
    assert not stage.watcher.is_unwatchable("o0")


def test_one_that_never_spoke(stage):
    """A spool without a segment is about to get one, unless it is old: then its process died at its birth."""
    directory = os.path.join(stage.root, "empty")
    os.mkdir(directory)
    reader = stage.readers["empty"] = SpoolReader(directory, Mark(), Mark())
    reader.read_facts()
    stage.watcher.look(stage.readers)
    assert not reader.gone
    os.utime(directory, (1, 1))
    stage.watcher.look(stage.readers)
    assert (reader.gone, stage.said) == (True, [])
    os.rmdir(directory)
    stage.watcher.look(stage.readers)
    assert not reader.gone
