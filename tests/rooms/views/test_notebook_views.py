"""A run in a notebook as HTML: hostile text stays text, and the numbers are there without the drawing."""

import math
import re

import numpy as np
import pytest

from vedette.query.progress import Bar
from vedette.views.notebook import MOST_ROWS, Head, Tile, bars, charts, frame, head

HOSTILE = "<script>alert('x')</script>\x1b[31m\"><img src=x onerror=alert(1)>"
SECOND = 10**9


def bar(name="b", done=5.0, total=10.0, state="running", cause=""):
    """Return a bar that began ten seconds ago."""
    end_t = None if state == "running" else 3 * SECOND
    return Bar("r/p-1", "r", name, total, done, state, cause, SECOND, 11 * SECOND, end_t)


@pytest.mark.parametrize("shown", [
    head(Head("r1", HOSTILE, "failed", HOSTILE, 3.0)),
    head(Head("r1", HOSTILE, HOSTILE, page=f"http://127.0.0.1:7878/run/{HOSTILE}")),
    bars([bar(HOSTILE), bar(HOSTILE, state="failed", cause=HOSTILE)], 10 * SECOND),
    charts(Head("r1", HOSTILE, "done"), [Tile(HOSTILE, [0, 1], [1, 2], 2, 2, 1, 2)], 3),
    frame("http://x/" + HOSTILE),
])  # fmt: skip
def test_hostile_text_stays_text(shown):
    """A name, message or cause with markup or control codes adds no element, attribute or code."""
    assert set(re.findall(r"<(\w+)", shown.html)) <= set(
        "div b span a code table tbody tr td progress svg desc polyline circle details summary iframe".split()
    )
    assert "onerror=" not in re.sub(r"&\w+;[^<]*", "", shown.html)
    assert "\x1b" not in shown.html + shown.plain
    assert shown.html.count("<div") == shown.html.count("</div>")


def test_a_chart_without_its_drawing_still_tells_the_numbers():
    """An editor that strips SVG leaves name, last value, range, and the course as characters."""
    y = np.linspace(1.0, 0.0, 500)
    shown = charts(Head("r1", "n", "running"), [Tile("loss", range(500), y, 500, y[-1], y.min(), y.max())])
    text = re.sub(r"<[^>]*>", " ", shown.html)
    assert "loss" in text
    assert "0 to 1 · step 0 to 499 · 500 points" in text
    assert re.search("█▇*.*▁", text)
    assert "script" not in shown.html


def test_values_that_cannot_be_drawn_leave_a_chart_with_the_others():
    """NaN, infinities, huge spans, one point and none make no broken drawing."""
    big = 1.7e308
    for y in ([math.nan, 1.0, math.inf], [-big, big], [3.0], [], [math.nan]):
        shown = charts(Head("r1", "n", "running"), [Tile("m", range(len(y)), y, len(y), None, None, None)])
        assert "nan" not in shown.html.replace("finite", "")
        assert "inf" not in re.sub("no finite value", "", shown.html)


def test_bars_that_run_come_first_and_a_cell_shows_few():
    """Of many bars those that run are shown, then the newest that ended; the others are counted."""
    many = [bar(f"old{n}", 10, state="done") for n in range(20)] + [bar("live", 3.0)]
    lines = bars(many, 11 * SECOND, more=5).plain.split("\n")
    assert lines[0] == "live: 30% 3/10 · 10s · 0.3/s · 23s left"
    assert lines[1].startswith("old13: 100%")
    assert (len(lines), lines[-1]) == (MOST_ROWS + 1, "and 18 more")
