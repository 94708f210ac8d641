"""Everything at a glance: which runs and hosts are there, and what a line says of them."""

import pytest

from tests.rooms.conftest import BORN, SECOND
from vedette.errors import WhereError
from vedette.model import Event, Span
from vedette.query.overview import Known, Trails, condition, forget, overview
from vedette.store import Compare
from vedette.wire import Change, Health, Newest

NOW = BORN + 100 * SECOND
LATER = BORN + 100_000 * SECOND  # what ended by then is old


def living(make, run, **told):
    """Make a run that lives at NOW, with a process on a host."""
    host = told.pop("host", "camp")
    make.run(run, state="running", end_t=None, heard_t=told.pop("heard_t", NOW), **told)
    make.facts(
        run,
        Span(f"{run}/1", BORN, "running", kind="try", parent=run, attrs={"n": 1}),
        Span(f"{run}/1/o", BORN, "running", kind="process", parent=f"{run}/1", attrs={"host": host, "pid": 7}),
    )
    return run


def names(seen):
    return [line.id for line in seen.runs]


def test_those_that_live_come_first(store, make):
    """Runs that live come first, then those that have ended, the newest first; old ones only when they are wanted."""
    make.run("old", start_t=BORN - 90_000 * SECOND)
    make.run("failed", state="failed", cause="exit code 3", start_t=BORN + 5 * SECOND)
    living(make, "one")
    living(make, "two", start_t=BORN + SECOND)

    assert names(overview(store, now=NOW)) == ["two", "one", "failed"]
    seen = overview(store, now=NOW, ended=10)
    assert names(seen) == ["two", "one", "failed", "old"]
    assert (seen.alive, seen.ended) == (2, 2)
    assert [line.cause for line in seen.runs if line.id == "failed"] == ["exit code 3"]


def test_a_bounded_number_of_those_that_ended(store, make):
    """Of runs that ended long ago only the newest so many are read."""
    for number in range(20):
        make.run(f"r{number:02d}", start_t=BORN + number * SECOND)

    assert names(overview(store, now=LATER)) == []
    assert names(overview(store, now=LATER, ended=3)) == ["r19", "r18", "r17"]


def test_who_is_lost_does_not_live(store, make):
    """A run of which nothing was heard for too long is lost, and stands below those that live."""
    living(make, "lost", heard_t=NOW - 90 * SECOND, start_t=BORN + SECOND)
    living(make, "alive")
    seen = overview(store, now=NOW)

    assert [(line.id, line.state, line.alive) for line in seen.runs] == [
        ("alive", "running", True), ("lost", "lost", False),
    ]  # fmt: skip
    assert seen.runs[1].silent_s == 90


def test_removed_runs_are_not_there(store, make):
    """What was removed is not shown, nor what hangs below it."""
    make.run("gone", removed=True)
    make.facts("child", Span("child", BORN, "running", kind="run", name="child", parent="gone"))
    make.run("here")

    assert names(overview(store, now=NOW, ended=10)) == ["here"]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ["a", "b"]), ("otter", ["a"]), ("OTTER brisk", ["a"]), ("otter heron", []), ("cifar", ["b"]),
        ("state = running", ["a", "b"]), ("config.lr > 0.1", ["b"]), ("tag.best", ["a"]), ("   ", ["a", "b"]),
        ("[red]", []), ("state", []), ("'", []),
    ],
)  # fmt: skip
def test_filters(store, make, text, ids):
    """A filter is an expression, or words that name, project or id contain."""
    living(make, "a", name="brisk-otter-417", **{"config.lr": 0.1, "tag.best": True})
    living(make, "b", name="still-heron-1", project="cifar", **{"config.lr": 0.2})

    assert sorted(names(overview(store, text, now=NOW))) == ids


@pytest.mark.parametrize("text", ["state =", "lr > 1", "(state = done", "state = done and", "= 3", "config.x >"])
def test_mistakes_in_a_filter(store, text):
    """A mistake in an expression is said in one sentence."""
    with pytest.raises(WhereError) as caught:
        overview(store, text)
    assert "\n" not in str(caught.value)


def test_words_are_never_an_expression():
    """A word without an operator is looked for in names, even when it is the name of a field."""
    found = condition("state")

    assert found is not None
    assert Compare("name", "~", "state") in found.parts[0].parts


def test_the_metric_that_is_drawn(store, make):
    """A loss is drawn unless another series is wanted; who has not what is wanted shows its own."""
    living(make, "a")
    make.points("a", "accuracy", [0.1, 0.2])
    make.points("a", "train_loss", [3.0, 2.0])
    make.points("a", "loss", [2.0, 1.0])
    living(make, "b")
    make.points("b", "speed", [5.0])
    lines = {line.id: line for line in overview(store, now=NOW).runs}
    wanted = {line.id: line for line in overview(store, now=NOW, metric="accuracy").runs}

    assert (lines["a"].metric, lines["a"].trend, lines["a"].last) == ("loss", [2.0, 1.0], 1.0)
    assert (lines["b"].metric, lines["b"].last) == ("speed", 5.0)
    assert (wanted["a"].metric, wanted["a"].last, wanted["b"].metric) == ("accuracy", 0.2, "speed")
    assert lines["a"].metrics == ["accuracy", "loss", "train_loss"]


def test_points_that_wait_in_the_hub(store, make):
    """The newest value is the hub's; what it had at earlier looks goes between that and what is sealed, once."""
    living(make, "a")
    make.points("a", "loss", [3.0, 2.0])
    trails = Trails()
    trails.watch([("a", "loss")])
    for second, value in ((1, 2.0), (5, 1.5), (5, 1.5), (9, 1.0)):  # the first is sealed by now
        fresh = [Newest("a", "loss", {}, BORN + second * SECOND, value), Newest("a", "loss", {"x": "1"}, NOW, 9.0)]
        trails.take(fresh)
    line = overview(store, now=NOW, fresh=fresh, trails=trails).runs[0]

    assert line.trend == [3.0, 2.0, 1.5, 1.0]
    assert line.last == 1.0


def test_a_metric_that_was_never_sealed(store, make):
    """A run that has just begun shows what the hub has of it."""
    living(make, "a")
    line = overview(store, now=NOW, fresh=[Newest("a", "loss", {}, NOW, 7)]).runs[0]

    assert (line.metric, line.metrics, line.trend, line.last) == ("loss", ["loss"], [7.0], 7.0)


def test_what_it_uses(store, make):
    """CPU and memory are those of the processes that live, by the newest known; GPUs those they have memory on."""
    living(make, "a")
    make.facts("a", Span("host-camp-1", BORN, "up", kind="host", name="camp", attrs={"cpus": 4, "memory_bytes": 1000}))
    make.points("a/1/o", "cpu_percent", [10.0, 20.0])
    make.points("a/1/o", "gpu_memory_bytes", [500], tags={"gpu": "1"})
    fresh = [
        Newest("a/1/o", "memory_bytes", {}, NOW, 700),
        Newest("host-camp-1", "cpu_percent", {}, NOW, 150.0),
        Newest("host-camp-1", "gpu_percent", {"gpu": "0"}, NOW, 11.0),
        Newest("host-camp-1", "gpu_percent", {"gpu": "1"}, NOW, 66.0),
    ]
    seen = overview(store, now=NOW, fresh=fresh, here="camp")
    line, host = seen.runs[0], seen.hosts[0]

    assert (line.cpu_percent, line.memory_bytes, line.gpu_percent, line.gpu_memory_bytes) == (20, 700, 66, 500)
    assert (line.hosts, line.processes) == (["camp"], 1)
    assert (host.name, host.runs, host.processes, host.cpus, host.cpu_percent) == ("camp", 1, 1, 4, 150)
    assert host.gpus == {"0": {"gpu_percent": 11.0}, "1": {"gpu_percent": 66.0}}
    assert (host.link, host.memory_total_bytes) == ("here", 1000)


def test_hosts_that_are_linked_or_cut_off(store, make):
    """A host is linked when its hub is; one on which something lives and that is not, is cut off. Skew is told."""
    living(make, "a")
    make.facts("a", Span("host-far-1", BORN, "up", kind="host", name="far"))
    store.keep([], skews={"o-a": -3.0})

    def health(*links):
        return Health(pid=1, version="", up_s=1, living=1, waiting_bytes=0, links=list(links))

    cut = overview(store, now=NOW, health=health(("far", 2.5)), here="desk").hosts
    assert [(host.name, host.link, host.skew_s, host.runs) for host in cut] == [
        ("far", "linked", 2.5, 0), ("camp", "cut", -3.0, 1),
    ]  # fmt: skip
    assert [host.link for host in overview(store, now=NOW, here="desk").hosts] == [""]


def test_the_bar_of_a_run(store, make):
    """The outermost bar that runs is shown: what it holds began later. When none runs, it is the newest."""
    living(make, "a")
    make.facts(
        "a",
        Span("a/p-1", BORN, "running", kind="progress", name="epochs", attrs={"total": 10}, at=4.0),
        Span("a/p-2", BORN + SECOND, "running", kind="progress", name="batches", attrs={"total": 100}, at=99.0),
    )
    bar = overview(store, now=NOW).runs[0].bar
    assert bar is not None
    assert (bar.name, bar.fraction) == ("epochs", 0.4)

    make.facts("a", *(Span(f"a/p-{n}", NOW, "done") for n in (1, 2)))
    bar = overview(store, now=NOW).runs[0].bar
    assert bar is not None
    assert bar.name == "batches"


def test_the_last_line(store, make):
    """The newest line is shown, with its level, however much was said before; questions are not lines."""
    living(make, "a")
    make.events("a", *(f"line {number}" for number in range(50)))
    make.facts("a", Event("a", NOW, "log", 40, "it burns"), Event("a", NOW, "ask", 20, "password?"))
    line = overview(store, now=NOW).runs[0]

    assert (line.line, line.level) == ("it burns", 40)


def test_only_what_has_changed_is_read_again(store, make):
    """What is known of a run stays until it is forgotten, part by part."""
    living(make, "a")
    make.events("a", "before")
    make.points("a", "loss", [1.0])
    known: dict[str, Known] = {}
    overview(store, now=NOW, known=known)
    make.events("a", "after")
    make.facts("a", Span("a/p-1", BORN, "running", kind="progress", attrs={"total": 2}, at=1.0))

    line = overview(store, now=NOW, known=known).runs[0]
    assert (line.line, line.bar) == ("before", None)

    forget(known, Change(events=["a"]))
    line = overview(store, now=NOW, known=known).runs[0]
    assert (line.line, line.bar) == ("after", None)

    forget(known, Change(spans=["a/p-1"], points=["a/1/o", "elsewhere"]))
    assert known["a"].stale == {"spans"}
    bar = overview(store, now=NOW, known=known).runs[0].bar
    assert bar is not None
    assert bar.fraction == 0.5


def test_an_empty_store(store, make):
    """A store without a run says so; one without a run that fits does not."""
    assert overview(store).is_new
    make.run("a")
    assert not overview(store, "nobody", now=LATER).is_new


def test_a_filter_changes_no_host(store, make):
    """A host is as busy as it is, whatever is shown."""
    living(make, "a")
    living(make, "b")
    seen = overview(store, "nobody", now=NOW)

    assert (seen.runs, seen.alive) == ([], 0)
    assert [(host.name, host.runs, host.processes) for host in seen.hosts] == [("camp", 2, 2)]


def test_a_host_that_has_fallen_silent(store, make):
    """A host whose runs are lost stays for an hour, with nothing that lives there; then it is let go."""
    living(make, "a", heard_t=NOW - 90 * SECOND)

    assert [(host.name, host.runs, host.silent_s) for host in overview(store, now=NOW).hosts] == [("camp", 0, 90)]
    assert overview(store, now=NOW + 3600 * SECOND).hosts == []
