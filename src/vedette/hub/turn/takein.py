"""Takes archives, stores, spools and whole homes of other machines into this home (`vedette sync`).

It is done in short steps between two turns, so that ingest does not wait. The source is never changed. If the hub dies
in the middle, a part is in the store; doing it again adds the rest.
"""

import contextlib
import fcntl
import os
import queue
import stat
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager

from vedette import wire
from vedette.blobs import NO_LIMITS, Blobs
from vedette.errors import FormatError, NotFoundError, OldStoreError, StoreError, VedetteError
from vedette.home import Home
from vedette.hub.processes.progress import progress_of
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin
from vedette.segment import list_segments, origin_of
from vedette.store import Batch, Mark, Taken, archive

SCRATCH = "taking-in-"
_SLICE_S = 0.05  # how long it works between two turns of the keeper
_PATIENCE_S = 0.3  # longer than `Tail` waits for a torn record
_SEAL_S = 60.0
_AT_ONCE = 50  # spools that are open at the same time
_BLOCK = 1 << 20
_SQLITE = b"SQLite format 3\0"


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
                start = file.read(len(_SQLITE))
            if start == _SQLITE:
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
            yield from self._absorb(path, "mode=ro")
            return
        log = path + "-wal"
        if not os.path.isfile(log) or not os.stat(log).st_size:
            try:
                yield from self._absorb(path, "mode=ro&immutable=1")
                return
            except OldStoreError:
                pass
        for end in ("", "-wal"):
            if os.path.isfile(path + end):
                yield from _copy(path + end, self._scratch + end)
        yield from self._absorb(self._scratch, "mode=rw")

    def _absorb(self, path: str, mode: str) -> Iterator[None]:
        before = Taken(self.spans, self.events, self.points)
        with closing(archive.open_careful(path, self._path, mode)) as source:
            for taken in self._keeper.store.absorb(source, self._keeper.origins_here(), self._keeper.mask):
                self.spans, self.events = before.spans + taken.spans, before.events + taken.events
                self.points = before.points + taken.points
                self.touched |= taken.touched
                taken.touched.clear()
                yield

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
        while time.monotonic() - quiet_since < _PATIENCE_S:
            for reader in list(readers):
                try:
                    if self._read(reader):
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
