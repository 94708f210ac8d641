"""Who is measured, under which name, and until when: a meter in front of a made-up /proc."""

import os
import time

import pytest

from tests.rooms.proc_tree import ProcTree
from vedette import wire
from vedette.hub.processes import meter as meters
from vedette.hub.processes.meter import Meter
from vedette.hub.processes.wishes import Leave, Measure, Spoke
from vedette.model import HUB, LANE_FACTS, LANE_SAMPLES, Span
from vedette.segment import origin_of
from vedette.sources.gpu import Gpu
from vedette.tail import Tail


@pytest.fixture
def tree(tmp_path):
    """A made-up /proc."""
    return ProcTree(tmp_path)


@pytest.fixture
def meter(home, tree):
    """A meter of that /proc; 666 is the hub."""
    return Meter(home, {666}, proc=tree.root)


def said(home, upstream=""):
    """Return the facts and the samples that were said to a hub, but for those of the host."""
    facts, samples = [], []
    for name in os.listdir(home.spool):
        directory = os.path.join(home.spool, name)
        origin = origin_of(directory)
        assert origin.voice == HUB
        if origin.upstream == upstream:
            facts += [wire.decode_fact(payload) for _, payload in Tail(directory, LANE_FACTS).read()]
            samples += [wire.decode_sample(payload) for _, payload in Tail(directory, LANE_SAMPLES).read()]
    facts = [fact for fact in facts if isinstance(fact, Span) and fact.kind != "host"]
    return facts, [sample for sample in samples if not sample.span.startswith("host-")]


def lives(home, upstream=""):
    """Return (span, state, name) of what was said of processes."""
    return [(fact.id, fact.state, fact.name) for fact in said(home, upstream)[0]]


def counted(home, upstream=""):
    """Return the spans that samples hang on, in their order."""
    return [sample.span for sample in said(home, upstream)[1]]


def wish(name="o", pid=10, started=100, attempt="run/1", interval_s=1.0, **told):
    return Measure(name, pid, started, f"{attempt}/{name}", interval_s, **told)


def test_a_process_and_its_descendants(home, tree, meter):
    """Who speaks is counted under its own span; who does not gets one of the hub's, with what it is."""
    tree.add(10)
    tree.add(20, 10, name="sleep", started=7, argv=("sleep", "x" * 999))
    meter.hear(wish())
    [fact] = said(home)[0]
    assert (fact.id, fact.kind, fact.state, fact.by, fact.parent) == (
        "run/1/pid-20-7",
        "process",
        "running",
        HUB,
        "run/1",
    )
    assert fact.attrs["argv"] == ["sleep", "x" * 200]
    assert {key: fact.attrs[key] for key in ("pid", "ppid")} == {"pid": 20, "ppid": 10}
    assert counted(home) == ["run/1/o", "run/1/pid-20-7"]


def test_the_first_look_is_at_once_and_rates_come_with_the_second(home, tree, meter):
    """Memory and threads are known at the first look; what a process did needs two, or a birth just now."""
    tree.add(10, threads=2)
    meter.hear(wish())
    tree.add(10, threads=2, cpu_s=1.0)
    meter._known[10, 100].at_s -= 2
    meter.measure(["o"])
    first, second = (sample.values for sample in said(home)[1])
    assert set(first) == {"memory_bytes", "threads"}
    assert first["threads"] == 2
    assert second["cpu_percent"] == pytest.approx(50, rel=0.1)
    assert set(second) == {"memory_bytes", "threads", "cpu_percent", "read_bytes_per_s", "written_bytes_per_s"}


def test_the_first_look_at_a_newborn_tells_what_it_did_since_its_birth(home, tree, meter):
    """A short life that is seen once has a CPU share all the same."""
    born = time.clock_gettime(time.CLOCK_BOOTTIME) - 30
    tree.add(10, started=int(born * os.sysconf("SC_CLK_TCK")), cpu_s=15)
    meter.hear(wish(started=int(born * os.sysconf("SC_CLK_TCK")), interval_s=20.0))
    assert said(home)[1][0].values["cpu_percent"] == pytest.approx(50, rel=0.1)


def test_nobody_is_counted_twice(home, tree, meter):
    """A descendant that speaks is counted under its own span, with all below it, also when its ancestor is sampled."""
    for pid, parent in ((10, 1), (20, 10), (30, 20), (40, 10)):
        tree.add(pid, parent)
    meter.hear(wish("a", 10))
    meter.hear(wish("b", 20, attempt="inner/1"))
    before = len(counted(home))
    meter.measure(["a", "b"])
    assert sorted(counted(home)[before:]) == ["inner/1/b", "inner/1/pid-30-100", "run/1/a", "run/1/pid-40-100"]


def test_who_begins_to_speak_is_known_by_that_from_then_on(home, tree, meter):
    """Its first span ends as its own begins, and what it did in between is not lost."""
    tree.add(10)
    tree.add(20, 10)
    meter.hear(wish("a", 10))
    meter.hear(wish("b", 20))
    assert lives(home) == [("run/1/pid-20-100", "running", "job"), ("run/1/pid-20-100", "ended", "")]
    assert counted(home) == ["run/1/a", "run/1/pid-20-100", "run/1/b"]


def test_one_process_in_two_runs_is_counted_for_the_inner_one(home, tree, meter):
    """Of two runs in one process the newer has it; when that ends, the older has it again."""
    tree.add(10)
    meter.hear(wish("a1", 10, attempt="outer/1"))
    meter.hear(wish("a2", 10, attempt="inner/1"))
    meter.measure(["a1", "a2"])
    meter.hear(Leave("a2"))
    meter.measure(["a1"])
    assert counted(home) == ["outer/1/a1", "inner/1/a2", "inner/1/a2", "outer/1/a1"]


def test_who_wishes_not_to_be_measured_is_not(home, tree, meter):
    """Neither it nor what is below it, also when its ancestor is measured."""
    for pid, parent in ((10, 1), (20, 10), (30, 20)):
        tree.add(pid, parent)
    meter.hear(wish("b", 20, interval_s=0.0))
    meter.hear(wish("a", 10))
    assert counted(home) == ["run/1/a"]
    meter.hear(Leave("a"))
    assert meter.schedule.wait_s(0.0) is None


def test_the_hub_is_nobodys_child(home, tree, meter):
    """Where the hub hangs below the run, as in a container, it is not counted."""
    tree.add(10)
    tree.add(666, 10)
    tree.add(667, 666)
    meter.hear(wish())
    assert counted(home) == ["run/1/o"]


def test_the_end_of_a_silent_process_is_said(home, tree, meter):
    """One that is gone at the next look has ended; nobody knows how."""
    tree.add(10)
    tree.add(20, 10)
    meter.hear(wish())
    tree.remove(20)
    meter.measure(["o"])
    meter.measure(["o"])
    assert lives(home) == [("run/1/pid-20-100", "running", "job"), ("run/1/pid-20-100", "ended", "")]


def test_a_pid_that_is_used_again_is_another_process(home, tree, meter):
    """Two spans, the first of which has ended; the same for one that speaks: a stranger is not measured for it."""
    tree.add(10)
    tree.add(20, 10)
    meter.hear(wish())
    tree.add(20, 10, started=200)
    meter.measure(["o"])
    assert [life[:2] for life in lives(home)] == [
        ("run/1/pid-20-100", "running"), ("run/1/pid-20-200", "running"), ("run/1/pid-20-100", "ended"),
    ]  # fmt: skip
    before = counted(home)
    tree.add(10, started=300)
    tree.remove(20)
    meter.measure(["o"])
    assert counted(home) == before


def test_orphans_stay_with_their_run_as_long_as_it_lives(home, tree, meter):
    """A process whose parent died is still measured; when nobody of its run is left, its end is said, and why."""
    for pid, parent in ((10, 1), (20, 10), (30, 20)):
        tree.add(pid, parent)
    tree.add(11)
    meter.hear(wish("a", 10))
    meter.hear(wish("b", 11))
    tree.remove(20)
    meter.measure(["a", "b"])
    assert sorted(counted(home)[-3:]) == ["run/1/a", "run/1/b", "run/1/pid-30-100"]
    tree.remove(10)
    meter.hear(Leave("a"))
    meter.measure(["b"])
    assert sorted(counted(home)[-2:]) == ["run/1/b", "run/1/pid-30-100"]
    meter.hear(Leave("b"))
    last = said(home)[0][-1]
    assert (last.id, last.state, last.cause) == ("run/1/pid-30-100", "ended", "it outlived its run")


def test_a_process_that_becomes_another_program_gets_its_name(home, tree, meter):
    """Between fork and exec a child has its parent's name; the one that it has then counts."""
    tree.add(10)
    tree.add(20, 10, name="python")
    meter.hear(wish())
    tree.add(20, 10, name="sleep", argv=("sleep", "9"))
    meter.measure(["o"])
    meter.measure(["o"])
    assert lives(home) == [("run/1/pid-20-100", "running", "python"), ("run/1/pid-20-100", "", "sleep")]
    assert said(home)[0][-1].attrs["argv"] == ["sleep", "9"]


def test_a_new_meter_takes_over_from_one_that_died(home, tree, meter):
    """What the other had opened is measured on, or its end is said: nothing stays open for ever."""
    tree.add(10)
    tree.add(20, 10)
    tree.add(40, 1)
    opened = ["run/1/pid-20-100", "run/1/pid-30-100", "run/1/pid-40-9"]
    meter.hear(wish(open=opened))
    assert ("run/1/pid-20-100", "running", "job") in lives(home)
    assert sorted(life[0] for life in lives(home) if life[1] == "ended") == opened[1:]
    assert counted(home) == ["run/1/o", "run/1/pid-20-100"]


def test_each_hub_hears_of_its_own_runs(home, tree, meter):
    """What is meant for another hub goes into a spool of its own."""
    tree.add(10)
    tree.add(20)
    meter.hear(wish("a", 10))
    meter.hear(wish("b", 20, upstream="up:1"))
    assert (counted(home), counted(home, "up:1")) == (["run/1/a"], ["run/1/b"])


def test_an_id_that_would_be_too_long_is_left_out(home, tree, meter):
    """A descendant whose span could not be named is passed over; its parent is not."""
    tree.add(10)
    tree.add(20, 10)
    meter.hear(wish(attempt="r" * 120 + "/1"))
    assert len(counted(home)) == 1


def test_memory_on_gpus_hangs_on_processes(home, tree, monkeypatch):
    """What a process has on a GPU is counted with it; use, power and temperature with the host."""

    class Two:
        def look(self):
            return {0: Gpu(50.0, 1 << 30, None, 60.0, {10: 1000, 99: 5}), 1: Gpu(None, None, None, None, {10: 500})}

    monkeypatch.setattr(meters, "_HOST_EVERY_S", 0.0)
    meter = Meter(home, set(), gpus=Two(), proc=tree.root)
    tree.add(10)
    meter.hear(wish())
    on_gpus = [(s.span, s.tags, s.values) for s in said(home)[1] if s.tags]
    assert on_gpus == [
        ("run/1/o", {"gpu": "0"}, {"gpu_memory_bytes": 1000}),
        ("run/1/o", {"gpu": "1"}, {"gpu_memory_bytes": 500}),
    ]
    [directory] = (os.path.join(home.spool, name) for name in os.listdir(home.spool))
    samples = [wire.decode_sample(payload) for _, payload in Tail(directory, LANE_SAMPLES).read()]
    of_host = [sample.values for sample in samples if sample.span.startswith("host-") and sample.tags]
    assert of_host == [{"gpu_percent": 50.0, "gpu_memory_bytes": 1 << 30, "gpu_temperature_c": 60.0}]


def test_what_is_left_behind_is_measured(home, tree, meter):
    """What names the try in its environment is measured, whoever its parent is, with its descendants.

    Processes of another try, those that a user started in his shell, and those that ask for nothing are not. Each
    environment is read once.
    """
    tree.add(10)
    tree.add(1, 0)
    for pid, run, terminal in ((20, "run", 0), (30, "other", 0), (40, "run", 7)):
        tree.add(pid, 1, name=f"left-{pid}", session=pid, terminal=terminal)
        tree.environ(pid, VEDETTE_RUN=run, VEDETTE_TRY="1")
    tree.add(21, 20)
    tree.add(50, 1)
    meter.hear(wish())
    assert sorted(counted(home)) == ["run/1/o", "run/1/pid-20-100", "run/1/pid-21-100"]

    tree.environ(50, VEDETTE_RUN="run", VEDETTE_TRY="1")  # it was looked at, and is not again
    tree.add(60, 1)
    tree.environ(60, VEDETTE_RUN="run", VEDETTE_TRY="1")
    meter.measure(["o"])
    assert sorted(counted(home)[3:]) == [*sorted(counted(home)[:3]), "run/1/pid-60-100"]

    tree.remove(20)
    meter.hear(Leave("o"))
    assert [state for span, state, _ in lives(home) if "pid-20-" in span] == ["running", "ended"]


def newborn(tree, pid, parent=10):
    """Add a process that was started just now; return its start time."""
    started = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    tree.add(pid, parent, started=started)
    return started


@pytest.mark.parametrize("how", ["measured", "gone", "gone, and told of late"])
def test_of_one_that_is_about_to_speak_nothing_is_said_by_its_pid(home, tree, meter, how):
    """A fork child is seen before its spool is read, and may be gone by then: it is one process, and not two."""
    tree.add(10)
    started = newborn(tree, 20)
    meter.hear(wish("a", 10))
    assert lives(home) == []
    if how != "measured":
        tree.remove(20)
    if how == "gone, and told of late":
        meter.measure(["a"])
    if how == "measured":
        meter.hear(wish("b", 20, started=started))
    else:
        meter.hear(Spoke(20, started, "run/1/b", ""))
    meter.close()
    assert lives(home) == []
    assert counted(home).count("run/1/b") == (2 if how == "measured" else 1)


def test_a_short_life_without_a_word_is_on_record(home, tree, meter, monkeypatch):
    """Who does not speak by itself is told of, with what it used, when it has had the time to."""
    tree.add(10)
    started = newborn(tree, 20)
    meter.hear(wish("a", 10))
    tree.remove(20)
    meter.measure(["a"])
    assert lives(home) == []
    monkeypatch.setattr(meters, "_HOLD_S", 0.0)
    meter.measure(["a"])
    span = f"run/1/pid-20-{started}"
    assert lives(home) == [(span, "running", "job"), (span, "ended", "")]
    assert counted(home).count(span) == 1


def test_who_does_not_speak_for_a_while_gets_a_span(home, tree, meter, monkeypatch):
    """What was measured before that is not lost."""
    tree.add(10)
    started = newborn(tree, 20)
    meter.hear(wish("a", 10))
    monkeypatch.setattr(meters, "_HOLD_S", 0.0)
    meter.measure(["a"])
    span = f"run/1/pid-20-{started}"
    assert lives(home) == [(span, "running", "job")]
    assert counted(home).count(span) == 2
