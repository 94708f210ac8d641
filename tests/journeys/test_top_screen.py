"""`vedette top` by its keys, over a home in which real processes live: what the screen then shows."""

import os
import re
import signal
from typing import Any

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from tests.top_pilot import drive, screen, shows, until
from vedette.home import Home
from vedette.views.top.log import LogView
from vedette.views.top.run import RunScreen
from vedette.views.top.table import RunTable

LIVING = """
    import sys, time, vedette
    run = vedette.init(project="cifar", name=sys.argv[1], config={"lr": 0.1, "[bold]": "[/]"}, tags=["best"])
    for step in range(20):
        run.log({"loss": 1 / (step + 1), "accuracy": step / 20}, step=step)
    run.mark("the first line")
    print(run.id, flush=True)
    while True:
        time.sleep(0.1)
        step += 1
        run.log({"loss": 1 / (step + 1), "accuracy": 0.5}, step=step)
        if step % 5 == 0:
            run.mark(f"[red]said[/] and \\x1b[31mdone: step {step}")
"""
ENDED = """
    import vedette
    run = vedette.init(name="broken-crow-3", config={"lr": 9})
    run.log({"loss": 3.0})
    raise ValueError("it was the \\x1b[31mbutler")
"""


@pytest.fixture
def camp(start: Any, home: Home) -> Any:
    """A home with one run that lives and one that has failed; hands out the process of the first, and its id."""
    first = start(LIVING, "brisk-otter-417")
    run = first.stdout.readline().strip()
    start(ENDED).communicate(timeout=30)
    eventually(lambda: [run.state for run in read_runs(home)] == ["running", "failed"])
    return first, run


def test_runs_and_hosts(measured, camp):
    """It shows the runs with state, value, trend and usage, the one that lives first, and the hosts above."""

    async def act(pilot):
        await shows(
            pilot,
            "● running brisk-otter-417",
            "✗ failed  broken-crow-3",
            "ValueError: it was the butler",
            "1 run, 1 process",
        )
        await until(pilot, lambda: re.search(r"brisk-otter-417.*\d+%.*\dM", screen(pilot)))
        assert "[31m" not in screen(pilot)
        text = screen(pilot)
        assert text.index("brisk-otter-417") < text.index("broken-crow-3")
        steps = re.findall(r"step (\d+)", text)
        await until(pilot, lambda: re.findall(r"step (\d+)", screen(pilot)) > steps)

    drive(act)


def test_keys_choose_sort_and_show_all(camp):
    """J and k choose, s sorts by the next, a shows what ended long ago, and the choice stays with its run."""

    async def act(pilot):
        table = pilot.app.main.query_one(RunTable)
        await shows(pilot, "broken-crow-3")
        assert table.chosen.name == "brisk-otter-417"
        await pilot.press("j")
        assert table.chosen.name == "broken-crow-3"
        await pilot.press("down", "end", "G")
        assert table.chosen.name == "broken-crow-3"
        await pilot.press("s")
        await shows(pilot, "by name")
        assert table.chosen.name == "broken-crow-3"
        await pilot.press("k", "up", "home")
        assert table.chosen.name == "brisk-otter-417"
        await pilot.press("a")
        await until(pilot, lambda: pilot.app.feed.options.ended > 0)
        await pilot.press("t")
        await pilot.press("question_mark")
        await shows(pilot, "quit; the runs go on")
        await pilot.press("escape")
        await shows(pilot, "alive")

    drive(act)


def test_filter(camp):
    """A filter narrows as it is typed; a mistake is one line, and the table stays; esc takes it away."""

    async def act(pilot):
        await shows(pilot, "brisk-otter", "broken-crow")
        await pilot.press("slash", *"crow")
        await until(pilot, lambda: "brisk-otter" not in screen(pilot))
        await pilot.press("enter", "slash", *("backspace",) * 4, *"state = ")
        await shows(pilot, "expected a value at the end of 'state = '")
        await pilot.press(*"running")
        await until(pilot, lambda: "broken-crow" not in screen(pilot) and "brisk-otter" in screen(pilot))
        await pilot.press("escape")
        await shows(pilot, "brisk-otter", "broken-crow")
        await pilot.press("slash", *"nobody", "enter")
        await shows(pilot, "No run matches the filter")

    drive(act)


def test_opening_a_run(measured, camp):
    """Enter opens a run: its lines follow, a search narrows them, and progress, usage and config are a key away."""

    async def act(pilot):
        await shows(pilot, "brisk-otter-417")
        await pilot.press("enter")
        await shows(pilot, "● running", "the first line", "[red]said[/] and done: step 25")
        await until(pilot, lambda: pilot.app.screen.query_one(LogView).is_following and "step 40" in screen(pilot))
        await pilot.press("slash", *"FIRST")
        await until(pilot, lambda: "step" not in screen(pilot) and "the first line" in screen(pilot))
        await pilot.press("enter", "escape")
        await shows(pilot, "step ")
        await pilot.press("3")
        await shows(pilot, "PROCESS", "main ")
        await until(pilot, lambda: re.search(r"main \d+ .*\d+%", screen(pilot)))
        await pilot.press("4")
        await shows(pilot, "config", "[bold]", "[/]", "lr", "0.1", "best")
        await pilot.press("2")
        await shows(pilot, "no progress yet")
        await pilot.press("escape")
        await shows(pilot, "broken-crow-3")
        await pilot.press("j", "l")
        await shows(pilot, "✗ failed", "ValueError: it was the butler")
        await pilot.press("x")
        await pilot.pause(0.3)
        assert isinstance(pilot.app.screen, RunScreen)

    drive(act)


def test_choosing_the_metric(camp):
    """M offers the series of the run that is chosen; the one that is taken is drawn."""

    async def act(pilot):
        await shows(pilot, "brisk-otter-417", "loss")
        await pilot.press("m")
        await shows(pilot, "accuracy")
        await pilot.press("k", "enter")
        await until(pilot, lambda: re.search(r"brisk-otter-417.*accuracy.* 0\.5 ", screen(pilot)))

    drive(act, size=(200, 30))


def test_stopping_a_run(camp):
    """X asks first; n leaves the run alone, y stops it, and the screen shows its end."""
    process, _ = camp

    async def act(pilot):
        await shows(pilot, "brisk-otter-417")
        await pilot.press("x")
        await shows(pilot, "stop brisk-otter-417?  y/n")
        await pilot.press("n")
        await pilot.pause(0.5)
        assert process.poll() is None
        await pilot.press("x")
        await shows(pilot, "stop brisk-otter-417?")
        await pilot.press("y")
        await shows(pilot, "0 alive, 2 ended")

    drive(act)
    assert process.wait(10) in (-signal.SIGTERM, 143)


@pytest.mark.parametrize("size", [(40, 10), (60, 12), (80, 24), (220, 50)])
def test_sizes(camp, size):
    """On every size the name and the state are there, and nothing is drawn beyond the edge."""

    async def act(pilot):
        await shows(pilot, "brisk-ot", "✗ ", "? help")
        assert all(len(line) <= size[0] for line in screen(pilot).splitlines())

    drive(act, size=size)


def test_the_hub_dies(camp, home):
    """When the hub is killed the table stays, the screen says so, finds the next hub, and goes on."""

    async def act(pilot):
        await shows(pilot, "brisk-otter-417")
        end_hub(home)
        await until(pilot, lambda: home.hub_pid() is not None)
        assert "brisk-otter-417" in screen(pilot)
        await until(pilot, lambda: not pilot.app.feed._trouble)
        steps = max(map(int, re.findall(r"step (\d+)", screen(pilot))), default=0)
        await until(pilot, lambda: max(map(int, re.findall(r"step (\d+)", screen(pilot))), default=0) > steps + 5)

    drive(act)


def test_a_hub_that_is_stopped(camp, home):
    """A hub that does not answer is named at the foot of the screen, which stays, and keys work on."""
    pid = home.hub_pid()

    async def act(pilot):
        await shows(pilot, "brisk-otter-417")
        os.kill(pid, signal.SIGSTOP)
        try:
            await shows(pilot, f"the hub (pid {pid}) does not answer", "brisk-otter-417")
            await pilot.press("j")
            assert pilot.app.main.query_one(RunTable).chosen.name == "broken-crow-3"
        finally:
            os.kill(pid, signal.SIGCONT)
        await until(pilot, lambda: "does not answer" not in screen(pilot))

    drive(act)


def test_a_home_without_runs(home):
    """An empty home is told what to do, and nothing is made there; a run that begins then appears by itself."""

    async def act(pilot):
        await shows(pilot, "Nothing has been logged to this home yet", "vedette run -- python train.py")

    drive(act)
    assert os.listdir(home.root) == []


def test_a_run_that_begins_while_it_is_open(home, start):
    """A run appears by itself when it begins."""

    async def act(pilot):
        await shows(pilot, "Nothing has been logged")
        start(LIVING, "late-heron-1")
        await shows(pilot, "● running late-heron-1")

    drive(act)


def test_names_are_never_markup(home, start):
    """A name is shown as it is, brackets and all, in the table, the question, and the run's own screen."""
    name = "[red]x[/] [@click=app.leave]y[/] [/]"
    start(LIVING, name).stdout.readline()

    async def act(pilot):
        await shows(pilot, name)
        await pilot.press("x")
        await shows(pilot, f"stop {name}?")
        await pilot.press("n")
        await pilot.press("enter")
        await shows(pilot, name, "[red]said[/] and done")

    drive(act, size=(200, 30))
