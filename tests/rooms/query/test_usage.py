"""What a run used: asked of a store, drawn as text, and as a page."""

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from tests.rooms import web
from tests.rooms.conftest import BORN, SECOND, call, python
from vedette.errors import FormatError
from vedette.model import LANE_SAMPLES, Event, Origin, Span
from vedette.query import usage
from vedette.query.runs import view
from vedette.store import Batch, Columns
from vedette.views.usage import amount, ceiling, draw, prepare, resample, width_for
from vedette.views.usage_page import page
from vedette.wire import Newest

HOSTILE = "</script><script>alert(1)</script>\x1b[31m\x1b]0;own\x07 [bold]x[/] {{DATA}} \u202e &lt;"


@pytest.fixture
def measured(store, make):
    """A run with a main process that speaks, one that did not at first, and a silent one."""
    make.run("run")
    attrs = {"pid": 10, "ppid": 1, "host": "camp", "usage_s": 1.0, "argv": ["/usr/bin/python3", "-u", "a/train.py"]}
    make.facts(
        "run",
        Span("run/1", BORN, "running", kind="try", parent="run", attrs={"n": 1}),
        Span("run/1/o", BORN, "running", kind="process", name="main 10", parent="run/1", attrs=attrs),
        _silent(20, ["/bin/sleep", "5"]),
        _silent(7, ["python"]),
    )
    make.points("run/1/o", "cpu_percent", [10.0, 20.0, 30.0])
    make.points("run/1/o", "memory_bytes", [100, 200, 300])
    make.points("run/1/pid-20-1", "cpu_percent", [1.0, 2.0], t=BORN + SECOND)
    make.points("run/1/o", "gpu_memory_bytes", [5, 5, 5], {"gpu": "0"})
    make.points("run/1/o", "gpu_memory_bytes", [7, 7, 7], {"gpu": "1"})
    return "run"


def _silent(pid, argv, started=1):
    attrs = {"pid": pid, "ppid": 10, "host": "camp", "argv": argv}
    return Span(f"run/1/pid-{pid}-{started}", BORN, "running", kind="process", name="x", parent="run/1", attrs=attrs)


def test_what_each_process_used(store, measured):
    """Each process with its curves, by name and pid; what lies on several GPUs is added up."""
    main, sleep = usage.use(store, measured)
    assert (main.process, main.pid, main.name, main.parent_pid, main.host) == ("run/1/o", 10, "train.py", 1, "camp")
    t, value = main.series["cpu_percent"]
    assert (t.tolist(), value.tolist()) == ([BORN, BORN + SECOND, BORN + 2 * SECOND], [10, 20, 30])
    assert main.series["gpu_memory_bytes"][1].tolist() == [12, 12, 12]
    assert (sleep.pid, sleep.name, sleep.parent_pid) == (20, "sleep", 10)


def test_a_process_that_spoke_later_is_one(store, make, measured):
    """What was measured before it spoke is a part of what it is."""
    origin = Origin("late", host="camp", pid=20, started=1, span="run", process="run/1/late")
    columns = Columns("run/1/late", {}, ("cpu_percent",), [1], [BORN + 5 * SECOND], [5], [(3.0,)])
    store.keep([Batch(origin, LANE_SAMPLES, 1, columns=[columns])])
    make.facts("run", Span("run/1/late", BORN, kind="process", parent="run/1", attrs={"pid": 20, "host": "camp"}))
    late = next(one for one in usage.use(store, measured) if one.process == "run/1/late")
    assert late.series["cpu_percent"][1].tolist() == [1, 2, 3]
    assert [one.pid for one in usage.use(store, measured)].count(20) == 1


def test_a_silent_process_ends_with_its_try(store, make, measured):
    """Where nobody was left to see its end, that of its try is taken."""
    assert usage.use(store, measured)[1].end_t is None
    make.facts("run", Span("run/1", BORN + 9 * SECOND, "done"))
    assert usage.use(store, measured)[1].end_t == BORN + 9 * SECOND


def test_usage_does_not_clutter_a_run(store, make, measured):
    """Neither its series nor its processes show what the hub alone has seen."""
    make.points("run", "loss", [1.0])
    seen = view(store, "run")
    assert [row.name for row in seen.series()] == ["loss"]
    assert [row.id for row in seen.processes()] == ["run/1/o"]
    assert [one.pid for one in seen.usage()] == [10, 20]


def test_marks(store, make, measured):
    """Marks come by time, with their labels where they have no text."""
    make.facts(
        "run",
        Event("run", BORN + 2, "mark", 20, "late"),
        Event("run", BORN + 1, "mark", 20, "", {"labels": ["a", "b"]}),
    )
    make.events("run", "a log line")
    assert usage.marks(store, "run") == [(BORN + 1, "a, b"), (BORN + 2, "late")]


def test_what_is_used_now(store, make, measured):
    """The newest of each living process is added up, whether it is in the store or waits in the hub."""
    assert usage.latest(store, ["run", "none"]) == {
        "run": {"cpu_percent": 32.0, "memory_bytes": 300.0, "gpu_memory_bytes": 12.0}
    }
    make.facts("host", Span("host-camp-1", BORN, "up", kind="host", name="camp"))
    fresh = [
        Newest("run/1/o", "cpu_percent", {}, BORN + 60 * SECOND, 50.0),
        Newest("run/1/pid-20-1", "cpu_percent", {}, BORN, 99.0),  # older than what is in the store
        Newest("else/1/o", "cpu_percent", {}, BORN + 60 * SECOND, 99.0),
        Newest("host-camp-1", "gpu_percent", {"gpu": "0"}, BORN, 70.0),
        Newest("host-camp-1", "gpu_percent", {"gpu": "1"}, BORN, 20.0),
        Newest("host-camp-1", "gpu_percent", {"gpu": "2"}, BORN, 5.0),  # of somebody else
    ]
    assert usage.latest(store, ["run"], fresh)["run"] == {
        "cpu_percent": 52.0, "memory_bytes": 300.0, "gpu_memory_bytes": 12.0, "gpu_percent": 90.0,
    }  # fmt: skip
    make.facts("run", Span("run/1/o", BORN + SECOND, "done"))
    assert usage.latest(store, ["run"], fresh)["run"] == {"cpu_percent": 2.0}
    make.facts("run", Span("run/1", BORN + SECOND, "done"))
    assert usage.latest(store, ["run"], fresh) == {}


def test_hosts_within_the_time_of_the_run(store, make, measured):
    """GPUs of its hosts are shown, as far as they were measured while it ran."""
    make.facts("host", Span("host-camp-1", 1, "up", kind="host", name="camp"))
    make.facts("host", Span("host-away-1", 1, "up", kind="host", name="away"))
    make.facts("run", Span("run/1", BORN + 2 * SECOND, "done"))
    make.points("host-camp-1", "gpu_percent", [1.0, 2.0, 3.0, 4.0, 5.0], {"gpu": "0"}, t=BORN - SECOND)
    make.points("host-away-1", "gpu_percent", [9.0], {"gpu": "0"})
    [host] = usage.hosts(store, "run")
    assert (host.name, host.pid) == ("camp", 0)
    assert host.series["gpu_percent gpu=0"][1].tolist() == [2, 3, 4]


def test_why_there_is_nothing(store, make):
    """One sentence says why a run has no usage, and what to do."""
    make.run("run")
    assert "no process yet" in usage.why_none(store, "run")
    process = Span("run/1/o", BORN, "running", kind="process", parent="run/1", attrs={"usage_s": 0.0})
    make.facts("run", process)
    assert "usage.enable" in usage.why_none(store, "run")
    make.facts("run", Span("run/1/o", BORN + 1, attrs={"usage_s": 1.0}))
    assert "doctor" in usage.why_none(store, "run")
    make.points("run", "cpu_percent", [1.0])
    assert "vedette points run cpu_percent" in usage.why_none(store, "run")


def test_resampling_keeps_peaks_and_shows_gaps():
    """Of several samples in a column the highest counts, between samples there is a line, and in gaps nothing."""
    t = np.array([0, 1, 2, 3, 20, 21]) * SECOND
    value = np.array([1.0, 9.0, 1.0, 1.0, 4.0, 4.0])
    assert resample((t, value), np.linspace(0, 22e9, 6), 1e9).tolist()[:2] == [9.0, pytest.approx(np.nan, nan_ok=True)]
    fine = resample((t, value), np.linspace(0, 22e9, 45), 1e9)
    assert fine[1] == pytest.approx(7.0)
    assert np.isnan(fine[20])
    assert np.isnan(fine[-1])
    assert np.nanmax(fine) == 9.0


@pytest.mark.parametrize(("highest", "top"), [(0, 1), (0.3, 1), (1, 1), (99.9, 100), (101, 150), (730, 800)])
def test_an_axis_ends_at_a_round_number(highest, top):
    """Which is not below what is drawn."""
    assert ceiling(highest, "%") == pytest.approx(top)


def test_amounts():
    """Numbers are short, and have their unit."""
    assert [amount(0.25, "%"), amount(99.6, "%"), amount(3, ""), amount(1.5e9, "B"), amount(2000, "B/s")] == [
        "0.2 %", "100 %", "3", "1.5 GB", "2.0 kB/s",
    ]  # fmt: skip


def made_up(count, seconds, name="job"):
    """Return processes that were measured each second."""
    t = BORN + np.arange(seconds) * SECOND
    random = np.random.default_rng(7)
    series = lambda: {key: (t, random.random(seconds) * 100) for key in ("cpu_percent", "memory_bytes", "threads")}  # noqa: E731
    return [usage.Use(f"run/1/{n}", n + 1, f"{name} {n}", "camp", 1, BORN, None, series()) for n in range(count)]


def drawn(uses, width=90, *, terminal=False, marks=((BORN + SECOND, "half"),)):
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=terminal,
        color_system="truecolor" if terminal else None,
        highlight=False,
    )
    draw(prepare(uses, [], list(marks), width_for(console)), console)
    return console.file.getvalue()


def test_plain_text_has_no_escape_code():
    """Without a terminal there are letters for processes, bars for marks, a legend, and nothing to obey."""
    text = drawn(made_up(12, 30, HOSTILE), marks=[(BORN + SECOND, HOSTILE)])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "CPU, 100 % is one core" in text
    assert "4 others" in text
    assert "[bold]x[/]" in text  # as it is, and not as markup


@pytest.mark.parametrize("width", [30, 60, 90, 200])
def test_nothing_is_wider_than_the_terminal(width):
    """Charts fit any width."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", drawn(made_up(2, 100), width, terminal=True))
    assert max(len(line) for line in text.splitlines()) <= max(width, 33)


def test_nothing_is_cut_in_a_pipe():
    """A pipe has no edge: names, figures and marks are whole, however narrow a terminal would be."""
    text = drawn(made_up(2, 100), 30, marks=[(BORN + SECOND, "a mark that is longer than thirty characters, whole")])
    assert "a mark that is longer than thirty characters, whole" in text
    assert "MEMORY MAX" in text
    assert "…" not in text


def test_colours_on_a_terminal():
    """There each process has its colour, and hostile text still does nothing."""
    text = drawn(made_up(3, 30, HOSTILE), terminal=True)
    assert "\x1b[38;2;78;154;217m" in text
    assert set(re.findall(r"\x1b[^m]*m", text)) == set(re.findall(r"\x1b\[[0-9;]*m", text))
    assert "\x07" not in text


def the_page(store, uses, marks=()):
    return page([view(store, "run")], uses, [], list(marks))


def test_the_page_needs_nothing_else(store, make):
    """No address is in it, no element loads anything, and its policy forbids the rest."""
    make.run("run")
    text = the_page(store, made_up(3, 30))
    addresses = set(re.findall(r"(?:https?:)?//[\w.]+", text)) - {"//www.w3.org"} - {"http://www.w3.org"}
    assert not addresses
    assert not re.search(r"<(link|img|iframe|object|embed)\b|\bsrc=|@import|url\(|fetch\(|XMLHttp", text)
    assert "default-src 'none'" in text


def test_hostile_names_do_nothing_on_the_page(store, make):
    """Whatever a process, a mark or a run is called, it stays text."""
    make.run("run", name=HOSTILE)
    text = the_page(store, made_up(2, 30, HOSTILE), [(BORN + SECOND, HOSTILE)])
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["processes"][0]["name"].startswith("</script>")
    assert data["marks"][0]["text"].startswith("</script>")


def test_several_runs_on_one_page(store, make):
    """Processes and marks of several runs tell their run; a host that two runs shared has each point once."""
    for run, at, numbers in (("one", 0, [1.0, 2.0]), ("two", 1, [3.0, 4.0])):
        t, attrs = BORN + at * SECOND, {"pid": 10 + at, "ppid": 1, "host": "camp", "argv": ["sh"]}
        make.run(run, start_t=t)
        make.facts(
            run,
            Span(f"{run}/1", t, "running", kind="try", parent=run, attrs={"n": 1}),
            Span(f"{run}/1/o", t, "running", kind="process", name="x", parent=f"{run}/1", attrs=attrs),
            Event(run, t + 1, "mark", 20, "half"),
        )
        make.points(f"{run}/1/o", "cpu_percent", numbers, t=t)
    make.facts("host-camp", Span("host-camp", BORN, kind="host", name="camp"))
    make.points("host-camp", "gpu_percent", [10.0, 20.0, 30.0], {"gpu": "0"})

    uses, hosts, marks = usage.together(store, [view(store, "one"), view(store, "two")])
    assert [(one.name, one.series["cpu_percent"][1].tolist()) for one in uses] == [
        ("one: sh", [1, 2]),
        ("two: sh", [3, 4]),
    ]
    assert marks == [(BORN + 1, "one: half"), (BORN + SECOND + 1, "two: half")]
    [host] = hosts
    assert [part.tolist() for part in host.series["gpu_percent gpu=0"]] == [
        [BORN, BORN + SECOND, BORN + 2 * SECOND],
        [10, 20, 30],
    ]
    text = page([view(store, "one"), view(store, "two")], uses, hosts, marks)
    assert "<h1>2 runs</h1>" in text


def test_a_large_run_makes_a_page_of_a_sane_size(store, make):
    """64 processes over an hour are drawn by their peaks, in a file that can be sent by mail."""
    make.run("run")
    text = the_page(store, made_up(64, 3600))
    assert len(text) < 3 << 20
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert len(data["charts"][0]["layers"]) == 64


def test_the_command(home):
    """JSON, page and text of a real run; a run without usage, and a file that cannot be written, are said in a line."""
    begin = "import vedette, time\nvedette.init(name='on', usage=True).mark('half')\ntime.sleep(1.2)\n"
    python(begin + "vedette.init(name='off', usage=False)")
    told = json.loads(call("usage", "on", "--json").stdout)
    assert told["processes"][0]["peak"]["memory_bytes"] > 1 << 20
    assert [mark["text"] for mark in told["marks"]] == ["half"]
    assert "memory" in call("usage", "on").stdout
    path = f"{home.root}/page.html"
    assert call("usage", "on", "--html", path).stdout == path + "\n"
    with open(path) as file:
        assert file.read() == call("usage", "on", "--html", "-").stdout
    off = call("usage", "off")
    assert (off.returncode, off.stderr, off.stdout.count("\n")) == (0, "", 1)
    assert "usage is off" in off.stdout
    for said, why in (
        (["off", "--html", path], "usage is off"),
        (["on", "--html", "/nowhere/x"], "cannot be written"),
        (["what"], "what"),
    ):
        done = call("usage", *said)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr
        assert done.stderr.count("\n") == 1
    assert json.loads(call("usage", "off", "--json").stdout)["processes"] == []


def _spoil(store, before_t):
    """Make chunks that ended before a time unreadable: who reads one all the same fails."""
    store.connection.execute(
        "UPDATE chunks SET value = x'00' WHERE axis IN (SELECT id FROM axes WHERE last_t < ?)", (before_t // 1000,)
    )


@pytest.fixture
def aged(store, make, measured):
    """A host that was measured long before the run, while it ran, and after; and one of an earlier boot."""
    make.facts("host", Span("host-camp-0", 1, "up", kind="host", name="camp"))
    make.facts("host", Span("host-camp-1", 1, "up", kind="host", name="camp"))
    for span, moments in (("host-camp-0", (-900,)), ("host-camp-1", (-800, -700, 0, 3, 900))):
        for at in moments:
            make.points(span, "cpu_percent", [float(at), at + 1.0], t=BORN + at * SECOND)
    return "host-camp-1"


def test_of_a_host_only_the_time_of_the_run_is_read(store, make, aged):
    """What a host was doing before a run, or does after it, is not even read."""
    _spoil(store, BORN)
    [host] = usage.hosts(store, "run")
    assert host.process == aged
    assert host.series["cpu_percent"][1].tolist() == [0, 1, 3, 4, 900, 901]
    make.facts("run", Span("run/1", BORN + 5 * SECOND, "done"))
    store.connection.execute(
        "UPDATE chunks SET value = x'00' WHERE axis IN (SELECT id FROM axes WHERE first_t > ?)",
        ((BORN + 5 * SECOND) // 1000,),
    )
    [host] = usage.hosts(store, "run")
    assert host.series["cpu_percent"][1].tolist() == [0, 1, 3, 4]


def test_only_what_is_newer_is_read(store, make, aged):
    """Who has seen some gets all processes and hosts, with what is newer alone, and the rest is not read."""
    seen_t = BORN + 2 * SECOND
    make.points("run/1/o", "cpu_percent", [40.0], t=BORN + 3 * SECOND)
    _spoil(store, seen_t + 1000)
    with pytest.raises(FormatError):
        usage.use(store, "run")
    main, sleep = usage.use(store, "run", seen_t)
    assert (main.series["cpu_percent"][0].tolist(), main.series["cpu_percent"][1].tolist()) == (
        [BORN + 3 * SECOND], [40.0],
    )  # fmt: skip
    assert len(main.series["gpu_memory_bytes"][0]) == len(sleep.series["cpu_percent"][0]) == 0
    [host] = usage.hosts(store, "run", seen_t)
    assert host.series["cpu_percent"][1].tolist() == [3, 4, 900, 901]
    [host] = usage.hosts(store, "run", BORN + 1000 * SECOND)
    assert (host.process, host.series) == (aged, {})
    make.facts("run", Span("run/1", BORN + 5 * SECOND, "done"))
    [host] = usage.hosts(store, "run", BORN + 5 * SECOND)
    assert (host.process, host.series) == (aged, {})


def test_the_page_gets_what_is_newer(store, make, aged):
    """Asked again with the newest time that it was told, the page gets nothing twice and nobody is missing."""
    with web.site(web.access(store)) as site:
        first = site.get("/api/runs/run/usage")
        curve = first["processes"][0]["series"]["cpu_percent"]
        assert curve["value"] == [10, 20, 30]
        make.points("run/1/o", "cpu_percent", [40.0], t=BORN + 3 * SECOND + 1000)
        again = site.get(f"/api/runs/run/usage?since_t={curve['t'][-1]}")
        assert again["processes"][0]["series"]["cpu_percent"] == {
            "t": [(BORN + 3 * SECOND + 1000) / 1e6],
            "value": [40.0],
        }
        for part in ("processes", "hosts"):
            assert [one["process"] for one in again[part]] == [one["process"] for one in first[part]]
        late = site.get("/api/runs/run/usage?since_t=9e15")
        assert [one["process"] for one in late["hosts"]] == [aged]
