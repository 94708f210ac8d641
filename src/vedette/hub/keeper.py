"""The hub's work: read the spools, keep and seal or pass on, flush and free, and name the end of what died.

`turn` is one pass over everything. It knows no threads and no sockets; what was committed comes out as a Change.
"""

import os
import select
import time
from collections import ChainMap
from collections.abc import Callable, Container

from vedette import kernel, wire
from vedette.errors import FormatError, SettingError, StoreError
from vedette.home import Home
from vedette.hub.heard import Heard
from vedette.hub.inbox import Mail
from vedette.hub.liveness import Death, Watch, verdict
from vedette.hub.orders import Orders
from vedette.hub.own import Own
from vedette.hub.relay import Linked, Mine, Relay, Told
from vedette.hub.speaker import Speaker
from vedette.model import HUB, KINDS, LANE_FACTS, LANE_SAMPLES, Command, Event, Fact, Origin, Span
from vedette.settings import Settings
from vedette.store import Batch, Mark, Store

_HEARD_EVERY_S = 10.0
_SHORT_CHUNKS = 64
_STILLBORN_S = 60.0
_MOST_UNSAFE_BYTES = 4 << 20  # of shipments: others wait for them to be acknowledged

_ELSEWHERE = {LANE_FACTS: "f>", LANE_SAMPLES: "s>"}  # marks of what another hub has acknowledged

Voice = Speaker | Heard


class Keeper:
    """Keeps one home. All that it knows can be found again from the store's marks, the spools and the inboxes."""

    def __init__(
        self,
        home: Home,
        store: Store,
        settings: Settings,
        handed: dict[tuple[int, int], int] | None = None,
        dial: Callable[[str], Relay] | None = None,
    ) -> None:
        """Keep this store.

        `handed`: pidfds by (pid, start time) that this hub was given at its birth. `dial` makes the way to another
        hub out of its address; without it, what is meant for others waits.
        """
        self._handed = handed or {}
        kernel.boot()  # asked while there are descriptors to ask with
        self.home = home
        self.pace = settings.hub
        self._limits = settings.limits
        self.store = store
        self.speakers: dict[str, Speaker] = {}
        onward = bool(settings.hub.onward)
        self.mail = Mail(home.inbox, lambda name: self._marks(name, elsewhere=onward), settings)
        self.own = Own(home)
        self.orders = Orders(self.own.say)
        self.relays: dict[str, Relay] = {}
        self.set_aside: dict[str, str] = {}
        self.trouble = ""
        self.on_safe: Callable[[dict[str, int]], None] = lambda _safe: None  # shipments, by inbox, to be acknowledged
        self.through: set[str] = set()  # the homes of hubs that relay through this one
        self._dial = dial
        self._mine: set[str] = set()  # addresses of hubs that turned out to be this one
        self._watches: dict[str, Watch] = {}
        self._deaths: dict[str, Death] = {}  # of processes whose spools are still here
        self._poll = select.poll()
        self._by_fd: dict[int, str] = {}
        self._synced = self._heard = time.monotonic()
        self._seals: dict[str, int] = {}
        self._stamped: set[str] = set()
        self._introduced: set[str] = set()  # of those whom other hubs passed on, to the next one
        self._unsynced = False

    def turn(self, *, seal: set[str] | None = None) -> tuple[wire.Change, bool]:
        """Do one pass; return what was committed, and whether there is more to read at once.

        `seal`: the runs whose samples must be in the store when this returns ("" for all of them).
        """
        now = time.monotonic()
        change = wire.Change([], [], [])
        self._hear_relays(change)
        self._discover()
        more = self._look_for_deaths()
        ends = {name: speaker.ends() for name, speaker in self.speakers.items()} if seal else {}
        more = self._read(now, change) or more
        if len(self._watches) < len(self.speakers):  # by now it is known who they are
            more = self._look_for_deaths() or more
        while more and any(
            name in ends and self._may_read(s) and not s.has_reached(ends[name]) for name, s in self.speakers.items()
        ):
            self._seal(now, change, set())
            more = self._read(now, change)
        self._seal(now, change, seal or set())
        self._bury()
        self.orders.tend(self._watches)
        self._stamp(now)
        if now - self._synced >= self.pace.sync_s or self.mail.unsafe_bytes > _MOST_UNSAFE_BYTES:
            self._synced = now
            self.flush()
        return change, more

    def _stamp(self, now: float) -> None:
        """Put on record who lives: each one as soon as it is watched, then all of them time and again."""
        names = [name for name in self._watches if name not in self._stamped and not self.speakers[name].gone]
        if now - self._heard >= _HEARD_EVERY_S:
            self._heard = now
            names = [name for name, speaker in self.speakers.items() if not speaker.gone]
            self._beat(names)
        elif names:
            self._beat(names)
        self._stamped.update(names)

    def living(self) -> list[str]:
        """Return the origins whose processes live, or may."""
        own = self.own.names
        return [name for name, speaker in list(self.speakers.items()) if not speaker.gone and name not in own]

    def heard_here(self) -> Container[str]:
        """Return the origins that are being heard, from a spool or from another hub."""
        return ChainMap[str, object](self.speakers, self.mail.heard)  # type: ignore[arg-type]

    def _marks(self, name: str, *, elsewhere: bool = False) -> tuple[Mark, Mark]:
        """Return how far an origin is in this store, or how far it is known to be `elsewhere`."""
        marks, none = self.store.marks([name]), Mark()
        facts, samples = (_ELSEWHERE[lane] if elsewhere else lane for lane in (LANE_FACTS, LANE_SAMPLES))
        return marks.get((name, facts), none), marks.get((name, samples), none)

    def _voices(self) -> list[Voice]:
        return [*self.speakers.values(), *self.mail.heard.values()]

    # Other hubs.

    def _relay(self, upstream: str) -> Relay | None:
        """Return the way to a hub, made when it is first needed; None when there is none."""
        if upstream not in self.relays and self._dial is not None:
            self.relays[upstream] = self._dial(upstream)
        return self.relays.get(upstream)

    def _enrol(self, speaker: Speaker) -> None:
        """Have a speaker that is meant for another hub wait until it is known how far it is there."""
        if self.pace.reroute:
            speaker.upstream = self.pace.reroute
        if speaker.upstream in self._mine:
            speaker.upstream = ""
            return
        speaker.ready = False
        speaker.rewind(*self._marks(speaker.name, elsewhere=True))
        try:
            relay = self._relay(speaker.upstream)
        except SettingError as error:
            self.set_aside[speaker.name] = str(error)
            return
        if relay is not None:
            relay.introduce([speaker.name])

    def _hear_relays(self, change: wire.Change) -> None:
        """Take in what other hubs say."""
        for upstream, relay in self.relays.items():
            for item in relay.news():
                speakers = {name: one for name, one in self.speakers.items() if one.upstream == upstream}
                if isinstance(item, Mine):
                    self._mine.add(upstream)
                    for speaker in speakers.values():
                        speaker.upstream, speaker.ready = "", True
                        speaker.rewind(*self._marks(speaker.name))
                elif not isinstance(item, Told):
                    for speaker in speakers.values():
                        speaker.ready = False
                    if upstream == self.pace.onward:
                        self.mail.start_over()
                        self._introduced.clear()
                    if isinstance(item, Linked):
                        relay.introduce(list(speakers))
                elif item.session is relay.session:
                    self._heed(relay, item, speakers, change)

    def _heed(self, relay: Relay, told: Told, speakers: dict[str, Speaker], change: wire.Change) -> None:
        message = told.message
        if isinstance(message, wire.Marks):
            for name, (facts, samples) in message.marks.items():
                if (speaker := speakers.get(name)) is not None and not speaker.ready:
                    speaker.rewind(Mark(facts), Mark(samples))
                    speaker.ready = True
                elif (heard := self.mail.heard.get(name)) is not None and not heard.ready:
                    heard.meet(facts, samples)
            self._stamped.difference_update(message.marks)  # the other hub should know at once that they live
        elif isinstance(message, wire.Kept):
            safe = relay.acknowledged(told.session, message.seq)
            for name, batch in safe:
                voice = speakers.get(name) or self.mail.heard.get(name)
                if voice is not None:
                    voice.kept(batch)
                _note(change, batch)
            # Should the other hub be out of reach at the next start, it is known here where to go on.
            self.store.keep([Batch(b.origin, _ELSEWHERE[b.lane], b.place) for _, b in safe])
            self._unsynced = True

    def order(self, command: Command, upstream: str | None = None) -> int | None:
        """Do what a command asks of processes here; return of how many, None when it was given before.

        `upstream`: the hub that gives it, which may command only what is meant for it.
        """
        if not self.orders.is_new(command, upstream):
            return None
        pairs = [
            (speaker.origin, self._watches[name])
            for name, speaker in self.speakers.items()
            if speaker.origin and name in self._watches and upstream in (None, speaker.upstream)
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
        if self.pace.onward:
            self.mail.alive |= {name: (t, skews.get(name)) for name, t in heard.items()}
        self.store.keep([], heard, skews)
        self._unsynced = True

    def _beat(self, names: list[str]) -> None:
        """Say that these are alive, here or where they are kept."""
        heard = {name: self._heard_of(name) for name in names}
        self.store.keep([], {name: t for name, t in heard.items() if not self.speakers[name].upstream})
        for upstream, relay in self.relays.items():
            times = {name: t for name, t in heard.items() if self.speakers[name].upstream == upstream}
            below = self._alive_below() if upstream == self.pace.onward else {}
            through = sorted(self.through) if upstream == self.pace.onward else []
            times |= {name: t for name, (t, _) in below.items()}
            relay.beat(times, {name: skew for name, (_, skew) in below.items() if skew is not None}, through)

    def _alive_below(self) -> dict[str, tuple[int, float | None]]:
        """Return those that other hubs have lately said to be alive, to be passed on."""
        since_t = time.time_ns() - int(3 * _HEARD_EVERY_S * 1e9)
        self.mail.alive = {name: item for name, item in self.mail.alive.items() if item[0] > since_t}
        return self.mail.alive

    def _heard_of(self, name: str) -> int:
        """Return when an origin was last known alive: now, or when it last spoke if it cannot be watched."""
        watch = self._watches.get(name)
        return self.speakers[name].heard_t if watch is None or watch.unknown else time.time_ns()

    @property
    def idle(self) -> bool:
        """Whether nobody is known to live, and all that was said is sealed and flushed."""
        own = self.own.names
        strangers = all(
            (name in own or (name in self._watches and self._watches[name].unknown))
            and speaker.ready
            and not speaker.waiting_bytes
            for name, speaker in self.speakers.items()
        )
        return strangers and not self._unsynced and self.mail.idle

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
            if dead and watch.death is not None:
                self._forget_fd(fd)
                self._deaths.setdefault(name, watch.death)
                self.speakers[name].gone = found = True
        for speaker in self.speakers.values():
            if speaker.gone and not speaker.named and speaker.origin is not None:
                try:
                    self._name_the_end(speaker)
                except OSError as error:  # the disk is full, say: it is said later, and until then the spool stays
                    self.trouble = str(error)
        return found

    def _forget_fd(self, fd: int | None) -> None:
        if fd is not None:
            self._by_fd.pop(fd, None)
            try:
                self._poll.unregister(fd)
            except (KeyError, OSError):
                pass

    def _read(self, now: float, change: wire.Change) -> bool:
        batches: list[tuple[Voice, Batch]] = []
        more = False
        for name, speaker in list(self.speakers.items()):
            if not self._may_read(speaker):
                continue
            known = speaker.origin is not None
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
            if not known and speaker.upstream:  # it has just begun to speak, and not to us
                self._enrol(speaker)
            elif batch is not None:
                batches.append((speaker, batch))
        if self._may_pass_on(self.pace.onward):
            more = self.mail.read(now) or more
        self._introduce_heard()
        ready = [heard for heard in self.mail.heard.values() if heard.ready]
        batches += [(heard, batch) for heard in ready if (batch := heard.read_facts()) is not None]
        if batches:
            self._commit(batches, now, change)
        return more or bool(batches)

    def _introduce_heard(self) -> None:
        """Ask the next hub how far those are there that are to be passed on."""
        new = [name for name, heard in self.mail.heard.items() if not heard.ready and name not in self._introduced]
        if new and (relay := self.relays.get(self.pace.onward)) is not None and relay.session is not None:
            relay.introduce(new)
            self._introduced.update(new)

    def _may_read(self, speaker: Speaker) -> bool:
        return speaker.ready and self._may_pass_on(speaker.upstream)

    def _may_pass_on(self, upstream: str) -> bool:
        """Tell whether there is room for more on the way to a hub; the way to the store here is always free."""
        if not upstream:
            return True
        relay = self._relay(upstream)
        return relay is not None and relay.has_room

    def _seal(self, now: float, change: wire.Change, asked: set[str]) -> None:
        batches: list[tuple[Voice, Batch]] = []
        for voice in self._voices():
            if not voice.ready:
                continue
            pace_s = self.pace.ship_s if voice.upstream else self.pace.seal_s
            wanted = bool(asked) and ("" in asked or bool(voice.spans & asked))
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
            self.relays[upstream].offer([(voice.name, batch) for voice, batch in group])
            for voice, batch in group:
                voice.handed(batch, now)
        for group in self._keep([item for item in batches if not item[0].upstream]):
            self._unsynced = True
            for voice, batch in group:
                voice.handed(batch, now)
                voice.kept(batch)
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
        finished = [s for s in self.speakers.values() if s.finished and (s.named or s.origin is None)]
        if not finished:
            return
        for speaker in finished:
            if speaker.origin is None:
                if not speaker.remove_empty():
                    self.set_aside[speaker.name] = "no segment of it has a readable header"
                continue
            if not speaker.upstream:
                self.store.tidy(speaker.name)
            elif (relay := self.relays.get(speaker.upstream)) is not None:
                relay.offer([(speaker.name, speaker.last())], over=True)
        self.flush()  # all that they said must be on disk before their spools go
        for speaker in finished:
            if speaker.origin is not None:
                try:
                    speaker.remove()
                except OSError as error:  # somebody has put something there
                    self.set_aside[speaker.name] = f"all of it is kept, but it cannot be removed: {error}"
            self.forget(speaker.name)
            self._deaths.pop(speaker.name, None)

    def forget(self, name: str) -> None:
        """Let go of an origin; if its spool is still there, it is found again."""
        if (watch := self._watches.pop(name, None)) is not None:
            self._forget_fd(watch.fileno())
            watch.shut()
        if (speaker := self.speakers.pop(name, None)) is not None:
            speaker.shut()
        self._seals.pop(name, None)
        self._stamped.discard(name)

    def _name_the_end(self, speaker: Speaker) -> None:
        """Say how a process ended that did not say so, as soon as that is known: it may be long until all is kept."""
        origin = speaker.origin
        assert origin is not None
        death = self._deaths.get(speaker.name)
        if death is not None and origin.process:
            speaker.hear_out()
            if speaker.state not in KINDS["process"].ends:
                self.own.say(self._last_words(speaker, origin, death), origin.upstream)
        speaker.named = True

    def _last_words(self, speaker: Speaker, origin: Origin, death: Death) -> list[Fact]:
        stacks = speaker.stacks()
        state, cause = verdict(death, speaker.state, speaker.exit_code, stacks)
        t = death.t or speaker.heard_t
        facts: list[Fact] = []
        if stacks and state != "done":
            facts.append(Event(origin.span, t, "stacks", 40, stacks))
        facts.append(Span(origin.process, t, state=state, cause=cause, by=HUB))
        if origin.main:
            # With kind and parent: it may have died before it could say them.
            attempt = origin.process.rpartition("/")[0]
            facts.append(Span(attempt, t, state, cause, HUB, kind="try", parent=origin.span))
        return facts

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
            elif (relay := self.relays.get(heard.upstream)) is not None:
                relay.offer([(heard.name, heard.last())], over=True)

    def start_over(self, error: Exception) -> None:
        """After a failed commit: go back to the marks, as a new hub would."""
        self.trouble = f"{type(error).__name__}: {error}"
        for name in list(self.speakers):
            self.forget(name)
        self.mail.start_over()

    def let_go(self) -> None:
        """Let go of everything, touching nothing on disk."""
        for name in list(self.speakers):
            self.forget(name)
        self.mail.shut()
        self.store.close()

    def close(self) -> None:
        """Seal everything and let go."""
        try:
            self.turn(seal={""})
            own = self.own.close()
            for name in own & self.speakers.keys():
                self.speakers[name].gone = True
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


def _age_s(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0
