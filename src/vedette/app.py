"""Reading a home from another process: `vedette.runs`, `get`, `diff`, `compare`, and what the commands stand on.

A reader asks the hub to seal first, so that it sees all that was logged until now; where no hub can be had it
reads what is there, and says so.
"""

import hashlib
import os
import select
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from vedette import settings, wire
from vedette.blobs import Blobs
from vedette.errors import FormatError, HubError, NotFoundError, TakeInError, VedetteError
from vedette.home import Home
from vedette.model import Command, new_id
from vedette.query import runs as query_runs
from vedette.query import usage
from vedette.query.compare import Comparison
from vedette.query.compare import compare as query_compare
from vedette.query.explain import Explanation, explain
from vedette.query.runs import RunView
from vedette.segment import file_size
from vedette.store.sqlite import open_reader
from vedette.store.sqlite_read import SqliteReader

_START_PATIENCE_S = 10.0
_HELLO_PATIENCE_S = 3.0  # it greets at once unless it is stopped
_DIAL_AGAIN_S = 0.5
_ANSWER_EXPIRES_S = 60
_MOST_READ = 64 << 20  # of what is kept by digest
_ANSWER_PATIENCE_S = 60.0  # it may have much to seal


def open_store(home: Home) -> tuple[SqliteReader, str]:
    """Open the store to read; return it and, when it may be behind, a sentence that says why."""
    warning = ""
    if not os.path.exists(home.spool) and not os.path.exists(home.store):
        raise NotFoundError(f"nothing has been logged to {home.root} yet: `vedette.init()` in a script begins a run")
    try:
        answer = ask(home, wire.Seal())
        if isinstance(answer, wire.Done) and answer.behind:
            warning = f"{', '.join(answer.behind)} did not answer in time; what you see of it may be behind"
    except HubError as error:
        warning = f"{error}; what you see may be behind"
    return open_reader(home.store), warning


def runs(where: str | None = None, project: str | None = None, home: str | None = None) -> list[RunView]:
    """Return the runs that fit, the newest first: `vedette.runs("config.lr > 0.1 and state = failed")`."""
    chosen = settings.load({"home": home})
    return query_runs.select(_open(chosen), where or "", project or "", lost_after_s=chosen.lost_after_s)


def get(run: str, home: str | None = None) -> RunView:
    """Return the run with this id, unique prefix of an id, or name."""
    chosen = settings.load({"home": home})
    return query_runs.view(_open(chosen), run, lost_after_s=chosen.lost_after_s)


def diff(a: str | RunView, b: str | RunView, home: str | None = None) -> Explanation:
    """Return how run `b` differs from run `a`, with the most likely causes first; each is a RunView, id or name."""
    chosen = settings.load({"home": home})
    views = _views([a, b], chosen)
    return explain(views[0], views[1], blob_reader(Home.of(chosen)))


def compare(runs: Sequence[str | RunView], home: str | None = None) -> Comparison:
    """Return runs beside each other: which keys differ, and their metrics; each is a RunView, id or name."""
    words = [runs] if isinstance(runs, str | RunView) else list(runs)
    return query_compare(_views(words, settings.load({"home": home})))


def blob_reader(home: Home) -> Callable[[str], bytes | None]:
    """Return what reads the bytes of a digest, or None where they are not here, or are no longer what they were."""
    blobs = Blobs(home)

    def read(digest: str) -> bytes | None:
        try:
            with blobs.open(digest) as file:
                data = file.read(_MOST_READ)
        except (OSError, VedetteError):
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    return read


def _views(runs: Sequence[str | RunView], chosen: settings.Settings) -> list[RunView]:
    """Return runs; those that are named are looked up in one look at the home."""
    if all(isinstance(run, RunView) for run in runs):
        return [run for run in runs if isinstance(run, RunView)]
    store = _open(chosen)
    lost_after_s = chosen.lost_after_s
    return [run if isinstance(run, RunView) else query_runs.view(store, run, lost_after_s=lost_after_s) for run in runs]


def _open(chosen: settings.Settings) -> SqliteReader:
    store, warning = open_store(Home.of(chosen))
    if warning:
        warnings.warn(warning, stacklevel=3)
    return store


def ask(home: Home, message: wire.Message) -> wire.Message:
    """Ask the hub, starting one if there is none; raise HubError when it cannot be had or refuses."""
    with _connect(home) as (peer, messages):
        peer.sendall(wire.pack_message(message))
        answer = next(messages, None)
    if isinstance(answer, wire.Refused):
        raise HubError(f"the hub says: {answer.why}")
    if answer is None:
        raise HubError("the hub went away")
    return answer


def newest(home: Home, prefix: str = "") -> list[wire.Newest]:
    """Return the newest points that wait in the hub, of spans that begin so; none when no hub can be had."""
    try:
        answer = ask(home, wire.AskLatest(prefix))
    except HubError:
        return []
    return answer.points if isinstance(answer, wire.Latest) else []


def latest(home: Home, runs: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Return what the living processes of runs (None: of all that run) use right now; seals nothing."""
    fresh = newest(home)  # first: what is sealed meanwhile is then in the store
    store = open_reader(home.store)
    try:
        return usage.latest(store, usage.runs_alive(store) if runs is None else runs, fresh)
    finally:
        store.close()


def follow(home: Home, run: str) -> Iterator[wire.Change]:
    """Yield what changes in a run, as it is committed, until the hub goes away; the first comes at once, empty."""
    with _connect(home) as (peer, messages):
        peer.sendall(wire.pack_message(wire.Follow(run)))
        peer.settimeout(None)
        for message in messages:
            if isinstance(message, wire.Refused):
                raise HubError(f"the hub says: {message.why}")
            yield message if isinstance(message, wire.Change) else wire.Change()


class Follower:
    """Waits for news of a run, or of any, from a hub that may come and go; never raises for want of one."""

    def __init__(self, home: Home, run: str = "") -> None:
        self.run = run
        self._home = home
        self._peer: socket.socket | None = None
        self._dial_at = 0.0

    def wait(self, seconds: float, also: Sequence[int] = ()) -> bool:
        """Sleep until something has changed, one of these descriptors can be read, or the time is over.

        Tell whether something may have changed.
        """
        fresh = self._peer is None and time.monotonic() >= self._dial_at and self._dial()
        watched: list[Any] = [*also, *([self._peer] if self._peer is not None else [])]
        ready = select.select(watched, [], [], 0 if fresh else seconds)[0]
        if self._peer is None or self._peer not in ready:
            return fresh or self._peer is None
        try:
            if self._peer.recv(1 << 16):
                return True
        except BlockingIOError:
            return False
        except OSError:
            pass
        self.close()
        return True

    def _dial(self) -> bool:
        self._dial_at = time.monotonic() + _DIAL_AGAIN_S
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.setblocking(False)
            peer.connect(self._home.socket)
            peer.sendall(wire.pack_message(wire.Hello(name="console")) + wire.pack_message(wire.Follow(self.run)))
        except OSError:
            peer.close()
            with suppress(OSError, HubError):
                self._home.wake_hub()
            return False
        self._peer = peer
        return True

    def close(self) -> None:
        """Hang up."""
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def answer(home: Home, process: str, question: str, text: str) -> str:
    """Send the answer to a question down to the process that waits; return the id of the command.

    Raise HubError when it cannot be sent, or when another was first.
    """
    args = {"ask": question, "text": text}
    command = Command(new_id(8), process, "answer", time.time_ns() + _ANSWER_EXPIRES_S * 10**9, args)
    done = ask(home, wire.Order(command))
    if isinstance(done, wire.Done) and not done.count:
        raise HubError("the process that asked is not alive here, and no other hub is connected")
    return command.id


def take_in(home: Home, path: str) -> Iterator[wire.TakenIn]:
    """Have the hub take in what lies at a path; yield how far it is, at last with `over`."""
    with _connect(home) as (peer, messages):
        peer.sendall(wire.pack_message(wire.TakeIn(os.path.abspath(path))))
        for message in messages:
            if isinstance(message, wire.Refused):
                raise TakeInError(message.why)
            if isinstance(message, wire.TakenIn):
                yield message
                if message.over:
                    return
    raise HubError("the hub went away before all was taken in: do it again, what is here already is passed over")


@contextmanager
def _connect(home: Home) -> Iterator[tuple[socket.socket, Iterator[wire.Message]]]:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.settimeout(_HELLO_PATIENCE_S)
    messages = _receive(peer)
    try:
        _dial(home, peer)
        peer.sendall(wire.pack_message(wire.Hello(name="vedette")))
        hello = next(messages, None)
        if isinstance(hello, wire.Refused):
            raise HubError(f"the hub says: {hello.why}")
        if not isinstance(hello, wire.Hello):
            raise HubError("the hub does not answer as one")
        wire.check_version(hello)
        peer.settimeout(_ANSWER_PATIENCE_S)
        yield peer, messages
    except TimeoutError:
        raise HubError(f"the hub (pid {home.hub_pid()}) does not answer: is it stopped?") from None
    except (OSError, FormatError) as error:
        raise HubError(f"the hub cannot be reached: {error}") from None
    finally:
        peer.close()


def _dial(home: Home, peer: socket.socket) -> None:
    deadline = time.monotonic() + _START_PATIENCE_S
    said = file_size(home.log)
    while True:
        try:
            peer.connect(home.socket)
            return
        except OSError as error:
            failed = home.hub_pid() is None and file_size(home.log) > said  # it started, complained, and left
            if failed or time.monotonic() > deadline:
                raise HubError(f"no hub can be started for {home.root}: see {home.log} ({error})") from None
        try:
            home.wake_hub()
        except OSError as error:
            raise HubError(f"no hub can be started for {home.root}: {error}") from None
        time.sleep(0.02)


def _receive(peer: socket.socket) -> Iterator[wire.Message]:
    unframer = wire.Unframer(16 << 20)
    while data := peer.recv(1 << 16):
        for payload in unframer.feed(data):
            yield wire.unpack_message(payload)
