"""Takes in what a copy of a spool says, and is not here yet (decisions/033).

A copy has the offsets of the spool itself, which may be read by this hub or come from a relay later. So it moves no
mark: its records are known again by their offsets.
"""

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from vedette.fold import Folded
from vedette.model import LANE_SAMPLES, PURGED, Event, Fact, Span
from vedette.store import AHEAD, COPIED, Batch, Taken
from vedette.store.sqlite_bounds import knows
from vedette.store.sqlite_purge import is_gone

if TYPE_CHECKING:
    from vedette.store.sqlite import SqliteStore


def take(store: "SqliteStore", batch: Batch) -> Taken:
    """Take in a batch of a copy, in one transaction; return how much of it was new."""
    taken = Taken(touched=set())
    with store._transaction():
        number = store._foreign_origin(batch.origin)
        _take_facts(store, number, batch, taken)
        if batch.lane == LANE_SAMPLES and batch.columns:
            _take_samples(store, number, batch, taken)
        store.move_mark(number, COPIED[batch.lane], batch.end, batch.damaged, batch.refused)
    return taken


def _take_facts(store: "SqliteStore", number: int, batch: Batch, taken: Taken) -> None:
    spans: dict[str, list[tuple[str, int, Span]]] = defaultdict(list)
    others: list[tuple[int, Fact]] = []
    for n, fact in batch.facts:
        if not isinstance(fact, Span):
            others.append((n, fact))
        elif fact.state != PURGED:  # only the owner of a home removes something for good
            spans[fact.id].append((batch.origin.name, n, fact))
    for span in [span for span, records in spans.items() if _knows(store, span, records)]:
        del spans[span]
    taken.spans = sum(map(len, spans.values()))
    taken.touched |= spans.keys()
    store._keep_spans(spans)
    before = store.connection.total_changes
    for n, fact in others:
        store._keep_facts(batch.origin.name, number, [(n, fact)], {}, lambda span: is_gone(store.connection, span))
        if store.connection.total_changes > before and not isinstance(fact, Span):
            before = store.connection.total_changes
            taken.events += isinstance(fact, Event)
            taken.touched.add(fact.span)


def _knows(store: "SqliteStore", span: str, records: list[tuple[str, int, Span]]) -> bool:
    theirs = Folded()
    for origin, n, record in records:
        theirs.fold(record, origin, n)
    row = store.connection.execute("SELECT 1 FROM spans WHERE id = ?", (span,)).fetchone()
    return row is not None and knows(store._load(span), theirs)


def _take_samples(store: "SqliteStore", number: int, batch: Batch, taken: Taken) -> None:
    from vedette.store.sqlite_held import not_held

    refusals: Counter[str] = Counter()
    for columns in not_held(store.connection, number, [each.block() for each in batch.columns]):
        if is_gone(store.connection, columns.span):
            continue
        block = columns.block()
        store.writer.keep(number, [block], refusals)
        store.move_mark(number, AHEAD, int(block.n[-1]))
        taken.points += len(block.n) * len(block.names)
        taken.touched.add(block.span)
