"""The screen of `vedette top` over a made-up home, and a hub that says what the test tells it."""

import contextlib
import os
import re
import time

import pytest

from tests.rooms.conftest import BORN, SECOND, Maker
from tests.rooms.told_hub import ToldHub
from tests.top_pilot import drive, screen, shows, until
from vedette import wire
from vedette.access.follower import LEFT
from vedette.access.home_access import HomeAccess
from vedette.model import Event, Span
from vedette.store.sqlite import SqliteStore
from vedette.views.top.feed import Feed, Options
from vedette.views.top.log import LogView
from vedette.views.top.run import RunScreen
from vedette.views.top.table import RunTable

FOR_EVER = 1 << 62


@pytest.fixture
def make(home):
    """A home with a run that lives, with a bar and two processes, and one that has failed."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    make.run("r1", "brisk-otter", "running", project="cifar", heard_t=FOR_EVER, **{"config.lr": 0.1, "tag.best": True})
    make.facts(
        "r1", Span("r1/1", BORN, "running", kind="try", parent="r1", attrs={"n": 1}),
        Span("r1/1/o", BORN, "running", kind="process", name="main", parent="r1/1", attrs={"pid": 7, "host": "camp"}),
        Span("r1/bar", BORN, "running", kind="progress", name="epoch", parent="r1", add=3.0, attrs={"total": 9}),
    )  # fmt: skip
    make.events("r1", *(f"[red]said[/] line {number}" for number in range(60)))
    make.points("r1", "loss", [1 / (step + 1) for step in range(20)])
    make.points("r1", "accuracy", [step / 20 for step in range(20)])
    make.points("r1/1/o", "cpu_percent", [55.0, 66.0])
    make.run("r2", "broken-crow", "failed", start_t=BORN - 100 * SECOND, cause="ValueError: it \x1b[31mbroke")
    yield make
    store.close()


@pytest.fixture
def hub(home, make):
    with ToldHub(home) as found:
        yield found


def test_the_table_and_its_keys(hub):
    """Runs are rows with state and cause; keys choose, sort, show all, change the light, and say what they do."""

    async def act(pilot):
        await shows(pilot, "● running brisk-otter", "✗ failed  broken-crow", "ValueError: it broke")
        table = pilot.app.main.query_one(RunTable)
        assert table.chosen.name == "brisk-otter"
        await pilot.press("j")
        assert table.chosen.name == "broken-crow"
        for key in ("pagedown", "pageup", "G", "g", "end", "home"):
            await pilot.press(key)
        assert table.chosen.name == "brisk-otter"
        await pilot.press("s")
        await shows(pilot, "by name")
        await pilot.press("a")
        await until(pilot, lambda: "broken-crow" not in screen(pilot))
        await pilot.press("a")
        await shows(pilot, "broken-crow")
        await pilot.press("t", "question_mark")
        await shows(pilot, "quit; the runs go on")
        await pilot.press("escape")
        await shows(pilot, "alive")

    drive(act, ended=200)


def test_a_run_from_nearby(hub, make):
    """Enter opens a run: lines that follow and can be searched, bars, processes, config; a change shows soon."""

    async def act(pilot):
        await shows(pilot, "brisk-otter")
        await pilot.press("enter")
        await shows(pilot, "● running", "[red]said[/] line 59")
        assert isinstance(pilot.app.screen, RunScreen)
        make.facts("r1", Event("r1", BORN + 999 * SECOND, "log", 40, "just now"))
        hub.tell(wire.Change(events=["r1"]))
        await shows(pilot, "just now")
        view = pilot.app.screen.query_one(LogView)
        await pilot.press("g")
        await until(pilot, lambda: not view.is_following and "line 0" in screen(pilot))
        await pilot.press("G", "slash", *"LINE 7")
        await until(pilot, lambda: "line 59" not in screen(pilot) and "line 7" in screen(pilot))
        await pilot.press("enter", "escape", "2")
        await shows(pilot, "epoch")
        await pilot.press("3")
        await shows(pilot, "PROCESS", "● main", "66%")
        await pilot.press("4")
        await shows(pilot, "config", "lr", "0.1", "best")
        await pilot.press("1", "escape")
        await shows(pilot, "broken-crow")

    drive(act, ended=200)


def test_a_run_that_is_being_closed(hub):
    """What the feed has read while the screen of a run goes away is left, and the program goes on."""

    async def act(pilot):
        await shows(pilot, "brisk-otter")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen) and pilot.app.screen._is_laid_out)
        await pilot.app.screen.remove_children()
        before = pilot.app.feed.looks
        await until(pilot, lambda: pilot.app.feed.looks > before + 2)

    drive(act)


def test_filters_and_mistakes(hub):
    """What is typed narrows the table at once; a mistake is named, and the table stays as it was."""

    async def act(pilot):
        await shows(pilot, "brisk-otter", "broken-crow")
        await pilot.press("slash", *"crow")
        await until(pilot, lambda: "brisk-otter" not in screen(pilot))
        await pilot.press(*("backspace",) * 4, *"state = ")
        await shows(pilot, "expected a value at the end of 'state = '")
        await pilot.press("escape", "slash", *"nobody", "enter")
        await shows(pilot, "No run matches the filter")

    drive(act, ended=200)


def test_the_metric_and_the_newest_points_of_the_hub(hub):
    """M offers the series of a run; of the one that is taken the newest point is shown, though only the hub has it."""
    hub.answers[wire.AskLatest] = lambda _: wire.Latest([wire.Newest("r1", "accuracy", {}, BORN + 99 * SECOND, 0.75)])

    async def act(pilot):
        await shows(pilot, "brisk-otter", "loss")
        await pilot.press("m")
        await shows(pilot, "accuracy")
        await pilot.press("k", "enter")
        await until(pilot, lambda: re.search(r"brisk-otter.*accuracy.* 0\.75 ", screen(pilot)))
        await pilot.press("m", "escape")

    drive(act)


def test_stopping_asks_first(hub):
    """X asks; n leaves the run alone, y has it told to stop; of one that has ended there is nothing to stop."""

    async def act(pilot):
        await shows(pilot, "brisk-otter")
        await pilot.press("x")
        await shows(pilot, "stop brisk-otter?  y/n")
        await pilot.press("n")
        await until(pilot, lambda: "y/n" not in screen(pilot))
        await pilot.press("j")
        assert pilot.app.main.query_one(RunTable).chosen.name == "broken-crow"
        await pilot.press("x")
        await said(pilot, "broken-crow has ended already")
        assert not orders()
        await pilot.press("k", "x")
        await shows(pilot, "stop brisk-otter?")
        await pilot.press("y")
        await said(pilot, "brisk-otter was told to stop")
        assert [(one.to, one.verb) for one in orders()] == [("r1", "stop")]
        hub.answers[wire.Order] = lambda _: wire.Done(0)
        await pilot.press("x")
        await shows(pilot, "stop brisk-otter?")
        await pilot.press("y")
        await said(pilot, "no living process of run r1 is known here")

    async def said(pilot, text):
        await until(pilot, lambda: any(text in note.message for note in pilot.app._notifications))

    def orders():
        return [asked.command for asked in hub.asked if isinstance(asked, wire.Order)]

    drive(act, ended=200)


def test_a_feed_says_what_is_wrong_and_goes_on(home, make):
    """When the hub leaves the look says so, and another is started; what is asked for is seen at once, mistakes too."""
    looks = []
    hub = ToldHub(home)
    feed = Feed(HomeAccess(home), looks.append, options=Options(run="r1"), interval_s=0.3)
    feed.start()

    def until_look(holds):
        _eventually(lambda: any(map(holds, looks)))
        looks.clear()

    until_look(lambda look: look.overview is not None and look.closeup is not None and not look.trouble)
    feed.ask(run="nobody")
    until_look(lambda look: "nobody" in look.mistake)
    feed.ask(run="", where="state =")
    until_look(lambda look: "expected a value" in look.mistake and look.overview is not None)
    feed.ask(where="")
    hub.close()
    until_look(lambda look: look.trouble == LEFT)
    until_look(lambda look: not look.trouble)  # it has started another: a run lives
    assert home.hub_pid() is not None
    feed.close()


def test_a_feed_goes_on_with_a_store_that_was_put_in_the_place_of_another(home, make, tmp_path):
    """Where a home was moved away and a backup restored, what is there now is shown, with lines of lower numbers."""
    looks = []
    hub = ToldHub(home)
    feed = Feed(HomeAccess(home), looks.append, options=Options(run="r1"), interval_s=0.1)
    feed.start()

    def has_shown(name, line):
        near = [(look.overview.runs, look.closeup.events) for look in looks if look.overview and look.closeup]
        return any(
            name in [run.name for run in runs] and line in [event.text for event in events] for runs, events in near
        )

    _eventually(lambda: has_shown("brisk-otter", "[red]said[/] line 59"))
    for beside in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.rename(home.store + beside, str(tmp_path / f"moved{beside}"))
    with contextlib.closing(SqliteStore(home.store)) as store:
        restored = Maker(store)
        restored.run("r1", "restored", "running", heard_t=FOR_EVER)
        restored.events("r1", "line 0")
    _eventually(lambda: has_shown("restored", "line 0"))
    feed.close()
    hub.close()


def _eventually(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
