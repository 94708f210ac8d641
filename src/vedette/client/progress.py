"""Progress bars, which any number of threads and processes may advance together.

`advance` stores eight bytes in a mapped file (`gauges`), and the hub reads them there: that costs next to nothing, and
a kill -9 loses none of it. The begin and the end of a bar are ordinary facts.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from vedette.ids import of_new_bar
from vedette.interrupts import let_through
from vedette.model import Value

T = TypeVar("T")
Message = str | Sequence[str]

_INFINITE = math.inf
_RETRY_S = 1.0  # how long we wait after the disk was full
_LEFT_EARLY = "the loop was left early"


class Progress:
    """A progress bar. Every method returns at once, and none raises for an error of our own.

    A copy in another process, by fork or by pickle, advances the same bar; a copy ends the bar only by `complete`.
    """

    __slots__ = (
        "__weakref__",
        "_added",
        "_at",
        "_bars",
        "_began",
        "_is_complete",
        "_is_maker",
        "_lock",
        "_msg",
        "_numbers",
        "_position",
        "_retry_at",
        "_slot",
        "id",
        "is_finished",
        "total",
    )  # fmt: skip

    def __init__(self, bars: "Bars", id_: str, total: float | None, msg: list[str], *, is_maker: bool) -> None:
        """Use an existing bar; `Progress.new` begins one."""
        self.id = id_
        self.total = total
        self.is_finished = False
        self._is_complete = False  # ended by `complete`, whatever was counted
        self._bars = bars
        self._msg = msg
        self._is_maker = is_maker
        self._begin()

    def _begin(self) -> None:
        """Set the numbers of this process to zero; each process counts its own part."""
        self._added = 0.0  # by this process
        self._at: float | None = None  # what `update` set, without what `advance` added
        # Reentrant: a signal handler may call `advance` while its thread is in `advance`. That thread may also hold
        # any other lock of ours, so nobody may wait for another lock while holding this one.
        self._lock = threading.RLock()
        self._slot: Slot | None = None
        self._numbers: Numbers | None = None
        self._position = 0  # index of the added part among the numbers
        self._retry_at = 0.0
        self._began = time.monotonic()

    @staticmethod
    def new(total: float | None = None, msg: Message = "", run: Any = None) -> "Progress | OffProgress":
        """Begin a bar of a run, by default the current one; `total` is None if it is unknown."""
        from vedette.client import current  # noqa: PLC0415 - it needs Run, which needs this

        try:
            run = current.current() if run is None else run
            return run.progress(total, msg) or OffProgress()
        except Exception as error:
            let_through(error)
            faults.swallow(error, "Progress.new()")
            return OffProgress()

    def advance(self, step: float = 1, msg: Message | None = None, distributed: bool = False) -> None:  # noqa: ARG002
        """Advance by a step; the steps of all processes add up. `distributed` is accepted and has no effect."""
        kind = type(step)
        if (kind is int or kind is float) and 0 <= step < _INFINITE and msg is None:
            with self._lock:
                # This block calls no Python function, so no signal handler can run in the middle of it.
                added = self._added + step
                try:
                    self._numbers[self._position] = added  # type: ignore[index] # None raises TypeError: go the slow way
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
            faults.say_once(f"advance({text_of(step)[:50]}): a step is a number, 0 or more; refused")
        else:
            self._get_slot()
            with self._lock:
                if not self.is_finished:
                    self._added += number
                    if self._numbers is not None:
                        self._numbers[self._position] = self._added
        if msg is not None:
            self._set_message(msg)

    @never_raises
    def update(self, completed: float, msg: Message | None = None) -> None:
        """Set how far the bar is; a bar never goes back, so a smaller number than before is ignored."""
        if self.is_finished:
            return
        number = _number(completed)
        if number is None:
            faults.say_once(f"update({text_of(completed)[:50]}): not a number; refused")
        else:
            self._get_slot()
            with self._lock:
                at = number - self._added
                if at > (self._at or 0.0) and not self.is_finished:
                    self._at = at
                    if self._numbers is not None:
                        self._numbers[self._position - 1] = at
        if msg is not None:
            self._set_message(msg)

    @never_raises
    def complete(self) -> None:
        """End the bar as complete, whatever was counted; a copy in another process may do this too."""
        self._end("done", complete=True)

    @property
    def estimate(self) -> float | None:
        """When the bar will end at this process's speed so far, in seconds since 1970; None if that is unknown."""
        done = (self._at or 0.0) + self._added
        if self.is_finished or not self.total or done <= 0:
            return None
        return time.time() + (time.monotonic() - self._began) * max(0.0, self.total - done) / done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_maker:
            return
        try:
            if error is None:
                self._end("done")
            else:
                self._fail(error)
        except Exception as trouble:
            let_through(trouble)
            faults.swallow(trouble, "the end of a bar")

    def __reduce__(self) -> tuple[Any, ...]:
        journal = self._bars.journal
        maker = journal.spool.origin.name if self._is_maker else ""
        return revive, (self.id, journal.run, journal.attempt, journal.home.asked, maker, self.total, self._msg)

    def __repr__(self) -> str:
        return f"<vedette progress {' | '.join(self._msg)} ({self.id})>"

    def _get_slot(self) -> None:
        """Get a slot for the numbers. If there is no room they stay in memory, and are recorded at the end."""
        if self._numbers is not None or time.monotonic() < self._retry_at:
            return
        journal, bars = self._bars.journal, self._bars
        try:
            if not self._is_maker:
                journal.tell(self.id, add=self._added)  # so that the hub knows this process has a part
            slot = bars.slot(self)
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY_S
            faults.say_once(f"progress cannot be stored just now ({error.strerror or error}); vedette tries again")
            return
        if not self._use_slot(slot):
            bars.gauges.give_back(slot)

    def _use_slot(self, slot: Slot) -> bool:
        """Use a slot from now on; return False if it is not needed, as when another thread got one first."""
        with self._lock:
            if self._slot is not None or self.is_finished:
                return False
            slot.numbers[slot.position + 1] = self._added
            if self._at is not None:
                slot.numbers[slot.position] = self._at
            self._slot, self._numbers, self._position = slot, slot.numbers, slot.position + 1
            return True

    def _give_up_slot(self) -> bool:
        """Record how far the bar is, and free its slot for another bar; tell whether that worked."""
        with self._lock:
            slot, at, added = self._slot, self._at, self._added
            self._slot = self._numbers = None
        if slot is None:
            return False
        spool = self._bars.journal.spool
        lost = spool.lost
        self._bars.journal.tell(self.id, at=at, add=added)
        if spool.lost > lost and self._use_slot(slot):
            return False
        self._bars.gauges.give_back(slot)
        return True

    def _set_message(self, msg: Message) -> None:
        words = _words(msg)
        if words != self._msg:
            self._msg = words
            self._bars.journal.tell(self.id, name=_name(words), attrs={"msg": list(words)})

    def _end(self, state: str, cause: str = "", *, complete: bool = False) -> None:
        with self._lock:
            if self.is_finished:
                return
            self.is_finished = True
            self._is_complete = complete
            self._numbers = None
            slot, self._slot = self._slot, None
        spool = self._bars.journal.spool
        lost = spool.lost
        attrs: dict[str, Value] = {"complete": True} if complete else {}
        self._bars.journal.tell(self.id, state=state, cause=cause[:1000], at=self._at, add=self._added, attrs=attrs)
        if slot is not None and spool.lost == lost:  # else the record was lost, and only the slot has the numbers
            self._bars.gauges.give_back(slot)
        self._bars.known.pop(self.id, None)
        if self._bars.watch is not None:
            self._bars.watch(self, state, cause)

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, GeneratorExit):
            self._end("cancelled", _LEFT_EARLY)
            return
        end = verdict(evidence_of(error))
        self._end(end.state, end.cause)


class Bars:
    """The bars that one process advances in one run."""

    def __init__(self, journal: Journal) -> None:
        """Begin with none."""
        self.journal = journal
        self.gauges = Gauges(mapped=journal.spool.mapped)
        self.watch: Callable[[Progress, str, str], None] | None = None  # a notebook shows begins and ends of bars
        self.known: dict[str, Progress] = {}  # by id: a worker that unpickles a bar again gets the same object

    def new(self, total: Any, msg: Message) -> Progress:
        """Begin a bar."""
        number = None if total is None else _number(total)
        if total is not None and (number is None or number < 0):
            faults.say_once(f"progress({text_of(total)[:50]}): a total is a number, 0 or more; taken as unknown")
            number = None
        words = _words(msg)
        bar = Progress(self, of_new_bar(self.journal.run), number, words, is_maker=True)
        attrs: dict[str, Value] = {"msg": list(words)} if number is None else {"msg": list(words), "total": number}
        self.journal.tell(
            bar.id, state="running", kind="progress", name=_name(words), parent=self.journal.process, attrs=attrs,
            add=0.0,
        )  # fmt: skip
        self.known[bar.id] = bar
        bar._get_slot()
        if self.watch is not None:
            self.watch(bar, "running", "")
        return bar

    def join(self, id_: str, maker: str, total: float | None, msg: list[str]) -> Progress:
        """Return a bar by its id, which another process may have begun."""
        bar = self.known.get(id_)
        if bar is None:
            bar = Progress(self, id_, total, msg, is_maker=False)
            if maker and maker == self.journal.spool.origin.name:  # this process made it, and has ended it
                bar.is_finished = True
            else:
                self.known[id_] = bar
        return bar

    def slot(self, bar: Progress) -> Slot:
        """Return a slot; if none is free, take that of the oldest bar. Raise OSError if that fails too."""
        directory = self.journal.spool.directory
        try:
            return self.gauges.take(directory, bar.id)
        except OSError:
            if not any(other._give_up_slot() for other in list(self.known.values()) if other is not bar):
                raise
            return self.gauges.take(directory, bar.id)

    def flush(self) -> None:
        """Record the numbers of bars without a slot, as the process ends."""
        for bar in list(self.known.values()):  # other threads may begin bars meanwhile
            if bar._slot is None and (bar._added or bar._at is not None):
                self.journal.tell(bar.id, at=bar._at, add=bar._added)

    def after_fork(self) -> None:
        """Go on in a fork child: it advances the same bars, and its own part begins at zero."""
        self.gauges.renew()
        for bar in self.known.values():
            bar._is_maker = False
            bar._begin()


def track(iterable: Iterable[T], msg: Message = "", total: float | None = None) -> Iterator[T]:
    """Yield the items of an iterable, and advance a bar by one after each.

    An exception of the iterable ends the bar as failed. If the loop is left early, by break or by an exception in its
    body, the bar ends as cancelled, with what was done until then.
    """
    if total is None:
        try:
            total = len(iterable)  # type: ignore[arg-type]
        except Exception as error:
            let_through(error)
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
    """Unpickle a bar: return it as an object that this process can advance."""
    try:
        found = _run_of(run, attempt, home)
        return OffProgress() if found is None else found._bars.join(id_, maker, total, msg)
    except Exception as error:
        let_through(error)
        faults.swallow(error, "unpickling a progress bar")
        return OffProgress()


_joined_runs: dict[str, Any] = {}  # runs that this process joined only because it got one of their bars


def _run_of(run: str, attempt: str, home: str) -> Any:
    """Return the run of a bar: the current run, that of the parent process, or one that we join now."""
    from vedette.client import current, exits, open_runs  # noqa: PLC0415 - they need Run, which needs this
    from vedette.client.run import Run  # noqa: PLC0415

    if (here := open_runs.find(run)) is not None:
        return here
    if os.environ.get("VEDETTE_RUN") == run and (joined := current.current()).id == run:
        return joined
    if run not in _joined_runs:
        chosen = settings.load({"home": home})
        if chosen.mode == "off":
            return None
        _joined_runs[run] = Run._join(Home.of(chosen), chosen, run, attempt, None)
        exits.watch(_joined_runs[run])
    return _joined_runs[run]


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except Exception as error:  # a user's __float__ may raise anything
        let_through(error)
        return None
    return number if math.isfinite(number) else None


def _words(msg: Any) -> list[str]:
    return [text_of(word) for word in msg] if isinstance(msg, tuple | list) else [text_of(msg)]


def _name(words: list[str]) -> str:
    return " | ".join(word for word in words if word)
