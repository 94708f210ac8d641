"""The columns of `vedette top`: which of them fit, and what stands in them."""

import pytest
from rich.cells import cell_len

from vedette.query.overview import RunLine
from vedette.query.progress import Bar
from vedette.views.spark import bar, spark
from vedette.views.text import percent
from vedette.views.top.columns import ORDERS, SIGNS, amount, cells, draw, fit, layout, ordered, short_size

# Every control character of C0 and C1, and what they introduce: CSI, OSC, DCS, a link, a title, a clear screen.
ATTACKS = [
    *(f"a{chr(code)}b" for code in (*range(32), *range(127, 160))),
    "\x1b[31mred", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\link", "\x1bPq#0\x1b\\", "\x9b2J", "\x1b[", "\x1b]",
    "\x1b",     "\u202e\u2066reversed", "a\r\nb\tc",
]  # fmt: skip
NOW = 1_790_000_100 * 10**9


def line(**told):
    """Return a run in a line, with something in every column."""
    progress = Bar("a/p-1", "a", "epoch", 100.0, 42.0, "running", "", NOW - 42 * 10**9, NOW, None)
    usual = {
        "id": "2pg66abcde", "name": "brisk-otter-417", "project": "cifar", "state": "running", "cause": "",
        "alive": True, "hosts": ["camp"], "processes": 1, "start_t": NOW - 10**11, "end_t": None, "duration_s": 100.0,
        "silent_s": 0.1, "bar": progress, "metric": "loss", "metrics": ["loss"], "trend": [3.0, 2.0, 1.0], "last": 1.0,
        "cpu_percent": 123.0, "memory_bytes": 2.5e9, "gpu_percent": 87.0, "gpu_memory_bytes": 3.2e9,
        "line": "epoch 3: all is well", "level": 20,
    }  # fmt: skip
    return RunLine(**(usual | told))


def drawn(lines, width):
    """Return the rows as they stand on a screen."""
    rows = [cells(one, NOW) for one in lines]
    columns = layout(width, rows)
    return [
        " ".join(draw(one, row, column, size).text for column, size in columns)
        for one, row in zip(lines, rows, strict=True)
    ]


def keys(lines, width):
    return [column.key for column, _ in layout(width, [cells(one, NOW) for one in lines])]


@pytest.mark.parametrize("width", [1, 10, 20, 40, 60, 80, 100, 132, 200, 400])
def test_a_row_never_is_too_wide(width):
    """Whatever the width, and whatever stands in it, a row fits."""
    lines = [
        line(),
        line(name="x" * 300, line="宽" * 300, hosts=["a" * 90, "b"], metric="m" * 80),
        line(name="宽宽宽宽宽宽"),
    ]

    sizes = {cell_len(row) for row in drawn(lines, width)}
    assert max(sizes) <= width
    assert len(sizes) == 1


def test_what_narrow_screens_keep():
    """Sign, name and progress stay the longest; a wide screen shows everything, and uses its room."""
    assert keys([line()], 40) == ["sign", "name", "took", "bar", "cpu", "memory"]
    assert keys([line()], 60)[:3] == ["sign", "name", "took"]
    assert {"last", "trend"} <= set(keys([line()], 80))
    assert len(keys([line()], 200)) == 15
    assert cell_len(drawn([line()], 300)[0]) == 300


def test_columns_in_which_nothing_stands():
    """A column that is empty in every row is left out."""
    bare = line(bar=None, gpu_percent=None, gpu_memory_bytes=None, trend=[], last=None, metric="", project="", hosts=[])

    assert not {"bar", "left", "gpu", "trend", "last", "metric", "project", "host"} & set(keys([bare], 200))
    assert {"gpu", "trend"} <= set(keys([bare, line()], 200))


def test_what_stands_there():
    """A row says what is known: state, name, share, time left, value, usage, last line."""
    [row] = drawn([line()], 200)

    for text in ("● running", "brisk-otter-417", "cifar", "camp", "1m40s", "42%", "58s", "loss", "123%", "2.5G",
                 "87% 3.2G", "epoch 3: all is well"):  # fmt: skip
        assert text in row


@pytest.mark.parametrize("value", [1.234567e-07, 1.234567e08, -1.234567e-07, -1.234567e308, 5e-324, 0.00012345678])
def test_a_value_keeps_its_exponent(value):
    """On a narrow screen a value has fewer digits, and is not cut: it is shown within a fifth."""
    columns = layout(80, rows := [cells(line(last=value), NOW)])
    [shown] = [draw(line(last=value), rows[0], column, width).text for column, width in columns if column.key == "last"]
    assert float(shown) == pytest.approx(value, rel=0.2)


def test_states_are_told_apart_without_colours():
    """Every state has a sign of its own."""
    assert len(set(SIGNS.values())) == len(SIGNS)
    for state, sign in SIGNS.items():
        assert drawn([line(state=state)], 60)[0].startswith(sign)
    assert drawn([line(state="queued")], 60)[0].startswith("○")


def test_why_it_ended_stands_instead_of_its_last_line():
    """A run that has ended says why, one that is lost since when."""
    assert "killed by SIGKILL" in drawn([line(state="failed", alive=False, cause="killed by SIGKILL")], 200)[0]
    assert "last heard 1m30s ago" in drawn([line(state="lost", alive=False, silent_s=90)], 200)[0]


@pytest.mark.parametrize("text", [*ATTACKS, "[red]x[/]", "[/]", "[@click=app.quit]x[/]"])
def test_other_peoples_text(text):
    """No control byte reaches the screen, whatever a run is called or says; brackets stay as they are."""
    rows = drawn([line(name=text, project=text, hosts=[text], metric=text, line=text, cause=text, state=text)], 400)

    assert not [char for char in rows[0] if ord(char) < 32 or 127 <= ord(char) < 160]
    if "[" in text and text.isprintable():
        assert text in rows[0]


@pytest.mark.parametrize("by", ORDERS)
def test_orders(by):
    """In every order, those that live come first, and what has no value is no mistake."""
    lines = [
        line(id="a", name="b", start_t=1, cpu_percent=None, memory_bytes=None, last=float("nan"), bar=None),
        line(id="b", name="a", start_t=2, cpu_percent=5, memory_bytes=9, last=0.1),
        line(id="c", alive=False, state="failed", start_t=3),
    ]

    assert [one.id for one in ordered(lines, by)] == {"state": ["a", "b", "c"]}.get(by, ["b", "a", "c"])


def test_bars_and_shares():
    """What is not whole never looks so."""
    assert bar(1.0, 4) == "━━━━"
    assert bar(0.999999, 4) == "━━━╸"
    assert bar(0.5, 4) == "━━──"
    assert (bar(None, 3), bar(float("nan"), 3), bar(0.5, 0)) == ("───", "───", "")
    assert (percent(0.999999), percent(1.0), percent(0.0), percent(29 / 100)) == ("99%", "100%", "0%", "29%")


def test_curves():
    """A curve has at most so many cells; what is no number is a dot, and the largest floats are no trouble."""
    assert spark([0.0, 1.0], 8) == "▁█"
    assert len(spark(list(range(1000)), 8)) == 8
    assert spark([1.0, float("nan"), float("inf"), 2.0], 4) == "▁··█"
    assert spark([1.7e308, -1.7e308], 2) == "█▁"
    assert (spark([], 5), spark([1.0], 0), spark([2.0, 2.0], 2)) == ("", "", "▄▄")


def test_numbers_are_short():
    """A count has at most four characters, a size seven."""
    assert [amount(count) for count in (0, 999, 1000, 12_345, 1e6, 1e30)] == ["0", "999", "1.0k", "12k", "1.0M", "many"]
    assert [short_size(count) for count in (0, 999, 1e6, 123e6, 2.5e9, 1e13)] == [
        "0B",
        "999B",
        "1.0M",
        "123M",
        "2.5G",
        "10.0T",
    ]
    assert (fit("abc", 2), fit("abc", 5, right=True), fit("宽宽", 3), fit("x", 0)) == ("a…", "  abc", "宽…", "")
