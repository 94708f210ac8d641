"""The law of tombstones: with `purged` among the words, in any order, a store comes to the same, and is right."""

import pytest
from hypothesis import given, settings

from tests.soak import times
from vedette.model import Span
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_purge import Reclaimer

from .oracle import Example, Record, Row, right
from .sayings import examples, repeatable_examples, with_fixed_parents
from .test_store_law import batches_of, new_store, rows_of, texts


def gone(records: list[Record]) -> tuple[set[str], set[str]]:
    """Return the spans of which a tombstone is left, and those of which nothing is."""
    spans = {span.id for _, _, span in records}
    tombs = {span.id for _, _, span in records if span.state == "purged"}
    parents = {span.id: span.parent for _, _, span in records if span.parent}
    while True:
        parts = {id_ for id_ in spans if any(id_.startswith(tomb + "/") for tomb in tombs)}
        under = {id_ for id_ in spans if parents.get(id_, "") in tombs | parts} - parts
        if under <= tombs:
            return tombs - parts, parts
        tombs |= under


def violations(example: Example) -> list[str]:
    """Return what is wrong after each delivery, with and without reclaiming in between."""
    records = list(example.records)
    tombs, parts = gone(records)
    kept = right([record for record in records if record[2].id not in parts])  # a purged try is a try still
    want = texts({id_: row for id_, row in kept.items() if id_ not in tombs})
    found = []
    first: dict[str, Row] = {}
    for delivery in example.deliveries:
        for budget in (0, 1, 1000):
            with new_store() as store:
                for part in delivery:
                    store.keep(batches_of(part))
                    if budget:
                        store.reclaim(budget)
                while store.reclaim(budget or 1000):
                    pass
                rows = rows_of(store)
                first = first or rows
                if texts(rows) != texts(first):
                    found.append(f"{rows} and {first}, from {delivery}")
                if texts({id_: row for id_, row in rows.items() if id_ not in tombs}) != want:
                    found.append(f"{rows} should be {want} and {tombs}, from {delivery}")
                if {rows[id_].state for id_ in tombs} - {"purged"} or any(
                    rows[id_].attrs.keys() - {"n"} for id_ in tombs
                ):
                    found.append(f"{rows}: {tombs} should be bare")
                if left_over(store, tombs):
                    found.append(f"{left_over(store, tombs)} is left")
    return found


def left_over(store: SqliteStore, tombs: set[str]) -> list[str]:
    """Return the spans that are still spoken of in a table, though they are gone."""
    names = [
        row[0]
        for table in ("claims", "writes", "progress")
        for row in store.connection.execute(f"SELECT DISTINCT span FROM {table}")
    ]
    return [name for name in names if any(name.startswith(tomb + "/") for tomb in tombs)]


@settings(deadline=None, max_examples=times(25))
@given(examples())
def test_purged_in_any_order(example: Example):
    """What is below a tombstone is as if it had never been; tombstones are bare, and all is the same each time."""
    assert violations(with_fixed_parents(example)) == []


@pytest.mark.parametrize("broken", ["_purge_below", "_delete_parts", "_strip"])
def test_control(monkeypatch, broken: str):
    """A store that leaves any of it out is found by that check."""
    monkeypatch.setattr(Reclaimer, broken, lambda *_: 0)

    assert any(violations(with_fixed_parents(example)) for example in repeatable_examples(seed=13, count=200))


def test_a_purged_try_of_another_run_leaves_that_run_its_own_word():
    """When a try is deleted with the run whose part it is, the run that it was a try of comes to its own state."""
    records = [
        ("a", 1, Span("r", 1, kind="run", state="running")),
        ("a", 2, Span("q/1", 2, kind="try", parent="r", state="failed", attrs={"n": 1})),
        ("a", 3, Span("q", 3, state="purged")),
    ]
    ways = [[[record] for record in way] for way in (records, records[::-1], [records[1], records[2], records[0]])]

    assert violations(Example(records, ways)) == []
