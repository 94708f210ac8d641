"""What did not reach the store: it is counted exactly, and each reason stands once."""

import pytest

from tests.rooms.conftest import BORN
from vedette.model import Event
from vedette.query.losses import losses

CAP = "records could not be kept: the spool was at its cap"
FULL = "records could not be kept: the disk was full"
FLOOD = "lines of stdout were not recorded: more than 5000 a second"
NAMES = "the number 'x' is not logged: too many names"


@pytest.mark.parametrize(
    ("said", "dropped", "reasons"),
    [
        ([("r", 7, f"7 {CAP}")] * 175, 1225, [f"run r: 1225 {CAP}"]),
        ([("r", 7, f"7 {CAP}"), ("r", 8, f"8 {CAP}")], 15, [f"run r: 15 {CAP}"]),
        ([("r", 7, f"7 {CAP}"), ("s", 7, f"7 {CAP}")], 14, [f"run r: 7 {CAP}", f"run s: 7 {CAP}"]),
        (
            [("r", 7, f"7 {CAP}"), ("r", 1, f"1 {FULL}"), ("r", 7, f"7 {CAP}")],
            15, [f"run r: 1 {FULL}", f"run r: 14 {CAP}"],
        ),
        ([("r", 0, f"0 {FLOOD}")], 0, [f"run r: 0 {FLOOD}"]),
        ([("r", 0, NAMES)] * 2, 0, [f"run r: {NAMES}"]),
        ([("r", n, f"{n} {CAP} {n}") for n in range(1, 8)], 28, [f"run r: {n} {CAP} {n}" for n in range(3, 8)]),
    ],
    ids=["repeated", "other counts", "two runs", "two reasons", "nothing", "no count", "the newest five"],
)  # fmt: skip
def test_dropped_records(make, said, dropped, reasons):
    """Notices of one run with one reason are one sentence with their sum, the newest reasons last."""
    for number, (run, count, text) in enumerate(said):
        make.facts(run, Event(run, BORN + number, "dropped", 40, text, {"count": count}))

    found = losses(make.store)
    assert (found.dropped, found.reasons) == (dropped, reasons)


def test_what_was_dropped_and_is_in_the_store_was_not_lost(make):
    """A process drops its oldest segments without knowing what the hub has read of them; the store knows."""
    make.points("r", "x", [0.5] * 100)  # at the offsets 1 to 100
    attrs = {"count": 90, "why": "cap", "origin": "o-r", "segments": [0, 40, 40, 90, 140, 50]}
    make.facts("r", Event("r", BORN, "dropped", 40, f"up to 90 {CAP}", attrs))
    for wrong in ({"segments": "x"}, {"segments": [1, "2", 3]}, {"origin": 7}, {"segments": [0, 40]}):
        make.facts("r", Event("r", BORN, "dropped", 40, f"up to 0 {CAP}", {"count": 0, "origin": "o-r"} | wrong))
    found = losses(make.store)
    assert (found.dropped, found.reasons) == (40, [f"run r: 40 {CAP}"])
