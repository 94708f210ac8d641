"""Lost runs: a span that should be alive is `lost` when nothing was heard from it for too long.

The hub that keeps the store stamps each origin that it knows to be alive, by its own clock. If it has never stamped an
origin, we only know when the process began, by the clock of that process. A span without a process, such as a run
that waits in a queue, is never lost. `lost` is computed on each query and never stored, so a span that is heard again
is not lost any more.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from vedette.ids import enclosing
from vedette.model import KINDS, UNKNOWN_KIND
from vedette.query import tries
from vedette.store import OriginRow, Reader, SpanQuery, SpanRow

LOST = "lost"
LOST_AFTER_S = 60.0


class Sign(NamedTuple):
    """The last sign of life: when a hub last heard it, and when it began by its own clock."""

    heard_t: int | None
    began_t: int | None


class Seen(SpanRow, frozen=True, gc=False):
    """A span at one moment; its state is `lost` if it should be alive and nothing was heard from it for too long."""

    heard_t: int | None = None  # when a hub last knew that it was alive
    silent_s: float | None = None  # how long nothing was heard from it; None if it is not expected to be alive


def see(row: SpanRow, sign: Sign | None, now: int, lost_after_s: float = LOST_AFTER_S) -> Seen:
    """Return a span as it is now; without a sign of life it keeps its last state."""
    last_t = None if sign is None else sign.heard_t or sign.began_t or row.start_t
    silent_s, state = None, row.state
    if last_t is not None and row.state in KINDS.get(row.kind, UNKNOWN_KIND).climbing:
        silent_s = max(0, now - last_t) / 1e9
        state = LOST if silent_s > lost_after_s else state
    known = msgspec.structs.asdict(row) | {"state": state}
    return Seen(**known, heard_t=sign.heard_t if sign else None, silent_s=silent_s)


def signs(store: Reader, runs: Sequence[str]) -> dict[str, Sign]:
    """Return the last sign of life of these runs, their tries and their processes, by id.

    A run has the sign of its newest try, from whichever process. A span without a process is left out.
    """
    groups: dict[str, list[OriginRow]] = defaultdict(list)
    for row in store.origins(runs):
        if process := row.origin.process:
            groups[process].append(row)
            groups[enclosing(process)].append(row)
            groups[row.origin.span].append(row)
    began: dict[str, int | None] = {}
    for run, rows in tries.of_runs(store, runs).items():
        began |= {row.id: row.start_t for row in rows}
        groups[run] = groups.get(rows[-1].id, [])
        began[run] = rows[-1].start_t
    unheard = {enclosing(row.origin.process) for rows in groups.values() for row in rows if not row.heard_t}
    if unheard:
        processes = store.spans(SpanQuery(kind="process", parents=tuple(unheard)))
        began |= {row.id: row.start_t for row in processes}
    return {span: _sign(span, rows, began) for span, rows in groups.items() if rows}


def _sign(span: str, rows: Iterable[OriginRow], began: dict[str, int | None]) -> Sign:
    heard_t = max(row.heard_t for row in rows)
    starts = [t for name in (span, *(row.origin.process for row in rows)) if (t := began.get(name)) is not None]
    return Sign(heard_t or None, max(starts, default=None))
