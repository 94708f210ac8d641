"""The hub's work: read the spools, keep and seal, flush and free, and name the end of what died.

`turn` is one pass over everything. It knows no threads and no sockets; what was committed comes out as a Change.
"""

import os
import select
import time

from vedette import kernel, wire
from vedette.errors import FormatError, StoreError
from vedette.home import Home
from vedette.hub.liveness import Watch, verdict
from vedette.hub.speaker import Speaker
from vedette.model import HUB, LANE_FACTS, Event, Fact, Origin, Span, new_id
from vedette.settings import Hub as Pace
from vedette.store import Batch, SpanQuery, Store

_HEARD_EVERY_S = 10.0
_SHORT_CHUNKS = 64
_STILLBORN_S = 60.0


class Keeper:
    """Keeps one home. All that it knows can be found again from the store's marks and the spools."""

    def __init__(self, home: Home, store: Store, pace: Pace, handed: dict[tuple[int, int], int] | None = None) -> None:
        """Keep this store; `handed`: pidfds by (pid, start time) that this hub was given at its birth."""
        self._handed = handed or {}
        kernel.boot()  # asked while there are descriptors to ask with
        self.home = home
        self.pace = pace
        self.store = store
        self.speakers: dict[str, Speaker] = {}
        self.set_aside: dict[str, str] = {}
        self.trouble = ""
        self._watches: dict[str, Watch] = {}
        self._poll = select.poll()
        self._by_fd: dict[int, str] = {}
        self._me = Origin("hub-" + new_id(8))
        self._n = 0
        self._synced = self._heard = time.monotonic()
        self._seals: dict[str, int] = {}
        self._unsynced = False

    def turn(self, *, seal: set[str] | None = None) -> tuple[wire.Change, bool]:
        """Do one pass; return what was committed, and whether there is more to read at once.

        `seal`: the runs whose samples must be in the store when this returns ("" for all of them).
        """
        now = time.monotonic()
        change = wire.Change([], [], [])
        self._discover()
        more = self._look_for_deaths()
        ends = {name: speaker.ends() for name, speaker in self.speakers.items()} if seal else {}
        more = self._read(now, change) or more
        while more and any(name in ends and not s.has_reached(ends[name]) for name, s in self.speakers.items()):
            self._seal(now, change, set())
            more = self._read(now, change)
        self._seal(now, change, seal or set())
        self._bury(change)
        if now - self._heard >= _HEARD_EVERY_S:
            self._heard = now
            self.store.keep([], {name: self._heard_of(name) for name in self.living()})
        if now - self._synced >= self.pace.sync_s:
            self._synced = now
            self.flush()
        return change, more

    def living(self) -> list[str]:
        """Return the origins whose processes live, or may."""
        return [name for name, speaker in list(self.speakers.items()) if not speaker.gone]

    def _heard_of(self, name: str) -> int:
        """Return when an origin was last known alive: now, or when it last spoke if it cannot be watched."""
        watch = self._watches.get(name)
        return self.speakers[name].heard_t if watch is None or watch.unknown else time.time_ns()

    @property
    def idle(self) -> bool:
        """Whether nobody is known to live, and all that was said is sealed and flushed."""
        strangers = all(
            name in self._watches and self._watches[name].unknown and not speaker.waiting_bytes
            for name, speaker in self.speakers.items()
        )
        return strangers and not self._unsynced

    def _discover(self) -> None:
        try:
            with os.scandir(self.home.spool) as entries:
                names = [e.name for e in entries if e.name.isascii() and e.is_dir(follow_symlinks=False)]
        except OSError:
            return
        new = [name for name in names if name not in self.speakers and name not in self.set_aside]
        if not new:
            return
        marks = self.store.marks()
        for name in new:
            self.speakers[name] = Speaker(os.path.join(self.home.spool, name), marks)

    def _look_for_deaths(self) -> bool:
        """Mark the speakers whose processes have died; they are read to the end, then buried."""
        for name, speaker in self.speakers.items():
            if speaker.origin is None:  # it is about to write its first segment, unless it is long dead
                speaker.gone = speaker.was_read and _age_s(speaker.directory) > _STILLBORN_S
            elif name not in self._watches:
                speaker.gone = False  # until its own watch says so
                try:
                    watch = self._watches[name] = Watch(speaker.origin, self._handed)
                except (OSError, OverflowError) as error:  # too many open files, say: look again next time
                    self.trouble = str(error)
                    continue
                if (fd := watch.fileno()) is not None:
                    self._by_fd[fd] = name
                    self._poll.register(fd, select.POLLIN)
        ready = {self._by_fd[fd] for fd, _ in self._poll.poll(0)} if self._by_fd else set()
        found = False
        for name, watch in self._watches.items():
            if self.speakers[name].gone:
                continue
            if watch.unknown and self.speakers[name].said_last_word:
                self.speakers[name].gone = found = True
                continue
            fd = watch.fileno()
            try:
                dead = watch.look(name in ready) is not None
            except OSError as error:
                self.trouble = str(error)
                continue
            if dead:
                self._forget_fd(fd)
                self.speakers[name].gone = found = True
        return found

    def _forget_fd(self, fd: int | None) -> None:
        if fd is not None:
            self._by_fd.pop(fd, None)
            try:
                self._poll.unregister(fd)
            except (KeyError, OSError):
                pass

    def _read(self, now: float, change: wire.Change) -> bool:
        batches = []
        more = False
        for name, speaker in list(self.speakers.items()):
            try:
                batch = speaker.read_facts()
                more = speaker.read_samples(now) > 0 or more
            except FormatError as error:  # of a newer version: leave it alone, whole
                self.set_aside[name] = str(error)
                self.forget(name)
                continue
            except (
                OSError,
                MemoryError,
            ) as error:  # too many open files, a bad disk: it is found again, and nobody else waits
                self.trouble = f"{speaker.directory}: {error}"
                self.forget(name)
                continue
            if batch is not None:
                batches.append((speaker, batch))
        if batches:
            self._commit(batches, now, change)
        return more or bool(batches)

    def _seal(self, now: float, change: wire.Change, asked: set[str]) -> None:
        batches = []
        for speaker in list(self.speakers.values()):
            wanted = bool(asked) and ("" in asked or bool(speaker.spans & asked))
            if wanted or speaker.due(now, self.pace.seal_s) or speaker.gone:
                batch = speaker.sealing(now, self.pace.seal_s, all_of_it=wanted)
                if batch is not None:
                    batches.append((speaker, batch))
        if batches:
            self._commit(batches, now, change)
            for speaker, _ in batches:
                self._seals[speaker.name] = self._seals.get(speaker.name, 0) + 1
                if self._seals[speaker.name] % _SHORT_CHUNKS == 0:
                    self.store.tidy(speaker.name)

    def _commit(self, batches: list[tuple[Speaker, Batch]], now: float, change: wire.Change) -> None:
        for group in self._keep(batches):
            self._unsynced = True
            for speaker, batch in group:
                speaker.kept(batch, now)
                _note(change, batch)

    def _keep(self, batches: list[tuple[Speaker, Batch]]) -> list[list[tuple[Speaker, Batch]]]:
        """Keep batches, all in one transaction; return those that were kept.

        A batch that cannot be kept for what is in it must not hold up the others: its speaker is set aside, whole.
        """
        try:
            self.store.keep([batch for _, batch in batches])
        except (StoreError, OSError):
            raise  # disk or lock: to be tried again
        except Exception as error:
            if len(batches) > 1:
                return [group for item in batches for group in self._keep([item])]
            name = batches[0][0].name
            self.set_aside[name] = f"it cannot be kept: {type(error).__name__}: {error}"
            self.forget(name)
            return []
        return [batches]

    def _bury(self, change: wire.Change) -> None:
        """Say how those ended who did not say it themselves, and remove their spools."""
        finished = [speaker for speaker in self.speakers.values() if speaker.finished]
        for speaker in list(finished):
            if speaker.origin is None:
                if not speaker.remove_empty():
                    self.set_aside[speaker.name] = "no segment of it has a readable header"
                continue
            self._name_the_end(speaker, change)
            self.store.tidy(speaker.name)
        if finished:
            self.flush()  # what they said must be on disk before their spools go
        for speaker in finished:
            if speaker.origin is not None:
                try:
                    speaker.remove()
                except OSError as error:  # somebody has put something there
                    self.set_aside[speaker.name] = f"all of it is kept, but it cannot be removed: {error}"
            self.forget(speaker.name)

    def forget(self, name: str) -> None:
        """Let go of an origin; if its spool is still there, it is found again."""
        if (watch := self._watches.pop(name, None)) is not None:
            self._forget_fd(watch.fileno())
            watch.shut()
        if (speaker := self.speakers.pop(name, None)) is not None:
            speaker.shut()
        self._seals.pop(name, None)

    def _name_the_end(self, speaker: Speaker, change: wire.Change) -> None:
        origin = speaker.origin
        assert origin is not None
        watch = self._watches.get(speaker.name)
        death = watch.death if watch is not None else None
        found = [row for row in self.store.spans(SpanQuery(prefix=origin.process)) if row.id == origin.process]
        if death is None or not found or found[0].end_t is not None:
            return
        process = found[0]
        stacks = speaker.stacks()
        code = process.attrs.get("exit_code")
        state, cause = verdict(death, process.state, code if isinstance(code, int) else 0, stacks)
        t = death.t or max(speaker.heard_t, process.start_t or 0)
        facts: list[Fact] = []
        if stacks and state != "done":
            facts.append(Event(origin.span, t, "stacks", 40, stacks))
        facts.append(Span(process.id, t, state=state, cause=cause, by=HUB))
        if process.attrs.get("main"):
            # With kind and parent: it may have died before it could say them.
            facts.append(Span(process.parent, t, state, cause, HUB, kind="try", parent=origin.span))
        self.say(facts, change)

    def say(self, facts: list[Fact], change: wire.Change) -> None:
        """Keep facts as the hub's own."""
        batch = Batch(self._me, LANE_FACTS, 0, facts=[(self._next_n(), fact) for fact in facts])
        self.store.keep([batch])
        self._unsynced = True
        _note(change, batch)

    def _next_n(self) -> int:
        self._n += 1
        return self._n

    def flush(self) -> None:
        """Make the last second safe against a power cut; only then free what the store has."""
        for speaker in self.speakers.values():
            speaker.sync()
        self.store.sync()
        self._unsynced = False
        for speaker in self.speakers.values():
            speaker.free()

    def start_over(self, error: Exception) -> None:
        """After a failed commit: go back to the marks, as a new hub would."""
        self.trouble = f"{type(error).__name__}: {error}"
        for name in list(self.speakers):
            self.forget(name)

    def let_go(self) -> None:
        """Let go of everything, touching nothing on disk."""
        for name in list(self.speakers):
            self.forget(name)
        self.store.close()

    def close(self) -> None:
        """Seal everything and let go."""
        try:
            self.turn(seal={""})
            self.flush()
        except Exception as error:  # the spools are safe, and the next hub reads them
            self.trouble = str(error)
        self.let_go()


def _note(change: wire.Change, batch: Batch) -> None:
    for _, fact in batch.facts:
        if isinstance(fact, Span):
            change.spans.append(fact.id)
        elif isinstance(fact, Event):
            change.events.append(fact.span)
    change.points.extend(columns.span for columns in batch.columns)


def _age_s(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0
