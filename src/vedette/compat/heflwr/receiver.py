"""Records what heflwr's clients send: each identifier becomes a run (decisions/012).

The protocol does not say when a run begins or ends: the first message begins it, ten minutes without one end it.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict

from vedette.asgi import Refusal
from vedette.compat.heflwr import wire
from vedette.errors import VedetteError
from vedette.ids import new_id
from vedette.listeners.intake import Intake
from vedette.model import HUB, Event, Sample, Span
from vedette.store import Both, Compare, Either, Not, Reader, SpanQuery

_SOURCE = "heflwr"
IDLE_S = 600.0  # a run ends when its client has sent nothing for so long
_MAX_RUNS = 1000  # runs that are open at once
_MAX_SENDERS = 10_000


class _OpenRun:
    """A run that has not ended."""

    def __init__(self, run: str, last_s: float, t: int) -> None:
        self.run = run
        self.last_s = last_s
        self.t = t  # the time of its newest message


class Receiver:
    """Records the messages of clients."""

    def __init__(self, intake: Intake) -> None:
        """Begin without runs; `begin` finds the open ones."""
        self._intake = intake
        self._open: dict[str, _OpenRun] = {}  # by identifier
        self._senders: OrderedDict[str, int] = OrderedDict()  # the newest message of each

    async def begin(self) -> None:
        """Find the runs that an earlier process left open, and continue them."""
        now = time.monotonic()
        for identifier, run, t in await asyncio.to_thread(self._intake.ask, _running):
            self._open.setdefault(identifier, _OpenRun(run, now, t))

    def receive(self, body: bytes, header: str) -> None:
        """Record a message; raise FormatError, a Refusal, or OSError if there is no room."""
        now = time.time_ns()
        message = wire.parse(body, now)
        moment = wire.moment(header)
        if moment is not None and moment.n <= self._senders.get(moment.sender, 0):
            return  # it was recorded before, and only the answer was lost
        t = message.t or (moment.t if moment is not None else now)
        known = self._open.get(message.identifier) or self._begin(message.identifier, now)
        if message.numbers:
            self._intake.keep([], [Sample(t, t // 10**6, wire.values_of(message.numbers), known.run)])
        else:
            attrs = {"identifier": message.identifier, **message.where}
            self._intake.keep([Event(known.run, t, "log", message.level, message.message, attrs)])
        known.last_s, known.t = time.monotonic(), max(t, now)
        if moment is not None:
            self._senders[moment.sender] = moment.n
            self._senders.move_to_end(moment.sender)
            while len(self._senders) > _MAX_SENDERS:
                self._senders.popitem(last=False)

    def _begin(self, identifier: str, now: int) -> _OpenRun:
        """Record a new run of an identifier; a message that is then refused, and sent again, finds it open."""
        if len(self._open) >= _MAX_RUNS:
            self._intake.refuse("heflwr identifiers")
            raise Refusal(429, f"{_MAX_RUNS} identifiers are open already: a new one is refused")
        begun = _OpenRun(new_id(), time.monotonic(), now)
        attrs = {"project": _SOURCE, "source": _SOURCE, "identifier": identifier}
        self._intake.keep([Span(begun.run, now, "running", "", HUB, "run", identifier, attrs=attrs)])
        self._open[identifier] = begun
        return begun

    async def tend(self) -> None:
        """End the runs that are idle, and forget those that were removed."""
        now = time.monotonic()
        for identifier, known in list(self._open.items()):
            if now - known.last_s > IDLE_S:
                with contextlib.suppress(OSError):  # it is tried again
                    self._intake.keep([Span(known.run, known.t, "done", "", HUB)])
                    del self._open[identifier]
        if self._open:
            runs = tuple(known.run for known in self._open.values())
            try:
                gone = await asyncio.to_thread(self._intake.ask, lambda store: _gone(store, runs))
            except (VedetteError, OSError):
                return  # it is tried again
            self._open = {name: known for name, known in self._open.items() if known.run not in gone}


def _running(store: Reader) -> list[tuple[str, str, int]]:
    where = Both((Compare("state", "=", "running"), Not(Compare("removed", "=", True))))
    rows = store.spans(SpanQuery(kind="run", where=where, only=("source", "identifier")))
    return [
        (str(row.attrs["identifier"]), row.id, row.start_t or 0)
        for row in rows
        if row.attrs.get("source") == _SOURCE and row.attrs.get("identifier")
    ]


def _gone(store: Reader, runs: tuple[str, ...]) -> set[str]:
    where = Either((Compare("removed", "=", True), Not(Compare("state", "=", "running"))))
    rows = store.spans(SpanQuery(kind="run", where=Both((Compare("id", "in", runs), where)), only=()))
    return {row.id for row in rows}
