"""What can be read of a damaged store is saved, whichever pages were overwritten."""

import collections
import contextlib
import os
import random
import shutil
import sqlite3

import pytest

from tests.rooms.store.damage import LINES, PAGE, POINTS, RUNS, as_garbage, make_store, overwrite, pages_of
from vedette.errors import FormatError
from vedette.store import EventQuery, SpanQuery, archive, sqlite_mend
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_salvage import salvage


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The path of a store that nothing is wrong with."""
    return make_store(tmp_path_factory.mktemp("sound") / "store.db")


@pytest.fixture
def damaged(sound, tmp_path):
    """The path of a copy, to be damaged."""
    return shutil.copy(sound, str(tmp_path / "damaged.db"))


def saved(path):
    """Save what can be read of a store; return a new store that has it, and what was left out."""
    for left_out in salvage(path, f"{path}-saved"):
        count = left_out
    store = SqliteStore(f"{path}-new")
    with contextlib.closing(archive.open_careful(f"{path}-saved", path, "mode=rw")) as source:
        for taken in store.absorb(source, lenient=True):
            count = left_out + taken.left_out
    return store, count


def told(store):
    """Return what a store says of its runs."""
    runs = {row.id: row for row in store.spans(SpanQuery(kind="run"))}
    return {
        "runs": sorted(runs),
        "names": sorted(row.name for row in runs.values()),
        "states": {row.state for row in runs.values()},
        "lr": {row.attrs.get("config.lr") for row in runs.values()},
        "times": {(row.start_t, row.end_t) for row in runs.values()},
        "lines": len(store.events(EventQuery())),
        "files": len(store.blobs()),
        "points": sum(len(points) for points in store.points([row.id for row in store.series()]).values()),
    }


@pytest.fixture(scope="module")
def whole(sound):
    """What the sound store says."""
    store = SqliteStore(shutil.copy(sound, f"{sound}-copy"))
    said = told(store)
    store.close()
    assert said["points"] == 2 * POINTS * len(RUNS)
    assert said["lines"] == LINES * len(RUNS)
    return said


# What each table or index costs when all its pages are overwritten.
LOST = {
    "spans": {}, "writes": {}, "claims": {}, "spans_kind": {}, "spans_parent": {}, "marks": {}, "purges": {},
    "events_name": {}, "events_span": {}, "events_text_data": {}, "series": {}, "series_name": {}, "axes_origin": {},
    "chunks_series": {}, "chunks_axis": {}, "origins": {}, "sqlite_autoindex_origins_1": {}, "progress": {},
    "blobs": {"files": 0}, "events": {"lines": 0}, "axes": {"points": 0}, "chunks": {"points": 0},
}  # fmt: skip


CHECKED = ("writes", "claims", "marks", "origins", "series", "progress")  # what is missing of them is counted


@pytest.mark.parametrize("table", LOST)
def test_a_table_that_is_overwritten(damaged, whole, table):
    """All that is said elsewhere, too, is back; of the rest no run, and no other table, is missing."""
    overwrite(damaged, *pages_of(damaged, table))
    store, left_out = saved(damaged)
    assert told(store) == {**whole, **LOST[table]}
    assert bool(left_out) == (bool(LOST[table]) or table in CHECKED)
    store.close()


@pytest.mark.parametrize("first", [b"\xff", b"\0", b"SQLite format 3\0" * 256])
def test_the_first_page(damaged, whole, first):
    """Where the schema is gone, it is known: nothing is missing."""
    with open(damaged, "r+b") as file:
        file.write((first * PAGE)[:PAGE])
    store, left_out = saved(damaged)
    assert told(store) == whole
    assert not left_out
    store.close()


def test_tables_begin_at_the_same_pages_in_every_store(sound):
    """What is put in the place of a lost schema is what stores have, also when they have grown."""
    with contextlib.closing(sqlite3.connect(sound)) as store:
        found = dict(store.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0"))
    del found["delivered"]  # a store makes it when it is opened
    assert {name: root for _, name, _, root, _ in sqlite_mend._schema()} == found


def test_a_part_of_a_table(damaged, whole):
    """Of a page in the middle only its own rows are lost, and they are counted."""
    page = pages_of(damaged, "events")[3]
    overwrite(damaged, page)
    store, left_out = saved(damaged)
    found = told(store)
    assert 0 < whole["lines"] - found["lines"] == left_out["events"] < 100
    assert {**found, "lines": whole["lines"]} == whole
    store.close()


def test_a_store_that_was_cut_short(damaged, whole):
    """What lies before the cut is saved."""
    os.truncate(damaged, (pages_of(damaged, "events")[-1] - 1) * PAGE)
    store, left_out = saved(damaged)
    found = told(store)
    assert found["runs"] == whole["runs"]
    assert 0 < found["lines"] < whole["lines"]
    assert left_out["events"] > 0
    store.close()


@pytest.mark.parametrize("seed", range(6))
def test_two_pages_anywhere(damaged, whole, seed):
    """No two pages are so important that a run is lost with them."""
    dice = random.Random(seed)
    size = os.stat(damaged).st_size // PAGE
    overwrite(damaged, *dice.sample(range(1, size + 1), 2), fill=dice.choice([b"\xff", b"\0", b"\x0d\x01"])[:1])
    store, _ = saved(damaged)
    assert told(store)["runs"] == whole["runs"]
    store.close()


def test_what_is_in_its_log(sound, tmp_path, whole):
    """A hub that was killed leaves a log: what only that has is saved, too, and also without the first page."""
    for name in ("a", "b"):
        path = str(tmp_path / name)
        writer = SqliteStore(shutil.copy(sound, path))
        writer.connection.execute("UPDATE spans SET name = 'in the log' WHERE kind = 'run'")
        writer.connection.execute("DELETE FROM writes")
        for end in ("", "-wal"):
            shutil.copy(path + end, f"{path}-killed{end}")
        writer.close()
        overwrite(f"{path}-killed", *pages_of(path, "events_span") if name == "a" else [1])
        store, _ = saved(f"{path}-killed")
        assert told(store)["names"] == ["in the log"] * len(RUNS)
        store.close()


def test_numbers_that_were_changed_are_not_taken(damaged, whole):
    """A chunk that can be unpacked, and has other numbers than it had, is left out; with the control it is taken."""
    with contextlib.closing(sqlite3.connect(damaged)) as store:
        [(value,)] = store.execute("SELECT value FROM chunks LIMIT 1")
        [(other,)] = store.execute("SELECT value FROM chunks WHERE value <> ? LIMIT 1", (value,))
        store.execute("UPDATE chunks SET value = ? WHERE value = ?", (other, value))
        changed = store.total_changes
        store.commit()
    for lenient, lost in ((True, changed), (False, 0)):
        store = SqliteStore(f"{damaged}-{lenient}")
        with contextlib.closing(archive.open_careful(damaged, damaged)) as source:
            [*_, taken] = store.absorb(source, lenient=lenient)
        assert taken.left_out == collections.Counter({"chunks": lost} if lost else {})
        assert told(store)["points"] == whole["points"] - lost * POINTS
        store.close()


def test_what_is_nothing_of_a_store(damaged):
    """A file in which nothing can be read is refused."""
    as_garbage(damaged)
    with pytest.raises(FormatError, match="nothing of it"):
        saved(damaged)
