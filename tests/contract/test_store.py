"""What every store promises, as the Store protocol says it. A new store is one line in STORES of conftest.py."""

import math
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing

import pytest

from tests.contract.conftest import STORES
from tests.law.telling import marks_of
from vedette.model import LANE_FACTS, LANE_SAMPLES, Blob, Event, Origin, Place, Span
from vedette.store import (
    Batch,
    Both,
    Columns,
    Compare,
    Either,
    EventQuery,
    Mark,
    Not,
    SpanQuery,
)

US = 1000
T = 1_790_000_000 * 10**9


def origin(name="o1", span="r1", **more):
    return Origin(
        name, **{"host": "camp", "boot": "b", "pid": 7, "started": 9, "process": f"{span}/1/{name}", **more}, span=span
    )


def facts(*said, who=None, first=1):
    """A batch of facts, numbered from `first` on."""
    numbered = list(enumerate(said, first))
    return Batch(who or origin(), LANE_FACTS, first + len(said) - 1, facts=numbered)


def samples(values, *, name="loss", who=None, first=1, t=T, step=0, tags=None, span="r1"):
    """A batch of one series, one point a microsecond and a step."""
    count = range(len(values))
    columns = Columns(
        span, tags or {}, (name,), [first + i for i in count], [t + i * US for i in count], [step + i for i in count],
        [(value,) for value in values],
    )  # fmt: skip
    return Batch(who or origin(), LANE_SAMPLES, first + len(values) - 1, columns=[columns])


def everything(reader):
    """All that a reader can be asked."""
    series = reader.series()
    points = reader.points([row.id for row in series])
    return (
        marks_of(reader.marks()),
        reader.origins(),
        reader.spans(SpanQuery()),
        reader.events(EventQuery()),
        [(row.span, row.name, row.tags, row.count, row.min, row.max, row.last, row.last_step) for row in series],
        [
            [column.tolist() for column in (points[row.id].step, points[row.id].t, points[row.id].value)]
            for row in series
        ],
    )


def test_a_run_of_ten_thousand_ranks(store):
    """All ranks say of one run that it is there, and how far it is; one more record costs nothing for each of them."""
    ranks = [
        facts(Span("r1", T + n, "created", kind="run"), Span("r1/p", T, at=1.0, add=2.0), who=origin(f"rank{n}"))
        for n in range(10_000)
    ]
    store.keep(ranks)
    steps = []
    store.connection.set_trace_callback(steps.append)
    store.keep([facts(Span("r1", T + 20_000, "done"), Span("r1/p", T, at=9.0), first=3, who=origin("rank7"))])
    store.connection.set_trace_callback(None)

    found = {row.id: (row.state, row.start_t, row.end_t, row.done) for row in store.spans(SpanQuery())}
    assert found == {"r1": ("done", T, T + 20_000, None), "r1/p": ("", None, None, 20_009.0)}
    assert len(steps) < 30
    assert len(store.connection.execute("SELECT * FROM claims").fetchall()) < 5


def test_so_many_attributes_and_no_more(store, monkeypatch):
    """What is here stays and can be changed, and a run can be named; keys beyond the most are left out."""
    monkeypatch.setattr("vedette.store.sqlite_bounds._MOST_PLAIN", 2)
    monkeypatch.setattr("vedette.store.sqlite_bounds._MOST_IN_FAMILY", 3)
    monkeypatch.setattr("vedette.store.sqlite_bounds._MOST_DOTTED", 5)
    store.keep([facts(Span("r1", T, attrs={"a": 1, "c": {"x": 1, "y": 1}}))])
    store.keep([facts(Span("r1", T + 1, kind="run", name="n", attrs={"d": 1, "b": 1, "a": 2}), first=2)])
    store.keep([facts(Span("r1", T + 2, attrs={"0": 1, "c": {"x": 2, "u": 3, "z": 1}}), first=3)])
    store.keep([facts(Span("r1", T + 3, attrs={"e": {"x": 1, "y": 1, "z": 1}}), first=4)])
    store.keep([facts(Span("r2", T, kind="run", attrs=dict.fromkeys("fedcba", 0)), first=5)])

    c, e = {"c.u": 3, "c.x": 2, "c.y": 1}, {"e.x": 1, "e.y": 1}
    kept = {row.id: (row.name, row.attrs) for row in store.spans(SpanQuery())}
    assert kept == {"r1": ("n", {"a": 2, "b": 1, **c, **e}), "r2": ("", dict.fromkeys("ab", 0))}


def test_a_config_leaves_room_for_all_else(store):
    """However large a run's config is, it keeps its own attributes, and its user can edit it."""
    own = {"cwd": "/a", "host": "h", "project": "p", "tags": ["x"]}
    config = {f"k{number}": number for number in range(10_050)}
    store.keep([facts(Span("r1", T, kind="run", name="n", attrs={"config": config, **own}))])
    edit = Span("r1", T + 1, by="user", attrs={"tags": ["y"], "archived": True})
    store.keep([facts(edit, who=Origin("hub", voice="hub"))])
    store.keep([facts(Span("r1", T + 2, attrs={"summary": {"loss": 0.5}}), first=2)])

    [row] = store.spans(SpanQuery())
    rest = {key: value for key, value in row.attrs.items() if not key.startswith("config.")}
    assert rest == {**own, "tags": ["y"], "archived": True, "summary.loss": 0.5}
    assert len(row.attrs) - len(rest) == 10_000


def test_so_many_tell_of_one_bar_and_no_more(store, monkeypatch):
    """Who has told of a bar goes on; processes beyond the most are not counted."""
    monkeypatch.setattr("vedette.store.sqlite_bounds._MOST_PROGRESS", 3)
    store.keep([facts(Span("r1/p", T, add=1.0), who=origin(name)) for name in "cd"])
    store.keep([facts(Span("r1/p", T, add=10.0), first=2, who=origin(name)) for name in "cbad"])

    assert [row.done for row in store.spans(SpanQuery())] == [30.0]
    assert len(store.connection.execute("SELECT * FROM progress").fetchall()) == 3


def ends_behind(origin_name, *numbers, place=1 << 40):
    """Ends of tries that wait for another origin, each a fact of its own."""
    return [
        facts(Span(f"r1/{n}", T, state="done", after=(Place(origin_name, place, 0),)), first=n) for n in numbers
    ]  # fmt: skip


def ended(store):
    """The tries that are shown as ended."""
    return sorted(row.id[3:] for row in store.spans(SpanQuery()) if row.state == "done")


def test_who_waits_costs_only_who_is_waited_for(store):
    """However many ends wait for an origin, a commit does not look at them unless it completes one."""
    store.keep(ends_behind("far", *range(1, 500)))
    steps = []
    store.connection.set_trace_callback(steps.append)
    store.keep([facts(Event("r2", T, "log"), who=origin("o2", "r2")), facts(Event("r2", T, "log"), who=origin("far"))])
    store.connection.set_trace_callback(None)

    assert not [step for step in steps if "awaited" in step]
    assert store.awaited() == {"far"}
    store.keep(ends_behind("far", 500, place=2))
    store.keep([facts(Event("r2", T, "log"), who=origin("far"), first=2)])
    assert ended(store) == ["500"]


def test_so_much_is_awaited_and_no_more(store, make, path, monkeypatch):
    """Ends beyond the most are shown at once; when others need not wait any more, there is room for new ones."""
    monkeypatch.setattr("vedette.store.sqlite_awaited._MOST", 3)
    store.keep(ends_behind("far", 1, 2, 3, 4))
    assert ended(store) == ["4"]
    store.keep([facts(Span("r1/3", T + 1, state="purged"), first=5)])
    store.stop_awaiting({"far"})
    assert (ended(store), store.awaited()) == (["1", "2", "4"], set())
    store.keep(ends_behind("far", 6, 7, place=9))
    store.keep(ends_behind("far", 6, 6, 6, place=8))  # what is said again takes no more room
    store.keep(ends_behind("far", 8, place=9))
    with pytest.raises(AttributeError):
        store.keep([*ends_behind("farther", 9), facts(None, first=10)])
    assert (ended(store), store.awaited()) == (["1", "2", "4"], {"far"})
    with closing(make.write(path)) as later:  # a hub after it knows the same
        assert later.awaited() == {"far"}
        later.keep([facts(*[Event("r1", T, "log")] * 9, who=origin("far"))])
        assert (ended(later), later.awaited()) == (["1", "2", "4", "6", "7", "8"], set())


def test_who_says_the_same_again_and_again_costs_nothing(store, monkeypatch):
    """Where there is hardly room for more, the table is not read again for places that are awaited already."""
    monkeypatch.setattr("vedette.store.sqlite_awaited._MOST", 12)
    monkeypatch.setattr("vedette.store.sqlite_awaited._AGAIN_S", 1e9)
    steps = []
    store.keep(ends_behind("far", *range(1, 11)))
    store.connection.set_trace_callback(steps.append)
    for _ in range(20):
        store.keep(ends_behind("far", 1, 2, 3, 4))
        store.keep(ends_behind("far", 1, 2, 3, 4, place=1 << 30))
    assert not [step for step in steps if "FROM awaited" in step and "SELECT span" in step]
    for more in range(20):  # each a greater place, so that more is noted than there are rows
        store.keep(ends_behind("far", 1, 2, 3, 4, place=(1 << 41) + more))
    store.connection.set_trace_callback(None)

    assert len([step for step in steps if "FROM awaited" in step and "SELECT span" in step]) <= 1
    assert (ended(store), store.awaited()) == ([], {"far"})


def test_a_failed_transaction_forgets_no_end_that_waits(store):
    """What is awaited is read again when it is needed: a disk that cannot be read then hides neither it nor why."""
    store.keep(ends_behind("far", 1, place=2))
    connection = store._awaiting._connection
    with closing(sqlite3.connect(":memory:")) as unreadable:  # it has no such table
        store._awaiting._connection = unreadable
        with pytest.raises(AttributeError):
            store.keep([facts(None, first=10)])
        with pytest.raises(sqlite3.OperationalError):
            store.keep([facts(Event("r2", T, "log"), who=origin("o2", "r2"))])
        store._awaiting._connection = connection
    store.keep([facts(Event("r2", T, "log"), Event("r2", T, "log"), who=origin("far"))])
    assert (ended(store), store.awaited()) == (["1"], set())


def test_an_end_that_names_what_comes_before_it_waits_for_that(store):
    """A span is leaving, without an end, until all that its end names is here, in whatever order it comes."""
    main, child = origin("o1"), origin("o2")
    begun = facts(Span("r1", T, state="created", kind="run"), Span("r1/1", T, state="running", kind="try", parent="r1"))
    places = Place("o1", 3, 2), Place("o2", 0, 3)
    ended = facts(Span("r1/1", T + 9, state="failed", cause="x", after=places), first=3)
    samples_of_child = samples([1.0, 2.0, 3.0], who=child, name="b")

    def shown():
        return [(row.id, row.state, row.cause, row.end_t) for row in store.spans(SpanQuery()) if row.kind]

    store.keep([begun, ended])
    assert store.awaited() == {"o1", "o2"}
    assert shown() == [("r1/1", "leaving", "", None), ("r1", "leaving", "", None)]
    store.keep([samples([1.0, 2.0], who=main)])
    assert (store.awaited(), shown()[1][1]) == ({"o2"}, "leaving")
    store.keep([samples_of_child])
    assert store.awaited() == set()
    assert shown() == [("r1/1", "failed", "x", T + 9), ("r1", "failed", "x", T + 9)]

    store.keep([ended, begun])  # what comes again changes nothing
    store.keep([facts(Span("r1/2", T, state="done", kind="try", parent="r1", after=places), first=4)])
    assert (store.awaited(), shown()[0][:2]) == (set(), ("r1/2", "done"))

    store.keep([facts(Span("r1/2", T + 1, state="done", after=(Place("gone", 0, 7),)), first=5)])
    assert shown()[0][:2] == ("r1/2", "leaving")
    store.stop_awaiting({"gone"})
    assert shown()[0][:2] == ("r1/2", "done")


def test_many_ends_at_once_are_all_shown(store):
    """However many ends wait for one thing, each of them, and what hangs above it, is shown when it is there."""
    runs = [f"q{n}" for n in range(150)]
    awaits = (Place("o2", 0, 3),)
    begun = [Span(run, T, state="created", kind="run") for run in runs]
    ended = [Span(f"{run}/1", T + 9, state="done", kind="try", parent=run, after=awaits) for run in runs]
    store.keep([facts(*begun, *ended)])
    assert {row.state for row in store.spans(SpanQuery())} == {"leaving"}
    store.keep([samples([1.0, 2.0, 3.0], who=origin("o2"))])

    assert [row.state for row in store.spans(SpanQuery()) if row.kind] == ["done"] * 300


SOME = [
    facts(
        Span("r1", T, state="created", kind="run", name="alpha", attrs={"project": "x", "config": {"lr": 0.1}}),
        Span("r1/1", T, state="running", kind="try", parent="r1", attrs={"n": 1}),
        Event("r1", T, "mark", 20, "epoch 1", {"labels": ["epoch", "1"]}),
        Blob("r1", T, "code.zip", "abc", 3, "application/zip"),
        Span("r1/1", T + 5, state="done"),
    ),
    samples([3.0, 2.0, 1.0]),
]


def test_an_empty_store_answers(store):
    """Nothing kept is nothing handed back, and no error."""
    assert everything(store) == ({}, [], [], [], [], [])
    assert store.points([]) == {}
    assert store.series([]) == []
    store.sync()
    assert store.tidy("nobody") == 0


def test_keeping_nothing(store):
    """A transaction of nothing is fine."""
    store.keep([])
    store.keep([], {})
    store.keep([], {"nobody": T})
    store.keep([Batch(origin(), LANE_FACTS, 0)])

    assert store.marks() == {("o1", LANE_FACTS): Mark(0)}


def test_what_was_kept_is_handed_back(store):
    """Facts and points come back, with marks and who has spoken."""
    store.keep(SOME)

    assert store.marks() == {("o1", LANE_FACTS): Mark(5), ("o1", LANE_SAMPLES): Mark(3)}
    assert [row.origin for row in store.origins()] == [origin()]
    [run] = store.spans(SpanQuery(kind="run"))
    assert (run.id, run.name, run.state, run.start_t, run.end_t) == ("r1", "alpha", "done", T, T + 5)
    assert run.attrs == {"project": "x", "config.lr": 0.1}
    [event] = store.events(EventQuery())
    assert (event.span, event.t, event.kind, event.level, event.text) == ("r1", T, "mark", 20, "epoch 1")
    assert (event.attrs, event.host, event.pid) == ({"labels": ["epoch", "1"]}, "camp", 7)
    [row] = store.series()
    assert (row.span, row.name, row.tags, row.count, row.min, row.max) == ("r1", "loss", {}, 3, 1.0, 3.0)
    assert (row.last, row.last_step, row.last_t) == (1.0, 2, T + 2 * US)
    points = store.points([row.id])[row.id]
    assert (points.step.tolist(), points.t.tolist()) == ([0, 1, 2], [T, T + US, T + 2 * US])
    assert points.value.tolist() == [3.0, 2.0, 1.0]


def test_it_is_there_after_closing(make, path, store):
    """A store that is opened again, to read or to write, says the same."""
    store.keep(SOME)
    before = everything(store)
    store.close()

    for opener in (make.read, make.write, make.read):
        again = opener(path)
        assert everything(again) == before
        again.close()


def test_facts_twice_are_facts_once(store):
    """The same facts again, alone or among new ones, change nothing: they are known by origin, lane and n."""
    store.keep(SOME[:1])
    before = everything(store)
    store.keep(SOME[:1])
    assert everything(store) == before

    more = Batch(origin(), LANE_FACTS, 6, facts=[*SOME[0].facts, (6, Event("r1", T, "log", 20, "new"))])
    store.keep([more, more])
    assert [event.text for event in store.events(EventQuery())] == ["epoch 1", "new"]


def test_the_same_n_of_another_origin_is_another_fact(store):
    """Two processes that count alike do not hide each other."""
    store.keep([facts(Event("r1", T, "log", 20, "one")), facts(Event("r1", T, "log", 20, "two"), who=origin("o2"))])

    assert [event.text for event in store.events(EventQuery())] == ["one", "two"]


def test_samples_twice_are_samples_once(store):
    """The same batch of samples again changes nothing: what lies before the mark is known."""
    store.keep(SOME[1:])
    before = everything(store)
    store.keep(SOME[1:])

    assert everything(store) == before


def test_marks_never_fall(store):
    """A mark moves forward only, each lane of each origin for itself."""
    store.keep([Batch(origin(), LANE_FACTS, 100, damaged=1, refused=2), Batch(origin(), LANE_SAMPLES, 7)])
    store.keep([Batch(origin(), LANE_FACTS, 50, damaged=1, refused=2), Batch(origin("o2"), LANE_FACTS, 3)])

    assert store.marks() == {
        ("o1", LANE_FACTS): Mark(100, 1, 2),
        ("o1", LANE_SAMPLES): Mark(7),
        ("o2", LANE_FACTS): Mark(3),
    }
    assert [(row.origin.name, row.damaged, row.refused) for row in store.origins()] == [("o1", 1, 2), ("o2", 0, 0)]


def test_heard_never_falls(store):
    """When an origin was last known alive is the latest that was said; unknown ones are passed over."""
    store.keep([facts(Event("r1", T, "log"))], {"o1": T})
    store.keep([], {"o1": T - 1, "nobody": T})

    assert [row.heard_t for row in store.origins()] == [T]


@pytest.mark.parametrize(
    "bad",
    [
        facts(Event("r2", T, "log", 20, "\ud800"), who=origin("o2"), first=50),
        facts(Span("r2", T, state="done", attrs={"a": "\ud800"}), who=origin("o2"), first=50),
        samples(["text"], name="other", who=origin("o2"), first=50),
        samples([1.0], name="\ud800", who=origin("o2"), first=50),
    ],
    ids=["event", "span", "sample", "series"],
)
def test_all_or_nothing(store, bad):
    """When one batch cannot be kept, it raises, and nothing of the whole call is kept; the store goes on."""
    store.keep(SOME)
    before = everything(store)
    good = facts(Event("r1", T, "log", 20, "good"), Span("r3", T, kind="run"), first=6)
    new = samples([9.0], name="new", first=10, who=origin("o3"))
    with pytest.raises(Exception):  # noqa: B017 - each store has its own
        store.keep([good, new, bad], {"o1": T})

    assert everything(store) == before
    store.keep([good, new])
    assert [event.text for event in store.events(EventQuery(kinds=("log",)))] == ["good"]
    [row] = store.series(name="new")
    assert store.points([row.id])[row.id].value.tolist() == [9.0]


WRITER = """
import sys
from tests.contract.conftest import STORES
from tests.contract.test_store import SOME, facts
from vedette.model import Event

store = STORES[sys.argv[1]].write(sys.argv[2])
store.keep(SOME)
print("kept", flush=True)
n = 10
while True:
    store.keep([facts(*(Event("r1", n, "log", 20, "x" * 100) for _ in range(50)), first=n)])
    n += 50
"""


def write_elsewhere(request, path):
    name = next(name for name, made in STORES.items() if made == request.getfixturevalue("make"))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), name, path], env=environ, text=True, stdout=subprocess.PIPE
    )


def test_what_was_kept_survives_kill_9(make, path, request):
    """When keep() has returned, the death of the writer loses nothing, and leaves no half of a transaction."""
    writer = write_elsewhere(request, path)
    assert writer.stdout.readline() == "kept\n"
    time.sleep(0.3)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()

    store = make.write(path)
    assert [row.name for row in store.spans(SpanQuery(kind="run"))] == ["alpha"]
    assert store.series()[0].count == 3
    count = len(store.events(EventQuery(kinds=("log",))))
    assert count % 50 == 0
    assert store.marks()["o1", LANE_FACTS].offset == (9 + count if count else 5)
    store.keep([facts(Event("r1", T, "mark"), first=10**6)])
    store.close()


def test_many_read_while_one_writes(make, path, request):
    """Readers see whole transactions, newer each time, and neither wait for the writer nor stop it."""
    writer = write_elsewhere(request, path)
    assert writer.stdout.readline() == "kept\n"
    failures, growth = [], []

    def read():
        reader = make.read(path)
        counts = []
        try:
            for _ in range(20):
                counts.append(len(reader.events(EventQuery(kinds=("log",)))))
                time.sleep(0.01)
        except Exception as error:
            failures.append(error)
        growth.append(counts)
        reader.close()

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.kill()
    writer.communicate()

    assert failures == []
    for counts in growth:
        assert all(count % 50 == 0 for count in counts)
        assert counts == sorted(counts)
        assert counts[-1] > counts[0]


@pytest.fixture
def camp(store):
    """Four spans: two runs, a try, a process."""
    store.keep(
        [
            facts(
                Span("r1", T, state="created", kind="run", name="alpha", attrs={"lr": 1}),
                Span("r2", T + 10, state="done", kind="run", name="beta", attrs={"lr": 2}),
                Span("r1/1", T + 1, state="running", kind="try", parent="r1", attrs={"n": 1}),
                Span("r1/1/p", T + 2, state="running", kind="process", name="main", parent="r1/1"),
                Span("r10", T + 20, state="failed", kind="run", name="alpha"),
            )
        ]
    )
    return store


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        (SpanQuery(), ["r10", "r2", "r1/1/p", "r1/1", "r1"]),
        (SpanQuery(kind="run"), ["r10", "r2", "r1"]),
        (SpanQuery(kind="run", limit=2), ["r10", "r2"]),
        (SpanQuery(kind="run", limit=0), []),
        (SpanQuery(kind="run", name="alpha"), ["r10", "r1"]),
        (SpanQuery(parent="r1"), ["r1/1"]),
        (SpanQuery(prefix="r1"), ["r10", "r1/1/p", "r1/1", "r1"]),
        (SpanQuery(prefix="r1/"), ["r1/1/p", "r1/1"]),
        (SpanQuery(prefix="r1", kind="process"), ["r1/1/p"]),
        (SpanQuery(prefix="x"), []),
        (SpanQuery(where=Compare("state", "=", "failed")), ["r10"]),
        (SpanQuery(kind="run", where=Not(Compare("state", "=", "failed"))), ["r2", "r1"]),
        (SpanQuery(where=Both((Compare("name", "=", "alpha"), Compare("state", "!=", "failed")))), ["r1"]),
        (SpanQuery(where=Either((Compare("lr", "=", 1), Compare("lr", ">=", 2)))), ["r2", "r1"]),
        (SpanQuery(where=Compare("id", "in", ("r2", "r10")), limit=1), ["r10"]),
        (SpanQuery(where=Compare("name", "~", "LPH")), ["r10", "r1"]),
    ],
    ids=repr,
)
def test_spans_by_what_is_asked(camp, query, ids):
    """Spans come the newest first; all conditions that are given hold."""
    assert ids == [row.id for row in camp.spans(query)]


def test_conditions(store):
    """Like is compared with like alone; what is missing never holds; None is a value."""
    values = {"a": 1, "b": 1.5, "c": "1", "d": True, "e": None, "f": "text", "größe x": 5}
    store.keep([facts(*(Span(key, T, kind="run", attrs={"v": value}) for key, value in values.items()), Span("g", T))])

    def found(operator, value):
        return {row.id for row in store.spans(SpanQuery(where=Compare("v", operator, value)))}

    assert found("=", 1) == {"a", "d"}
    assert found("=", True) == {"a", "d"}
    assert found("=", "1") == {"c"}
    assert found(">", 0) == {"a", "b", "d", "größe x"}
    assert found("<", 10) == {"a", "b", "d", "größe x"}
    assert found(">", "") == {"c", "f"}
    assert found("!=", 1) == {"b", "größe x"}
    assert found("in", (1.5, "text", 7)) == {"b", "f"}
    assert found("=", math.nan) == set()


def test_a_parent_comes_to_what_its_last_try_comes_to(store):
    """The highest try decides, in whatever order it is heard of."""
    store.keep([facts(Span("r1/2", T + 2, state="done", kind="try", parent="r1", attrs={"n": 2}))])
    store.keep(
        [facts(Span("r1/1", T + 3, state="failed", cause="x", kind="try", parent="r1", attrs={"n": 1}), first=2)]
    )
    store.keep([facts(Span("r1", T, state="created", kind="run"), first=3)])

    [run] = store.spans(SpanQuery(kind="run"))
    assert (run.state, run.cause, run.start_t, run.end_t) == ("done", "", T, T + 2)


def test_progress_adds_up(store):
    """How far the work is: the furthest `at` ever said, and the most that each has added; nothing takes it back."""
    for n, name in enumerate(("o1", "o2"), 1):
        store.keep([facts(Span("p", T, kind="progress", at=5.0 * n, add=1.0), who=origin(name))])
    store.keep([facts(Span("p", T, add=3.0), who=origin("o2"), first=2)])
    store.keep([facts(Span("p", T + 9, add=2.0), who=origin("o2"), first=3)])

    assert [row.done for row in store.spans(SpanQuery(kind="progress"))] == [14.0]


def test_attributes_of_every_kind(store):
    """Attributes come back as they were, spread into one level."""
    attrs = {
        "none": None, "bool": True, "int": 2**62 + 1, "float": 0.1, "text": "größe \x00\x1b", "list": [1, {"a": [2]}],
        "empty": {}, "deep": {"a": {"b": 1}},
    }  # fmt: skip
    store.keep([facts(Span("r1", T, kind="run", attrs=attrs))])
    [row] = store.spans(SpanQuery())

    del attrs["deep"]
    assert row.attrs == attrs | {"deep.a.b": 1}


def test_a_large_config(store):
    """Five thousand keys in one record are kept whole, and one of them can be changed."""
    store.keep([facts(Span("r1", T, kind="run", attrs={"config": {f"key{n}": n for n in range(5000)}}))])
    store.keep([facts(Span("r1", T + 1, attrs={"config": {"key7": "new"}}), first=2)])
    [row] = store.spans(SpanQuery())

    assert len(row.attrs) == 5000
    assert (row.attrs["config.key7"], row.attrs["config.key4999"]) == ("new", 4999)


@pytest.fixture
def lines(store):
    """Events of two runs and a task, with a clock that went back."""
    store.keep(
        [
            facts(
                Event("r1", T, "mark", 20, "epoch one"),
                Event("r1", T, "log", 30, "loss is nan"),
                Event("r10", T, "log", 40, "out of memory"),
                Event("r1/task", T - 10, "log", 10, "below"),
            )
        ]
    )
    return store


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        (EventQuery(), ["epoch one", "loss is nan", "out of memory", "below"]),
        (EventQuery("r1"), ["epoch one", "loss is nan", "below"]),
        (EventQuery("r10"), ["out of memory"]),
        (EventQuery("r"), []),
        (EventQuery(kinds=("mark",)), ["epoch one"]),
        (EventQuery(kinds=("mark", "log"), level=30), ["loss is nan", "out of memory"]),
        (EventQuery(search="NAN loss"), ["loss is nan"]),
        (EventQuery(search="los"), []),
        (EventQuery(last=2), ["out of memory", "below"]),
        (EventQuery("r1", last=1), ["below"]),
        (EventQuery("r1", last=2), ["loss is nan", "below"]),
        (EventQuery("r1", kinds=("mark",), last=1), ["epoch one"]),
        (EventQuery("r1", level=30, last=5), ["loss is nan"]),
        (EventQuery("r1", search="one", last=1), ["epoch one"]),
        (EventQuery("r1", after=1, last=9), ["loss is nan", "below"]),
        (EventQuery("r", last=3), []),
        (EventQuery(last=0), []),
        (EventQuery(level=99), []),
    ],
    ids=repr,
)
def test_events_by_what_is_asked(lines, query, texts):
    """Events come in the order they were kept; all conditions that are given hold."""
    assert texts == [event.text for event in lines.events(query)]


def test_events_after_one_that_was_seen(lines):
    """Reading on behind an id misses nothing and repeats nothing."""
    seen = lines.events(EventQuery("r1"))
    lines.keep([facts(Event("r1", T, "log", 20, "later"), first=9)])

    assert [event.text for event in lines.events(EventQuery("r1", after=seen[-1].id))] == ["later"]


def test_series_by_what_is_asked(store):
    """A series is its span, name and tags, whatever order the tags come in."""
    store.keep([samples([1.0]), samples([2.0], name="acc", first=2), samples([3.0], span="r2", first=3)])
    store.keep([samples([4.0], tags={"rank": "1", "host": "a"}, first=4)])

    def found(*args, **kwargs):
        return [(row.span, row.name, row.tags) for row in store.series(*args, **kwargs)]

    tags = {"host": "a", "rank": "1"}
    assert sorted(found(["r1"]), key=str) == sorted(
        [("r1", "acc", {}), ("r1", "loss", {}), ("r1", "loss", tags)], key=str
    )
    assert len(found()) == 4
    assert found(["r2", "nobody"]) == [("r2", "loss", {})]
    assert found(name="acc") == [("r1", "acc", {})]
    assert len(found(["r1"], "loss")) == 2
    assert found([]) == []


@pytest.mark.parametrize(
    ("values", "low", "high", "last"),
    [
        ([2.0, 3.0, 1.0], 1.0, 3.0, 1.0),
        ([2**62 + 1, 5], 5.0, float(2**62 + 1), 5),
        ([True, False], 0.0, 1.0, False),
        ([math.nan, 1.0], 1.0, 1.0, 1.0),
        ([1.0, math.nan], 1.0, 1.0, math.nan),
        ([math.nan], None, None, math.nan),
        ([1.0, math.inf], 1.0, math.inf, math.inf),
        ([-math.inf], -math.inf, -math.inf, -math.inf),
        ([2**63, 0], 0.0, float(2**63), 0),
    ],
    ids=repr,
)
def test_what_a_series_comes_to(store, values, low, high, last):
    """Count, min, max and last are those of the numbers that are numbers; the last may be none, and is shown."""
    store.keep([samples(values)])
    [row] = store.series()

    assert (row.count, row.min, row.max) == (len(values), low, high)
    assert row.last == last or (math.isnan(last) and math.isnan(row.last))
    points = store.points([row.id])[row.id]
    assert repr([float(value) for value in values]) == repr([float(value) for value in points.value])


def test_files(store):
    """Files come back by their keys, of a span with its parts or of all, some at a time, each once."""
    said = [
        Blob("r1", T, "b", "d1", 1, "text/plain"),
        Blob("r1/1/p", T + 1, "a", "d2", 2),
        Blob("r10", T, "a", "d3", 3),
        Blob("r1", T + 2, "b", "d4", 4),
    ]
    store.keep([facts(*said)])
    store.keep([facts(*said)])
    rows = store.blobs("r1")
    assert [(row.span, row.name, row.digest, row.size, row.media, row.t, row.n) for row in rows] == [
        ("r1", "b", "d1", 1, "text/plain", T, 1),
        ("r1", "b", "d4", 4, "", T + 2, 4),
        ("r1/1/p", "a", "d2", 2, "", T + 1, 2),
    ]
    everything = store.blobs()
    assert [row.digest for row in everything] == ["d1", "d4", "d2", "d3"]
    paged, after = [], None
    while some := store.blobs(after=after, limit=1):
        paged += some
        after = some[-1].key
    assert paged == everything
    assert store.blobs("r2") == []


def test_last_values(store):
    """The last value of each series comes by span and label, without tags first, NaN as NaN; of some spans or all."""
    store.keep([samples([1.0, 2.0]), samples([math.nan], name="acc", first=3), samples([5], span="r2", first=4)])
    store.keep([samples([9.0], tags={"rank": "1"}, first=5), samples([9.0], name="only", tags={"rank": "1"}, first=6)])

    assert repr(store.last_values(["r1"])) in (
        "{'r1': {'acc': nan, 'loss': 2.0, 'loss[rank=1]': 9.0, 'only[rank=1]': 9.0}}",
        "{'r1': {'loss': 2.0, 'acc': nan, 'loss[rank=1]': 9.0, 'only[rank=1]': 9.0}}",
    )
    assert store.last_values(["r2", "nobody"]) == {"r2": {"loss": 5}}
    assert store.last_values([]) == {}
    assert set(store.last_values()) == {"r1", "r2"}


def test_the_last_value_is_the_newest_by_time(store):
    """What arrives late does not become the last value."""
    store.keep([samples([1.0], t=T + US)])
    store.keep([samples([2.0], t=T, who=origin("o2"))])
    [row] = store.series()

    assert (row.count, row.last, row.last_t, row.min, row.max) == (2, 1.0, T + US, 1.0, 2.0)


def test_times_are_kept_to_the_microsecond(store):
    """A point's time comes back to the microsecond it was in."""
    store.keep([samples([1.0], t=T + 1234567)])
    [row] = store.series()

    assert store.points([row.id])[row.id].t.tolist() == [T + 1234000]


def test_points_of_many_series_at_once(store):
    """Points come for each series that was asked for, also for one that has none."""
    store.keep([samples([1.0]), samples([2.0, 3.0], name="acc", first=2)])
    ids = {row.name: row.id for row in store.series()}
    found = store.points([*ids.values(), 10**6])

    assert found[ids["loss"]].value.tolist() == [1.0]
    assert found[ids["acc"]].value.tolist() == [2.0, 3.0]
    assert len(found[10**6]) == 0


@pytest.mark.parametrize(
    "parts",
    [
        [(0, T, [1.0, 2.0]), (2, T + 100, [3.0])],
        [(2, T, [1.0, 2.0]), (0, T + 100, [3.0, 4.0])],
        [(0, T, [1.0, 2.0]), (0, T + 100, [3.0, 4.0])],
        [(0, T + 100 * US, [1.0, 2.0]), (0, T, [3.0, 4.0])],
        [(5, T + 100 * US, [1.0]), (5, T, [3.0])],
        [(5, T, [1.0]), (5, T + 100 * US, [3.0]), (4, T, [9.0])],
    ],
    ids=range(6),
)
def test_points_are_by_step_and_then_time(store, parts):
    """However points came, from one process or many, they are handed back by step and then time."""
    expected = []
    for n, (step, t, values) in enumerate(parts):
        store.keep([samples(values, step=step, t=t, who=origin(f"o{n}"))])
        expected += [(step + i, (t + i * US) // US * US, value) for i, value in enumerate(values)]
    [row] = store.series()
    points = store.points([row.id])[row.id]

    found = list(zip(points.step.tolist(), points.t.tolist(), points.value.tolist(), strict=True))
    assert found == sorted(expected)


def test_long_series(store):
    """More points than fit one chunk come back whole, from one batch and from many."""
    store.keep([samples([float(n) for n in range(10_000)])])
    for first in range(10_000, 11_000, 100):
        store.keep(
            [samples([float(n) for n in range(first, first + 100)], first=first + 1, step=first, t=T + first * US)]
        )
    [row] = store.series()

    assert row.count == 11_000
    assert store.points([row.id])[row.id].value.tolist() == [float(n) for n in range(11_000)]


def test_wide_samples(store):
    """Names that were logged together share their places, and each comes back by itself."""
    names = tuple(f"m{n}" for n in range(300))
    columns = Columns(
        "r1", {}, names, [1, 2], [T, T + US], [0, 1], [tuple(range(300)), tuple(n + 0.5 for n in range(300))]
    )
    store.keep([Batch(origin(), LANE_SAMPLES, 2, columns=[columns])])
    rows = {row.name: row for row in store.series()}

    assert len(rows) == 300
    assert store.points([rows["m7"].id])[rows["m7"].id].value.tolist() == [7.0, 7.5]
    assert rows["m299"].last == 299.5


def test_tidy_changes_nothing_that_is_seen(store):
    """Merging short chunks leaves every point, count and mark as it was; a second time finds nothing to do."""
    for n in range(0, 300, 3):
        store.keep([samples([0.1 * n, math.nan, -n], first=n + 1, step=n, t=T + n * US)])
        store.keep([samples([True], name="flag", first=n + 1, step=n, t=T + n * US)])
    store.keep([samples([7.5], name="flag", first=301, step=301, t=T + 301 * US)])
    before = everything(store)
    merged = store.tidy("o1")

    assert merged >= 100
    assert repr(everything(store)) == repr(before)
    assert store.tidy("o1") == 0
    store.keep([samples([1.0], first=400, step=400, t=T + 400 * US)])
    assert store.series(name="loss")[0].count == 301


def test_tidy_keeps_to_one_origin(store):
    """Other origins are left alone, and their points too."""
    for n in range(10):
        store.keep([samples([float(n)], who=origin(f"o{n % 2}"), first=n + 1, step=n, t=T + n * US)])

    assert store.tidy("o0") == 5
    [row] = store.series()
    assert store.points([row.id])[row.id].value.tolist() == [float(n) for n in range(10)]


def test_sync_returns(store):
    """sync() can be called at any time, also with nothing new."""
    store.sync()
    store.keep(SOME)
    store.sync()
    store.sync()

    assert store.series()[0].count == 3


def test_names_are_never_code(store):
    """Ids, names, tags and texts may hold anything that is text."""
    odd = "'; DROP TABLE spans; -- \" \\ % _ \x1b[31m größe 日本 \U0001f989"
    store.keep(
        [
            facts(Span(odd, T, state=odd, kind="run", name=odd, parent=odd, cause=odd, attrs={odd: odd})),
            facts(Event(odd, T, odd, 20, odd, {odd: odd}), first=2),
            samples([1.0], name=odd, span=odd, tags={odd: odd}),
        ]
    )

    [span] = store.spans(SpanQuery(kind="run", name=odd, parent=odd, prefix=odd))
    assert (span.id, span.state, span.attrs) == (odd, odd, {odd: odd})
    [event] = store.events(EventQuery(odd, kinds=(odd,)))
    assert (event.text, event.attrs) == (odd, {odd: odd})
    [series] = store.series([odd], odd)
    assert series.tags == {odd: odd}
    assert store.spans(SpanQuery(where=Compare("name", "=", odd))) == [span]


def test_the_newest_is_found_among_many(store):
    """A limit cuts behind the newest, not behind the first that came."""
    store.keep([facts(*(Span(f"r{n}", T + (n * 7919) % 1000, kind="run") for n in range(1000)))])
    store.keep([facts(*(Span(f"r{n}", T + (n * 7919) % 1000, state="running") for n in range(1000)), first=2000)])

    found = store.spans(SpanQuery(kind="run", limit=10))
    assert [row.start_t for row in found] == [T + n for n in range(999, 989, -1)]


def test_points_by_process(store):
    """Points are handed back by the process that logged them, each in order; together they are all there are."""
    store.keep([samples([3.0, 2.0], who=origin("o1"), step=5), samples([1.0], who=origin("o2"), step=5, t=T - US)])
    store.keep([samples([9.0], who=origin("o1"), first=3, step=0)])
    [row] = store.series(["r1"])
    parts = {part.process: part.points for part in store.parts([row.id])[row.id]}

    assert {process: points.value.tolist() for process, points in parts.items()} == {
        "r1/1/o1": [9.0, 3.0, 2.0],
        "r1/1/o2": [1.0],
    }
    assert store.points([row.id])[row.id].value.tolist() == [9.0, 1.0, 3.0, 2.0]
    assert store.parts([row.id + 1]) == {row.id + 1: []}
    assert store.parts([]) == {}


def test_spans_below_any_of_these(store):
    """Spans can be asked for by many parents at once."""
    store.keep([facts(*(Span(f"r{n}/1", T + n, state="running", kind="try", parent=f"r{n}") for n in range(4)))])

    assert [row.id for row in store.spans(SpanQuery(kind="try", parents=("r1", "r3", "nobody")))] == ["r3/1", "r1/1"]
    assert len(store.spans(SpanQuery(kind="try"))) == 4


def test_origins_of_some_runs(store):
    """Who has spoken can be asked for by run."""
    store.keep([facts(Span(run, T, kind="run"), who=origin(f"o-{run}", run)) for run in ("r1", "r2", "r10")])

    assert [row.origin.name for row in store.origins(["r1", "nobody"])] == ["o-r1"]
    assert store.origins([]) == []
    assert len(store.origins()) == 3


def test_pieces_are_the_points(store):
    """The points of a series in pieces are its points, in the same order."""
    store.keep([samples([float(value) for value in range(10_000)])])
    store.keep([samples([1.0, 2.0], first=20_000, step=5000)])
    store.keep([samples([True, 3.5], name="odd", first=20_010)])
    for row in store.series():
        whole = store.points([row.id])[row.id]
        pieces = list(store.stretches(row.id))
        for column in ("step", "t", "value"):
            joined = [value for piece in pieces for value in getattr(piece, column).tolist()]
            assert joined == getattr(whole, column).tolist()


def test_absorbing_another_store(make, store, tmp_path):
    """What another store has is here afterwards, once, whichever part of it was here before."""
    path = str(tmp_path / "other.db")
    other = make.write(path)
    other.keep([*SOME, samples([0.5, 0.25], first=4, step=3)], {"o1": T})
    store.keep([samples([3.0, 2.0])])
    for _ in range(2):
        reader = make.read(path)
        [*_, taken] = store.absorb(reader)
        reader.close()

    assert everything(store) == everything(other)
    assert (taken.spans, taken.events, taken.points) == (0, 0, 0)
    other.close()


def test_what_a_later_write_has_replaced_is_nothing_new(make, store, tmp_path):
    """A store that knows less of a span has nothing to bring: to take it in again and again brings nothing."""
    path = str(tmp_path / "other.db")
    early, late = (
        Span("r", T, kind="run", attrs={"notes": "early"}),
        Span("r", T + 1, kind="run", attrs={"notes": "late"}),
    )
    other = make.write(path)
    other.keep([Batch(Origin("o1"), LANE_FACTS, 1, facts=[(1, early)])])
    store.keep([Batch(Origin("o1"), LANE_FACTS, 1, facts=[(1, early)])])
    store.keep([Batch(Origin("o2"), LANE_FACTS, 1, facts=[(1, late)])])
    other.close()
    reader = make.read(path)
    [*_, taken] = store.absorb(reader)
    reader.close()

    assert taken.spans == 0
    assert store.spans(SpanQuery())[0].attrs == {"notes": "late"}


def test_absorbing_leaves_alone_who_is_heard_here(make, store, tmp_path):
    """Samples, facts and marks of an origin that is heard here are left to its own spool, and counted."""
    path = str(tmp_path / "other.db")
    other = make.write(path)
    other.keep(SOME)
    reader = make.read(path)
    [*_, taken] = store.absorb(reader, {"o1": 0}.get)
    reader.close()
    other.close()

    assert taken.to_come == {"o1": 7}
    assert store.series() == []
    assert store.marks() == {}
    assert store.spans(SpanQuery(kind="run")) == []


def test_the_newest_points_of_a_series(store):
    """Of many points the newest come, about as many as are asked for, in order, whatever they were kept as."""
    for number in range(40):
        start = number * 10
        store.keep([samples(list(range(start, start + 10)), first=start + 1, t=T + start * US, step=start)])
    other = samples([5.0], name="acc", who=origin("o2"))
    store.keep([other])
    ids = {row.name: row.id for row in store.series()}
    found = store.recent([*ids.values(), 10**6], 25)

    assert found[ids["loss"]].value.tolist() == list(range(375, 400))
    assert found[ids["loss"]].step.tolist() == list(range(375, 400))
    assert found[ids["acc"]].value.tolist() == [5.0]
    assert len(found[10**6]) == 0
    assert len(store.recent([ids["loss"]], 10**6)[ids["loss"]]) >= 300


def test_a_family_is_found_without_reading_all_of_its_kind(store):
    """Spans of a kind below one are found among any number of others."""
    many = [Span(f"r{n:03d}/p", T + n, "running", kind="process", parent=f"r{n:03d}") for n in range(300)]
    store.keep([facts(*many)])

    assert [row.id for row in store.spans(SpanQuery(kind="process", prefix="r007/"))] == ["r007/p"]
    assert [row.id for row in store.spans(SpanQuery(kind="process", parent="r008"))] == ["r008/p"]
    assert store.spans(SpanQuery(kind="run", prefix="r007/")) == []


def words(run, word, number):
    """Facts that a process says of its run, from its third on."""
    return facts(
        Span(run, T + 5, attrs={word: number}), Event(run, T + 6, "log", text=word), Blob(run, T, "code", word, number),
        first=3, who=origin(f"of-{run}", run),
    )  # fmt: skip


def begun(run):
    return facts(Span(run, T, kind="run"), Event(run, T, "log", text="begun"), who=origin(f"of-{run}", run))


def of_run(store, run):
    """All that a store has of a run."""
    return (
        store.spans(SpanQuery(prefix=run)),
        [event.text for event in store.events(EventQuery(span=run))],
        [(row.digest, row.size) for row in store.blobs(run)],
        [store.points([row.id])[row.id].value.tolist() for row in store.series([run])],
    )


def test_what_comes_by_itself_is_not_taken_from_another_store(make, tmp_path):
    """What an archive says under offsets that an origin has not reached here does not stand in place of what comes."""
    alone, attacked, archive = (make.write(str(tmp_path / name)) for name in ("alone", "attacked", "archive"))
    for run in ("r1", "r2"):
        who = origin(f"of-{run}", run)
        archive.keep([begun(run), words(run, "false", 9), samples([7.0, 8.0, 9.0], who=who, span=run)])
        archive.keep([], {who.name: 1 << 62})
    for store in (alone, attacked):
        store.keep([begun("r1")])
    before = of_run(attacked, "r1")
    [*_, taken] = attacked.absorb(archive, {"of-r1": 0}.get)

    assert taken.to_come == {"of-r1": 6}
    assert of_run(attacked, "r1") == before
    assert of_run(attacked, "r2") == of_run(archive, "r2")  # the control: nobody ships that one
    [heard] = [row.heard_t for row in attacked.origins(["r2"])]
    assert 0 < heard <= time.time_ns()
    real = [words("r1", "real", 3), samples([1.0, 2.0, 3.0], who=origin("of-r1"))]
    for store in (alone, attacked):
        store.keep(real)
    assert of_run(attacked, "r1") == of_run(alone, "r1")
    assert of_run(alone, "r1")[1:] == (["begun", "real"], [("real", 3)], [[1.0, 2.0, 3.0]])
    for store in (alone, attacked, archive):
        store.close()


WHOLE = [  # of a job, in three parts
    facts(
        Span("r1", T, "running", kind="run", name="r", attrs={"lr": 1}),
        Span("r1/1", T, "running", kind="try", parent="r1"), Span("r1/p", T, "running", kind="progress", at=5.0),
        Event("r1", T, "log", text="one"), who=origin("o1", "r1"),
    ),
    facts(Event("r1", T, "log", text="two"), first=10, who=origin("o1", "r1")),
    facts(
        Span("r1/1", T + 9, "done", kind="try", parent="r1"), Event("r1", T, "log", text="three"),
        first=20, who=origin("o1", "r1"),
    ),
]  # fmt: skip


@pytest.mark.parametrize("comes", [{"o1": 15}, {}])
def test_what_a_spool_has_freed_is_taken_from_the_old_store(make, store, tmp_path, comes):
    """After the damaged store was moved away the job goes on: what lies before the new one's mark is not here yet."""
    with closing(make.write(str(tmp_path / "old.db"))) as old:
        store.bind("relay", ["o1"], ["r1"])
        store.keep(WHOLE[1:])
        old.keep(WHOLE[:1])
        [*_, taken] = store.absorb(old, comes.get)
        old.keep(WHOLE[1:])

        assert taken.to_come == {}
        assert of_run(store, "r1")[0] == of_run(old, "r1")[0]
        assert sorted(of_run(store, "r1")[1]) == ["one", "three", "two"]
        assert {row.id: row.state for row in store.spans(SpanQuery())} == {
            "r1": "done",
            "r1/1": "done",
            "r1/p": "running",
        }


def test_a_backup_takes_in_what_came_after_it(make, store, tmp_path):
    """The relay of a process that has ended never ships it again, so what it has said is taken from a newer store."""
    with closing(make.write(str(tmp_path / "newer.db"))) as newer:
        for each, said in (newer, WHOLE), (store, WHOLE[:1]):
            each.bind("relay", ["o1"], ["r1"])
            each.keep(said)
        for _ in store.absorb(newer):
            pass
        assert of_run(store, "r1") == of_run(newer, "r1")
