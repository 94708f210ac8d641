"""How far something is: a bar that any number of threads and processes may move.

`advance` stores eight bytes in a mapped file (`gauges`), where the hub looks for them: it costs next to nothing, and
a kill -9 takes none of it back. Begin and end of a bar are facts like all others.
"""

import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from vedette import settings
from vedette.client import faults
from vedette.client.faults import never_raises
from vedette.client.journal import Journal
from vedette.client.off import OffProgress
from vedette.client.raised import evidence_of
from vedette.client.values import text_of
from vedette.deaths.verdict import verdict
from vedette.gauges import Gauges, Numbers, Slot
from vedette.home import Home
from vedette.model import Value, new_id

T = TypeVar("T")
Message = str | Sequence[str]

_INFINITE = math.inf
_RETRY_S = 1.0  # after there was no room on the disk
_LEFT = "left before its end"


class Progress:
    """A bar. Every method returns at once and never raises for a fault of ours.

    A copy in another process, by fork or by pickle, moves the same bar; it ends it only when told to `complete`.
    """

    __slots__ = (
        "__weakref__", "_added", "_at", "_began", "_lock", "_made_here", "_msg", "_numbers", "_position", "_retry_at",
        "_slot", "_trackers", "id", "is_finished", "total",
    )  # fmt: skip

    def __init__(self, trackers: "Trackers", id_: str, total: float | None, msg: list[str], *, made_here: bool) -> None:
        """Take part in a bar; `Progress.new` begins one."""
        self.id = id_
        self.total = total
        self.is_finished = False
        self._trackers = trackers
        self._msg = msg
        self._made_here = made_here
        self._begin()

    def _begin(self) -> None:
        """Start from nothing, as each process does."""
        self._added = 0.0  # by this process
        self._at: float | None = None  # where it said that it is, without what it added
        # A signal handler may advance while its own thread does. And that thread may hold any other lock of ours, so
        # that nobody waits for another one while it holds this.
        self._lock = threading.RLock()
        self._slot: Slot | None = None
        self._numbers: Numbers | None = None
        self._position = 0  # of `add` among the numbers
        self._retry_at = 0.0
        self._began = time.monotonic()

    @staticmethod
    def new(total: float | None = None, msg: Message = "", run: Any = None) -> "Progress | OffProgress":
        """Begin a bar of a run, of the current one if none is given; `total` may be unknown."""
        from vedette.client import current  # noqa: PLC0415 - it needs Run, which needs this

        try:
            run = current.current() if run is None else run
            return run.progress(total, msg) or OffProgress()
        except Exception as error:
            faults.let_through(error)
            faults.swallow(error, "Progress.new()")
            return OffProgress()

    def advance(self, step: float = 1, msg: Message | None = None, distributed: bool = False) -> None:  # noqa: ARG002
        """Go on by a step; all steps of all processes add up. `distributed` is understood: it is always so."""
        kind = type(step)
        if (kind is int or kind is float) and 0 <= step < _INFINITE and msg is None:
            with self._lock:
                # No Python code is called from here to the end of the block, so that no signal comes in between.
                added = self._added + step
                try:
                    self._numbers[self._position] = added  # type: ignore[index] # None: the careful way
                    self._added = added
                    return
                except TypeError:
                    pass
        self._advance_carefully(step, msg)

    @never_raises
    def _advance_carefully(self, step: Any, msg: Message | None) -> None:
        if self.is_finished:
            return
        number = _number(step)
        if number is None or number < 0:
            faults.say_once(f"advance({text_of(step)[:50]}): a bar goes on by a number from 0 on; turned away")
        else:
            self._attach()
            with self._lock:
                if not self.is_finished:
                    self._added += number
                    if self._numbers is not None:
                        self._numbers[self._position] = self._added
        if msg is not None:
            self._call(msg)

    @never_raises
    def update(self, completed: float, msg: Message | None = None) -> None:
        """Say how far it is by now; a bar never goes back, so what is less than before says nothing."""
        if self.is_finished:
            return
        number = _number(completed)
        if number is None:
            faults.say_once(f"update({text_of(completed)[:50]}): a bar is at a number; turned away")
        else:
            self._attach()
            with self._lock:
                at = number - self._added
                if at > (self._at or 0.0) and not self.is_finished:
                    self._at = at
                    if self._numbers is not None:
                        self._numbers[self._position - 1] = at
        if msg is not None:
            self._call(msg)

    @never_raises
    def complete(self) -> None:
        """Say that all of it is done, whatever was counted; this a copy in another process may do too."""
        self._end("done", complete=True)

    @property
    def estimate(self) -> float | None:
        """When it will end, in seconds since 1970, if it goes on as in this process so far; None: nobody can tell."""
        done = (self._at or 0.0) + self._added
        if self.is_finished or not self.total or done <= 0:
            return None
        return time.time() + (time.monotonic() - self._began) * max(0.0, self.total - done) / done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._made_here:
            return
        try:
            if error is None:
                self._end("done")
            else:
                self._fail(error)
        except Exception as trouble:
            faults.let_through(trouble)
            faults.swallow(trouble, "the end of a bar")

    def __reduce__(self) -> tuple[Any, ...]:
        journal = self._trackers.journal
        attempt = journal.try_id.removeprefix(journal.run + "/")
        maker = journal.spool.origin.name if self._made_here else ""
        return revive, (self.id, journal.run, attempt, journal.home.asked, maker, self.total, self._msg)

    def __repr__(self) -> str:
        return f"<vedette progress {' | '.join(self._msg)} ({self.id})>"

    def _attach(self) -> None:
        """Get a slot, if there is none; where there is no room the numbers wait here, and are said at the end."""
        if self._numbers is not None or time.monotonic() < self._retry_at:
            return
        journal, trackers = self._trackers.journal, self._trackers
        try:
            if not self._made_here:
                journal.tell(self.id, add=self._added)  # so that it is known where to look
            slot = trackers.slot(self)
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY_S
            faults.say_once(f"how far a bar is cannot be kept just now ({error.strerror or error}); tried again")
            return
        if not self._settle(slot):
            trackers.gauges.give_back(slot)

    def _settle(self, slot: Slot) -> bool:
        """Move into a slot; tell whether it was needed: another thread may have found one meanwhile."""
        with self._lock:
            if self._slot is not None or self.is_finished:
                return False
            slot.numbers[slot.position + 1] = self._added
            if self._at is not None:
                slot.numbers[slot.position] = self._at
            self._slot, self._numbers, self._position = slot, slot.numbers, slot.position + 1
            return True

    def _detach(self) -> bool:
        """Say how far it is in a record, and give its slot to others; tell whether that could be done just now."""
        with self._lock:
            slot, at, added = self._slot, self._at, self._added
            self._slot = self._numbers = None
        if slot is None:
            return False
        spool = self._trackers.journal.spool
        lost = spool.lost
        self._trackers.journal.tell(self.id, at=at, add=added)
        if spool.lost > lost and self._settle(slot):
            return False
        self._trackers.gauges.give_back(slot)
        return True

    def _call(self, msg: Message) -> None:
        words = _words(msg)
        if words != self._msg:
            self._msg = words
            self._trackers.journal.tell(self.id, name=_name(words), attrs={"msg": list(words)})

    def _end(self, state: str, cause: str = "", *, complete: bool = False) -> None:
        with self._lock:
            if self.is_finished:
                return
            self.is_finished = True
            self._numbers = None
            slot, self._slot = self._slot, None
        spool = self._trackers.journal.spool
        lost = spool.lost
        attrs: dict[str, Value] = {"complete": True} if complete else {}
        self._trackers.journal.tell(self.id, state=state, cause=cause[:1000], at=self._at, add=self._added, attrs=attrs)
        if slot is not None and spool.lost == lost:  # else the slot alone knows how far it was
            self._trackers.gauges.give_back(slot)
        self._trackers.known.pop(self.id, None)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, GeneratorExit):
            self._end("cancelled", _LEFT)
            return
        end = verdict(evidence_of(error))
        self._end(end.state, end.cause)


class Trackers:
    """The bars that one process moves in one run."""

    def __init__(self, journal: Journal) -> None:
        """Begin with none."""
        self.journal = journal
        self.gauges = Gauges(mapped=journal.spool.mapped)
        self.known: dict[str, Progress] = {}  # a worker is handed the same one time and again, and goes on with it

    def new(self, total: Any, msg: Message) -> Progress:
        """Begin a bar."""
        number = None if total is None else _number(total)
        if total is not None and (number is None or number < 0):
            faults.say_once(f"progress({text_of(total)[:50]}): a total is a number from 0 on; taken as unknown")
            number = None
        words = _words(msg)
        tracker = Progress(self, f"{self.journal.run}/p-{new_id(8)}", number, words, made_here=True)
        attrs: dict[str, Value] = {"msg": list(words)} if number is None else {"msg": list(words), "total": number}
        self.journal.tell(
            tracker.id, state="running", kind="progress", name=_name(words), parent=self.journal.process, attrs=attrs,
            add=0.0,
        )  # fmt: skip
        self.known[tracker.id] = tracker
        tracker._attach()
        return tracker

    def join(self, id_: str, maker: str, total: float | None, msg: list[str]) -> Progress:
        """Take part in a bar that may be another process's."""
        tracker = self.known.get(id_)
        if tracker is None:
            tracker = Progress(self, id_, total, msg, made_here=False)
            if (
                maker and maker == self.journal.spool.origin.name
            ):  # its maker has ended it, and does not know it any more
                tracker.is_finished = True
            else:
                self.known[id_] = tracker
        return tracker

    def slot(self, tracker: Progress) -> Slot:
        """Find a slot, taking it from the bar that was begun first if need be; raise OSError when there is none."""
        directory = self.journal.spool.directory
        try:
            return self.gauges.take(directory, tracker.id)
        except OSError:
            if not any(other._detach() for other in list(self.known.values()) if other is not tracker):
                raise
            return self.gauges.take(directory, tracker.id)

    def leave(self) -> None:
        """The process ends: say how far those are that had no room to keep it."""
        for tracker in list(self.known.values()):  # other threads may begin bars meanwhile
            if tracker._slot is None and (tracker._added or tracker._at is not None):
                self.journal.tell(tracker.id, at=tracker._at, add=tracker._added)

    def after_fork(self) -> None:
        """Go on as another process: it moves the same bars, each from nothing of its own."""
        self.gauges.renew()
        for tracker in self.known.values():
            tracker._made_here = False
            tracker._begin()


def track(iterable: Iterable[T], msg: Message = "", total: float | None = None) -> Iterator[T]:
    """Hand on what an iterable yields, and move a bar by one for each that is done with.

    An exception of the iterable ends the bar as failed. One that leaves the loop before the end, by break or by an
    exception of its own, leaves it as cancelled, with what was done until then.
    """
    if total is None:
        try:
            total = len(iterable)  # type: ignore[arg-type]
        except Exception as error:
            faults.let_through(error)
            total = None
    progress = Progress.new(total, msg)
    advance = progress.advance
    with progress:
        for item in iterable:
            yield item
            advance()


def revive(
    id_: str, run: str, attempt: str, home: str, maker: str, total: float | None, msg: list[str]
) -> "Progress | OffProgress":
    """Return the bar that was pickled, as this process's own to move."""
    try:
        found = _run_of(run, attempt, home)
        return OffProgress() if found is None else found._trackers.join(id_, maker, total, msg)
    except Exception as error:
        faults.swallow(error, "the arrival of a bar")
        return OffProgress()


_joined: dict[str, Any] = {}  # runs that this process takes part in for the sake of a bar alone


def _run_of(run: str, attempt: str, home: str) -> Any:
    """Return the run that a bar belongs to: the current one, the one that the parent began, or one to be joined."""
    from vedette.client import current, exits  # noqa: PLC0415 - they need Run, which needs this
    from vedette.client.run import Run  # noqa: PLC0415

    here = current.current() if os.environ.get("VEDETTE_RUN") == run else current._current
    if here is not None and here.id == run:
        return here
    if run not in _joined:
        chosen = settings.load({"home": home})
        if chosen.mode == "off":
            return None
        _joined[run] = Run._join(Home.of(chosen), chosen, run, attempt, None)
        exits.watch(_joined[run])
    return _joined[run]


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except Exception as error:  # whatever a stranger's __float__ raises
        faults.let_through(error)
        return None
    return number if math.isfinite(number) else None


def _words(msg: Any) -> list[str]:
    return [text_of(word) for word in msg] if isinstance(msg, tuple | list) else [text_of(msg)]


def _name(words: list[str]) -> str:
    return " | ".join(word for word in words if word)
