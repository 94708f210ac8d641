"""Groups of few samples are written without numpy, and stand in the store just as others do."""

import math
import random

import pytest

from tests.rooms.conftest import BORN
from vedette.model import LANE_SAMPLES, Origin
from vedette.store import Batch, Columns
from vedette.store.points import cut_of
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_few import MOST_ROWS

WHO = Origin("o", "host", span="r", process="r/1/o")
VALUES = (0.5, -1.25, 0.0, math.nan, math.inf, -math.inf, 7, -3, 0, 1 << 53, 1 << 62, 1 << 63, 1 << 70, True, False)


def groups_of(chance):
    """Groups of one to ten rows and one to three names, with numbers of all kinds."""
    n = 0
    for number in range(60):
        rows = chance.randrange(1, MOST_ROWS + 3)
        names = tuple(f"m{number}.{name}" for name in range(chance.randrange(1, 4)))
        offsets = [(n := n + chance.choice((40, 40, 40, 57))) for _ in range(rows)]
        pool = chance.choice((VALUES, VALUES[:3], VALUES[6:9], VALUES[-2:], VALUES[3:4]))
        values = [tuple(chance.choice(pool) for _ in names) for _ in range(rows)]
        tags = {"k": str(number)} if number % 3 else {}
        yield Columns("r", tags, names, offsets, [BORN + 1000 * one for one in offsets], list(range(rows)), values)


def told(store):
    """All rows of points, and the bytes in them."""
    ask = store.connection.execute
    axes = ask(
        "SELECT origin, first_n, last_n, count, first_t, last_t, t, step, n FROM axes ORDER BY first_n"
    ).fetchall()
    chunks = ask(
        "SELECT first_n, name, chunks.min, chunks.max, sum, value FROM chunks JOIN axes ON axes.id = axis"
        " JOIN series ON series.id = series ORDER BY first_n, name"
    ).fetchall()
    series = ask("SELECT name, tags, count, min, max, last, last_step, last_t FROM series ORDER BY name").fetchall()
    return axes, chunks, series


@pytest.mark.parametrize("seed", range(5))
def test_few_rows_are_stored_as_many_are(tmp_path, seed):
    """Every byte and every number of a small group is what numpy and `chunks` make of it."""
    found = list(groups_of(random.Random(seed)))
    stores = [SqliteStore(str(tmp_path / name)) for name in ("lists.db", "arrays.db")]
    stores[0].keep([Batch(WHO, LANE_SAMPLES, 10**6, columns=found)])
    stores[1].keep([Batch(WHO, LANE_SAMPLES, 10**6, columns=[group.block() for group in found])])
    assert repr(told(stores[0])) == repr(told(stores[1]))
    assert any(len(group.n) <= MOST_ROWS for group in found)
    assert any(len(group.n) > MOST_ROWS for group in found)


def test_a_wide_record(tmp_path):
    """Thousands of names in one record: each has its point, also where some of them are known already."""
    store = SqliteStore(str(tmp_path / "store.db"), most_series=2500)
    store.keep([Batch(WHO, LANE_SAMPLES, 1, columns=[Columns("r", {}, ("m7",), [1], [BORN], [0], [(0.5,)])])])
    names = tuple(f"m{number}" for number in range(3000))
    wide = Columns("r", {}, names, [2], [BORN], [1], [tuple(map(float, range(3000)))])
    store.keep([Batch(WHO, LANE_SAMPLES, 2, columns=[wide])])
    rows = {row.name: row for row in store.series(["r"])}
    assert len(rows) == 2500
    assert (rows["m7"].count, rows["m7"].last, rows["m8"].count, rows["m8"].last) == (2, 7.0, 1, 8.0)
    assert store.refusals() == {"limits.series_per_run": 500}


def test_names_of_a_wide_record_are_any_text(tmp_path):
    """Quotes, signs beyond 16 bits and even a NUL in a name: it stands there as it was logged, and once."""
    store = SqliteStore(str(tmp_path / "store.db"))
    odd = ('"', "'", "\\", "a\0b", "a\0c", "a", "\n", "\x7f", "\U0001f600", "é", "e\u0301", "\ufffd", "null", "1", "")
    names = (*odd, *(f"m{number}" for number in range(1000)))
    for n in (1, 2):
        wide = Columns("r", {}, names, [n], [BORN + n], [n], [tuple(map(float, range(len(names))))])
        store.keep([Batch(WHO, LANE_SAMPLES, n, columns=[wide])])
        store.writer.forget()
    rows = store.series(["r"])
    assert {row.name: (row.count, row.last) for row in rows} == {name: (2, float(n)) for n, name in enumerate(names)}
    assert len(rows) == len(names)


def test_where_groups_are_cut():
    """Series that come one after the other are sealed some at a time; those that come in turns, all together."""
    one_each = [(n, n) for n in range(100)]
    assert cut_of(one_each, 100) is None
    assert cut_of(one_each, 30) == 29
    dense = [(0, 99)] * 5
    assert cut_of(one_each + dense, 30) == 29
    in_turns = [(n, 1000 + n) for n in range(100)]
    assert cut_of(in_turns, 30) is None
