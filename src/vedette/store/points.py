"""Points on their way into a store and out of it: lists while they come in, numpy arrays from then on.

This module does not import numpy; only the functions that compute with arrays do. So `vedette ls`, and a hub that has
not got a point yet, run without it.
"""

import bisect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from vedette.model import Fact, Origin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FULL = 4096  # points in a chunk when it is sealed
MERGED = 16384  # points in a chunk of a finished or long run, at least
MOST_GROUPS = 4000  # groups of samples that are sealed in one transaction, about: it takes some tenths of a second


class Columns(Struct):
    """Samples of one origin with the same span, tags and names, in the order they were logged."""

    span: str
    tags: dict[str, str]
    names: tuple[str, ...]
    n: list[int] = []
    t: list[int] = []
    step: list[int] = []
    rows: list[tuple[float | int | bool, ...]] = []

    def block(self) -> "Block":
        """Return the same samples as arrays."""
        import numpy as np

        from vedette.store.chunks import to_array

        values = tuple(to_array(column) for column in zip(*self.rows, strict=True))
        n, t, step = (np.array(column, dtype=np.int64) for column in (self.n, self.t, self.step))
        return Block(self.span, self.tags, self.names, n, t, step, values)

    def after(self, offset: int) -> "Columns":
        """Return the samples after an offset."""
        return self._part(slice(bisect.bisect_right(self.n, offset), None))

    def until(self, offset: int) -> "Columns":
        """Return the samples up to an offset."""
        return self._part(slice(bisect.bisect_right(self.n, offset)))

    def _part(self, part: slice) -> "Columns":
        if part.start == 0 and part.stop is None:
            return self
        return Columns(self.span, self.tags, self.names, self.n[part], self.t[part], self.step[part], self.rows[part])


class Block(Struct, eq=False):
    """The same as Columns, but as arrays, one per name: these are compressed, sent and stored."""

    span: str
    tags: dict[str, str]
    names: tuple[str, ...]
    n: "NDArray[np.int64]"
    t: "NDArray[np.int64]"  # nanoseconds
    step: "NDArray[np.int64]"
    values: "tuple[NDArray[Any], ...]"

    def block(self) -> "Block":
        """Return itself."""
        return self

    def after(self, offset: int) -> "Block":
        """Return the samples after an offset."""
        return self._part(slice(int(self.n.searchsorted(offset, "right")), None))

    def until(self, offset: int) -> "Block":
        """Return the samples up to an offset."""
        return self._part(slice(int(self.n.searchsorted(offset, "right"))))

    def _part(self, part: slice) -> "Block":
        n, t, step, *values = (column[part] for column in (self.n, self.t, self.step, *self.values))
        return Block(self.span, self.tags, self.names, n, t, step, tuple(values))


class Batch(Struct):
    """The records of one lane of one origin, from the offset `start` to the offset `end`, which becomes its mark."""

    origin: Origin
    lane: str
    end: int
    damaged: int = 0
    refused: int = 0
    facts: list[tuple[int, Fact]] = []
    columns: list[Columns | Block] = []
    start: int = 0
    refusals: dict[str, int] = {}  # how many points each limit has refused


def cut_of(groups: "Sequence[tuple[int, int]]", most: int) -> int | None:
    """Return an offset up to which about `most` groups of samples can be sealed at first; None: seal all at once.

    A group is given by its first and last offset. All that lies before the offset is sealed, so groups that go beyond
    it are broken. Where most would be, because all series are logged in turns, they are better sealed together.
    """
    if len(groups) <= most:
        return None
    cut = sorted(last for _, last in groups)[most - 1]
    return cut if sum(first <= cut for first, _ in groups) <= 2 * most else None


class Points(Struct, frozen=True, eq=False):
    """The points of a series, by step and then time; t is in nanoseconds."""

    step: "NDArray[np.int64]"
    t: "NDArray[np.int64]"
    value: "NDArray[Any]"

    def __len__(self) -> int:
        return len(self.step)


class Part(Struct, frozen=True, eq=False):
    """The points of a series that one process logged; `process` is the span of that process."""

    process: str
    points: Points


def joined(parts: Sequence[Points]) -> Points:
    """Join points of several parts, sorted by step and then time."""
    if len(parts) == 1:
        return parts[0]
    import numpy as np

    if not parts:
        empty = np.empty(0, dtype=np.int64)
        return Points(empty, empty, np.empty(0))
    return by_step(*(np.concatenate([getattr(part, column) for part in parts]) for column in ("step", "t", "value")))


def by_step(step: "NDArray[np.int64]", t: "NDArray[np.int64]", value: "NDArray[Any]") -> Points:
    """Sort points by step and then time; if they are sorted already, this costs one comparison each."""
    if disordered(step, t):
        import numpy as np

        order = np.lexsort((t, step))
        step, t, value = step[order], t[order], value[order]
    return Points(step, t, value)


def disordered(step: "NDArray[np.int64]", t: "NDArray[np.int64]") -> bool:
    """Tell whether points are not sorted by step and then time."""
    return bool(((step[1:] < step[:-1]) | ((step[1:] == step[:-1]) & (t[1:] < t[:-1]))).any())
