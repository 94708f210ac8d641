"""The hub's turn: read spools and inboxes, commit or ship, seal, flush, and remove what is no longer needed.

`Keeper.step` is one pass over everything, and ends in tenths of a second. It knows no threads and no sockets; it
returns what was committed.
"""

import os
import resource
import time
from collections import ChainMap
from collections.abc import Callable, Container, Sequence

from vedette import kernel, wire
from vedette.blobs import Blobs
from vedette.errors import FormatError, VedetteError
from vedette.home import Home
from vedette.hub.own import Own
from vedette.hub.peers.blob_queue import BlobQueue
from vedette.hub.peers.inbox_reader import InboxReader
from vedette.hub.peers.relay import Relay
from vedette.hub.peers.remote_origin import RemoteOrigin
from vedette.hub.peers.trust import Trust
from vedette.hub.peers.upstreams import OriginReader, Upstreams, marks_of
from vedette.hub.processes.metering import Metering
from vedette.hub.processes.progress import ProgressRecorder
from vedette.hub.processes.watcher import Watcher
from vedette.hub.turn.blob_collector import BlobCollector
from vedette.hub.turn.commits import Batches, Commits
from vedette.hub.turn.ends import Tries, with_places
from vedette.hub.turn.heartbeats import Heartbeats
from vedette.hub.turn.masking import masking
from vedette.hub.turn.orders import Orders
from vedette.hub.turn.rank_tries import RankTries
from vedette.hub.turn.seal_wish import SealWish
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.hub.turn.tidying import Tidying
from vedette.hub.turn.turns import Turns
from vedette.ids import above
from vedette.model import LANE_FACTS, LANE_SAMPLES
from vedette.segment import list_segments
from vedette.settings import Settings
from vedette.store import Mark, Store
from vedette.store.parcels import weight_of
from vedette.store.points import MOST_GROUPS
from vedette.tail import OpenFiles

_LAST_TURNS = 4
_LEAVE_S = 1.0  # how long a hub that was told to end goes on sealing
_READ_S = 0.2  # how long a pass reads
_MOST_FACTS = 4000  # that a pass commits, about: each takes some 40 us; long ones count as several
_MOST_NEW = 200  # spools that one pass begins to read
_MOST_REMOVED, _REMOVE_S = 2 * _MOST_NEW, 0.2  # spools that one pass removes, and how long that may take
_MANY = 200  # spools beyond which quiet ones are not looked at in every pass
_MOST_FILES = 48  # segments that are open at once
_LEAST_PIDFDS, _OTHER_FILES = 16, 160  # pidfds may take what sockets, segments, the store and helpers leave
_MOST_UNSAFE_BYTES = 4 << 20  # bytes of shipments that may wait for a flush: their senders wait for the acknowledgement

# Called with the shipments to acknowledge, and the origins that are not accepted, by inbox.
OnSafe = Callable[[dict[str, int], dict[str, dict[str, str]]], None]


class Keeper:
    """Keeps one home. A new keeper finds all that this one knows in the store's marks, the spools and the inboxes."""

    def __init__(
        self,
        home: Home,
        store: Store,
        settings: Settings,
        pids: int | None = None,
        dial: Callable[[str], Relay] | None = None,
        *,
        measure: bool = False,
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        """Keep this store.

        `pids`: the socket that processes send their pidfds to. `dial` begins a relay to an address; without it,
        records that are meant for other hubs wait. `measure`: start the meter. `holds` tells whether the home is still
        the one that this hub keeps: it may have been removed, and made anew.
        """
        self._holds = holds
        kernel.boot()  # read it now, while files can still be opened
        self.home = home
        self.pace = settings.hub
        self.store = store
        self.readers: dict[str, SpoolReader] = {}
        self._files = OpenFiles(_MOST_FILES)
        self.trust = Trust(store, lambda: (each.origin for each in self.readers.values() if each.origin is not None))
        self.inboxes = InboxReader(
            home.inbox, lambda name: marks_of(store, name, elsewhere=bool(self.inboxes.onward)), settings, self.trust
        )
        self.blobs = Blobs(home, settings.limits)
        self.blob_queue = BlobQueue(self.blobs)
        self.blob_collector = BlobCollector(self.blobs, store, self.blob_queue)
        self.upstreams = Upstreams(self.readers, self.inboxes, store, settings.hub, dial, self.blob_queue)
        self.own = Own(home)
        self.orders = Orders(self.own.say)
        self.progress = ProgressRecorder(self.own.say)
        most_pidfds = max(_LEAST_PIDFDS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES)
        self.watcher = Watcher(self.own.say, pids, self.orders.stopped, most_pidfds)
        self.metering = Metering(home, store, settings) if measure else None
        self.set_aside = self.upstreams.set_aside
        self.trouble = ""
        self.on_safe: OnSafe = lambda _safe, _refused: None
        self._limits = settings.limits
        self._synced = time.monotonic()
        self.unsynced = False  # something was committed since the last flush
        self.rank_tries = RankTries(store, self.own.say)
        self.tidying = Tidying(store)
        self.mask = masking(on=settings.hub.mask)
        self._commits = Commits(
            store, self.upstreams, self.inboxes, self.blob_collector, self.rank_tries, self.mask, self.tidying.ask
        )
        self._read_turns = Turns(self._process_of)
        self._facts_turns, self._seal_turns = Turns(self.trust.holder_of_relay), Turns(self.trust.holder_of_relay)
        self.longest_turn_s = 0.0
        self._heartbeats = Heartbeats(store, self.upstreams, self.watcher, self.readers, self._synced)

    def turn(self, *, seal: set[str] | None = None) -> tuple[wire.Change, bool]:
        """Do passes until some runs are sealed, or only one; return what was committed, and whether there is more.

        `seal`: the runs whose samples must be in the store when this returns; "" is all of them.
        """
        wishes = [SealWish(run) for run in seal or ()]
        change, more = self.step(wishes)
        while not all(wish.is_done for wish in wishes):
            also, more = self.step(wishes)
            for field in ("spans", "events", "points"):
                getattr(change, field).extend(getattr(also, field))
        return change, more

    def step(self, wishes: Sequence[SealWish] = ()) -> tuple[wire.Change, bool]:
        """Do one pass over everything; return what was committed, and whether there is more to do at once.

        It ends in some tenths of a second, however much there is to do. `wishes` that came true are done.
        """
        now = time.monotonic()
        change = wire.Change([], [], [])
        new = [wish for wish in wishes if not wish.has_begun]
        self._poll_upstreams()
        undiscovered = self._discover()
        more = self.watcher.look(self.readers) or undiscovered
        if new:  # the first facts of a spool tell whose it is, and whether it has bars
            more = self._read(now, change) or more
        self.progress.look(self.readers, now, everything=bool(new))
        if self.own.names - self.readers.keys():  # the hub's own spool is new: read it in this turn
            self._discover()
        for wish in new if not undiscovered else ():
            wish.begin(self.readers)
        more = self._read(now, change, all_of_them=bool(wishes)) or more
        if len(self.watcher.watches) < len(self.readers):  # the first read of a spool tells its process
            more = self.watcher.look(self.readers) or more
        reached = [wish for wish in wishes if wish.is_reached(self.readers, self._may_read)]
        wanted_waits, others_wait = self._seal(now, change, {wish.run for wish in reached})
        for wish in reached:
            wish.is_done = not wanted_waits
        more = self._remove_finished() or more
        self.orders.tend(self.watcher.watches)
        self.rank_tries.tend(now)
        if self.metering is not None:
            self.metering.tend(self.readers, self.watcher.watches)
        self._heartbeats.beat(now)
        if self.flush_in_s <= 0 or self.inboxes.unsafe_bytes > _MOST_UNSAFE_BYTES:
            self._synced = now
            self.flush()
        self.tidying.step()
        self.longest_turn_s = max(self.longest_turn_s, time.monotonic() - now)
        return change, more or wanted_waits or others_wait

    @property
    def flush_in_s(self) -> float:
        """Seconds until the next flush: it must be done before the oldest unflushed record is `sync_s` old."""
        return self._synced + self.pace.sync_s - self.pace.turn_s - time.monotonic()

    @property
    def helper_troubles(self) -> list[str]:
        """What is wrong with the helper processes that a turn tends, a sentence each."""
        return [self.metering.trouble] if self.metering is not None and self.metering.trouble else []

    def living(self) -> list[str]:
        """Return the origins whose processes are not known to be dead."""
        return [name for name, reader in list(self.readers.items()) if not (reader.gone or reader.of_hub)]

    def origins_here(self) -> Container[str]:
        """Return the origins that are being read, from a spool or from another hub."""
        return ChainMap[str, object](self.readers, self.inboxes.origins)  # type: ignore[arg-type]

    def comes_from(self, name: str) -> int | None:
        """Return the offset from which on samples of an origin come by themselves; None if nobody sends any.

        They come from a spool here, also from one that is not read yet or was set aside, or from another hub. What is
        stored does not come, nor what its spool has lost: that was stored and freed, even if this store is a new one.
        """
        spool = os.path.join(self.home.spool, name)
        if name not in self.inboxes.origins and ("/" in name or not os.path.isdir(spool)):
            return None
        mark = self.store.marks([name]).get((name, LANE_SAMPLES), Mark()).offset
        try:
            return max(mark, min(list_segments(spool, LANE_SAMPLES), default=0))
        except OSError:  # it cannot be read now, but it may come all the same
            return mark

    def origin_readers(self) -> list[OriginReader]:
        """Return the readers of all origins, of this host and of other hubs."""
        return [*self.readers.values(), *self.inboxes.origins.values()]

    def _poll_upstreams(self) -> None:
        known, safe = self.upstreams.poll()
        for name in self.set_aside.keys() & self.readers.keys():  # a hub does not accept it
            self.forget(name)
        self._heartbeats.repeat(known)
        self.unsynced = self.unsynced or safe

    @property
    def idle(self) -> bool:
        """Whether no process is known to live, no end is due, and all records are sealed and flushed."""
        all_done = all(
            (reader.of_hub or self.watcher.is_unwatchable(name)) and reader.ready and not reader.waiting_bytes
            for name, reader in self.readers.items()
        )
        all_kept = not self.unsynced and self.inboxes.idle and self.blob_queue.idle and not self.tidying.busy
        return all_done and all_kept and not self.orders.busy and not self.rank_tries.waits

    @property
    def is_stranded(self) -> bool:
        """Whether all that is left to do here is meant for hubs that are not connected, and no process lives."""
        connected = {upstream for upstream, relay in self.upstreams.relays.items() if relay.session is not None}
        for name, reader in self.readers.items():
            lives = not (reader.of_hub or reader.gone or self.watcher.is_unwatchable(name))
            if lives or (reader.upstream in connected if reader.upstream else bool(reader.waiting_bytes)):
                return False
        blobs = connected.intersection(self.blob_queue.upstreams())
        return not blobs and not self.unsynced and self.inboxes.idle and not self.orders.busy

    @property
    def has_read_all(self) -> bool:
        """Whether no record is known to wait unread."""
        all_read = all(self._may_read(reader) and not reader.has_more for reader in self.readers.values())
        return (
            all_read
            and not self.set_aside
            and not self.inboxes.set_aside
            and self.upstreams.may_read(self.inboxes.onward)
        )

    def _discover(self) -> bool:
        """Begin to read new spools, some at a time; tell whether there are more."""
        if not self._holds():  # what is there now is for another hub
            return False
        try:
            with os.scandir(self.home.spool) as entries:
                names = [e.name for e in entries if e.name.isascii() and e.is_dir(follow_symlinks=False)]
        except OSError:
            return False
        found = [name for name in names if name not in self.readers and name not in self.set_aside]
        new = sorted(found)[:_MOST_NEW]
        if not new:
            return False
        marks, none = self.store.marks(new), Mark()
        for name in new:
            known = marks.get((name, LANE_FACTS), none), marks.get((name, LANE_SAMPLES), none)
            reader = self.readers[name] = SpoolReader(
                os.path.join(self.home.spool, name), *known, self._limits, self._files
            )
            if reader.origin is None and known != (none, none):  # no header is left, but the store knows the origin
                reader.origin = self.store.origin(name)
            if reader.upstream:
                self._register(reader)
        return len(found) > len(new)

    def _process_of(self, name: str) -> str:
        """Return what tells the process of a spool from others: one that begins runs by the thousand has one turn."""
        origin = self.readers[name].origin if name in self.readers else None
        return f"{origin.boot} {origin.pid} {origin.started}" if origin is not None else name

    def _read(self, now: float, change: wire.Change, *, all_of_them: bool = True) -> bool:
        """Read on in spools and inboxes for a while, and commit facts; tell whether there is more.

        Where spools are many, those that have been quiet are looked at once a second, unless `all_of_them` are.
        """
        batches: Batches = []
        more = False
        begun = time.monotonic()
        sparing = not all_of_them and len(self.readers) > _MANY
        tries = Tries(self.readers)
        room = _MOST_FACTS
        readers = [
            reader
            for reader in self.readers.values()
            if not reader.to_remove and self._may_read(reader) and not (sparing and reader.is_quiet(now))
        ]
        for reader in self._read_turns.sort(readers, lambda each: each.name):
            name = reader.name
            if room <= 0 or time.monotonic() - begun > _READ_S:
                more = True
                break
            self._read_turns.had(name)
            known = reader.origin is not None
            try:
                batch = reader.read_facts()
                reader.read_samples(now)
                more = more or reader.has_more
            except FormatError as error:  # a newer version wrote it: leave it as it is
                self.set_aside[name] = str(error)
                self.forget(name)
                continue
            except (OSError, MemoryError) as error:  # too many open files, a bad disk: it is tried again next turn
                self.trouble = f"{reader.directory}: {error}"
                self.forget(name)
                continue
            if not known and reader.upstream:  # the first read tells that it is meant for another hub
                self._register(reader)
            elif batch is not None:
                batch.facts = [(n, with_places(fact, reader, tries)) for n, fact in batch.facts]
                batches.append((reader, batch))
            room -= sum(weight_of(fact) for _, fact in batch.facts) if batch is not None else 0
        if self.upstreams.may_read(self.inboxes.onward):
            more = self.inboxes.read(now) or more
        self.upstreams.introduce_remotes()
        room = max(room, _MOST_FACTS // 2)  # they have their turn, however much spools have
        telling = [remote for remote in self.inboxes.origins.values() if remote.has_facts]
        for remote in self._facts_turns.sort(telling, lambda each: each.relay):
            if room > 0 and (arrived := remote.read_facts(room)) is not None:
                self._facts_turns.had(remote.relay)
                batches.append((remote, arrived))
                room -= sum(weight_of(fact) for _, fact in arrived.facts)
        more = more or any(remote.has_facts for remote in self.inboxes.origins.values())
        if batches:
            self._commit(batches, now, change)
        return more or bool(batches)

    def _register(self, reader: SpoolReader) -> None:
        self.upstreams.register(reader)
        if reader.name in self.set_aside:
            self.forget(reader.name)

    def _may_read(self, reader: SpoolReader) -> bool:
        return reader.ready and self.upstreams.may_read(reader.upstream)

    def _seal(self, now: float, change: wire.Change, asked: set[str]) -> tuple[bool, bool]:
        """Seal what is asked for, and what is due, up to a number of groups; tell of both whether some had to wait."""
        awaited = self.store.awaited()
        if not awaited.isdisjoint(self.set_aside):
            self.store.stop_awaiting(self.set_aside)
        wanted: list[OriginReader] = []
        others: list[OriginReader] = []
        remotes = self._seal_turns.sort(self.inboxes.origins.values(), lambda each: each.relay)
        readers: list[OriginReader] = [*self.readers.values(), *remotes]
        for reader in readers:
            if not reader.ready:
                continue
            if reader.name in awaited or (
                asked and ("" in asked or any(asked.intersection(above(span)) for span in reader.spans))
            ):
                wanted.append(reader)
            elif reader.due(now, self._pace_s(reader)) or (
                isinstance(reader, RemoteOrigin) and reader.relay in self.inboxes.backlogged
            ):
                others.append(reader)
        batches: Batches = []
        room = MOST_GROUPS
        waits = [False, False]
        for number, readers in enumerate((wanted, others)):
            for reader in readers:
                if room <= 0:
                    waits[number] = True
                    break
                everything = readers is wanted or bool(reader.upstream)
                batch = reader.sealing(now, self._pace_s(reader), all_of_it=everything, most=room)
                if batch is not None:
                    if isinstance(reader, RemoteOrigin):
                        self._seal_turns.had(reader.relay)
                    batches.append((reader, batch))
                    room -= len(batch.columns)
                    waits[number] = waits[number] or reader.is_cut
        if batches:
            self._commit(batches, now, change)
        return waits[0], waits[1]

    def _pace_s(self, reader: OriginReader) -> float:
        return self.pace.ship_s if reader.upstream else self.pace.seal_s

    def _commit(self, batches: Batches, now: float, change: wire.Change) -> None:
        if not all(reader.upstream for reader, _ in batches):
            self.unsynced = True
        for name, why in self._commits.commit(batches, now, change).items():
            self.set_aside[name] = why
            self.forget(name)

    def _remove_finished(self) -> bool:
        """Remove spools of processes that are dead or have said their end, if all their records are committed.

        Some at a time: a slow disk takes milliseconds for each. Tell whether there are more.
        """
        found = [
            s
            for s in self.readers.values()
            if s.to_remove
            or (s.finished and (s.origin is None or (s.end_recorded and s.progress_recorded)))
            or (s.progress_recorded and s.rests)
        ]
        now = found[:_MOST_REMOVED]
        if not now:
            return False
        for reader in found:
            reader.to_remove = True
        for reader in now:
            if reader.origin is None:
                if not reader.remove_empty():
                    self.set_aside[reader.name] = "no segment of it has a readable header"
            elif reader.upstream:
                self.upstreams.ship(reader.upstream, [(reader, reader.last())], over=True)
            else:
                self.tidying.ask(reader.name)
        self.flush()  # their records must be on disk before the spools are removed
        if not self._holds():
            return False
        begun = time.monotonic()
        for number, reader in enumerate(now):
            if reader.origin is not None:
                if number and time.monotonic() - begun > _REMOVE_S:
                    return True
                try:
                    reader.remove() if reader.gone else reader.remove_read()
                except OSError as error:  # there is a file in it that is not ours, for example
                    self.set_aside[reader.name] = f"all of it is in the store, but it cannot be removed: {error}"
            self.forget(reader.name)
            self.watcher.remove(reader.name)
        return len(found) > len(now)

    def forget(self, name: str) -> None:
        """Forget an origin; if its spool is still there, the next turn finds it again."""
        self.watcher.forget(name)
        self.progress.forget(name)
        if (reader := self.readers.pop(name, None)) is not None:
            reader.shut()
        self._commits.forget(name)
        self._heartbeats.forget(name)

    def flush(self) -> None:
        """Flush everything to disk; only then remove what is committed, and acknowledge shipments."""
        read_on = [reader for reader in self.readers.values() if not reader.to_remove]
        for reader in read_on:
            reader.sync()
        self.own.sync()
        safe = self.inboxes.sync()
        self.trust.save()
        self.store.sync()
        self.unsynced = False
        refused = self.inboxes.refusals()
        if safe or refused or self.inboxes.broken:
            self.on_safe(safe, refused)
        if not self._holds():  # the store is gone, and what is in these places now is for another hub
            return
        for reader in read_on:
            reader.free()
        for remote in self.inboxes.free(time.monotonic()):
            self._commits.forget(remote.name)
            if not remote.upstream:
                self.tidying.ask(remote.name)
            elif remote.ready:
                self.upstreams.ship(remote.upstream, [(remote, remote.last())], over=True)

    def start_over(self, error: Exception) -> None:
        """After a failed turn: forget everything and read again from the marks, as a new hub would."""
        self.trouble = str(error) if isinstance(error, VedetteError) else f"{type(error).__name__}: {error}"
        self.tidying.forget()
        for name in list(self.readers):
            self.forget(name)
        self.inboxes.start_over()

    def let_go(self) -> None:
        """Close everything, without a change on disk."""
        if self.metering is not None:
            self.metering.close()
        for name in list(self.readers):
            self.forget(name)
        self.inboxes.shut()
        self.store.close()

    def _seal_for_a_while(self) -> None:
        """Seal what there is, if that is soon done. The rest stays in the spools, where the next hub finds it."""
        until = time.monotonic() + _LEAVE_S
        wish = SealWish("")
        while not wish.is_done and time.monotonic() < until:
            self.step([wish])

    def close(self) -> None:
        """Seal what can be sealed soon, and close."""
        try:
            if self.metering is not None:
                self.metering.close()
            self._seal_for_a_while()
            for name in self.own.close() & self.readers.keys():
                self.readers[name].gone = True  # only these: a helper that still lives goes on writing
            for _ in range(_LAST_TURNS):  # one reads the rest, one finds that nothing follows, one removes the spool
                self.turn()
                if not any(reader.gone and not reader.upstream for reader in self.readers.values()):
                    break
            self.flush()
        except Exception as error:  # the spools are safe, and the next hub reads them
            self.trouble = str(error)
        self.let_go()
