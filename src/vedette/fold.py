"""The fold: records of a span, in any order and any number of times, add up to one state.

Claims are only ever added; of an attribute the last write wins, by (t, origin, n); progress is kept per origin, and
never decreases. State, cause, start and end are computed from these. Every "newest" is a total order over all fields,
so that no two readers can ever disagree (decisions/002).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from vedette.model import KINDS, MOST_LEVELS, PURGED, UNKNOWN_KIND, UNSEEN, VOICES, Kind, Span, Value

_MOST_KEY = 1000  # characters of an attribute's whole key; a longer one is cut
_MOST_KEYS = 8 << 20  # characters of all keys of one record: those of a branch are repeated in each key below it
_PLACE = ("kind", "parent")  # said by fields of a record; an attribute that is named so says nothing of them


class Claim(NamedTuple):
    """What one origin says about a span's state. Claims are never dropped: a less trusted one may know the cause."""

    state: str
    t: int
    by: str
    origin: str
    cause: str


class SpanState(NamedTuple):
    """What the claims on a span add up to."""

    state: str = ""
    cause: str = ""
    start_t: int | None = None
    end_t: int | None = None


class Write(NamedTuple):
    """Attributes that one record set, with the (t, origin, n) that decides which write is the last."""

    t: int
    origin: str
    n: int
    attrs: dict[str, Value]


class OriginProgress(NamedTuple):
    """The progress of one origin: the highest value of each number so far, since neither may decrease."""

    n: int
    t: int
    at: float | None
    add: float | None

    def join(self, other: "OriginProgress | None") -> "OriginProgress":
        """Combine two reports of one origin's progress; their order does not matter."""
        if other is None:
            return self
        n, t, at, add = other
        return OriginProgress(max(self.n, n), max(self.t, t), _most(self.at, at), _most(self.add, add))


class Folded:
    """All records of one span, folded."""

    __slots__ = ("claims", "progress", "writes")

    def __init__(
        self,
        claims: Iterable[Claim] = (),
        writes: Iterable[Write] = (),
        progress: Mapping[str, OriginProgress] | None = None,
    ) -> None:
        """Start from stored claims, writes and progress."""
        self.claims = set(claims)
        self.writes = {(write.origin, write.n): write for write in writes}
        self.progress = dict(progress or {})

    def fold(self, span: Span, origin: str, n: int) -> None:
        """Add one record."""
        if span.state:
            self.claims.add(Claim(span.state, span.t, span.by, origin, span.cause))
        attrs = {key: value for key, value in flatten(span.attrs).items() if key.partition(".")[0] not in _PLACE}
        for key in ("kind", "name", "parent"):
            if value := getattr(span, key):
                attrs[key] = value
        if attrs:
            self.writes[origin, n] = Write(span.t, origin, n, attrs)
        if span.at is not None or span.add is not None:
            whose = span.of or origin  # a hub may report for an origin that has ended
            reported = OriginProgress(n, span.t, _number(span.at), _number(span.add))
            self.progress[whose] = reported.join(self.progress.get(whose))

    def unite(self, other: "Folded") -> None:
        """Add all records of another fold of the same span."""
        self.claims |= other.claims
        self.writes = other.writes | self.writes
        for origin, theirs in other.progress.items():
            self.progress[origin] = theirs.join(self.progress.get(origin))

    def knows(self, other: "Folded") -> bool:
        """Tell whether this fold has everything that another one has."""
        return (
            other.claims <= self.claims
            and other.writes.keys() <= self.writes.keys()
            and all(theirs.join(self.progress.get(o)) == self.progress.get(o) for o, theirs in other.progress.items())
        )

    def attrs(self) -> dict[str, Value]:
        """Return the present value of each attribute, and drop writes that can never win again."""
        last: dict[str, Write] = {}
        for write in self.writes.values():
            for key in write.attrs:
                held = last.get(key)
                if held is None or write[:3] > held[:3]:
                    last[key] = write
        self.writes = {(write.origin, write.n): write for write in last.values()}
        return {key: last[key].attrs[key] for key in sorted(_standing(last))}

    def span_state(self, kind: str) -> SpanState:
        """Return state, cause, start and end from this span's own claims, without its tries."""
        return judge(KINDS.get(kind, UNKNOWN_KIND), self.claims)

    def done(self) -> float | None:
        """Return how much is done: the highest `at` plus the sum of all `add`."""
        if not self.progress:
            return None
        # Sorted, so that the sum of floats does not depend on the order of arrival.
        furthest = max((p.at for p in self.progress.values() if p.at is not None), default=0.0)
        added = sorted(p.add for p in self.progress.values() if p.add is not None)
        return furthest + sum(added)


def _number(value: float | None) -> float | None:
    """Return a finite number, or None for NaN and infinity."""
    return value + 0.0 if value is not None and math.isfinite(value) else None  # -0.0 is 0.0


def _most(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


def _standing(last: Mapping[str, Write]) -> set[str]:
    """Return the valid keys: no later write replaced a key's parent by a value, or the key by a branch."""
    newest_below: dict[str, tuple[int, str, int]] = {}
    above = {key: _branches(key, last) for key in last}
    for key, write in last.items():
        for branch in above[key]:
            newest_below[branch] = max(newest_below.get(branch, write[:3]), write[:3])
    return {
        key
        for key, write in last.items()
        if newest_below.get(key, write[:3]) <= write[:3] and all(last[branch][:3] <= write[:3] for branch in above[key])
    }


def _branches(key: str, known: Mapping[str, Write]) -> list[str]:
    """Return those of the known keys that this one lies below; no deeper than attributes are nested."""
    found, dot = [], key.find(".")
    for _ in range(MOST_LEVELS):
        if dot < 0:
            break
        if (branch := key[:dot]) in known:
            found.append(branch)
        dot = key.find(".", dot + 1)
    return found


def judge(kind: Kind, claims: Iterable[Claim]) -> SpanState:
    """Compute the state of a span from its claims.

    The end is the latest claim of the most trusted `by`; an end that nobody saw gives way to every other. Before any
    end, the highest state holds, whatever the clocks say. `purged` overrides everything.
    """
    claims = list(claims)
    if not claims:
        return SpanState()
    start_t = min(claim.t for claim in claims)
    ends = [claim for claim in claims if claim.state == PURGED]
    ends = ends or [claim for claim in claims if claim.state in kind.ends]
    if not ends:
        highest = max(claims, key=lambda claim: (_rank(kind, claim.state), claim.state))
        return SpanState(highest.state, "", start_t, None)
    ends = [claim for claim in ends if claim.state != UNSEEN] or ends  # whoever saw it knows more
    best = max(ends, key=weight)
    if not best.cause:  # another claim may know the cause
        causes = [claim for claim in ends if claim.cause]
        cause = max(causes, key=weight).cause if causes else ""
    else:
        cause = best.cause
    return SpanState(best.state, cause, start_t, best.t)


def _rank(kind: Kind, state: str) -> int:
    return kind.climbing.index(state) if state in kind.climbing else -1


def weight(claim: Claim) -> tuple[int, int, str, str, str]:
    """Return what decides between claims on one state: the weightiest holds."""
    trust = -VOICES.index(claim.by) if claim.by in VOICES else -len(VOICES)
    return trust, claim.t, claim.origin, claim.state, claim.cause


def settle(own: SpanState, tries: Iterable[tuple[int, str, SpanState]]) -> SpanState:
    """Return the state of a span: that of its highest try by (n, id), or its own if it has no tries."""
    best = max(tries, default=None, key=lambda item: item[:2])
    if best is None or own.state == PURGED:
        return own
    last = best[2]
    starts = [t for t in (own.start_t, last.start_t) if t is not None]
    return SpanState(last.state, last.cause, min(starts, default=None), last.end_t)


def flatten(attrs: Mapping[str, Value]) -> dict[str, Value]:
    """Flatten nested dicts: `{"a": {"b": 1}}` becomes `{"a.b": 1}`; an empty dict is a value."""
    flat: dict[str, Value] = {}
    left = _MOST_KEYS
    for key, value in _leaves(attrs, ""):
        left -= len(key)
        if left < 0:
            break
        flat[key] = value
    return flat


def _leaves(attrs: Mapping[str, Value], prefix: str) -> Iterator[tuple[str, Value]]:
    for key, value in attrs.items():
        path = f"{prefix}{key}"[:_MOST_KEY]
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value
