"""Watches the processes that have a spool, and writes how they ended if they could not do so themselves."""

import os
import signal
import time
from collections.abc import Hashable, Mapping
from typing import NamedTuple

from vedette import kernel, pidfds
from vedette.deaths import last_words, limits, memory, tree
from vedette.deaths.evidence import Evidence
from vedette.deaths.process_watch import Death, Watch
from vedette.deaths.verdict import EndKind, verdict
from vedette.hub.own import Say
from vedette.hub.processes.death_clock import DeathClock
from vedette.hub.processes.terminals import erase_below
from vedette.hub.turn import ends
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.ids import enclosing, run_and_try
from vedette.model import HUB, KINDS, Event, Fact, Origin, Place, Span

_NO_HEADER_S = 60.0  # a spool that has no segment for so long belongs to a dead process
_LEAVES_NS = 2 * 10**9  # it takes Python so long at most to shut down
_LOCK_S = 1.0  # between two looks at the locks of a process that cannot be watched
_RECEIVED_AT_ONCE = 64  # pidfds
_ENDS_S = 0.1  # how long one look writes how the dead ended: some milliseconds each
_NO_SPOOL_S = 10.0  # a pidfd whose origin has no spool for so long is of no use


class _Limits(NamedTuple):
    """Which limits a process had when it was first seen, and how near to them it was."""

    levels: memory.Baseline | None = None  # of memory
    environ: Mapping[str, str] = {}  # what it says of batch jobs
    cpu: limits.CpuUse | None = None


class _Handed(NamedTuple):
    """A pidfd that a process has sent, for an origin whose spool is not known yet."""

    fd: int
    pid: int
    at: float  # when it came


class Watcher:
    """Watches the processes of spools by pidfds, and writes how they ended."""

    def __init__(self, say: Say, pids: int | None, stopped: dict[str, str], most_pidfds: int = 1 << 20) -> None:
        """`say` writes facts as the hub's.

        `pids`: the socket that processes send their pidfds to. `stopped`: origins that were told to stop, and by whom.
        `most_pidfds`: how many may be held; processes beyond these are looked for in /proc.
        """
        self._stopped = stopped
        self.watches: dict[str, Watch] = {}  # by origin; several may be of one process
        self.clock = DeathClock()
        self.trouble = ""
        self._say = say
        self._pids = pids
        self._most_pidfds = most_pidfds
        self._handed: dict[str, _Handed] = {}  # by origin
        self._processes: dict[Hashable, Watch] = {}  # until the last spool of the process is removed
        self._origins: dict[Hashable, set[str]] = {}  # by process
        self._of: dict[str, Hashable] = {}  # the process of an origin
        self._locks: dict[
            str, tuple[float, bool | None]
        ] = {}  # of origins that cannot be watched: is it held, when asked
        self._deaths: dict[str, Death] = {}  # of processes whose spools are still here
        self._limits: dict[Hashable, _Limits] = {}  # by process, when it was first seen

    def look(self, readers: Mapping[str, SpoolReader]) -> bool:
        """Set `gone` of readers whose processes have died, and write how they ended, for a while.

        Tell whether one has died now, or waits for its end to be written.
        """
        if self._pids is not None:
            self._receive(self._pids, readers)
        self._begin(readers)
        self.clock.note()  # an event loop may have done so already
        found = False
        for name, watch in self.watches.items():
            reader = readers[name]
            if not reader.gone and self._is_gone(reader, watch):
                reader.gone = found = True
        tries: ends.Tries | None = None
        begun = time.monotonic()
        for reader in readers.values():
            if reader.gone and not reader.end_recorded and reader.origin is not None:
                if tries is not None and time.monotonic() - begun > _ENDS_S:
                    return True
                tries = tries or ends.Tries(readers)
                try:
                    self._record_end(reader, reader.origin, tries)
                except OSError as error:  # the disk is full, for example: it is tried again, and the spool stays
                    self.trouble = str(error)
        return found

    def _receive(self, pids: int, readers: Mapping[str, SpoolReader]) -> None:
        """Take the pidfds that have come, before spools are looked at that they may be of.

        Who lives long sends one each minute, and each run of a process sends one: the first is enough.
        """
        now = time.monotonic()
        known: set[int] = set()
        while self._has_room:
            received = pidfds.receive(pids, _RECEIVED_AT_ONCE)
            if received and not known:
                self.clock.note()
                known |= {watch.pid for watch in self._processes.values() if self._is_living(watch)}
                known |= {handed.pid for handed in self._handed.values()}
            for name, fd, pid in received:
                if name in self._handed or self._is_watched(name) or (pid and pid in known):
                    os.close(fd)
                else:
                    self._handed[name] = _Handed(fd, pid, now)
                    known.add(pid)
            if len(received) < _RECEIVED_AT_ONCE:
                break
        for name in [name for name, handed in self._handed.items() if now - handed.at > _NO_SPOOL_S]:
            if name not in readers:
                os.close(self._handed.pop(name).fd)

    @property
    def _has_room(self) -> bool:
        """Whether one more pidfd may be held: the dead, of whom many may wait to be read, have none."""
        return len(self._handed) + len(self.clock) < self._most_pidfds

    def _is_watched(self, name: str) -> bool:
        """Tell whether a pidfd would tell nothing new of an origin."""
        return name in self.watches and not self.watches[name].unknown

    def _is_living(self, watch: Watch) -> bool:
        fd = watch.fileno()
        return bool(watch.pid) and fd is not None and self.clock.died_t(fd) is None

    def _begin(self, readers: Mapping[str, SpoolReader]) -> None:
        """Begin to watch the processes of new readers."""
        for name, reader in readers.items():
            if reader.origin is None:  # it is about to write its first segment, or died before it could
                reader.gone = reader.was_read and _age_s(reader.directory) > _NO_HEADER_S
            elif not self._is_watched(name) and (name not in self.watches or name in self._handed):
                reader.gone = False  # its watch will tell
                try:
                    watch = self.watches[name] = self._watch(name, reader.origin)
                except (OSError, OverflowError) as error:  # too many open files, for example: try again next time
                    self.trouble = str(error)
                    continue
                if watch.death is None and not watch.unknown and _is_in_our_proc(reader.origin):
                    self._look_at_limits(reader.origin)

    def _watch(self, name: str, origin: Origin) -> Watch:
        """Return the watch of an origin's process, which may be watched already."""
        process = _process_of(origin)
        known = self._processes.get(process)
        handed = self._take_handed(name, origin)
        if known is not None and (handed is None or known.fileno() is not None or known.death is not None):
            if handed is not None:
                os.close(handed)
            watch = known
        else:  # if another one is known, it was begun without a pidfd
            watch = Watch(origin, handed, by_pidfd=self._has_room)
            try:
                if (fd := watch.fileno()) is not None:
                    self.clock.watch(fd)
            except OSError:
                watch.shut()
                raise
            self._processes[process] = watch
            for other in self._origins.get(process, ()):
                if other in self.watches:
                    self.watches[other] = watch
        self._origins.setdefault(process, set()).add(name)
        self._of[name] = process
        return watch

    def _take_handed(self, name: str, origin: Origin) -> int | None:
        """Return the pidfd that an origin has sent, or another origin of its process."""
        if origin.boot == kernel.boot() and name not in self._handed:
            same = [other for other, handed in self._handed.items() if handed.pid == origin.pid]
            name = same[0] if same and origin.started == kernel.start_ticks(origin.pid) else name
        return self._handed.pop(name).fd if name in self._handed else None

    def _look_at_limits(self, origin: Origin) -> None:
        if (process := _process_of(origin)) not in self._limits:
            pid = origin.pid
            self._limits[process] = _Limits(memory.begin(pid), limits.environ_of(pid), limits.cpu_use(pid))

    def _is_gone(self, reader: SpoolReader, watch: Watch) -> bool:
        if watch.unknown:
            if not reader.closed and self._lock_is_held(reader) is not False:
                return False
            self._deaths.setdefault(reader.name, Death(None, None, unseen=True))
            return True
        fd = watch.fileno()
        try:
            death = watch.look(self.clock.died_t(fd) if fd is not None else None)
        except OSError as error:
            self.trouble = str(error)
            return False
        if death is None:
            return False
        self._shut(watch)
        self._deaths.setdefault(reader.name, death)
        return True

    def _lock_is_held(self, reader: SpoolReader) -> bool | None:
        """Tell whether the process of a spool, which cannot be watched, holds its locks; None if that tells nothing."""
        now = time.monotonic()
        asked, held = self._locks.get(reader.name, (float("-inf"), None))
        if now - asked >= _LOCK_S:
            held = reader.is_held()
            self._locks[reader.name] = now, held
        return held

    def _record_end(self, reader: SpoolReader, origin: Origin, tries: ends.Tries) -> None:
        """Write how a process ended that did not do so itself. Do it at once: its lane may be read much later."""
        death = self._deaths.get(reader.name)
        if death is not None and origin.process:
            reader.read_last_state()
            if reader.about.state not in KINDS["process"].ends:
                if reader.about.state != "leaving":  # it was killed
                    erase_below(reader.about.terminal)
                evidence = self._evidence(reader, origin, death)
                after = ends.of_try(reader, tries) if origin.main else ends.of_process(reader)
                self._say(_last_facts(origin, _end_t(reader, death), evidence, after), origin.upstream)
                if reader.about.launches and evidence.signal == signal.SIGKILL:  # nobody else ends what it launched
                    run, attempt = run_and_try(origin.process)
                    tree.end(lambda: tree.of_try(run, attempt))
        reader.end_recorded = True

    def _evidence(self, reader: SpoolReader, origin: Origin, death: Death) -> Evidence:
        """Gather all that is known here of the end of a process."""
        before = self._limits.get(_process_of(origin), _Limits())
        return Evidence(
            status=death.status,
            said_code=reader.about.exit_code(),
            left=reader.about.state == "leaving",
            exit_text=reader.about.exit_text,
            told=reader.about.told,
            mishap=reader.about.mishap,
            sender_unseen=origin.main,
            batch_job=limits.batch_job(before.environ),
            cpu=_cpu_use(before, origin),
            rebooted=death.rebooted,
            elsewhere=death.unseen,
            stacks=last_words.stacks(reader.about.stacks()),
            stopped_by=self._stopped.get(reader.name),
            memory_watched=before.levels is not None and bool(before.levels.levels),
            shortage=memory.look_back(before.levels, death.status),
        )

    def heard_t(self, reader: SpoolReader) -> int:
        """Return when a process was last known alive: now, or the time of its last record if nothing else tells."""
        return reader.heard_t if self._is_unseen(reader.name) else time.time_ns()

    def is_unwatchable(self, name: str) -> bool:
        """Tell whether nothing tells if the process of an origin lives: it may run on another host."""
        return name in self.watches and self._is_unseen(name)

    def _is_unseen(self, name: str) -> bool:
        watch = self.watches.get(name)
        return watch is None or (watch.unknown and not self._locks.get(name, (0.0, None))[1])

    def forget(self, name: str) -> None:
        """Forget an origin for now; its process is watched, and how it died remembered, until its spool is removed."""
        self.watches.pop(name, None)
        self._locks.pop(name, None)

    def remove(self, name: str) -> None:
        """Forget an origin for good."""
        self.forget(name)
        process = self._of.pop(name, name)
        others = self._origins.get(process, set())
        others.discard(name)
        if not others:
            self._origins.pop(process, None)
            self._limits.pop(process, None)
            if (watch := self._processes.pop(process, None)) is not None:
                self._shut(watch)
        self._deaths.pop(name, None)
        self._stopped.pop(name, None)
        if name in self._handed:
            os.close(self._handed.pop(name).fd)

    def _shut(self, watch: Watch) -> None:
        if (fd := watch.fileno()) is not None:
            self.clock.forget(fd)
        watch.shut()


def _cpu_use(before: _Limits, origin: Origin) -> limits.CpuUse | None:
    """Return the limit of CPU time that a dead process had, and how much it used, if nobody has reaped it yet."""
    if before.cpu is None:
        return None
    return limits.cpu_use(origin.pid, origin.started) or before.cpu._replace(used_s=None)


def _process_of(origin: Origin) -> Hashable:
    """Return what tells the process of an origin from all others; the origin itself where its start is not known."""
    return (origin.boot, origin.pid, origin.started) if origin.boot and origin.started else origin.name


def _is_in_our_proc(origin: Origin) -> bool:
    """Tell whether /proc/PID is that process: it may be in another pid namespace, or be gone and its pid in use."""
    try:
        return origin.boot == kernel.boot() and origin.started in (0, kernel.start_ticks(origin.pid))
    except OSError:
        return False


def _end_t(reader: SpoolReader, death: Death) -> int:
    """Return when a process ended. One that left in good order ended when it said so, as its console counts, too.

    The hub may look long after that. The file with the exit code was written when the process was gone. One that was
    killed while it left, as a launcher kills the ranks beside one that failed, ended only then.
    """
    t = min(death.t or reader.heard_t, reader.about.exit_t() or (1 << 63) - 1)
    t = max(t, reader.about.left_t)  # a file's time may be some milliseconds old
    if death.status is not None and os.WIFSIGNALED(death.status):
        return t
    return reader.about.left_t if reader.about.left_t and 0 <= t - reader.about.left_t < _LEAVES_NS else t


def _last_facts(origin: Origin, t: int, evidence: Evidence, after: tuple[Place, ...]) -> list[Fact]:
    """Return the facts of an end: the stacks, how the process ended, and, if it was the main process, its try.

    `after`: what must be in the store before they are shown, the process itself first.
    """
    end = verdict(evidence)
    facts: list[Fact] = []
    if evidence.stacks is not None and end.kind != EndKind.DONE:
        facts.append(Event(origin.span, t, "stacks", 40, evidence.stacks.text))
    facts.append(Span(origin.process, t, state=end.state, cause=end.cause, by=HUB, after=after[:1]))
    if origin.main:
        # With kind and parent: it may have died before it could write them.
        attempt = enclosing(origin.process)
        facts.append(Span(attempt, t, end.state, end.cause, HUB, kind="try", parent=origin.span, after=after))
    return facts


def _age_s(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0
