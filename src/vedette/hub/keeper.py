"""The hub's work: read the spools and inboxes, keep and seal or pass on, flush and free, and bury the dead.

`turn` is one pass over everything. It knows no threads and no sockets; what was committed comes out as a Change.
"""

import itertools
import os
import time
from collections import ChainMap
from collections.abc import Callable, Container

from vedette import kernel, wire
from vedette.blobs import Blobs
from vedette.errors import FormatError, StoreError
from vedette.home import Home
from vedette.hub.gauges import Gauges
from vedette.hub.heard import Heard
from vedette.hub.inbox import Mail
from vedette.hub.orders import Orders
from vedette.hub.outgoing import Outgoing
from vedette.hub.outward import ALIVE_EVERY_S, Outward, Voice, marks_of
from vedette.hub.own import Own
from vedette.hub.relay import Relay
from vedette.hub.speaker import Speaker
from vedette.hub.stock import Stock
from vedette.hub.usage import Start, Usage
from vedette.hub.watching import Watching
from vedette.model import LANE_FACTS, LANE_SAMPLES, Command, Event, Span, above
from vedette.settings import Settings
from vedette.store import Batch, Mark, Store

_SHORT_CHUNKS = 64
_MOST_NEWEST = 50_000
_MOST_UNSAFE_BYTES = 4 << 20  # of shipments: others wait for them to be acknowledged


class Keeper:
    """Keeps one home. All that it knows can be found again from the store's marks, the spools and the inboxes."""

    def __init__(
        self,
        home: Home,
        store: Store,
        settings: Settings,
        handed: dict[tuple[int, int], int] | None = None,
        dial: Callable[[str], Relay] | None = None,
        start_meter: Start | None = None,
    ) -> None:
        """Keep this store.

        `handed`: pidfds by (pid, start time) that this hub was given at its birth. `dial` makes the way to another
        hub out of its address; without it, what is meant for others waits. `start_meter` begins to measure processes.
        """
        kernel.boot()  # asked while there are descriptors to ask with
        self.home = home
        self.pace = settings.hub
        self.store = store
        self.speakers: dict[str, Speaker] = {}
        self.mail = Mail(home.inbox, lambda name: marks_of(store, name, elsewhere=bool(self.mail.onward)), settings)
        self.blobs = Blobs(home, settings.limits)
        self.outgoing = Outgoing(self.blobs)
        self.stock = Stock(self.blobs, store, self.outgoing)
        self.outward = Outward(self.speakers, self.mail, store, settings.hub, dial, self.outgoing)
        self.own = Own(home)
        self.orders = Orders(self.own.say)
        self.gauges = Gauges(self.own.say)
        self.watching = Watching(self.own.say, handed or {}, self.orders.stopped)
        self.usage = Usage(store, settings, start_meter)
        self.set_aside = self.outward.set_aside
        self.trouble = ""
        self.on_safe: Callable[[dict[str, int]], None] = lambda _safe: None  # shipments, by inbox, to be acknowledged
        self._limits = settings.limits
        self._synced = self._beaten = time.monotonic()
        self._seals: dict[str, int] = {}
        self._stamped: set[str] = set()
        self._unsynced = False

    def turn(self, *, seal: set[str] | None = None) -> tuple[wire.Change, bool]:
        """Do one pass; return what was committed, and whether there is more to read at once.

        `seal`: the runs whose samples must be in the store when this returns ("" for all of them).
        """
        now = time.monotonic()
        change = wire.Change([], [], [])
        self._hear_others()
        self._discover()
        more = self.watching.look(self.speakers)
        self.gauges.look(self.speakers, now, everything=bool(seal))
        if self.own.names - self.speakers.keys():  # what it has just said belongs to this turn
            self._discover()
        ends = {name: speaker.ends() for name, speaker in self.speakers.items()} if seal else {}
        more = self._read(now, change) or more
        if len(self.watching.watches) < len(self.speakers):  # by now it is known who they are
            more = self.watching.look(self.speakers) or more
        while more and any(
            name in ends and self._may_read(s) and not s.has_reached(ends[name]) for name, s in self.speakers.items()
        ):
            self._seal(now, change, set())
            more = self._read(now, change)
        self._seal(now, change, seal or set())
        self._bury()
        self.orders.tend(self.watching.watches)
        self.usage.tend(self.speakers, self.watching.watches)
        self._stamp(now)
        if self.flush_in_s <= 0 or self.mail.unsafe_bytes > _MOST_UNSAFE_BYTES:
            self._synced = now
            self.flush()
        return change, more

    def _stamp(self, now: float) -> None:
        """Put on record who lives: each one as soon as it is watched, then all of them time and again."""
        watched = self.watching.watches
        names = [name for name in watched if name not in self._stamped and not self.speakers[name].gone]
        due = now - self._beaten >= ALIVE_EVERY_S
        if due:
            self._beaten = now
            names = [name for name, speaker in self.speakers.items() if not speaker.gone]
        if names or due:
            heard = {name: self.watching.heard_t(self.speakers[name]) for name in names}
            self.store.keep([], {name: t for name, t in heard.items() if not self.speakers[name].upstream})
            self.outward.beat(heard)
        self._stamped.update(names)

    @property
    def flush_in_s(self) -> float:
        """When the next flush is due: a turn before what was read last is as old as a power cut may cost."""
        return self._synced + self.pace.sync_s - self.pace.turn_s - time.monotonic()

    def living(self) -> list[str]:
        """Return the origins whose processes live, or may."""
        return [name for name, speaker in list(self.speakers.items()) if not (speaker.gone or speaker.of_hub)]

    def newest(self, prefix: str) -> list[wire.Newest]:
        """Return the newest point of each series that waits to be sealed, of the spans that begin so."""
        found = (point for voice in self._voices() for point in voice.newest(prefix))
        return list(itertools.islice(found, _MOST_NEWEST))

    def heard_here(self) -> Container[str]:
        """Return the origins that are being heard, from a spool or from another hub."""
        return ChainMap[str, object](self.speakers, self.mail.heard)  # type: ignore[arg-type]

    def _voices(self) -> list[Voice]:
        return [*self.speakers.values(), *self.mail.heard.values()]

    def _hear_others(self) -> None:
        known, safe = self.outward.hear()
        self._stamped -= known  # the other hub should know at once that they live
        self._unsynced = self._unsynced or safe

    def order(self, command: Command, upstream: str | None = None) -> int | None:
        """Do what a command asks of processes here; return of how many, None when it was given before.

        `upstream`: the hub that gives it, which may command only what is meant for it.
        """
        if not self.orders.is_new(command, upstream):
            return None
        pairs = [
            (speaker.origin, self.watching.watches[name])
            for name, speaker in self.speakers.items()
            if speaker.origin and name in self.watching.watches and upstream in (None, speaker.upstream)
        ]
        return self.orders.obey(command, pairs)

    def reach(self, origins: list[str]) -> dict[str, tuple[int, int]] | None:
        """Return how far origins are safe here, even from a power cut; None while that is not known yet."""
        if self.mail.unsafe_bytes or self._unsynced:
            self.flush()
        return self.mail.reach(origins)

    def alive(self, message: wire.Alive) -> None:
        """Take note of origins that another hub knows alive."""
        now_t = time.time_ns()
        heard = {name: now_t - int(max(0.0, min(age, 1e9)) * 1e9) for name, age in message.ages.items()}
        skews = {}
        if message.skew_s is not None:
            skews = {name: message.skew_s + message.skews.get(name, 0.0) for name in heard}
        if self.mail.onward:
            self.mail.alive |= {name: (t, skews.get(name)) for name, t in heard.items()}
        self.store.keep([], heard, skews)
        self._unsynced = True

    @property
    def idle(self) -> bool:
        """Whether nobody is known to live, and all that was said is sealed and flushed."""
        strangers = all(
            (speaker.of_hub or self.watching.is_stranger(name)) and speaker.ready and not speaker.waiting_bytes
            for name, speaker in self.speakers.items()
        )
        return strangers and not self._unsynced and self.mail.idle and self.outgoing.idle

    @property
    def heard_all(self) -> bool:
        """Whether nothing that anybody has said is known to wait unread."""
        voices = all(self._may_read(speaker) and not speaker.has_more for speaker in self.speakers.values())
        return voices and not self.set_aside and not self.mail.set_aside and self.outward.may_read(self.mail.onward)

    def _discover(self) -> None:
        try:
            with os.scandir(self.home.spool) as entries:
                names = [e.name for e in entries if e.name.isascii() and e.is_dir(follow_symlinks=False)]
        except OSError:
            return
        new = [name for name in names if name not in self.speakers and name not in self.set_aside]
        if not new:
            return
        marks, none = self.store.marks(new), Mark()
        for name in new:
            places = marks.get((name, LANE_FACTS), none), marks.get((name, LANE_SAMPLES), none)
            speaker = self.speakers[name] = Speaker(os.path.join(self.home.spool, name), *places, self._limits)
            if speaker.origin is None and places != (none, none):  # no header has survived, but it was heard before
                speaker.origin = self.store.origin(name)
            if speaker.upstream:
                self._enrol(speaker)

    def _read(self, now: float, change: wire.Change) -> bool:
        batches: list[tuple[Voice, Batch]] = []
        more = False
        for name, speaker in list(self.speakers.items()):
            if not self._may_read(speaker):
                continue
            known = speaker.origin is not None
            try:
                batch = speaker.read_facts()
                speaker.read_samples(now)
                more = more or speaker.has_more
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
            if not known and speaker.upstream:  # it has just begun to speak, and not to us
                self._enrol(speaker)
            elif batch is not None:
                batches.append((speaker, batch))
        if self.outward.may_read(self.mail.onward):
            more = self.mail.read(now) or more
        self.outward.introduce_heard()
        ready = [heard for heard in self.mail.heard.values() if heard.ready]
        batches += [(heard, batch) for heard in ready if (batch := heard.read_facts()) is not None]
        if batches:
            self._commit(batches, now, change)
        return more or bool(batches)

    def _enrol(self, speaker: Speaker) -> None:
        self.outward.enrol(speaker)
        if speaker.name in self.set_aside:
            self.forget(speaker.name)

    def _may_read(self, speaker: Speaker) -> bool:
        return speaker.ready and self.outward.may_read(speaker.upstream)

    def _seal(self, now: float, change: wire.Change, asked: set[str]) -> None:
        batches: list[tuple[Voice, Batch]] = []
        for voice in self._voices():
            if not voice.ready:
                continue
            pace_s = self.pace.ship_s if voice.upstream else self.pace.seal_s
            wanted = bool(asked) and ("" in asked or any(asked.intersection(above(span)) for span in voice.spans))
            if wanted or voice.due(now, pace_s) or (self.mail.pressed and isinstance(voice, Heard)):
                batch = voice.sealing(now, pace_s, all_of_it=wanted or bool(voice.upstream))
                if batch is not None:
                    batches.append((voice, batch))
        if batches:
            self._commit(batches, now, change)
            for voice, _ in batches:
                if voice.upstream:
                    continue
                self._seals[voice.name] = self._seals.get(voice.name, 0) + 1
                if self._seals[voice.name] % _SHORT_CHUNKS == 0:
                    self.store.tidy(voice.name)

    def _commit(self, batches: list[tuple[Voice, Batch]], now: float, change: wire.Change) -> None:
        """Have batches kept: here at once, elsewhere once they have arrived."""
        for upstream in {voice.upstream for voice, _ in batches} - {""}:
            group = [(voice, batch) for voice, batch in batches if voice.upstream == upstream]
            self.outward.offer(upstream, group)
            for voice, batch in group:
                voice.handed(batch, now)
                _note(change, batch)
        for group in self._keep([item for item in batches if not item[0].upstream]):
            self._unsynced = True
            for voice, batch in group:
                voice.handed(batch, now)
                voice.kept(batch)
                self.stock.note(batch.facts)
                _note(change, batch)

    def _keep(self, batches: list[tuple[Voice, Batch]]) -> list[list[tuple[Voice, Batch]]]:
        """Keep batches, all in one transaction; return those that were kept.

        A batch that cannot be kept for what is in it must not hold up the others: its speaker is set aside, whole.
        """
        if not batches:
            return []
        try:
            self.store.keep([batch for _, batch in batches])
        except (StoreError, OSError):
            raise  # disk or lock: to be tried again
        except Exception as error:
            if len(batches) > 1:
                return [group for item in batches for group in self._keep([item])]
            voice, batch = batches[0]
            if isinstance(voice, Heard):  # nobody could look into it: it is counted, and passed over
                self.mail.trouble = f"{voice.name}: it cannot be kept: {type(error).__name__}: {error}"[:500]
                self.store.keep([Batch(batch.origin, batch.lane, batch.place, batch.damaged + 1, batch.refused)])
                return [batches]
            self.set_aside[voice.name] = f"it cannot be kept: {type(error).__name__}: {error}"
            self.forget(voice.name)
            return []
        return [batches]

    def _bury(self) -> None:
        """Remove the spools of those who are dead, and all of whose words are kept."""
        finished = [s for s in self.speakers.values() if s.finished and (s.origin is None or (s.named and s.gauged))]
        if not finished:
            return
        for speaker in finished:
            if speaker.origin is None:
                if not speaker.remove_empty():
                    self.set_aside[speaker.name] = "no segment of it has a readable header"
                continue
            if not speaker.upstream:
                self.store.tidy(speaker.name)
            else:
                self.outward.offer(speaker.upstream, [(speaker, speaker.last())], over=True)
        self.flush()  # all that they said must be on disk before their spools go
        for speaker in finished:
            if speaker.origin is not None:
                try:
                    speaker.remove()
                except OSError as error:  # somebody has put something there
                    self.set_aside[speaker.name] = f"all of it is kept, but it cannot be removed: {error}"
            self.forget(speaker.name)
            self.watching.bury(speaker.name)

    def forget(self, name: str) -> None:
        """Let go of an origin; if its spool is still there, it is found again."""
        self.watching.forget(name)
        self.gauges.forget(name)
        if (speaker := self.speakers.pop(name, None)) is not None:
            speaker.shut()
        self._seals.pop(name, None)
        self._stamped.discard(name)

    def flush(self) -> None:
        """Make the last second safe against a power cut; only then free what the store has."""
        for speaker in self.speakers.values():
            speaker.sync()
        self.own.sync()
        safe = self.mail.sync()
        self.store.sync()
        self._unsynced = False
        if safe or self.mail.broken:
            self.on_safe(safe)
        for speaker in self.speakers.values():
            speaker.free()
        for heard in self.mail.free(time.monotonic()):
            self._seals.pop(heard.name, None)
            if not heard.upstream:
                self.store.tidy(heard.name)
            elif heard.ready:
                self.outward.offer(heard.upstream, [(heard, heard.last())], over=True)

    def start_over(self, error: Exception) -> None:
        """After a failed commit: go back to the marks, as a new hub would."""
        self.trouble = f"{type(error).__name__}: {error}"
        for name in list(self.speakers):
            self.forget(name)
        self.mail.start_over()

    def let_go(self) -> None:
        """Let go of everything, touching nothing on disk."""
        self.usage.close()
        for name in list(self.speakers):
            self.forget(name)
        self.mail.shut()
        self.store.close()

    def close(self) -> None:
        """Seal everything and let go."""
        try:
            self.usage.close()
            self.turn(seal={""})
            self.own.close()
            for speaker in self.speakers.values():
                speaker.gone = speaker.gone or speaker.of_hub
            self.turn()
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
