"""Which runs are due, by each rule; the store and its runs are made up."""

import hashlib

import pytest

from tests.rooms.conftest import BORN, SECOND
from vedette import manifest
from vedette.blobs import Blobs
from vedette.model import Blob, Span
from vedette.query.retention import due
from vedette.query.weight import Weights
from vedette.settings import Keep

DAY = 86_400 * SECOND
NOW = BORN + 100 * DAY


def ids(store, keep, living=()):
    return [run.id for run in due(store, Blobs("/nowhere"), keep, NOW, living)]


@pytest.fixture
def four(store, make):
    """Runs that ended 40, 30, 20 and 10 days ago, two of each project; one that lives, and one that is held."""
    for number, project in enumerate(["a", "b", "a", "b"]):
        t = NOW - (40 - 10 * number) * DAY
        make.run(f"r{number}", project=project, start_t=t - SECOND, end_t=t)
        make.points(f"r{number}", "loss", [float(step * step % 97) for step in range(5000)])
    make.run("alive", state="running", project="a", start_t=NOW - 90 * DAY)
    make.run("held", project="a", start_t=NOW - 90 * DAY, end_t=NOW - 80 * DAY, tag={"keep": True})
    return store


def test_nothing_is_due_unless_a_rule_says_so(four):
    """By default every run stays."""
    assert ids(four, Keep()) == []


def test_by_age(four):
    """Runs whose end is longer ago than that are due, the oldest first."""
    assert ids(four, Keep(age_d=25)) == ["r0", "r1"]
    assert ids(four, Keep(age_d=0.5)) == ["r0", "r1", "r2", "r3"]
    assert ids(four, Keep(age_d=50)) == []


def test_by_count(four):
    """Of each project the newest so many stay."""
    assert ids(four, Keep(runs=1)) == ["r0", "r1"]
    assert ids(four, Keep(runs=2)) == []


def test_by_size(four):
    """The oldest are due until the rest is small enough."""
    weight = four.weigh(["r0"])
    assert ids(four, Keep(size_bytes=four.weigh())) == []
    assert ids(four, Keep(size_bytes=four.weigh() - weight // 2)) == ["r0"]
    assert ids(four, Keep(size_bytes=four.weigh() - weight * 3 // 2)) == ["r0", "r1"]
    assert ids(four, Keep(size_bytes=1)) == ["r0", "r1", "r2", "r3"]


def test_rules_add_up(four):
    """What one rule makes due counts for the others."""
    assert ids(four, Keep(age_d=35, size_bytes=four.weigh() - four.weigh(["r0"]))) == ["r0"]
    assert ids(four, Keep(age_d=35, runs=1)) == ["r0", "r1"]


def test_the_living_stay(four, make):
    """A run that was heard of in the last minute, or whose process is known to live, stays, ended or not."""
    four.keep([], {"o-r0": NOW - 30 * SECOND})

    assert ids(four, Keep(age_d=1), living={"r1"}) == ["r2", "r3"]


def test_removed_ones_go_first(four, make):
    """What a user has removed goes before what nobody has."""
    make.facts("r3", Span("r3", NOW, attrs={"removed": True}))

    assert ids(four, Keep(runs=1)) == ["r3", "r0"]


@pytest.mark.parametrize(
    ("child", "stays"),
    [
        ({"state": "running"}, True),
        ({"tag": {"keep": True}}, True),
        ({"end_t": NOW - DAY}, True),
        ({"end_t": NOW - 41 * DAY}, False),
    ],
    ids=["lives", "is held", "is young", "is old too"],
)
def test_a_run_goes_with_those_below_it(store, make, child, stays):
    """A run stays as long as a run below it, however far, has to; that one may hang on a part of it."""
    make.run("top", start_t=NOW - 50 * DAY, end_t=NOW - 45 * DAY)
    make.run("mid", start_t=NOW - 50 * DAY, end_t=NOW - 45 * DAY)
    make.run("low", start_t=NOW - 50 * DAY, **child)
    make.facts("mid", Span("mid", NOW, parent="top/1/process"))
    make.facts("low", Span("low", NOW, parent="mid"))

    found = ids(store, Keep(age_d=30))
    assert ("top" not in found) == stays
    assert ("mid" not in found) == stays
    assert ("low" not in found) == stays


def test_parents_in_a_circle(store, make):
    """Runs that are each other's parents hold nobody up."""
    make.run("a", end_t=BORN)
    make.run("b", end_t=BORN)
    make.facts("a", Span("a", BORN, parent="b"))
    make.facts("b", Span("b", BORN, parent="a"))

    assert ids(store, Keep(age_d=1)) == ["a", "b"]


def test_files_count(four, make, tmp_path):
    """Saved files count, also those that a code package lists; a blob that another run names too frees nothing."""
    blobs = Blobs(str(tmp_path))
    package, _ = blobs.keep(manifest.write([manifest.Entry("a.py", hashlib.sha256(b"a").hexdigest(), 3_000_000)]))
    shared, own = "a" * 64, "b" * 64
    make.facts("r0", Blob("r0", NOW, "model", shared, 5_000_000), Blob("r0/1/o", NOW, "own", own, 1_000_000))
    make.facts("r1", Blob("r1", NOW, "model", shared, 5_000_000), Blob("r1", NOW, manifest.NAME, package, 100))
    weight = Weights(four, blobs)
    rows, total = four.weigh(["r0"]), weight.total()

    def due_at(limit):
        return [run.id for run in due(four, blobs, Keep(size_bytes=limit), NOW)]

    assert total == four.weigh() + 9_000_100
    assert due_at(total) == []
    assert due_at(total - 900_000) == ["r0"]
    assert due_at(total - 1_500_000) == ["r0", "r1"]
    assert weight.free(["r0"]) == rows + 1_000_000
    assert weight.free(["r1"]) == four.weigh(["r1"]) + 8_000_100
