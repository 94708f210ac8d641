"""What was logged elsewhere, taken into this home: archives, stores, spools and whole homes (`vedette sync`).

Each is taken in by short steps, so that what is logged here meanwhile does not wait. Nothing is ever changed where
it comes from. A hub that dies in the middle has kept a part; doing it again keeps the rest.
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
from vedette.hub.processes.progress import words_of
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.spool_reader import SpoolReader
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin, Span
from vedette.segment import list_segments, origin_of
from vedette.store import Batch, Mark, Taken, archive

SCRATCH = "taking-in-"
_SLICE_S = 0.05  # of work between two turns of the keeper
_PATIENCE_S = 0.3  # longer than a record may look damaged before it is passed over
_SEAL_S = 60.0
_AT_ONCE = 50  # spools that are open together
_BLOCK = 1 << 20
_SQLITE = b"SQLite format 3\0"


class Queue:
    """The paths that wait to be taken in. `ask` is for any thread, all else for the keeper's."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._asked: queue.SimpleQueue[TakeIn] = queue.SimpleQueue()
        self._doing: TakeIn | None = None
        self._steps: Iterator[None] = iter(())
        remove_scratch(keeper.home)  # of a hub that died

    def ask(self, path: str, tell: Callable[[], object]) -> "TakeIn":
        """Put a path into the queue; `tell` is called, in the keeper's thread, when it is over."""
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
        except BaseException as error:  # what comes from elsewhere must not end the hub, whatever it is
            self._end(f"it cannot be taken in: {type(error).__name__}: {error}")
        return True

    def refuse(self, why: str) -> None:
        """Answer all that wait, since the hub leaves."""
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
    """Takes in what lies at one path. `steps` does it; `spans`, `events`, `points` and `touched` tell what was new."""

    def __init__(self, keeper: Keeper, path: str, tell: Callable[[], object] = lambda: None) -> None:
        self.over = self.unwanted = False
        self.failure = ""
        self._tell = tell
        self.notes: list[str] = []  # what could not be taken in, where the rest was
        self.spans = self.events = self.points = 0
        self.touched: set[str] = set()
        self._keeper = keeper
        self._path = os.path.abspath(path)
        self._scratch = os.path.join(keeper.home.root, f"{SCRATCH}{os.getpid()}")

    def end(self, failure: str) -> None:
        """Say that it is over, and why if it failed."""
        self.failure, self.over = failure, True
        self._tell()

    def news(self) -> wire.Message:
        """Return what whoever asked may know by now."""
        if self.failure:
            return wire.Refused(self.failure)
        return wire.TakenIn(self.spans, self.events, self.points, list(self.notes), self.over)

    def steps(self) -> Iterator[None]:
        """Do it, a step at a time; raise VedetteError when it is nothing that can be taken in."""
        try:
            yield from self._take()
        except OSError as error:
            raise NotFoundError(f"{self._path} cannot be read: {error.strerror or error}") from None
        finally:
            remove_scratch(self._keeper.home)
        self._keeper.store.sync()

    def _take(self) -> Iterator[None]:
        if not os.path.isdir(self._path):
            if not stat.S_ISREG(os.stat(self._path).st_mode):  # a pipe would hold up the hub
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
            raise NotFoundError(f"{self._path} is no home, spool or archive of vedette")

    def _take_home(self, home: Home) -> Iterator[None]:
        """Take in store and spools; once more the store if its hub lives, which may have moved things into it."""
        with _kept_still(home) as still:
            yield from self._take_blobs(home.root)
            if os.path.isfile(home.store):
                yield from self._take_store(home.store, living=not still)
            yield from self._take_spools(_spools(home.spool))
            if not still and os.path.isfile(home.store):
                yield from self._take_store(home.store, living=True)

    def _take_blobs(self, root: str) -> Iterator[None]:
        """Copy the blobs of another home, each when its bytes are those of its digest, and before anything names it."""
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
            except (VedetteError, OSError) as error:  # the others are as good as if it were not there
                self.notes.append(f"the file {found.digest[:12]} is not taken in: {error}")
            yield

    def _take_archive(self) -> Iterator[None]:
        for _ in archive.unpack(self._path, self._scratch, self._keeper.blobs, self.notes):
            yield
        yield from self._absorb(self._scratch, "mode=rw", trusted=False)

    def _take_store(self, path: str, *, living: bool = False) -> Iterator[None]:
        """Take in a store; that of a dead hub is not opened where SQLite would have to put files beside it."""
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

    def _absorb(self, path: str, mode: str, *, trusted: bool = True) -> Iterator[None]:
        before = Taken(self.spans, self.events, self.points)
        with closing(archive.open_careful(path, self._path, mode)) as source:
            for taken in self._keeper.store.absorb(source, self._keeper.origins_here(), trusted=trusted):
                self.spans, self.events = before.spans + taken.spans, before.events + taken.events
                self.points = before.points + taken.points
                self.touched |= taken.touched
                taken.touched.clear()
                yield

    def _take_spools(self, directories: list[str]) -> Iterator[None]:
        """Read spools as those of living processes, which may go on: what is torn at their end is left for then."""
        for at in range(0, len(directories), _AT_ONCE):
            readers = []
            for directory in directories[at : at + _AT_ONCE]:
                try:
                    readers.append(self._speaker(directory))
                except VedetteError as error:  # the others are as good as if it were not there
                    self.notes.append(str(error))
            try:
                yield from self._listen(readers)
            finally:
                for reader in readers:
                    reader.shut()
        if len(directories) == 1 and self.notes:
            raise FormatError(self.notes.pop())

    def _speaker(self, directory: str) -> SpoolReader:
        origin = _origin_of(directory)
        if origin.name in self._keeper.origins_here():
            raise FormatError(f"{directory} is heard here already, as it is written")
        here, none = self._keeper.store.marks([origin.name]), Mark()
        facts, samples = (here.get((origin.name, lane), none) for lane in (LANE_FACTS, LANE_SAMPLES))
        return SpoolReader(directory, facts, samples)

    def _listen(self, readers: list[SpoolReader]) -> Iterator[None]:
        """Read until none has had anything to say for longer than a damaged record is waited for."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < _PATIENCE_S:
            for reader in list(readers):
                try:
                    if self._hear(reader):
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
                if words := words_of(reader.directory, reader.origin.name, reader.heard_t):
                    self._keeper.own.say(words)
                self._keeper.store.keep([], {reader.origin.name: reader.heard_t})
                self._keeper.store.tidy(reader.origin.name)
            yield

    def _hear(self, reader: SpoolReader) -> bool:
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
        self._keeper.store.keep([batch])
        reader.sent(batch, time.monotonic())
        reader.committed(batch)
        reader.sync()  # lets go of the segments that are read to their end
        for _, fact in batch.facts:
            self.spans += isinstance(fact, Span)
            self.events += isinstance(fact, Event)
            self.touched.add(fact.id if isinstance(fact, Span) else fact.span)
        for columns in batch.columns:
            self.points += len(columns.n) * len(columns.names)
            self.touched.add(columns.span)


def remove_scratch(home: Home) -> None:
    """Remove what a taking-in has put into the home to read it there."""
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
    """Return the home that a directory of spools lies in, if it lies in one."""
    return os.path.dirname(directory) if os.path.basename(directory) == "spool" else ""


def _is_spool(directory: str) -> bool:
    return any(list_segments(directory, lane) for lane in (LANE_FACTS, LANE_SAMPLES))


def _origin_of(directory: str) -> Origin:
    """Return whose spool it is, by the first header that can be read."""
    if (origin := origin_of(directory)) is None:
        raise FormatError(f"{directory} has no segment with a readable header")
    return origin


@contextmanager
def _kept_still(home: Home) -> Iterator[bool]:
    """Keep a hub from starting in another home while it is read; tell whether there is none."""
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
