"""One home as a reader uses it: its store, opened read-only, its blobs, and its hub, asked over its socket.

A reader asks the hub to seal first, so that it sees all that was logged until now. If no hub answers, it reads what
the store has, and says so. Where nothing waits to be read, and no hub runs, it starts none.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from vedette import kernel, wire
from vedette.access import hub_socket
from vedette.access.follower import Follower
from vedette.blobs import Blobs, is_digest
from vedette.deaths.tree import GRACE_S
from vedette.errors import FormatError, HubError, NotFoundError, SettingError, VedetteError
from vedette.fileio import identity
from vedette.home import Home
from vedette.ids import new_id
from vedette.model import Command, Value
from vedette.settings import Settings

if TYPE_CHECKING:
    from vedette.store import Batch
    from vedette.store.sqlite_read import SqliteReader

PATIENCE_S = 120.0  # how long somebody waits for the hub to read all that was logged
GLANCE_S = 2.0  # the same for somebody who only wants an overview
_ANSWER_LATE_S = 15.0  # the answer may come so much later than it should
_COMMAND_EXPIRES_S = 60
_MOST_ANSWERS = 16  # answers of the hub in one round; the rest comes in the next
_MOST_READ = 64 << 20  # bytes of one blob
_WAIT_LEAST_S, _WAIT_MOST_S = 0.05, 0.5  # between two looks of somebody who waits for something

Answer = TypeVar("Answer")


def nothing_yet(where: str = "this home") -> str:
    """Return the sentence for who looks at a home to which nothing was ever logged; a path is not for everybody."""
    return f"nothing has been logged to {where} yet: `vedette run -- CMD` or vedette.init() begins a run"


def _has_directories(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(entry.is_dir(follow_symlinks=False) for entry in entries)
    except FileNotFoundError:
        return False
    except OSError:  # it is there, and a hub may see more of it
        return True


class HomeAccess:
    """A home, as every reader sees it. Each call may block; those that ask the hub may raise HubError."""

    def __init__(self, home: Home, lost_after_s: float = Settings().lost_after_s, *, serves: bool = False) -> None:
        """Touch nothing yet. `lost_after_s`: a run that was silent for so long is shown as lost.

        `serves`: the hub of this home is there for other machines or programs, so it should run.
        """
        self.home = home
        self.root = home.root  # its path, for messages
        self.host = kernel.host()
        self.lost_after_s = lost_after_s
        self._serves = serves

    @classmethod
    def of(cls, settings: Settings) -> "HomeAccess":
        """Return access to the home that the settings name."""
        serves = bool(settings.hub.address or settings.hub.listen or settings.hub.heflwr)
        return cls(Home.of(settings), settings.lost_after_s, serves=serves)

    # The store.

    def reader(self) -> "SqliteReader":
        """Open the store as it is; raise NotFoundError when there is none yet. A reader belongs to one thread."""
        from vedette.store.sqlite_file import open_reader  # noqa: PLC0415 - it brings sqlite3

        self._check_path()
        return open_reader(self.home.store, untouched=self.home.is_foreign)

    def is_current(self, reader: "SqliteReader") -> bool:
        """Tell whether the store of a reader is still that of this home: another may be in its place, as restored."""
        return reader.file == identity(self.home.store)

    def open(self, patience_s: float = PATIENCE_S) -> tuple["SqliteReader", str]:
        """Open the store with all that was logged until now; also return, when it may be behind, why.

        `patience_s`: what the hub has not read by then is not waited for.
        """
        self._check_path()
        if not os.path.exists(self.home.spool) and not os.path.exists(self.home.store):
            raise NotFoundError(nothing_yet(self.root))
        warning = ""
        if not self.needs_hub():
            return self.reader(), warning
        if self.home.is_foreign:
            return self.reader(), f"{self.root} is another user's: only its store is read; what you see may be behind"
        try:
            if behind := self._sealed(patience_s):
                warning = f"{', '.join(behind)} has more than could be read in time; what you see of it may be behind"
        except HubError as error:
            warning = f"{error}; what you see may be behind"
        return self.reader(), warning

    def _check_path(self) -> None:
        if trouble := self.home.misplaced():
            raise SettingError(trouble)

    # The bytes of files.

    @property
    def blobs(self) -> Blobs:
        """All blobs, for whoever copies many of them."""
        return Blobs(self.home)

    def has_blob(self, digest: str, size: int) -> bool:
        """Tell whether a blob of this size is here; one with a malformed digest never is."""
        return is_digest(digest) and self.blobs.size(digest) == size

    def open_blob(self, digest: str) -> BinaryIO:
        """Open a blob for reading; raise NotFoundError when it is not here, BlobError when the digest is malformed."""
        return self.blobs.open(digest)

    def blob_bytes(self, digest: str) -> bytes:
        """Return the bytes of a blob; raise as `open_blob` does, and FormatError when they do not match the digest."""
        import hashlib  # noqa: PLC0415 - OpenSSL, which few readers need

        with self.open_blob(digest) as file:
            data = file.read(_MOST_READ + 1)
        if len(data) > _MOST_READ or hashlib.sha256(data).hexdigest() != digest:
            raise FormatError(f"the bytes of {digest[:12]} do not match its digest: the home is damaged")
        return data

    def read_blob(self, digest: str) -> bytes | None:
        """Return the bytes of a blob; None when they are not here, or do not match the digest."""
        try:
            return self.blob_bytes(digest)
        except (OSError, VedetteError):
            return None

    # The hub.

    def has_hub(self) -> bool:
        """Tell whether a hub is running."""
        return self.home.hub_pid() is not None

    def needs_hub(self) -> bool:
        """Tell whether a hub may know more than the store, or has something to do.

        A hub removes a spool or inbox when all of it is in the store, and leaves when it has removed them all. So a
        directory there means that something was not read, or that its process lives.
        """
        if self._serves or not os.path.exists(self.home.store) or self.has_hub():
            return True
        return any(_has_directories(path) for path in (self.home.spool, self.home.inbox))

    def ask(self, message: wire.Message) -> wire.Message:
        """Ask the hub, starting one if there is none; raise HubError when it cannot be reached or refuses."""
        return hub_socket.ask(self.home, message)

    def seal(self, run: str = "", within_s: float = math.inf) -> list[str]:
        """Have the hub store all that a run (or every run) has logged; return the hosts that did not answer.

        Raise HubError also if the hub does not answer in time.
        """
        answer = hub_socket.ask(self.home, wire.Seal(run), within_s)
        return answer.behind if isinstance(answer, wire.Done) else []

    def _sealed(self, patience_s: float) -> list[str]:
        """Have the hub store what every run has logged, as far as it can in time; return the hosts that are behind."""
        message = wire.Seal(within_s=patience_s)
        answer = hub_socket.ask(self.home, message, answer_s=patience_s + _ANSWER_LATE_S)
        return answer.behind if isinstance(answer, wire.Done) else []

    def newest(self, prefix: str = "") -> list[wire.Newest]:
        """Return the newest unsealed point of each series, of spans whose ids begin with `prefix`."""
        answer = self.ask(wire.AskLatest(prefix))
        return answer.points if isinstance(answer, wire.Latest) else []

    def unsealed(self, prefixes: list[str], after: dict[str, int]) -> wire.Unsealed | None:
        """Return unsealed points of spans whose ids begin with one of `prefixes`, after an offset of each origin.

        None: the hub is of an older vedette, and does not know this question.
        """
        with hub_socket.connect(self.home) as hub:
            if wire.UNSEALED not in hub.takes:
                return None
            answer = hub.ask(wire.AskUnsealed(prefixes, after))
        return answer if isinstance(answer, wire.Unsealed) else wire.Unsealed()

    def unsealed_batches(
        self, prefixes: list[str], after: dict[str, int]
    ) -> "tuple[list[Batch], dict[str, int]] | None":
        """Return unsealed points as batches, from several answers if need be, and how far each origin is sealed."""
        from vedette.store.parcels import unpack  # noqa: PLC0415 - numpy

        batches: list[Batch] = []
        sealed: dict[str, int] = {}
        for _ in range(_MOST_ANSWERS):
            answer = self.unsealed(prefixes, after)
            if answer is None:
                return None
            batches += [unpack(parcel) for parcel in answer.parcels]
            sealed |= answer.sealed
            after = after | {parcel.origin.name: parcel.end for parcel in answer.parcels}
            if not answer.more:
                break
        return batches, sealed

    def health(self) -> wire.Health | None:
        """Return the health of the hub."""
        answer = self.ask(wire.AskHealth())
        return answer if isinstance(answer, wire.Health) else None

    def follower(
        self, run: str = "", *, least_s: float = 0.2, most_s: float = 1.0, needs_hub: Callable[[], bool] = lambda: True
    ) -> Follower:
        """Return a follower of one run, or of all; `Follower` explains the pauses."""
        return Follower(self.home, run, least_s=least_s, most_s=most_s, needs_hub=needs_hub)

    def wait_for(
        self,
        question: Callable[[], Answer | None],
        seconds: float = math.inf,
        run: str = "",
        *,
        needs_hub: Callable[[], bool] = lambda: True,
    ) -> Answer | None:
        """Ask a question, each time that something of a run (or of any) has changed, until there is an answer.

        Return the answer, or None when there is none in time. It is asked at once, and once more when the time is over;
        and now and then even if no hub reports anything. `Follower` explains `needs_hub`.
        """
        deadline = time.monotonic() + seconds
        follower = self.follower(run, least_s=_WAIT_LEAST_S, most_s=_WAIT_MOST_S, needs_hub=needs_hub)
        try:
            while True:
                change = follower.wait(deadline - time.monotonic())
                answer = question()
                if answer is not None or change is None:
                    return answer
        finally:
            follower.close()

    def edit(self, spans: list[str], attrs: dict[str, Value] | None = None) -> None:
        """Have the hub record a user's edit of runs."""
        if not isinstance(self.ask(wire.Edit(spans, attrs or {})), wire.Done):
            raise HubError("the hub did not confirm the edit")

    def stop(self, run: str, grace_s: float = GRACE_S) -> None:
        """Send a run the command to stop; raise HubError when there is nobody to send it to."""
        _, count = self._order(run, "stop", {"grace_s": grace_s, "by": _user()})
        if not count:
            raise HubError(f"no living process of run {run} is known here, and no other hub is connected")

    def answer(self, process: str, question: str, text: str) -> str:
        """Send the answer to a question down to the process that waits; return the id of the command.

        Raise HubError when it cannot be sent, or when somebody else answered first.
        """
        command, count = self._order(process, "answer", {"ask": question, "text": text})
        if not count:
            raise HubError("the process that asked is not alive here, and no other hub is connected")
        return command

    def _order(self, to: str, verb: str, args: dict[str, Value]) -> tuple[str, int]:
        """Send a command; return its id, and how many processes and hubs have received it."""
        command = Command(new_id(8), to, verb, time.time_ns() + _COMMAND_EXPIRES_S * 10**9, args)
        done = self.ask(wire.Order(command))
        return command.id, done.count if isinstance(done, wire.Done) else 1

    def take_in(self, path: str) -> Iterator[wire.TakenIn]:
        """Have the hub take in what is at a path; yield its progress, the last time with `over`."""
        return hub_socket.take_in(self.home, path)


def _user() -> str:
    import getpass  # noqa: PLC0415 - it brings the terminal's modules

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
