"""Points that the hub has and the store does not have yet: collected here, and read together with the store's.

A record is named by (origin, lane, n), and the store's mark of an origin says up to which n its samples are sealed. So
a reader that first gets the hub's points and then reads the store sees each point once: those up to the mark in the
store, those behind it here. Points that are sealed in between are neither lost nor doubled.
"""

import itertools
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from vedette.model import LANE_SAMPLES
from vedette.store import AHEAD, Batch, Block, ChunkRow, Mark, Part, Points, Reader, SeriesRow, joined
from vedette.store.chunks import extremes

_MOST_UNKNOWN = 2  # forget an origin when the hub did not know it in this many answers in a row
_MOST_IDS = 100_000
_LEAST_IDS = 1000  # fewer are not looked through for those that are over

Key = tuple[str, str, tuple[tuple[str, str], ...]]  # of a series: span, name and tags
_Group = tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]  # span, tags and names


class _Origin(Struct, frozen=True, eq=False):
    """The unsealed points of one origin: all behind its mark, up to the offset `end`."""

    process: str
    end: int
    groups: dict[_Group, Block]
    unknown: int = 0  # answers since the hub last knew it


class UnsealedPoints:
    """Holds the hub's unsealed points; one thread adds them, any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._origins: Mapping[str, _Origin] = {}
        self._made_up: dict[Key, int] = {}  # ids of series that the store does not have yet
        self._keys: dict[int, Key] = {}  # of series, by id
        self._next = itertools.count(1)
        self._looked_through = 0  # how many ids were left when they were looked through

    def ends(self) -> dict[str, int]:
        """Return by origin the offset up to which we have its points; we ask the hub for what is behind it."""
        return {name: origin.end for name, origin in self._origins.items()}

    def take(self, batches: Iterable[Batch], sealed: Mapping[str, int], *, anew: bool = False) -> set[str]:
        """Add the points of an answer of the hub; return the spans that have new points.

        `sealed`: by origin, the offset up to which its points are sealed. `anew`: the answer has all unsealed points,
        not only new ones.
        """
        origins: dict[str, _Origin] = {}
        for name, origin in {} if anew else self._origins.items():
            if name in sealed:
                origins[name] = replace(origin, groups=_after(origin.groups, sealed[name]), unknown=0)
            elif origin.unknown < _MOST_UNKNOWN:  # a hub that has just started may not have found its spool yet
                origins[name] = replace(origin, unknown=origin.unknown + 1)
        spans = set()
        for batch in batches:
            name = batch.origin.name
            known = origins.get(name) or _Origin(batch.origin.process, 0, {})
            groups = dict(known.groups)
            for columns in batch.columns:
                block = columns.block()
                group = (block.span, tuple(sorted(block.tags.items())), block.names)
                groups[group] = _join(groups[group], block) if group in groups else block
                spans.add(block.span)
            groups = _after(groups, sealed.get(name, 0))
            origins[name] = replace(known, end=max(known.end, batch.end), groups=groups, unknown=0)
        self._origins = origins
        self._forget_sealed()
        return spans

    def _forget_sealed(self) -> None:
        """Forget the ids of series that have no unsealed points any more: each run that is looked at has some."""
        with self._lock:
            if len(self._keys) <= max(_LEAST_IDS, 2 * self._looked_through):
                return
            groups = {group for origin in self._origins.values() for group in origin.groups}
            waiting = {(span, name, tags) for span, tags, names in groups for name in names}
            self._keys = {number: key for number, key in self._keys.items() if key in waiting}
            self._made_up = {key: number for key, number in self._made_up.items() if key in waiting}
            self._looked_through = len(self._keys)

    def clear(self) -> set[str]:
        """Forget all points; return the spans that had some."""
        spans = {group[0] for origin in self._origins.values() for group in origin.groups}
        self._origins = {}
        with self._lock:
            self._made_up.clear()
            self._keys.clear()
        return spans

    def now(self) -> Mapping[str, _Origin]:
        """Return the points as they are now; the result never changes. Call it before you read the store."""
        return self._origins

    def id_of(self, key: Key) -> int:
        """Return a negative, unique id for a series that is not in the store yet."""
        with self._lock:
            if key not in self._made_up:
                self._made_up[key] = -next(self._next)
            number = self._made_up[key]
        self.know(number, key)
        return number

    def know(self, number: int, key: Key) -> None:
        """Remember the key of a series by its id: later calls may give only the id."""
        with self._lock:
            if len(self._keys) > _MOST_IDS:
                self._keys.clear()
            self._keys[number] = key

    def key_of(self, number: int) -> Key | None:
        """Return the key of the series with this id."""
        return self._keys.get(number)


def _after(groups: dict[_Group, Block], offset: int) -> dict[_Group, Block]:
    rest = {group: block.after(offset) for group, block in groups.items()}
    return {group: block for group, block in rest.items() if len(block.n)}


def _join(first: Block, then: Block) -> Block:
    then = then.after(int(first.n[-1]))
    n, t, step = (np.concatenate((getattr(first, name), getattr(then, name))) for name in ("n", "t", "step"))
    values = tuple(np.concatenate(pair) for pair in zip(first.values, then.values, strict=True))
    return Block(first.span, first.tags, first.names, n, t, step, values)


def with_unsealed(store: Reader, points: UnsealedPoints, origins: Mapping[str, _Origin]) -> Reader:
    """Return a reader that sees the points of a store and the hub's unsealed points, each once.

    The store must not change while it is read: its reader is in a transaction.
    """
    return cast("Reader", _Together(store, points, origins))


class _Tail(Struct, frozen=True, eq=False):
    """The points of one series that one process logged and that are not in the store."""

    process: str
    n: NDArray[np.int64]
    t: NDArray[np.int64]  # nanoseconds, as they were logged
    step: NDArray[np.int64]
    value: NDArray[Any]

    @property
    def points(self) -> Points:
        """The same points as a store returns them: with times in whole microseconds."""
        return Points(self.step, self.t // 1000 * 1000, self.value)


class _Together:
    """A reader that answers questions about points from both; it passes all other questions to the store."""

    def __init__(self, store: Reader, points: UnsealedPoints, origins: Mapping[str, _Origin]) -> None:
        self._store = store
        self._points = points
        marks, none = store.marks(list(origins)), Mark()
        self._groups: dict[str, list[tuple[str, Block]]] = {}  # by span: the process, and its samples behind the mark
        for name, origin in origins.items():
            sealed = max(marks.get((name, lane), none).offset for lane in (LANE_SAMPLES, AHEAD))
            for block in _after(origin.groups, sealed).values():
                self._groups.setdefault(block.span, []).append((origin.process, block))
        self._unsealed: dict[ChunkRow, Points] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def series(self, spans: Sequence[str] | None = None, name: str | None = None) -> list[SeriesRow]:
        """Return series, including those that are not in the store yet."""
        rows = self._store.series(spans, name)
        touched = self._groups.keys() if spans is None else self._groups.keys() & set(spans)
        tails = {key: tail for span in touched for key, tail in self._tails(span, name).items()}
        if not tails:
            return rows
        found = []
        for row in rows:
            key = row.span, row.name, tuple(sorted(row.tags.items()))
            if key in tails:
                self._points.know(row.id, key)
            found.append(_add(row, tails.pop(key, ())))
        for key, tail in tails.items():
            new = SeriesRow(self._points.id_of(key), key[0], key[1], dict(key[2]), 0, None, None, None, None, None)
            found.append(_add(new, tail))
        return sorted(found, key=lambda row: (row.span, row.name, str(row.tags))) if tails else found

    def last_values(self, spans: Sequence[str] | None = None) -> dict[str, dict[str, float | int]]:
        """Return the newest value of each series."""
        values = self._store.last_values(spans)
        touched = self._groups.keys() if spans is None else self._groups.keys() & set(spans)
        for row in self.series(sorted(touched)) if touched else ():
            if row.last is not None:
                values.setdefault(row.span, {})[row.label] = row.last
        return values

    def points(self, series: Sequence[int], within: tuple[int, int] | None = None) -> dict[int, Points]:
        """Return all points of series, or those from one time to another."""
        found = self._store.points(series, within)
        for number, tail in self._by_number(series):
            parts = [one.points for one in tail]
            if within is not None:
                parts = [_cut(part, *within) for part in parts]
            found[number] = joined([part for part in (found[number], *parts) if len(part)])
        return found

    def parts(self, series: Sequence[int]) -> dict[int, list[Part]]:
        """Return the same points, by the process that logged them."""
        found = self._store.parts(series)
        for number, tail in self._by_number(series):
            parts = {part.process: [part.points] for part in found[number]}
            for one in tail:
                parts.setdefault(one.process, []).append(one.points)
            found[number] = [Part(process, joined(points)) for process, points in parts.items()]
        return found

    def recent(self, series: Sequence[int], count: int) -> dict[int, Points]:
        """Return the newest points of series."""
        found = self._store.recent(series, count)
        for number, tail in self._by_number(series):
            points = joined([part for part in (found[number], *(one.points for one in tail)) if len(part)])
            found[number] = Points(points.step[-count:], points.t[-count:], points.value[-count:])
        return found

    def outline(self, series: int) -> list[ChunkRow]:
        """Return the chunks of a series, and one more for each process that has unsealed points."""
        rows = self._store.outline(series)
        for _, tail in self._by_number([series]):
            for one in tail:
                points = one.points
                low, high, _ = extremes(one.value)
                first_t, last_t = int(points.t[0]), int(points.t[-1])
                # The offset of its last point makes the row unique, together with series, process and count.
                row = ChunkRow(-int(one.n[-1]), one.process, len(points), first_t, last_t, low, high, series)
                self._unsealed[row] = points
                rows.append(row)
        return rows

    def chunks(self, rows: Sequence[ChunkRow]) -> Iterator[tuple[ChunkRow, Points]]:
        """Yield chunks with their points."""
        sealed = [row for row in rows if row not in self._unsealed]
        yield from self._store.chunks(sealed)
        yield from ((row, self._unsealed[row]) for row in rows if row in self._unsealed)

    def _by_number(self, series: Sequence[int]) -> Iterator[tuple[int, list[_Tail]]]:
        for number in series:
            key = self._points.key_of(number)
            tail = self._tails(key[0], key[1]).get(key) if key is not None else None
            if tail:
                yield number, tail

    def _tails(self, span: str, name: str | None) -> dict[Key, list[_Tail]]:
        found: dict[Key, list[_Tail]] = {}
        for process, block in self._groups.get(span, ()):
            for one, value in zip(block.names, block.values, strict=True):
                if name is None or one == name:
                    key = block.span, one, tuple(sorted(block.tags.items()))
                    found.setdefault(key, []).append(_Tail(process, block.n, block.t, block.step, value))
        return found


def _add(row: SeriesRow, tail: Sequence[_Tail]) -> SeriesRow:
    """Return a series with its unsealed points counted in."""
    for one in tail:
        low, high, _ = extremes(one.value)
        t, step, last = int(one.t[-1]), int(one.step[-1]), one.value[-1].item()
        newer = row.last_t is None or _order(t, step, last) > _order(row.last_t, row.last_step, row.last)
        row = replace(
            row, count=row.count + len(one.n),
            min=low if row.min is None else row.min if low is None else min(row.min, low),
            max=high if row.max is None else row.max if high is None else max(row.max, high),
            last=last if newer else row.last, last_step=step if newer else row.last_step,
            last_t=t if newer else row.last_t,
        )  # fmt: skip
    return row


def _order(t: int, step: int | None, value: float | None) -> tuple[int, int, bool, float]:
    """Return the store's sort key for the newest point; a value that is not a number comes last."""
    number = math.nan if value is None else float(value)
    return t, step or 0, math.isnan(number), 0.0 if math.isnan(number) else number


def _cut(points: Points, from_t: int, to_t: int) -> Points:
    inside = (points.t >= from_t) & (points.t <= to_t)
    return Points(points.step[inside], points.t[inside], points.value[inside])
