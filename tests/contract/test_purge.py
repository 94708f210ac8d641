"""What every store promises of `purged`: all of it goes, in whatever order it comes, and nobody else's."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from contextlib import closing

import pytest

from tests.contract.test_store import T, everything, facts, origin, samples
from vedette.model import LANE_FACTS, LANE_SAMPLES, Blob, Event, Span
from vedette.store import EventQuery, Mark, SpanQuery
from vedette.store.sqlite_purge import Reclaimer

CHILD = origin("o3", "c1")
OTHER = origin("o2", "r10")  # not a part of r1, though its id begins so
PURGE = facts(Span("r1", T + 9, state="purged", by="user", cause="removed by me"), who=origin("hub", ""))
LIFE = [
    facts(
        Span("r1", T, state="created", kind="run", name="alpha", attrs={"project": "x", "config": {"lr": 0.1}}),
        Span("r1/1", T, state="running", kind="try", parent="r1", attrs={"n": 1}),
        Span("r1/1/p", T, state="running", kind="process", parent="r1/1", at=1.0, add=2.0),
        Event("r1", T, "mark", 20, "epoch one", {"labels": ["epoch", "1"]}),
        Event("r1/1/p", T, "mark", 20, "epoch two"),
        Blob("r1", T, "code.zip", "abc", 3, "application/zip"),
    ),
    facts(Span("r1/1", T + 5, state="done"), Span("r1", T + 5, attrs={"notes": "n"}), first=7),
    samples([3.0, 2.0, 1.0]),
    samples([1.0] * 5, name="cpu", first=4, span="r1/1/p"),
    facts(
        Span("c1", T, state="running", kind="run", name="child", parent="r1"),
        Span("c1/1", T, state="done", kind="try", parent="c1", attrs={"n": 1}),
        Event("c1", T, "mark", 20, "epoch child"),
        who=CHILD,
    ),
    samples([5.0], who=CHILD, span="c1"),
]
OTHERS = [
    facts(
        Span("r10", T, state="running", kind="run", name="beta", attrs={"project": "x"}),
        Event("r10", T, "mark", 20, "epoch ten"),
        who=OTHER,
    ),
    samples([7.0, 8.0], who=OTHER, span="r10"),
]


def sweep(store, budget=1000):
    """Reclaim until nothing is left; return how many steps that took."""
    steps = 1
    while store.reclaim(budget):
        steps += 1
        assert steps < 10_000
    return steps


def gist(reader):
    """All that a reader can be asked, but for who has spoken and how far: that stays."""
    return (
        everything(reader)[2:3] + everything(reader)[4:],
        [(e.span, e.text) for e in reader.events(EventQuery())],
        [e.span for e in reader.events(EventQuery(search="epoch"))],
    )


def spans(reader):
    return {row.id: row for row in reader.spans(SpanQuery())}


def test_all_of_it_goes(store):
    """Of a purged run, its parts and the runs below it nothing is left but tombstones; others keep everything."""
    store.keep(OTHERS)
    others = gist(store)
    store.keep(LIFE)
    store.keep([PURGE])
    sweep(store)

    left = spans(store)
    assert left.keys() == {"r1", "c1", "r10"}
    assert left["r1"].state == left["c1"].state == "purged"
    assert (left["r1"].kind, left["r1"].name, left["r1"].attrs) == ("run", "", {})
    assert left["r1"].cause == "removed by me"
    assert left["c1"].parent == "r1"
    assert gist(store)[0][1:] == others[0][1:]
    assert gist(store)[1:] == others[1:]
    assert store.weigh(["r1", "c1"]) < 200
    assert store.weigh(["r10"]) > 0


def tries(count=30):
    """Ways in which life and death may come, some of it twice; lanes of one origin keep their order."""
    for seed in range(count):
        chance = random.Random(seed)
        lanes = {}
        for batch in [*LIFE, PURGE, *OTHERS]:
            lanes.setdefault((batch.origin.name, batch.lane), []).append(batch)
        waiting = [list(lane) for lane in lanes.values()]
        way = []
        while waiting:
            lane = chance.choice(waiting)
            way.append(lane.pop(0))
            if chance.random() < 0.3:
                way.append(chance.choice(way))
            waiting = [lane for lane in waiting if lane]
        yield chance, way


def wrong(make, tmp_path):
    """Return what is wrong with a store that facts have come to in many ways, with reclaiming in between."""
    alone = make.write(str(tmp_path / "alone.db"))
    alone.keep(OTHERS)
    others = gist(alone)
    chunks = count_chunks(alone)
    alone.close()
    found = []
    firsts = None
    for number, (chance, way) in enumerate(tries()):
        store = make.write(str(tmp_path / f"{number}.db"))
        for batch in way:
            store.keep([batch])
            for _ in range(chance.choice((0, 0, 1, 3))):
                store.reclaim(chance.choice((1, 1000)))
        sweep(store, chance.choice((1, 2, 1000)))
        rows, seen = spans(store), gist(store)
        firsts = firsts or rows
        if rows != firsts or rows.keys() != {"r1", "c1", "r10"} or rows["r1"].attrs or rows["c1"].state != "purged":
            found.append(f"way {number}: {rows}")
        if (seen[0][1:], seen[1:], count_chunks(store)) != (others[0][1:], others[1:], chunks):
            found.append(f"way {number}: {seen}")
        store.close()
    return found


def count_chunks(store):
    """How many rows of points there are, also those that no question leads to."""
    return [store.connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("chunks", "axes")]


def test_the_same_in_any_order(make, tmp_path):
    """The purge before its facts, among them, after them, twice, with deleting in between: it comes to the same."""
    assert wrong(make, tmp_path) == []


@pytest.mark.parametrize(
    "broken",
    ["_purge_below", "_delete_points", "_delete_series", "_delete_events", "_delete_parts", "_strip"],
)
def test_control_of_any_order(make, tmp_path, monkeypatch, broken):
    """A store that leaves any step out is found by that check."""
    monkeypatch.setattr(Reclaimer, broken, lambda *_: 0)

    assert wrong(make, tmp_path) != []


def test_what_comes_late_is_absorbed(store):
    """Facts and samples of what was purged are not kept, even before anything is deleted, and marks advance."""
    store.keep([PURGE])
    store.keep(LIFE)

    assert store.events(EventQuery(span="r1")) == []
    assert [row.span for row in store.series()] == ["c1"]  # nobody has said yet that it hangs below
    assert store.marks()["o1", LANE_FACTS] == Mark(8)
    assert store.marks()["o1", LANE_SAMPLES] == Mark(8)

    sweep(store)
    store.keep([samples([9.0], first=9), samples([9.0], first=2, who=CHILD, span="c1")])

    assert store.series() == []
    assert store.marks()["o1", LANE_SAMPLES] == Mark(9)
    assert not store.reclaim(1000)


def test_it_goes_in_small_steps(store):
    """A small budget takes many steps, others are kept between any two of them, and nothing of theirs is lost."""
    store.keep(LIFE)
    for number in range(20):
        store.keep([samples([1.0] * 5000, name=f"m{number}", first=100 + 5000 * number)])
    store.keep([PURGE])
    steps = 0
    while store.reclaim(5):
        steps += 1
        store.keep([samples([float(steps)], who=OTHER, first=steps, span="r10")])

    assert steps > 10
    [row] = store.series()
    assert store.points([row.id])[row.id].value.tolist() == [float(step) for step in range(1, steps + 1)]


def test_killed_in_the_middle(make, path, request):
    """A writer that dies by kill -9 at any step leaves a store whose next writer finds what is left, and deletes it."""
    store = make.write(path)
    store.keep(OTHERS)
    others = gist(store)
    store.keep([*LIFE, PURGE])
    store.close()
    code = f"""
        import os, signal
        from tests.contract.conftest import STORES
        store = STORES[{request.node.callspec.params["make"]!r}].write({path!r})
        for _ in range(3):
            store.reclaim(3)
        store.connection.execute("BEGIN IMMEDIATE")
        store.connection.execute("DELETE FROM spans")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    deaths = 0
    while True:
        store = make.write(path)
        left = spans(store)
        store.close()
        if left.keys() == {"r1", "c1", "r10"} and not left["r1"].attrs:
            break
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False)
        assert done.returncode == -signal.SIGKILL
        deaths += 1
        assert deaths < 100
    store = make.write(path)
    sweep(store)

    assert deaths > 1
    assert gist(store)[0][1:] == others[0][1:]
    assert gist(store)[1:] == others[1:]
    store.close()


def test_the_space_is_given_back(make, path):
    """After points and lines of a run are purged, the file is as small as it was before, or nearly so."""
    store = make.write(path)
    store.keep(OTHERS)
    store.close()
    before = os.stat(path).st_size
    store = make.write(path)
    chance = random.Random(1)
    for number in range(20):
        values = [chance.random() for _ in range(10_000)]
        store.keep([samples(values, name=f"m{number}", first=1 + 10_000 * number)])
    words = [Event("r1", T, "log", 20, " ".join(str(chance.random()) for _ in range(20))) for _ in range(3000)]
    store.keep([facts(*words)])
    store.close()
    full = os.stat(path).st_size
    store = make.write(path)
    store.keep([PURGE])
    sweep(store)
    store.close()

    assert full > before + 2_000_000
    assert os.stat(path).st_size < before + 100_000


def test_numbers_are_never_given_out_twice(store):
    """A follower who has seen event n, and a reader who asks for series n, never meet others under that number."""
    store.keep(OTHERS)
    store.keep(LIFE)
    last_event = max(event.id for event in store.events(EventQuery()))
    last_series = max(row.id for row in store.series())
    store.keep([PURGE])
    sweep(store)
    store.keep([facts(Event("r10", T, "mark", 20, "new"), first=9, who=OTHER)])
    store.keep([samples([1.0], name="new", first=9, who=OTHER, span="r10")])

    assert [event.text for event in store.events(EventQuery(after=last_event))] == ["new"]
    assert max(row.id for row in store.series()) > last_series


def test_runs_that_are_each_others_parents(store):
    """A circle of parents is purged whole, and ends."""
    store.keep([facts(*(Span(f"r{n}", T, kind="run", parent=f"r{(n + 1) % 3}") for n in range(3)))])
    store.keep([facts(Span("r1", T, state="purged"), who=origin("hub"))])
    sweep(store)

    assert {row.state for row in store.spans(SpanQuery())} == {"purged"}


def test_written_and_narrow_reads(store):
    """The store tells when attributes were last written, and hands out only those that are asked for."""
    store.keep(LIFE)

    assert store.written(["r1", "c1", "nobody"]) == {"r1": T + 5, "c1": T}
    [row] = store.spans(SpanQuery(kind="run", prefix="r1", only=("project", "config.lr", "none")))
    assert row.attrs == {"project": "x", "config.lr": 0.1, "none": None}
    assert store.spans(SpanQuery(prefix="r1/1", only=()))[0].attrs == {}
    assert store.weigh() > store.weigh(["r1"]) > 0


GONE = [facts(Span("r1", T, kind="run", state="running")), PURGE]
STRANGER = origin("stranger", "")


def below_it_at_once(parent):
    """A stranger names a tombstone as the parent of a run that is here."""
    return [[Span("r10", T + 20, parent=parent)]]


def below_it_by_one_that_comes_later(parent):
    """A stranger puts it below a run that nobody knows yet, which then begins below a tombstone."""
    return [
        [Span("r10", T + 20, parent="s2")],
        [Span("s2", T + 20, kind="run", parent="s1")],
        [Span("s1", T + 20, kind="run", parent=parent)],
    ]


def below_it_by_one_that_is_about_to_go(parent):
    """A stranger begins a run below a tombstone, and at once puts it below that."""
    return [[Span("a1", T + 20, kind="run", parent=parent), Span("r10", T + 20, parent="a1")]]


def keeps(store, batch, _folder):
    store.keep([batch])


def takes_a_copy(store, batch, _folder):
    store.take(batch)


def absorbs(store, batch, folder):
    with closing(type(store)(str(folder / f"{batch.end}.db"))) as other:
        other.keep([batch])
        for _ in store.absorb(other):
            pass


@pytest.mark.parametrize("comes", [keeps, takes_a_copy, absorbs])
@pytest.mark.parametrize("parent", ["r1", "r1/1"])
@pytest.mark.parametrize(
    "way", [below_it_at_once, below_it_by_one_that_comes_later, below_it_by_one_that_is_about_to_go]
)
def test_nobody_puts_a_living_run_below_a_tombstone(store, tmp_path, way, parent, comes):
    """A run that is here stays, whoever says that one that was removed for good is above it; else it would go, too."""
    store.keep(OTHERS)
    store.keep(GONE)
    sweep(store)
    others = gist(store)[1:]
    for number, said in enumerate(way(parent)):
        comes(store, facts(*said, first=1 + 10 * number, who=STRANGER), tmp_path)
        sweep(store)

    assert (spans(store)["r10"].state, spans(store)["r10"].name) == ("running", "beta")
    assert gist(store)[1:] == others


@pytest.mark.parametrize("comes", [keeps, takes_a_copy, absorbs])
def test_the_rest_of_what_names_a_tombstone_is_kept(store, tmp_path, comes):
    """Only the parent is left out; who begins below a tombstone, or was below it before, still goes with it."""
    store.keep(OTHERS)
    store.keep([facts(Span("r12", T, kind="run", parent="r1"), who=CHILD)])
    store.keep(GONE)
    comes(store, facts(Span("r10", T + 20, name="gamma", parent="r1", attrs={"x": 1}), who=STRANGER), tmp_path)
    comes(store, facts(Span("r11", T + 20, "running", kind="run", parent="r1"), first=4, who=STRANGER), tmp_path)
    sweep(store)

    left = spans(store)
    assert (left["r10"].state, left["r10"].parent, left["r10"].attrs) == ("running", "", {"project": "x", "x": 1})
    assert left["r10"].name == "gamma"
    assert left["r11"].state == left["r12"].state == "purged"


@pytest.mark.parametrize("comes", [keeps, takes_a_copy, absorbs])
@pytest.mark.parametrize("begun", [False, True])
def test_attributes_that_come_before_a_run_do_not_hold_it_up(store, tmp_path, comes, begun):
    """A run below a tombstone goes with it, also if the program that captures it was heard first; but not one that has
    begun.
    """
    store.keep(GONE)
    first = Span("r11", T + 20, "running" if begun else "", attrs={"git": {"commit": "x"}})
    store.keep([facts(first, who=origin("capture", ""))])
    comes(store, facts(Span("r11", T + 20, "running", kind="run", parent="r1"), who=STRANGER), tmp_path)
    sweep(store)

    assert spans(store)["r11"].state == ("running" if begun else "purged")


def test_a_parent_of_nothing_but_slashes(store):
    """A parent that is too long for an id is above nothing; to look for each part of it would take all memory."""
    store.keep(OTHERS)
    said = facts(Span("r11", T, kind="run", parent="r10/" * 2000), who=STRANGER)
    tracemalloc.start()
    store.keep([said])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 2 << 20
    assert spans(store)["r11"].kind == "run"
