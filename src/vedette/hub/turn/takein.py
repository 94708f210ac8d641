"""Takes archives, stores, spools and whole homes of other machines into this home (`vedette sync`).

It is done in short steps between two turns, so that ingest does not wait. The source is never changed. If the hub dies
in the middle, a part is in the store; doing it again adds the rest.
"""

import contextlib
import fcntl
import os
import queue
import sqlite3
import stat
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager

from vedette import wire
from vedette.blobs import NO_LIMITS, Blobs
from vedette.errors import DamagedError, FormatError, NotFoundError, OldStoreError, StoreError, VedetteError
from vedette.fileio import unlink
from vedette.home import Home
from vedette.hub.processes.progress import progress_of
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin
from vedette.segment import list_segments, origin_of
from vedette.store import Batch, Mark, Taken, archive
from vedette.store.sqlite_mend import MAGIC

SCRATCH = "taking-in-"
_SLICE_S = 0.05  # how long it works between two turns of the keeper
_PATIENCE_S = 0.3  # longer than `Tail` waits for a torn record
_SEAL_S = 60.0
_AT_ONCE = 50  # spools that are open at the same time
_BLOCK = 1 << 20
_STORE = "store.db"
_CHUNKS = "chunks of points"
_ROWS = {"events": "lines and events", "axes": _CHUNKS, "chunks": _CHUNKS, "series": _CHUNKS, "blobs": "names of files"}


class Queue:
    """The paths that wait to be taken in. `ask` may be called in any thread, all else in the keeper's."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._asked: queue.SimpleQueue[TakeIn] = queue.SimpleQueue()
        self._doing: TakeIn | None = None
        self._steps: Iterator[None] = iter(())
        remove_scratch(keeper.home)  # of a hub that died

    def ask(self, path: str, tell: Callable[[], object]) -> "TakeIn":
        """Queue a path; `tell` is called in the keeper's thread when it is over."""
        asked = TakeIn(self._keeper, path, tell)
        self._asked.put(asked)
        return asked

    @property
    def busy(self) -> bool:
        """Whether something is being taken in."""
        return self._doing is not None

    def step(self, publish: Callable[[wire.Change], object]) -> bool:
        """Go on for a moment, and publish what has changed; return whether there was something to do."""
        if self._doing is None:
            try:
                self._doing = self._asked.get_nowait()
            except queue.Empty:
                return False
            self._steps = self._doing.steps()
        until = time.monotonic() + _SLICE_S
        try:
            while time.monotonic() < until:
                if self._doing.unwanted:
                    self._end("nobody waits for it any more")
                    return True
                next(self._steps)
            if self._doing.touched:
                spans = sorted(self._doing.touched)
                self._doing.touched.clear()
                publish(wire.Change(spans, spans, spans))
        except StopIteration:
            self._end("")
        except VedetteError as error:
            self._end(str(error))
        except BaseException as error:  # whatever a foreign file causes, it must not end the hub
            self._end(f"it cannot be taken in: {type(error).__name__}: {error}")
        return True

    def refuse(self, why: str) -> None:
        """Fail all that wait, because the hub is leaving."""
        if self._doing is not None:
            self._end(why)
        with contextlib.suppress(queue.Empty):
            while True:
                self._asked.get_nowait().end(why)

    def _end(self, failure: str) -> None:
        assert self._doing is not None
        asked, self._doing = self._doing, None
        with contextlib.suppress(Exception):
            if isinstance(self._steps, Generator):
                self._steps.close()
        asked.end(failure)


class TakeIn:
    """Takes in one path. `steps` does it; `spans`, `events`, `points` count what was new, `touched` are its spans."""

    def __init__(self, keeper: Keeper, path: str, tell: Callable[[], object] = lambda: None) -> None:
        self.over = self.unwanted = False
        self.failure = ""
        self._tell = tell
        self.notes: list[str] = []  # what could not be taken in, though the rest was
        self.spans = self.events = self.points = 0
        self.touched: set[str] = set()
        self._to_come: Counter[str] = Counter()
        self._keeper = keeper
        self._path = os.path.abspath(path)
        self._scratch = os.path.join(keeper.home.root, f"{SCRATCH}{os.getpid()}")

    def end(self, failure: str) -> None:
        """Note that it is over, and why it failed, if it did."""
        self.failure, self.over = failure, True
        self._tell()

    def news(self) -> wire.Message:
        """Return the progress as a message, or why it failed."""
        if self.failure:
            return wire.Refused(self.failure)
        return wire.TakenIn(self.spans, self.events, self.points, list(self.notes), self.over)

    def steps(self) -> Iterator[None]:
        """Do it, step by step; raise VedetteError when there is nothing that can be taken in."""
        try:
            yield from self._take()
            if self._to_come:
                self.notes.append(_said_to_come(self._path, self._to_come))
        except OSError as error:
            raise NotFoundError(f"{self._path} cannot be read: {error.strerror or error}") from None
        finally:
            remove_scratch(self._keeper.home)
        self._keeper.store.sync()

    def _take(self) -> Iterator[None]:
        if not os.path.isdir(self._path):
            if not stat.S_ISREG(os.stat(self._path).st_mode):  # a pipe would block the hub
                raise FormatError(f"{self._path} is neither a file nor a directory")
            with open(self._path, "rb") as file:
                start = file.read(len(MAGIC))
            if start == MAGIC or os.path.basename(self._path) == _STORE:  # even if its first page is damaged
                yield from self._take_blobs(os.path.dirname(self._path))
                yield from self._take_store(self._path)
            else:
                yield from self._take_archive()
            return
        home = Home(self._path)
        if os.path.realpath(home.root) == os.path.realpath(self._keeper.home.root):
            raise FormatError(f"{self._path} is this home itself")
        if os.path.isfile(home.store) or os.path.isdir(home.spool):
            yield from self._take_home(home)
        elif _is_spool(self._path):
            yield from self._take_blobs(_home_of(os.path.dirname(self._path)))
            yield from self._take_spools([self._path])
        elif spools := _spools(self._path):
            yield from self._take_blobs(_home_of(self._path))
            yield from self._take_spools(spools)
        else:
            raise NotFoundError(f"{self._path} is not a home, spool or archive of vedette")

    def _take_home(self, home: Home) -> Iterator[None]:
        """Take in store and spools. If its hub lives, take the store in twice: it may seal spools meanwhile."""
        with _without_hub(home) as still:
            yield from self._take_blobs(home.root)
            if os.path.isfile(home.store):
                yield from self._take_store(home.store, living=not still)
            yield from self._take_spools(_spools(home.spool))
            if not still and os.path.isfile(home.store):
                yield from self._take_store(home.store, living=True)

    def _take_blobs(self, root: str) -> Iterator[None]:
        """Copy the blobs of another home, before the facts that name them; those that do not match are left out."""
        ours, theirs = self._keeper.blobs, Blobs(root, NO_LIMITS)
        if not root or not os.path.isdir(theirs.root):
            return
        for found in theirs.all():
            if ours.size(found.digest) == found.size:
                ours.touch(found.digest)
                continue
            try:
                ours.check_room(found.size)
                with theirs.open(found.digest) as source:
                    for _ in ours.take(source, found.size, found.digest):
                        yield
            except (VedetteError, OSError) as error:  # the others are taken in all the same
                self.notes.append(f"the file {found.digest[:12]} is not taken in: {error}")
            yield

    def _take_archive(self) -> Iterator[None]:
        for _ in archive.unpack(self._path, self._scratch, self._keeper.blobs, self.notes):
            yield
        yield from self._absorb(self._scratch, "mode=rw")

    def _take_store(self, path: str, *, living: bool = False) -> Iterator[None]:
        """Take in a store. If it has a write-ahead log and no hub, copy it first: SQLite would write beside it."""
        if os.path.realpath(path) == os.path.realpath(self._keeper.home.store):
            raise FormatError(f"{path} is the store of this home itself")
        if living:
            yield from self._absorb(path, "mode=ro", lenient=True)
            return
        log = path + "-wal"
        try:
            if not os.path.isfile(log) or not os.stat(log).st_size:
                try:
                    yield from self._absorb(path, "mode=ro&immutable=1", lenient=True)
                    return
                except OldStoreError:
                    pass
            yield from self._copy_store(path)
            yield from self._absorb(self._scratch, "mode=rw", lenient=True)
        except DamagedError:
            yield from self._take_damaged_store(path)

    def _copy_store(self, path: str) -> Iterator[None]:
        remove_scratch(self._keeper.home)
        for end in ("", "-wal"):
            if os.path.isfile(path + end):
                yield from _copy(path + end, self._scratch + end)

    def _take_damaged_store(self, path: str) -> Iterator[None]:
        """Take in what can be read of a store with unreadable pages."""
        from vedette.store.sqlite_salvage import salvage  # noqa: PLC0415 - few stores are damaged

        yield from self._copy_store(path)
        saved = f"{self._scratch}-saved"
        try:
            for found in salvage(self._scratch, saved):
                left_out = found
                yield
        except (FormatError, sqlite3.Error) as error:
            raise FormatError(f"{path} is damaged, and {error}") from None
        for end in ("", "-wal", "-shm"):
            unlink(self._scratch + end)
        yield from self._absorb(saved, "mode=rw", lenient=True, left_out=left_out)

    def _absorb(
        self, path: str, mode: str, *, lenient: bool = False, left_out: Counter[str] | None = None
    ) -> Iterator[None]:
        """Take in a store that is sound; `left_out`: what could not be read of the damaged one that it comes from."""
        before = Taken(self.spans, self.events, self.points)
        taken = Taken()
        with closing(archive.open_careful(path, self._path, mode)) as source:
            comes, mask = self._keeper.comes_from, self._keeper.mask
            for taken in self._keeper.store.absorb(source, comes, mask, lenient=lenient):
                self.spans, self.events = before.spans + taken.spans, before.events + taken.events
                self.points = before.points + taken.points
                self.touched |= taken.touched
                taken.touched.clear()
                yield
        self._to_come |= taken.to_come  # the greater count of each: a store may be read twice
        if left_out is not None or taken.left_out:
            self.notes.append(_left_out(self._path, taken.left_out + (left_out or Counter())))

    def _take_spools(self, directories: list[str]) -> Iterator[None]:
        """Read spools as if their processes lived: a torn record at the end may be completed before the next time."""
        for at in range(0, len(directories), _AT_ONCE):
            readers = []
            for directory in directories[at : at + _AT_ONCE]:
                try:
                    readers.append(self._reader(directory))
                except VedetteError as error:  # the others are taken in all the same
                    self.notes.append(str(error))
            try:
                yield from self._read_all(readers)
            finally:
                for reader in readers:
                    reader.shut()
        if len(directories) == 1 and self.notes:
            raise FormatError(self.notes.pop())

    def _reader(self, directory: str) -> SpoolReader:
        origin = _origin_of(directory)
        if origin.name in self._keeper.origins_here():
            raise FormatError(f"{directory} is already read by this hub, while it is written")
        return SpoolReader(directory, Mark(_first(directory, LANE_FACTS)), Mark(_first(directory, LANE_SAMPLES)))

    def _read_all(self, readers: list[SpoolReader]) -> Iterator[None]:
        """Read until nothing new has come for longer than `Tail` waits for a torn record."""
        quiet_since = time.monotonic()
        for reader in readers:
            reader.gone = reader.is_held() is not True  # then nothing that is torn will be completed
        while time.monotonic() - quiet_since < _PATIENCE_S:
            for reader in list(readers):
                try:
                    if self._read(reader) or reader.has_more:
                        quiet_since = time.monotonic()
                except StoreError:
                    raise
                except (VedetteError, OSError, OverflowError, ValueError, TypeError) as error:
                    self.notes.append(f"{reader.directory} cannot be kept: {error}")
                    reader.shut()
                    readers.remove(reader)
                yield
            time.sleep(0.005 if readers else _PATIENCE_S)
        for reader in readers:
            self._keep(reader, reader.sealing(time.monotonic(), _SEAL_S, all_of_it=True))
            if reader.origin is not None:
                if facts := progress_of(reader.directory, reader.origin.name, reader.heard_t):
                    self._keeper.own.say(facts)
                self._keeper.store.keep([], {reader.origin.name: reader.heard_t})
                self._keeper.store.tidy(reader.origin.name)
            yield

    def _read(self, reader: SpoolReader) -> bool:
        now = time.monotonic()
        facts = reader.read_facts()
        self._keep(reader, facts)
        more = reader.read_samples(now) > 0
        if reader.due(now, _SEAL_S):
            self._keep(reader, reader.sealing(now, _SEAL_S, all_of_it=False))
        return more or facts is not None

    def _keep(self, reader: SpoolReader, batch: Batch | None) -> None:
        if batch is None:
            return
        batch.facts = [(n, self._keeper.mask(fact)) for n, fact in batch.facts]
        taken = self._keeper.store.take(batch)
        reader.sent(batch, time.monotonic())
        reader.committed(batch)
        reader.sync()  # closes the segments that are read to their end
        self.spans, self.events, self.points = (
            self.spans + taken.spans, self.events + taken.events, self.points + taken.points
        )  # fmt: skip
        self.touched |= taken.touched


def _said_to_come(path: str, count: Counter[str]) -> str:
    """Say what was left out because it comes by itself."""
    records = f"{count.total()} {'record' if count.total() == 1 else 'records'}"
    who = f"{len(count)} {'process' if len(count) == 1 else 'processes'} whose spools are here"
    again = f"if some are missing when these have ended, take in {path} again"
    return f"{records} of {who}, or that another hub relays, are left out, since they come from there: {again}"


def _left_out(path: str, count: Counter[str]) -> str:
    """Say that a store is damaged, and what was left out."""
    found: Counter[str] = Counter()
    for table, rows in count.items():
        found[_ROWS.get(table, "facts about runs and processes")] += rows
    words = [f"{rows} {what}" for what, rows in sorted(found.items()) if rows]
    lost = f"; at least {', '.join(words)} cannot be read" if words else ""
    return f"{path} is damaged: what can be read is taken in{lost}"


def remove_scratch(home: Home) -> None:
    """Remove the copies that were made in the home."""
    for name in os.listdir(home.root):
        if name.startswith(SCRATCH):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(home.root, name))


def _spools(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            paths = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted(path for path in paths if _is_spool(path))


def _home_of(directory: str) -> str:
    """Return the home of a directory of spools; empty when it is in none."""
    return os.path.dirname(directory) if os.path.basename(directory) == "spool" else ""


def _first(directory: str, lane: str) -> int:
    """Return where a lane begins that another hub may have read and removed in part."""
    return next(iter(list_segments(directory, lane)), 0)


def _is_spool(directory: str) -> bool:
    return any(list_segments(directory, lane) for lane in (LANE_FACTS, LANE_SAMPLES))


def _origin_of(directory: str) -> Origin:
    """Return the origin of a spool, from its first readable segment."""
    if (origin := origin_of(directory)) is None:
        raise FormatError(f"{directory} has no segment with a readable header")
    return origin


@contextmanager
def _without_hub(home: Home) -> Iterator[bool]:
    """Keep a hub from starting in another home while it is read; False when one is running there."""
    try:
        fd = os.open(home.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        yield True
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _copy(path: str, into: str) -> Iterator[None]:
    with open(path, "rb") as source, open(into, "xb") as file:
        while block := source.read(_BLOCK):
            file.write(block)
            yield
