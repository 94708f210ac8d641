"""How a process says facts and numbers: an origin, its spool, a time that never falls, and a hub that is kept awake.

Everybody who writes a spool speaks through this: the user's process, the hub, its meter and its listeners, the capture,
the sink `hub`. Only an inbox is written without it: what is in it was said elsewhere.
"""

import os
import time
from collections.abc import Callable

import msgspec

from vedette import kernel, settings, wire
from vedette.home import Home
from vedette.interrupts import let_through
from vedette.model import OWNER, Event, Fact, Origin, Sample, Span
from vedette.spool import Spool

_WAKE_EVERY_NS = 60 * 10**9
_MOST_CHARS = 100_000  # characters that stay of the text of an event that is too large for one record
_DEFAULT_CAP = settings.Spool()


def origin_here(
    name: str, *, span: str = "", process: str = "", upstream: str = "", main: bool = False, voice: str = OWNER
) -> Origin:
    """Return an origin of this process; `name` must be unique."""
    pid = os.getpid()
    try:
        started = kernel.start_ticks(pid) or 0
    except OSError as error:
        let_through(error)
        started = 0
    return Origin(name, kernel.host(), kernel.boot(), pid, started, span, process, upstream, main, voice)


class SteadyClock:
    """The time that is written: it never falls, though the system's may."""

    def __init__(self) -> None:
        """Begin without a time."""
        self._t = 0

    def now(self) -> int:
        """Return the time."""
        self._t = max(time.time_ns(), self._t)
        return self._t

    def be_later_than(self, t: int) -> None:
        """From now on return times later than `t`, so that our write wins over the one that was read."""
        self._t = max(self._t, t + 1)


class Voice:
    """Says facts and numbers under one origin. Who does so from several threads takes a lock around `now` and `say`.

    Nothing here raises when the disk is full or no hub can be had: what could not be kept is counted in `lost`.
    """

    def __init__(
        self,
        home: Home,
        make_origin: Callable[[], Origin],
        cap: settings.Spool = _DEFAULT_CAP,
        clock: SteadyClock | None = None,
    ) -> None:
        """Touch nothing yet: the origin is made with the first record. Voices of one process may share a clock."""
        self.home = home
        self.spool = Spool(home.spool, make_origin, cap.cap_bytes, cap.cap_share, home.prepare)
        self.clock = clock or SteadyClock()
        self.wake_at = 0  # when to look after the hub again; compared in hot paths

    @property
    def origin(self) -> Origin:
        """Who speaks."""
        return self.spool.origin

    @property
    def lost(self) -> int:
        """How many records could not be kept."""
        return self.spool.lost

    def now(self) -> int:
        """Return the time to write."""
        return self.clock.now()

    def say(self, fact: Fact) -> None:
        """Say a fact; one that is too large for a record is said in parts."""
        payload = wire.encode(fact)
        if len(payload) <= wire.MAX_PAYLOAD:
            self.spool.facts.append(wire.frame(payload))
        else:
            for part in _parts(fact):
                self.say(part)

    def sample(self, sample: Sample) -> None:
        """Say numbers."""
        self.spool.samples.append(wire.frame(wire.encode(sample)))

    def keep_hub_awake(self) -> str:
        """Look at most once a minute whether a hub lives; return why none can be started, if so."""
        if 0 <= self.wake_at - time.time_ns() <= _WAKE_EVERY_NS:
            return ""
        return self.wake_hub()

    def wake_hub(self) -> str:
        """Make sure that a hub lives, never waiting for it; return why none can be started, if so."""
        self.wake_at = time.time_ns() + _WAKE_EVERY_NS
        try:
            self.home.wake_hub(self.origin.name)
        except Exception as error:
            let_through(error)
            return str(error) or type(error).__name__
        return ""

    def close(self) -> None:
        """Say that nothing will follow."""
        self.spool.close()


def _parts(fact: Fact) -> list[Fact]:
    """Cut a fact that is too large for one record into some that are not."""
    if isinstance(fact, Span) and len(fact.attrs) > 1:
        keys = list(fact.attrs)
        halves = keys[: len(keys) // 2], keys[len(keys) // 2 :]
        rest = msgspec.structs.replace(fact, state="", cause="", kind="", name="", parent="")
        return [
            msgspec.structs.replace(whole, attrs={key: fact.attrs[key] for key in half})
            for whole, half in zip((fact, rest), halves, strict=True)
        ]
    if isinstance(fact, Span) and fact.attrs:
        [(key, value)] = fact.attrs.items()
        if isinstance(value, dict) and len(value) > 1:
            spread = {f"{key}.{inner}": v for inner, v in value.items()}
            return [msgspec.structs.replace(fact, attrs=spread)]
        return [msgspec.structs.replace(fact, attrs={key[:1000]: "(too large to keep)"})]
    if isinstance(fact, Event):
        return [msgspec.structs.replace(fact, text=fact.text[:_MOST_CHARS] + " (cut)", attrs={})]
    return []
