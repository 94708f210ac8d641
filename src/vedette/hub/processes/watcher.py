"""Watches the processes that have a spool, and writes how they ended if they could not do so themselves."""

import os
import signal
import time
from collections.abc import Mapping

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
_NO_SPOOL_S = 10.0  # a pidfd whose origin has no spool for so long is of no use


class Watcher:
    """Watches the processes of spools by pidfds, and writes how they ended."""

    def __init__(self, say: Say, pids: int | None, stopped: dict[str, str]) -> None:
        """`say` writes facts as the hub's.

        `pids`: the socket that processes send their pidfds to. `stopped`: origins that were told to stop, and by whom.
        """
        self._stopped = stopped
        self.watches: dict[str, Watch] = {}
        self.clock = DeathClock()
        self.trouble = ""
        self._say = say
        self._pids = pids
        self._handed: dict[str, tuple[int, float]] = {}  # by origin: the pidfd that it sent, and when it came
        self._deaths: dict[str, Death] = {}  # of processes whose spools are still here
        self._memory: dict[str, memory.Baseline] = {}
        self._environs: dict[str, dict[str, str]] = {}  # what they say of batch jobs
        self._cpu: dict[str, limits.CpuUse] = {}

    def look(self, readers: Mapping[str, SpoolReader]) -> bool:
        """Set `gone` of readers whose processes have died, and write how they ended; tell whether one has died now."""
        if self._pids is not None:
            self._receive(self._pids, readers)
        self._begin(readers)
        self.clock.note()  # an event loop may have done so already
        found = False
        for name, watch in self.watches.items():
            reader = readers[name]
            if not reader.gone and self._is_gone(reader, watch):
                reader.gone = found = True
        for reader in readers.values():
            if reader.gone and not reader.end_recorded and reader.origin is not None:
                try:
                    self._record_end(reader, reader.origin, readers)
                except OSError as error:  # the disk is full, for example: it is tried again, and the spool stays
                    self.trouble = str(error)
        return found

    def _receive(self, pids: int, readers: Mapping[str, SpoolReader]) -> None:
        """Take the pidfds that have come. Who lives long sends one each minute, and the first is enough."""
        now = time.monotonic()
        for name, fd in pidfds.receive(pids):
            if name in self._handed or name in self.watches:
                os.close(fd)
            else:
                self._handed[name] = fd, now
        for name in [name for name, (_, t) in self._handed.items() if name not in readers and now - t > _NO_SPOOL_S]:
            os.close(self._handed.pop(name)[0])

    def _begin(self, readers: Mapping[str, SpoolReader]) -> None:
        """Begin to watch the processes of new readers."""
        for name, reader in readers.items():
            if reader.origin is None:  # it is about to write its first segment, or died before it could
                reader.gone = reader.was_read and _age_s(reader.directory) > _NO_HEADER_S
            elif name not in self.watches:
                reader.gone = False  # its watch will tell
                try:
                    self.watches[name] = self._watch(name, reader.origin)
                except (OSError, OverflowError) as error:  # too many open files, for example: try again next time
                    self.trouble = str(error)
                    continue
                if self.watches[name].fileno() is not None and _is_in_our_proc(reader.origin):
                    self._look_at_limits(name, reader.origin.pid)

    def _watch(self, name: str, origin: Origin) -> Watch:
        handed = self._handed.get(name)
        watch = Watch(origin, handed[0] if handed else None)
        try:
            if (fd := watch.fileno()) is not None:
                self.clock.watch(fd)
        except OSError:
            watch.shut()
            raise
        return watch

    def _look_at_limits(self, name: str, pid: int) -> None:
        self._memory[name] = memory.begin(pid)
        self._environs[name] = limits.environ_of(pid)
        if (cpu := limits.cpu_use(pid)) is not None:
            self._cpu[name] = cpu

    def _is_gone(self, reader: SpoolReader, watch: Watch) -> bool:
        if watch.unknown and reader.closed:
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

    def _record_end(self, reader: SpoolReader, origin: Origin, readers: Mapping[str, SpoolReader]) -> None:
        """Write how a process ended that did not do so itself. Do it at once: its lane may be read much later."""
        death = self._deaths.get(reader.name)
        if death is not None and origin.process:
            reader.read_last_state()
            if reader.about.state not in KINDS["process"].ends:
                if reader.about.state != "leaving":  # it was killed
                    erase_below(reader.about.terminal)
                evidence = self._evidence(reader, origin, death)
                after = ends.of_try(reader, readers) if origin.main else ends.of_process(reader)
                self._say(_last_facts(origin, _end_t(reader, death), evidence, after), origin.upstream)
                if reader.about.launches and evidence.signal == signal.SIGKILL:  # nobody else ends what it launched
                    run, attempt = run_and_try(origin.process)
                    tree.end(lambda: tree.of_try(run, attempt))
        reader.end_recorded = True

    def _cpu_use(self, name: str, origin: Origin) -> limits.CpuUse | None:
        """Return the limit of CPU time that a dead process had, and how much it used, if nobody has reaped it yet."""
        before = self._cpu.get(name)
        if before is None:
            return None
        return limits.cpu_use(origin.pid, origin.started) or before._replace(used_s=None)

    def _evidence(self, reader: SpoolReader, origin: Origin, death: Death) -> Evidence:
        """Gather all that is known here of the end of a process."""
        before = self._memory.get(reader.name)
        return Evidence(
            status=death.status,
            said_code=reader.about.exit_code(),
            left=reader.about.state == "leaving",
            exit_text=reader.about.exit_text,
            told=reader.about.told,
            mishap=reader.about.mishap,
            sender_unseen=origin.main,
            batch_job=limits.batch_job(self._environs.get(reader.name, {})),
            cpu=self._cpu_use(reader.name, origin),
            rebooted=death.rebooted,
            stacks=last_words.stacks(reader.about.stacks()),
            stopped_by=self._stopped.get(reader.name),
            memory_watched=before is not None and bool(before.levels),
            shortage=memory.look_back(before, death.status),
        )

    def heard_t(self, reader: SpoolReader) -> int:
        """Return when a process was last known alive: now, or the time of its last record if it cannot be watched."""
        watch = self.watches.get(reader.name)
        return reader.heard_t if watch is None or watch.unknown else time.time_ns()

    def is_unwatchable(self, name: str) -> bool:
        """Tell whether the process of an origin cannot be watched: it runs on another host or in another namespace."""
        return name in self.watches and self.watches[name].unknown

    def forget(self, name: str) -> None:
        """Stop watching an origin; how it died is remembered until its spool is removed."""
        if (watch := self.watches.pop(name, None)) is not None:
            self._shut(watch)

    def remove(self, name: str) -> None:
        """Forget an origin for good."""
        self.forget(name)
        self._deaths.pop(name, None)
        self._stopped.pop(name, None)
        self._memory.pop(name, None)
        self._environs.pop(name, None)
        self._cpu.pop(name, None)
        if name in self._handed:
            os.close(self._handed.pop(name)[0])

    def _shut(self, watch: Watch) -> None:
        if (fd := watch.fileno()) is not None:
            self.clock.forget(fd)
        watch.shut()


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
