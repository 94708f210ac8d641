"""The page in a real browser, on what the real client has written."""

import json
import re
import shutil
import time
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.conftest import begin_hub
from tests.journeys.browser import HOSTILE, PATIENCE_MS, Site, copied, launched, made_by, shown, why_not
from tests.journeys.conftest import eventually, read_runs
from tests.rooms.conftest import call
from vedette import tokens
from vedette.model import LANE_FACTS, LANE_SAMPLES, Event, Origin, Span
from vedette.store import Batch, Block
from vedette.store.sqlite import SqliteStore
from vedette.views.web.pages import PAGES

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"NO BROWSER WAS DRIVEN: {why_not()}")

_TRAIN = """
    import logging, math, sys, vedette
    logging.basicConfig(level=logging.INFO)
    for number in range(3):
        run = vedette.init(project="cifar", name=f"train-{number}", console=False, tags=["numpy"],
                           config={"lr": 10.0 ** -number, "model": {"depth": 18 + number}, "shift": -0.5,
                                   "seed": 20240115 + number, "tiny": 1 + number * 1e-15}, notes="the first")
        for step in vedette.track(range(200), "training"):
            loss = math.exp(-step / 50) if step != 120 else math.nan
            run.log({"train/loss": loss, "train/accuracy": 1 - math.exp(-step / 50), "lr": 0.1}, step=step)
            if step % 50 == 0:
                run.mark(f"at {step}")
                logging.info("step %d is done", step)
        logging.warning("a warning to be found")
        run.finish()
"""
_FAIL = """
    import vedette
    run = vedette.init(project="cifar", name="broken", console=False)
    run.log({"loss": 1.0}, step=0)
    raise RuntimeError("the data is not there")
"""
_LIVE = """
    import itertools, sys, time, vedette
    run = vedette.init(project="cifar", name="alive", console=False)
    for step in vedette.track(range(100_000), "training"):
        run.log({"loss": 1 / (step + 1)}, step=step)
        print("said", step)
        time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def made():
    with made_by(_TRAIN, _FAIL) as home:
        assert sorted(run.state for run in read_runs(home, fresh=False)) == ["done", "done", "done", "failed"]
        yield home


@pytest.fixture(scope="module")
def shared(made, chromium):
    with copied(made) as home, shown(home, chromium) as site:
        yield site


@pytest.fixture
def site(shared):
    """Four runs, and a browser: for tests that look, and change nothing."""
    with shared.looked_at():
        yield shared


@pytest.fixture
def own(home, made, chromium):
    """The same in a home of the test's own, with a hub: for tests that change something."""
    shutil.copytree(made.asked, home.asked, dirs_exist_ok=True)
    begin_hub(home)
    with shown(home, chromium) as site:
        yield site


def _row(page: Any, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def _ended(page: Any, site: Site) -> None:
    page.wait_for_timeout(100)
    assert site.wrong == []


def test_every_page_is_shown(site):
    """Each address of the page has its heading, and no errors; no request leaves this machine."""
    page = site.open()
    for path in PAGES:
        filled = path.format(run="train-1", tab="logs")
        page.goto(f"{site.base}{filled}?runs=train-0,train-1&a=train-0&b=train-1")
        page.locator("main h1").filter(has_text=re.compile(".")).wait_for()
        _ended(page, site)


def test_all_runs_are_listed_with_how_they_ended(site):
    """Runs are there with state, cause, progress and metric, and a condition or a column changes what is shown."""
    page = site.open()
    _row(page, "train-0").wait_for()
    assert "RuntimeError: the data is not there" in _row(page, "broken").inner_text()
    assert "100%" in _row(page, "train-1").inner_text()
    page.get_by_label("Query").fill("config.lr < 0.5")
    page.get_by_role("status").filter(has_text="2 runs").wait_for()
    assert "where=" in page.url
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("Search columns").fill("config.lr")
    page.get_by_role("checkbox", name="config.lr").check()
    page.get_by_role("columnheader", name="lr").wait_for()
    eventually(lambda: "0.01" in _row(page, "train-2").inner_text(), 60)
    page.keyboard.press("Escape")
    page.get_by_label("Group by").select_option("config.lr")
    eventually(lambda: "group=config.lr" in page.url, 60)
    page.reload()
    _row(page, "train-2").wait_for()
    assert page.get_by_label("Query").input_value() == "config.lr < 0.5"
    page.get_by_role("button", name="Name").click()  # within the groups
    eventually(lambda: "sort=name" in page.url and "group=config.lr" in page.url, 60)
    _ended(page, site)


def test_a_condition_that_cannot_be_read_is_answered_with_a_sentence(site):
    """What is wrong with a query stands below it, and what was shown stays."""
    page = site.open()
    _row(page, "train-0").wait_for()
    page.get_by_label("Query").fill("config.lr >")
    page.get_by_role("alert").filter(has_text=re.compile("expected|value|end", re.IGNORECASE)).wait_for()
    assert _row(page, "train-0").is_visible()
    assert all("400" in word for word in site.wrong)  # the browser itself notes the refused request


def test_keys_do_what_help_says(own):
    """Runs are walked, selected, starred, compared and opened without a mouse."""
    page = own.open()
    _row(page, "train-0").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("compare what is selected").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press(" ")
    page.get_by_text("2 selected").wait_for()
    page.keyboard.press("s")
    page.get_by_role("button", name=re.compile("^Star "), pressed=True).nth(1).wait_for()
    page.keyboard.press("c")
    page.wait_for_url(re.compile("/compare"))
    page.go_back()
    _row(page, "train-0").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("name = train-1")
    page.get_by_role("status").filter(has_text=re.compile("^1 run$")).wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="train-1").wait_for()
    _ended(page, own)


def test_enter_and_space_press_what_has_the_focus(site):
    """Enter and Space are for the button, link or box that has the focus; after a step of j they are for the row."""
    page = site.open()
    _row(page, "train-1").get_by_role("checkbox").focus()
    page.keyboard.press(" ")
    page.get_by_text("1 selected").wait_for()
    page.get_by_role("button", name="Help and keys").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.get_by_role("button", name="Select none").focus()
    page.keyboard.press("Enter")
    page.get_by_text("1 selected").wait_for(state="detached")
    _row(page, "train-0").get_by_role("link", name="train-0").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="train-0").wait_for()
    page.go_back()
    _row(page, "train-2").get_by_role("checkbox").click()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="train-1").wait_for()
    _ended(page, site)


def test_the_list_is_found_as_it_was_left(site):
    """Who comes back from a run finds scroll, cursor and selection; what was typed last is not put onto the run."""
    page = site.open(height=200)
    _row(page, "train-2").get_by_role("checkbox").click()
    page.get_by_text("1 selected").wait_for()
    grid = page.get_by_role("grid")
    grid.evaluate(  # the page learns of it by the event, in the next frame
        """view => new Promise((done) => {
            view.addEventListener("scroll", () => setTimeout(done), {once: true});
            view.scrollTop = 30;
        })"""
    )
    assert grid.evaluate("view => view.scrollTop") == 30
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="train-2").wait_for()
    page.go_back()
    page.get_by_text("1 selected").wait_for()
    eventually(lambda: grid.evaluate("view => view.scrollTop") == 30, 60)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="train-2").wait_for()
    page.goto(site.base)
    _row(page, "train-2").wait_for()
    page.evaluate(
        """() => {
            const box = document.querySelector("[aria-label=Query]");
            box.value = "name = nobody";
            box.dispatchEvent(new Event("input", {bubbles: true}));
            document.querySelector("a.name").click();
            return new Promise((done) => setTimeout(done, 2000));  // set later, and longer, than that of the box
        }"""
    )
    assert "/run/" in page.url
    assert "where=" not in page.url
    _ended(page, site)


def test_values_are_shown_as_they_were_given(site):
    """Whole numbers are whole, a minus can be copied, and what differs never looks alike, on every page."""
    page = site.open("/run/train-1/config")
    page.get_by_role("row", name="seed 20240116").wait_for()
    page.get_by_role("row", name="shift -0.5").wait_for()
    page.goto(f"{site.base}/?columns=config.seed&group=config.seed")
    _row(page, "train-2").wait_for()
    assert "20240117" in _row(page, "train-2").inner_text()
    assert "none" in _row(page, "broken").inner_text()
    assert "null" not in _row(page, "broken").inner_text()
    page.goto(f"{site.base}/compare?runs=train-0,train-1&view=config")
    page.get_by_role("row", name="seed 20240115 20240116").wait_for()
    page.goto(f"{site.base}/explain?a=train-0&b=train-1")
    config = page.get_by_role("region", name="Config")
    config.get_by_role("row", name="seed 20240115 20240116").wait_for()
    config.get_by_role("row", name="tiny 1 1.000000000000001").wait_for()
    _ended(page, site)


_PARTS = re.compile("/api/.*(series|usage|density|logs)")  # of a run's overview


def _shared(page):
    """Press Share; return the dialog when it has a link."""
    page.get_by_role("button", name="Share").click()
    dialog = page.get_by_role("dialog", name="Share a read-only link")
    dialog.get_by_text(re.compile("^until 20")).wait_for()
    return dialog


def test_a_view_is_shared_by_a_link_that_only_reads(site):
    """Share says what a link shows and for how long; who opens it sees that, and nothing that leads elsewhere."""
    page = site.open("/run/train-1/logs?level=warning")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    dialog = _shared(page)
    dialog.get_by_text("can read the run train-1: charts").wait_for()
    dialog.get_by_label("Valid for").select_option("1 day")
    tomorrow = time.strftime("until %Y-%m-%d", time.localtime(time.time() + 86400))
    dialog.get_by_text(tomorrow).wait_for()
    dialog.get_by_role("button", name="Copy link").click()
    dialog.get_by_role("button", name="Copied").wait_for()
    url = page.evaluate("navigator.clipboard.readText()")
    assert url == page.get_by_label("Link to share").input_value()
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="detached")
    context = page.context.browser.new_context()
    other = context.new_page()
    other.goto(url)
    strip = other.get_by_text("Shared with you, to read:")
    strip.get_by_role("link", name="the run train-1").wait_for()
    strip.get_by_text(tomorrow).wait_for()
    other.get_by_role("log").get_by_text("a warning to be found").wait_for()
    assert "level=warning" in other.url
    assert other.get_by_role("button", name="Share").count() == 0
    assert other.get_by_role("link", name="Runs", exact=True).count() == 0
    assert {urlsplit(link.get_attribute("href")).path for link in other.get_by_role("link").all()} <= {
        "/run/train-1", urlsplit(other.url).path, strip.get_by_role("link").get_attribute("href"), "",
    }  # fmt: skip
    other.goto(f"{site.base}/run/train-2")
    other.get_by_text("This is not among what was shared, or was removed since.").wait_for()
    other.get_by_role("link", name="What was shared", exact=True).click()
    other.get_by_role("heading", name="train-1").wait_for()
    context.close()
    _ended(page, site)


def test_who_was_given_some_runs_finds_these(site):
    """A link to a comparison leads to those runs, their list and why they differ; a filter is said as it is."""
    page = site.open("/compare?runs=train-0,train-1&view=config")
    url = _shared(page).get_by_label("Link to share").input_value()
    page.get_by_text("can read 2 runs").wait_for()
    context = page.context.browser.new_context()
    other = context.new_page()
    other.goto(url)
    other.get_by_role("row", name="seed 20240115 20240116").wait_for()
    other.get_by_role("link", name="Explain").click()
    other.get_by_role("region", name="Config").wait_for()
    other.get_by_role("link", name="Runs", exact=True).click()
    other.get_by_role("status").filter(has_text=re.compile("^2 runs$")).wait_for()
    _row(other, "train-0").get_by_role("link").first.click()
    other.get_by_role("heading", name="train-0").wait_for()
    context.close()
    page.goto(f"{site.base}/?where=config.lr")
    page.get_by_role("button", name="Share").click()
    page.get_by_text("can read all runs that match config.lr, also later ones").wait_for()
    _ended(page, site)


def test_a_page_whose_token_is_over_says_so(made, chromium):
    """When a link has expired the page says so; when the token is replaced open pages say what to do, and stand still.

    What had no time to be loaded says that.
    """
    with copied(made) as home, shown(home, chromium) as site:
        page = site.open("/run/train-1")
        page.get_by_role("heading", name="train-1").wait_for()
        brief, long = (
            page.evaluate(
                "hours => fetch('/api/share', {method: 'POST', headers: {'content-type': 'application/json'}, body:"
                " JSON.stringify({path: '/run/train-1', hours})}).then(r => r.json()).then(made => made.url)",
                hours,
            )
            for hours in (4 / 3600, 1)
        )
        other = page.context.browser.new_context().new_page()
        other.goto(brief)
        other.get_by_text("This link has expired").first.wait_for(timeout=PATIENCE_MS)
        slow = page.context.browser.new_context().new_page()
        slow.route(_PARTS, lambda _: None)
        slow.goto(long)
        slow.get_by_role("heading", name="train-1").wait_for(timeout=PATIENCE_MS)
        tokens.renew(home)
        page.get_by_text("This page's token was replaced: open it again with vedette ui").wait_for()
        slow.get_by_text("This link was withdrawn: ask for a new one.").wait_for(timeout=PATIENCE_MS)
        slow.unroute(_PARTS)  # what was held goes on
        slow.get_by_text("This was not loaded before the page ended.").nth(3).wait_for(timeout=PATIENCE_MS)
        for over, why in ((page, "This page's token was replaced"), (slow, "This link was withdrawn")):
            over.get_by_role("alert").get_by_text(re.compile(r"Everything here is as of .*\d\d:\d\d\.$")).wait_for()
            assert over.locator("#main.past").count() == 1
            over.reload()
            over.get_by_role("heading", name=why).wait_for(timeout=PATIENCE_MS)
        assert page.get_by_text("not connected").count() == 0
        assert {word for word in site.wrong if "401" not in word} == set()


def test_the_project_that_was_asked_for_is_shown(hub, home, finish, chromium):
    """`vedette ui --project` opens the list of that project alone, whatever its name is made of."""
    for project in ("a & b/c", "other"):
        code = f"import vedette; vedette.init(project={project!r}, name={project!r}, console=False).finish()"
        assert finish(code)[0] == 0
    eventually(lambda: len([run for run in read_runs(home) if run.state == "done"]) == 2, 60)
    with shown(home, chromium, "--project", "a & b/c") as site:
        page = site.open()
        page.get_by_role("status").filter(has_text=re.compile("^1 run$")).wait_for()
        _row(page, "a & b/c").wait_for()
        _ended(page, site)
    refused = call("ui", "--no-browser", "--port", "0", "--project", "othr", home=home.asked)
    assert (refused.returncode != 0, refused.stdout) == (True, "")
    assert refused.stderr == "vedette: no run has the project 'othr'; did you mean other?\n"


def test_a_refused_run_does_not_keep_others_from_going(own, start):
    """Of several that are deleted, one that may not go is named, and Undo is for those that went."""
    start(_LIVE)
    page = own.open()
    for name in ("alive", "train-0", "train-1"):
        _row(page, name).get_by_role("checkbox").click()
    page.get_by_role("toolbar").get_by_role("button", name="Delete").click()
    page.get_by_text("Not deleted: alive.").wait_for()
    _row(page, "train-0").wait_for(state="detached")
    _row(page, "train-1").wait_for(state="detached")
    page.get_by_role("button", name="Undo").click()
    _row(page, "train-0").wait_for()
    _row(page, "train-1").wait_for()
    assert all("409" in word or "400" in word for word in own.wrong), own.wrong


def test_a_deleted_run_comes_back_by_undo(own):
    """Deleting hides a run at once, and undo brings it back."""
    page = own.open()
    _row(page, "train-0").get_by_role("checkbox").check()
    page.get_by_role("toolbar").get_by_role("button", name="Delete").click()
    _row(page, "train-0").wait_for(state="detached")
    page.get_by_role("button", name="Undo").click()
    _row(page, "train-0").wait_for()
    _ended(page, own)


def test_what_a_person_says_of_a_run_is_kept(own):
    """Name, tags and notes are changed in a form; what was left as it was stays."""
    page = own.open("/run/train-1")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Name", exact=True).fill("renamed")
    page.get_by_label("Tags").fill("good, better")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="renamed").wait_for()
    page.get_by_role("link", name="better").wait_for()
    assert page.get_by_role("link", name="numpy").count() == 0
    assert page.get_by_label("Name", exact=True).count() == 0
    page.get_by_text("the first").wait_for()
    _ended(page, own)


def test_each_part_of_a_run_is_shown(site):
    """Every tab of a run shows what was recorded, at an address of its own."""
    page = site.open("/run/train-1")
    page.get_by_role("heading", name="train-1").wait_for()
    page.get_by_role("img", name="Metrics over time").locator("canvas").wait_for()
    page.get_by_text("a warning to be found").wait_for()
    tabs = {
        "charts": lambda: page.get_by_role("img", name="train/loss by step").locator("canvas").wait_for(),
        "usage": page.get_by_text(re.compile("Processes|Nothing was measured")).first.wait_for,
        "logs": lambda: page.get_by_role("log").get_by_text("step 150 is done").wait_for(),
        "config": lambda: page.get_by_role("row", name="model.depth 19").wait_for(),
        "code": page.get_by_role("tabpanel").locator("h2").first.wait_for,
        "files": lambda: page.get_by_role("tabpanel", name="files").wait_for(),
        "processes": page.get_by_role("cell", name=re.compile("main")).first.wait_for,
    }
    for tab, seen in tabs.items():
        page.get_by_role("tab", name=re.compile(tab, re.IGNORECASE)).click()
        seen()
        assert page.url.endswith(f"/{tab}")
    _ended(page, site)


def test_brushing_selects_the_lines_of_that_moment(site):
    """Dragging over the axis of time shows the lines of that part, and the address holds it."""
    page = site.open("/run/train-1")
    plot = page.get_by_role("img", name="Metrics over time").locator(".u-over")

    def brushed():  # the plot moves, and is made anew, while more of the run comes
        if box := plot.bounding_box():
            page.mouse.move(box["x"] + 2, box["y"] + 20)
            page.mouse.down()
            page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20, steps=4)
            page.mouse.up()
            page.wait_for_timeout(300)
        return re.search("from=.*to=", page.url)

    eventually(brushed, 60)
    page.get_by_role("button", name="clear").wait_for()
    page.get_by_text("step 50 is done").wait_for()
    page.keyboard.press("Escape")
    page.get_by_text("Last lines").wait_for()
    _ended(page, site)


def test_lines_are_searched(site):
    """The log shows the lines that fit a word or a level alone."""
    page = site.open("/run/train-1/logs")
    page.get_by_role("log").get_by_text("step 0 is done").wait_for()
    page.get_by_label("Level").select_option("warning")
    page.get_by_role("log").get_by_text("step 0 is done").wait_for(state="detached")
    page.get_by_role("log").get_by_text("a warning to be found").wait_for()
    page.get_by_label("Search lines").fill("nothing like this")
    page.get_by_text("No line fits.").wait_for()
    _ended(page, site)


@pytest.fixture
def crowd(home, chromium):
    """A run that failed: two processes that spoke in turns, eight ranks, and much that does not fit on a screen."""
    home.prepare()
    store, second = SqliteStore(home.store), 10**9
    born = 1_790_000_000 * second
    facts = [
        Span("many", born, "created", kind="run", name="many"),
        Span("many/1", born, "done", kind="try", parent="many", attrs={"n": 1}),
        Span("many", born + 100 * second, "failed", cause="RuntimeError: the last straw"),
    ]
    who = {pid: Origin(f"o{pid}", host="camp", pid=pid, span="many", process=f"many/1/o{pid}") for pid in (11, 12)}
    for pid in who:
        process = {"pid": pid, "host": "camp"}
        facts.append(Span(f"many/1/o{pid}", born, "done", kind="process", parent="many/1", name="w", attrs=process))
        facts.append(Span(f"many/1/pid-{pid}-5", born, "done", kind="process", parent="many/1", attrs=process))
    store.keep([Batch(who[11], LANE_FACTS, len(facts), facts=list(enumerate(facts, 1)))])
    for first in range(0, 3000, 60):  # in each turn of the hub, what one has said comes before what the other has said
        for pid, origin in who.items():
            lines = range(first + pid - 11, first + 60, 2)
            said = [(1000 + n, Event("many", born + n * second // 100, "output", 20, f"line {n}")) for n in lines]
            store.keep([Batch(origin, LANE_FACTS, 1060 + first, facts=said)])
    trace = "Traceback\n" + "".join(f"  frame {n}\n" for n in range(60)) + "RuntimeError: the last straw"
    last_words = Event("many", born + 99 * second, "exception", 40, trace)
    store.keep([Batch(who[12], LANE_FACTS, 9000, facts=[(9000, last_words)])])
    step = np.arange(5)
    for rank in range(8):
        who = Origin(f"r{rank}", span="many", process=f"many/1/r{rank}")
        block = Block(
            "many", {"rank": str(rank)}, ("loss",), step + 1, born + step * second, step, (step + 1.0 * rank,)
        )
        last = Block("many", {}, ("once",), step[:1] + 9, step[:1] + born, step[:1], (np.ones(1),))
        store.keep([Batch(who, LANE_SAMPLES, 9, columns=[block, *([last] if rank == 0 else [])])])
    store.close()
    with shown(home, chromium) as site:
        yield site


def test_lines_open_at_their_end_in_the_order_of_time(crowd):
    """Logs open at the last line, inside the window, and follow; lines of processes that took turns are in order."""
    page = crowd.open("/run/many/logs", height=700)
    view = page.get_by_role("log")
    page.get_by_text("RuntimeError: the last straw").last.wait_for()
    page.wait_for_timeout(300)  # whatever scrolls by itself has done so
    assert page.get_by_role("button", name="To the end").get_attribute("aria-pressed") == "true"
    at = view.evaluate("e => [e.scrollTop + e.clientHeight, e.scrollHeight, e.getBoundingClientRect().bottom]")
    assert at[0] >= at[1] - 1
    assert at[2] <= 700
    end = page.get_by_text("RuntimeError: the last straw").last.bounding_box()
    assert end["y"] + end["height"] <= at[2]
    view.evaluate("e => (e.scrollTop = e.scrollHeight - e.clientHeight - 62 * 19)")
    page.get_by_text("line 2970", exact=True).wait_for()
    said = [int(text.split()[1]) for text in view.get_by_text(re.compile("^line ")).all_text_contents()]
    assert said == list(range(said[0], 3000))
    assert page.get_by_role("button", name="To the end").get_attribute("aria-pressed") == "false"
    _ended(page, crowd)


def test_the_overview_says_what_it_leaves_out(crowd):
    """Metrics and ranks that are not drawn are named; the traceback is in sight; each process counts once."""
    page = crowd.open("/run/many")
    page.get_by_text("Not drawn here: 1 with one point (once); 7 of 8 series of loss by rank.").wait_for()
    assert page.get_by_role("tab", name=re.compile("processes")).inner_text().lower().split() == ["processes", "2"]
    last = page.get_by_text("RuntimeError: the last straw").last
    last.scroll_into_view_if_needed()
    in_sight = "e => { const a = e.getBoundingClientRect(), b = e.closest('.lines').getBoundingClientRect();"
    assert last.evaluate(f"{in_sight} return a.bottom <= b.bottom + 1 && a.bottom > b.top; }}")
    _ended(page, crowd)


def test_what_is_typed_before_the_list_is_there_goes_nowhere_else(crowd):
    """`/` on a list that was just loaded leads to the query; keys typed before there are rows change nothing."""
    page = crowd.open()
    page.get_by_role("link", name="many").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("state = failed")
    assert page.get_by_label("Query").input_value() == "state = failed"
    asked, held = [], []
    page.route("**/api/runs?*", lambda route: held.append(route))  # noqa: PLW0108 - it must be a function
    page.on("request", lambda request: asked.append(request.url))
    page.goto(crowd.base + "/")
    eventually(lambda: page.wait_for_timeout(20) or held, 60)
    page.get_by_label("Query").wait_for()
    before = page.get_by_label(re.compile("^Theme")).get_attribute("aria-label")
    page.keyboard.type("st#")
    page.keyboard.press("/")
    page.keyboard.type("many")
    assert page.get_by_label("Query").input_value() == "many"
    for route in held:
        route.continue_()
    page.unroute("**/api/runs?*")
    page.get_by_role("link", name="many").wait_for()
    assert page.get_by_label(re.compile("^Theme")).get_attribute("aria-label") == before
    assert not [url for url in asked if url.endswith("/edit")]
    assert page.get_by_role("button", name="Star many").get_attribute("aria-pressed") == "false"
    _ended(page, crowd)


def test_what_happens_is_seen_without_a_reload(own, start):
    """A run that begins appears by itself; its lines, points and bar move on, and stopping it is seen."""
    page = own.open()
    _row(page, "train-0").wait_for()
    page.evaluate("window.kept = true")
    start(_LIVE)
    _row(page, "alive").wait_for()
    value = _row(page, "alive").inner_text()
    eventually(lambda: _row(page, "alive").inner_text() != value, 60)
    _row(page, "alive").get_by_role("link", name="alive").click()
    page.get_by_role("tab", name=re.compile("logs", re.IGNORECASE)).click()
    lines = page.get_by_role("log")
    lines.get_by_text(re.compile("said")).first.wait_for()
    newest = lines.inner_text().splitlines()[-1]
    eventually(lambda: lines.inner_text().splitlines()[-1] != newest, 60)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Delete").wait_for()
    assert page.evaluate("window.kept") is True
    _ended(page, own)


def test_a_late_answer_is_not_taken_for_a_newer_question(site):
    """Lines that were searched for before come too late, and are not shown among those that are searched for now."""
    page = site.open("/run/train-1/logs")
    lines = page.get_by_role("log")
    lines.get_by_text("step 0 is done").wait_for()
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route(re.compile("/logs.*grep=step"), hold)
    page.get_by_label("Search lines").fill("step")
    eventually(lambda: page.wait_for_timeout(50) or held, 60)
    page.get_by_label("Search lines").fill("warning")
    lines.get_by_text("step 0 is done").wait_for(state="detached")
    with page.expect_response(re.compile("grep=step")):
        held[0].continue_()
    page.evaluate("new Promise((done) => setTimeout(done))")
    assert "a warning to be found" in lines.inner_text()
    assert "step 0 is done" not in lines.inner_text()
    _ended(page, site)


def test_a_page_that_nobody_sees_does_not_listen(own, start):
    """A hidden tab lets its connection go, and catches up when it is looked at again."""
    page = own.open()
    _row(page, "train-0").wait_for()
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => window.away})")
    with page.expect_event("requestfailed", lambda request: "/api/live" in request.url):
        page.evaluate("window.away = true; document.dispatchEvent(new Event('visibilitychange'))")
    start(_LIVE)
    with page.expect_request(re.compile("/api/live")):
        page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    _row(page, "alive").wait_for()
    _ended(page, own)


def test_what_could_not_be_loaded_at_first_is_followed_all_the_same(home, own, start):
    """A run that came at the second try goes on by itself like any other."""
    start(_LIVE)
    eventually(lambda: any(run.name == "alive" for run in read_runs(home)), 60)
    page = own.open()
    address = re.compile("/api/runs/alive$")
    page.route(address, lambda route: route.fulfill(status=503, json={"error": "not just now"}))
    page.goto(f"{own.base}/run/alive")
    again = page.get_by_role("button", name="Try again")
    again.wait_for()
    page.unroute(address)
    again.click()
    page.get_by_role("heading", name="alive").wait_for()
    lines = page.locator(".moment .lines")
    lines.get_by_text(re.compile("said")).first.wait_for()
    newest = lines.inner_text().splitlines()[-1]
    eventually(lambda: lines.inner_text().splitlines()[-1] != newest, 60)
    assert all("503" in word for word in own.wrong)


def test_nothing_is_wider_than_the_window(site):
    """At the width of a phone too, no page has to be moved sideways, and all controls have names."""
    parts = ("", "/charts", "/logs", "/config", "/code", "/files")
    page = site.open(scheme="dark")
    for path in ("/", *(f"/run/train-1{part}" for part in parts)):
        page.goto(site.base + path)
        page.wait_for_selector("main a, main h1, main input")
        for width in (390, 900, 1440):
            page.set_viewport_size({"width": width, "height": 800})
            page.wait_for_timeout(300)
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{path} at {width}"
            nameless = page.evaluate(
                """() => [...document.querySelectorAll('button, a, input, select, textarea')].filter(
                    (one) => !(one.innerText || '').trim() && !one.getAttribute('aria-label') && !one.title
                             && !one.closest('label')).map((one) => one.outerHTML)"""
            )
            assert nameless == []
    assert site.wrong == []


_HOSTILE = (
    *HOSTILE,
    "{@html '<img src=x onerror=window.hit=1>'}",
    "\x1b]8;;javascript:window.hit=1\x07link\x1b]8;;\x07",
)
_HOSTILE_RUN = """
    import json, logging, sys, vedette
    texts = json.loads(sys.argv[1])
    for number, text in enumerate(texts):
        vedette.init(project=text, experiment=text, name=f"{number} {text}"[:100], console=False, notes=text,
                     config={"plain": text}).finish()
    run = vedette.init(project=texts[0], name=texts[1], console=False, tags=[text[:60] for text in texts],
                       config={text: text for text in texts})
    for text in texts:
        for step in vedette.track(range(3), text):
            run.log({text[:80]: step, "x/" + text[:60]: step}, step=step)
        run.mark(text)
        run.summary[text] = text
        print(text)
        logging.getLogger(text).error(text)
    raise RuntimeError(texts[1])
"""


def test_no_text_of_a_run_is_ever_run(hub, home, finish, chromium):
    """Markup and scripts in every text of a run are shown as they are, and none is executed."""
    finish(_HOSTILE_RUN, json.dumps(_HOSTILE))
    count = len(_HOSTILE) + 1
    runs = eventually(
        lambda: [one for one in found if one.state != "running"] if len(found := read_runs(home)) == count else [], 30
    )
    assert [run.state for run in runs].count("failed") == 1  # its tabs are walked
    with shown(home, chromium) as site:
        page = site.open("/?columns=config.plain&group=project")
        page.get_by_text(f"{count} runs").wait_for()
        assert page.evaluate("window.hit") is None
        for run in runs:
            page.goto(f"{site.base}/run/{run.id}")
            page.get_by_role("tabpanel").wait_for()
            assert page.evaluate("window.hit") is None, run.name
            for tab in page.get_by_role("tab").all() if run.state == "failed" else ():
                tab.click()
                page.get_by_role("tabpanel").wait_for()
                page.wait_for_timeout(150)
                assert page.evaluate("window.hit") is None, (run.name, tab.inner_text())
        page.goto(f"{site.base}/?where={_HOSTILE[1]}")
        page.get_by_role("alert").filter(has_text=re.compile(".")).wait_for()
        assert page.evaluate("window.hit") is None
        assert [word for word in site.wrong if "400" not in word] == []


def test_the_browser_would_have_told(home, chromium):
    """The checks above catch a page that takes text for markup, and one that asks another host for something."""
    with shown(home, chromium) as site:
        page = site.open()
        page.get_by_text("No runs yet.").wait_for()
        page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", _HOSTILE[1])
        eventually(lambda: page.wait_for_timeout(50) or any("inline event handler" in word for word in site.wrong), 60)
        site.wrong.clear()
        page.evaluate("window.open('http://192.0.2.1/elsewhere')")
        page.evaluate("fetch('http://192.0.2.1/elsewhere').catch(() => 0)")
        eventually(lambda: page.wait_for_timeout(50) or any("192.0.2.1" in word for word in site.wrong), 60)


def test_a_page_for_reading_alone_offers_no_changes(made, chromium):
    """With --read-only the page has no buttons that change anything."""
    with copied(made) as home, shown(home, chromium, "--read-only") as site:
        page = site.open("/run/train-1")
        page.get_by_role("heading", name="train-1").wait_for()
        page.get_by_text("read only").wait_for()
        for name in ("Edit", "Delete", "Stop"):
            assert page.get_by_role("button", name=name, exact=True).count() == 0
        _ended(page, site)
