"""Bars that a program draws itself, read back; cases/bars.txt holds what tqdm draws."""

import io
from pathlib import Path

import pytest
from tqdm import tqdm

from vedette.sources.bars import Bar, Bars, read_bar
from vedette.sources.colours import split
from vedette.sources.output import Lines

CASES = [
    line
    for line in (Path(__file__).parents[1] / "cases" / "bars.txt").read_text().splitlines()
    if not line.startswith("#")
]


def expected(text):
    if text == "no":
        return None
    desc, n, total = (part.strip() for part in text.split("|"))
    return Bar(desc, float(n), None if total == "-" else float(total))[:3]


@pytest.mark.parametrize(("drawn", "read"), list(zip(CASES[::2], CASES[1::2], strict=True)))
def test_what_is_drawn_is_read(drawn, read):
    """A bar is read as its description, how far it is, and how far it goes; what is none is left alone."""
    found = read_bar(drawn)
    assert (found and found[:3]) == expected(read)
    assert ("loss" in drawn.partition("[")[2]) == (
        found is not None and found.postfix == "loss=0.1, acc=0.9"
    ) or not found


class Followed:
    """What a tracker was told."""

    def __init__(self, total, name):
        self.total, self.name, self.told = total, name, []

    def update(self, completed):
        self.told.append(completed)

    def complete(self):
        self.told.append("complete")


def follow(text):
    """Feed what was drawn; return the trackers and the lines."""
    trackers, said = [], []

    def begin(total, name):
        trackers.append(Followed(total, name))
        return trackers[-1]

    bars, cutter = Bars(begin), Lines()
    for line in cutter.feed(text) + cutter.flush():
        plain, _ = split(line.text)
        drawn, full = bars.take(plain)
        if full or (not drawn and line.over):
            said.append(full or plain)
    return trackers, said, bars.close()


@pytest.mark.parametrize(
    "options", [{}, {"ascii": True}, {"ncols": 0}, {"unit": "B", "unit_scale": True}, {"colour": "red"}]
)
def test_real_bars(options):
    """What tqdm itself draws is followed to its end, and is one line."""
    out = io.StringIO()
    for _ in tqdm(range(50), desc="epoch: 1", file=out, mininterval=0, **options):
        pass
    [tracker], said, left = follow(out.getvalue())

    assert (tracker.total, tracker.name, tracker.told[-2:]) == (50.0, "epoch: 1", [50.0, "complete"])
    assert len(tracker.told) > 10
    assert (len(said), left) == (1, [])


def test_real_nested_bars():
    """Bars below bars are told apart, each new one of a name is a new one, and lines between them stay lines."""
    out = io.StringIO()
    for _ in tqdm(range(3), desc="outer", file=out, mininterval=0, position=0):
        for _ in tqdm(range(5), desc="inner", file=out, mininterval=0, position=1, leave=False):
            pass
        tqdm.write("a line", file=out)
    trackers, said, _ = follow(out.getvalue())

    assert [tracker.name for tracker in trackers] == ["outer", "inner", "inner", "inner"]
    assert all(tracker.told[-1] == "complete" for tracker in trackers)
    assert [line.strip() for line in said if "|" not in line and line.strip()] == ["a line"] * 3


def test_a_bar_that_stopped_on_its_way():
    """A bar that never came to its end is left as it stood, and is not called complete."""
    out = io.StringIO()
    bar = tqdm(total=10, file=out, mininterval=0)
    bar.update(4)
    bar.close()
    [tracker], said, [left] = follow(out.getvalue())

    assert (tracker.told[-1], said) == (4.0, [])
    assert "4/10" in left


def test_bars_without_end_are_bounded():
    """A program that draws ever new bars takes bounded memory: what comes beyond are lines."""
    bars = Bars(None)
    taken = [bars.take(f"bar {n}:  50%|#####     | 5/10 [00:01<00:01, 5.00it/s]")[0] for n in range(1000)]
    assert sum(taken) == 100
