"""Compare and explain in a real browser, on what the real client has written."""

import csv
import html
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest

from tests import plain_means
from tests.journeys.browser import HOSTILE, launched, made_by, shown, why_not
from tests.journeys.conftest import eventually, read_runs

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"NO BROWSER WAS DRIVEN: {why_not()}")

_SWEEP = """
    import math, random, vedette
    for lr in (0.1, 0.01):
        for optimizer in ("sgd", "adam"):
            for seed in (0, 1, 2):
                run = vedette.init(project="sweep", name=f"{optimizer}-{lr}-{seed}", console=False,
                                   config={"lr": lr, "optimizer": optimizer, "seed": seed, "batch": 64,
                                           "amp": optimizer == "adam"})
                noise = random.Random(f"{lr}{optimizer}{seed}")
                for step in range(60):
                    loss = math.exp(-step * lr) + noise.gauss(0, 0.01)
                    lost = (lr, optimizer, seed) == (0.1, "adam", 1) and step > 40
                    run.log({"train/loss": math.nan if lost else loss, "val/accuracy": 1 - loss / 2}, step=step)
                run.finish()
"""
_MODEL = "def step(w, lr):\n    grad = 2 * w\n    return w - lr * grad\n"
_TRAIN = """
import sys, vedette
from model import step
lr = float(sys.argv[1])
run = vedette.init(project="pair", name=sys.argv[2], console=False, config={"lr": lr, "seed": 7})
w = 4.0
for number in range(40):
    w = step(w, lr)
    run.log({"loss": w * w}, step=number)
run.finish()
"""
_HOSTILE = (
    *HOSTILE,
    "</title></svg><script>window.hit=1</script>",
    "]]><script>window.hit=1</script>",
)
_HOSTILE_RUNS = """
    import json, sys, vedette
    for number, text in enumerate(json.loads(sys.argv[1])):
        run = vedette.init(project="hostile", name=f"{number} {text}"[:100], console=False, notes=text,
                           tags=[text[:60]], config={
                               text: text, "plain": text, "odd": {text: [text, {text: text}]}, "n": number})
        for step in range(5):
            run.log({text[:80]: step * number, "loss": step * number}, step=step)
        run.finish()
"""


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def shared(chromium):
    with made_by(_SWEEP) as home, shown(home, chromium) as site:
        site.runs = [run.id for run in read_runs(home, fresh=False)]
        assert len(site.runs) == 12
        yield site


@pytest.fixture
def site(shared):
    """Twelve runs, and a browser: no test here changes anything."""
    with shared.looked_at():
        yield shared


def _open(site: Any, query: str = "", **options: Any) -> Any:
    page = site.open(f"/compare?runs={','.join(site.runs)}{query}", **options)
    page.get_by_role("heading", name="Compare").wait_for()
    return page


def _panels(page: Any, count: int) -> list[str]:
    """Return what the panels are, once there are so many."""
    eventually(lambda: page.wait_for_timeout(50) or page.locator("[data-panel]").count() == count, 60)
    return page.locator("[data-panel]").all_text_contents()


def _export(page: Any, kind: str, place: Path) -> bytes:
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name=re.compile(f"^{kind} (the|one) ")).click()
    path = place / waiting.value.suggested_filename
    waiting.value.save_as(path)
    assert path.suffix == f".{kind.lower()}"
    return path.read_bytes()


def test_curves_are_laid_out_by_what_differs(site):
    """Only what differs can be chosen; rows, columns and means change the picture, and the address restores it."""
    page = _open(site)
    assert _panels(page, 1) == ["train/loss: 12 curves"]
    offered = page.get_by_label("Columns", exact=True).locator("option").all_text_contents()
    assert {"lr", "optimizer", "seed", "amp", "run", "measurement"} <= set(offered)
    assert "batch" not in offered
    page.get_by_label("Columns", exact=True).select_option("config.optimizer")
    assert _panels(page, 2) == ["optimizer = adam: 6 curves", "optimizer = sgd: 6 curves"]
    page.get_by_label("Rows", exact=True).select_option("config.lr")
    assert _panels(page, 4)[0] == "lr = 0.01, optimizer = adam: 3 curves"
    page.get_by_label("Mean over", exact=True).select_option("config.seed")
    eventually(lambda: page.wait_for_timeout(50) or _panels(page, 4)[0].endswith(": 1 curves"), 60)
    page.get_by_label("Band", exact=True).select_option("range")
    page.get_by_label("Dash", exact=True).select_option("config.optimizer")
    page.get_by_role("button", name="log y").click()
    page.get_by_label("y from").fill("0.01")
    page.get_by_label("y from").press("Enter")
    page.get_by_label("x", exact=True).select_option("time")
    page.get_by_label("Smoothing").fill("0.5")
    page.get_by_role("button", name="train/loss").click()
    page.get_by_role("checkbox", name="val/accuracy").check()
    eventually(lambda: page.wait_for_timeout(50) or "m=train/loss,val/accuracy" in page.url, 60)
    address = page.url
    again = site.open(address.removeprefix(site.base))
    assert _panels(again, 4)[0] == "lr = 0.01, optimizer = adam: 2 curves"
    chosen = {
        name: again.get_by_label(name, exact=True).input_value() for name in ("Rows", "Columns", "Dash", "Band", "x")
    }
    assert chosen == {
        "Rows": "config.lr", "Columns": "config.optimizer", "Dash": "config.optimizer", "Band": "range", "x": "time",
    }  # fmt: skip
    assert again.get_by_role("button", name="log y").get_attribute("aria-pressed") == "true"
    assert again.get_by_label("y from").input_value() == "0.01"
    assert again.get_by_label("Smoothing").input_value() == "0.5"
    assert site.wrong == []


def test_the_legend_and_the_pointer_light_curves(site):
    """Pointing at a legend changes the picture and leaving restores it; pointing at a curve names its run."""
    page = _open(site, "&hue=config.lr")
    _panels(page, 1)
    picture = page.get_by_role("img", name="train/loss")
    above = page.locator("canvas.veil")
    assert above.is_hidden()
    blank = above.evaluate("canvas => canvas.toDataURL()")
    page.get_by_role("group", name="Legend").get_by_role("button", name="0.01").hover()
    above.wait_for(state="visible")
    eventually(lambda: page.wait_for_timeout(50) or above.evaluate("canvas => canvas.toDataURL()") != blank, 60)
    page.mouse.move(2, 2)
    above.wait_for(state="hidden")
    box = picture.bounding_box()

    def named() -> bool:
        for part in range(10, 90, 4):
            page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * part / 100)
            page.wait_for_timeout(60)
            if page.locator(".told").count():
                return "-0." in page.locator(".told").inner_text()
        return False

    eventually(named, 60)
    assert site.wrong == []


def test_the_config_table_tells_what_differs(site):
    """Equal rows can be hidden, booleans are ticks, keys are searched; all of that is in the address."""
    page = _open(site, "&view=config")
    row = page.get_by_role("row")
    row.filter(has=page.get_by_role("rowheader", name="batch", exact=True)).wait_for()
    amp = row.filter(has=page.get_by_role("rowheader", name="amp", exact=True))
    assert amp.get_by_role("img", name="true").count() == 6
    assert amp.get_by_role("img", name="false").count() == 6
    page.keyboard.press("e")
    page.get_by_role("rowheader", name="batch", exact=True).wait_for(state="detached")
    page.keyboard.press("/")
    page.keyboard.type("optim")
    page.get_by_role("rowheader", name="lr", exact=True).wait_for(state="detached")
    assert page.get_by_role("rowheader", name="optimizer", exact=True).is_visible()
    again = site.open(page.url.removeprefix(site.base))
    again.get_by_role("rowheader", name="optimizer", exact=True).wait_for()
    assert again.get_by_role("rowheader", name="batch", exact=True).count() == 0
    assert site.wrong == []


def test_any_property_against_any_other(site):
    """Scatter and parallel coordinates take keys and metrics; a run whose last value is no number has no dot."""
    page = _open(site, "&view=scatter&sy=metric.val/accuracy")
    page.get_by_role("img", name="val/accuracy against lr: 12 runs").wait_for()
    page.get_by_label("y", exact=True).select_option("metric.train/loss")
    page.get_by_role("img", name="train/loss against lr: 11 runs").wait_for()
    page.get_by_text("1 run has no place here").wait_for()
    page.keyboard.press("Tab")
    page.get_by_role("tab", name="Parallel").click()
    page.get_by_role(
        "img", name="Parallel coordinates of amp, lr, optimizer, seed, train/loss, val/accuracy: 12"
    ).wait_for()
    assert site.wrong == []


@pytest.mark.parametrize("view", ["charts", "scatter", "parallel"])
def test_pictures_are_kept_as_files(site, tmp_path, view):
    """PNG, SVG, CSV and HTML hold what is shown; the HTML has no script and asks for nothing."""
    page = _open(site, f"&view={view}&over=config.seed&hue=config.lr")
    page.get_by_role("main").get_by_role("img").first.wait_for()
    # A canvas becomes a file when the browser is idle; one that draws no frames says so after seconds alone.
    page.evaluate("(function frames() { requestAnimationFrame(frames); })()")
    assert _export(page, "PNG", tmp_path).startswith(b"\x89PNG\r\n\x1a\n")
    svg = ET.fromstring(_export(page, "SVG", tmp_path))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    assert (
        sum(1 for _ in svg.iter("{http://www.w3.org/2000/svg}path"))
        + sum(1 for _ in svg.iter("{http://www.w3.org/2000/svg}circle"))
        >= 4
    )
    rows = list(csv.DictReader(_export(page, "CSV", tmp_path).decode().splitlines()))
    if view == "charts":
        assert len(rows) == 4 * 60
        assert {row["config.lr"] for row in rows} == {"0.1", "0.01"}
        assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows)
    else:
        assert len(rows) == 12
    text = _export(page, "HTML", tmp_path).decode()
    assert "<svg" in text
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert site.wrong == []


def test_means_are_the_means(site, tmp_path):
    """The mean over seeds, and its band, are those of the points in the store."""
    page = _open(site, "&over=config.seed&hue=config.optimizer&cols=config.lr&band=range&m=val/accuracy")
    _panels(page, 2)
    rows = list(csv.DictReader(_export(page, "CSV", tmp_path).decode().splitlines()))
    of_one = [
        row for row in rows if row["config.lr"] == "0.1" and row["config.optimizer"] == "sgd" and row["step"] == "7"
    ]
    answer = page.evaluate(
        """async (runs) => Promise.all(runs.map(async (run) => {
            const body = JSON.stringify({of: [{run, name: "val/accuracy"}], x: "step", width: 800});
            const headers = {"content-type": "application/json"};
            const got = await fetch("/api/series", {method: "POST", headers, body});
            const bytes = await got.arrayBuffer();
            const size = new DataView(bytes).getUint32(0, true);
            const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, size)));
            const [at, count] = head.series[0].y;
            return new Float64Array(bytes, Math.ceil((4 + size) / 8) * 8 + at * 8, count)[7];
        }))""",
        of_one[0]["runs"].split(),
    )
    assert len(of_one) == 1
    assert len(answer) == 3
    assert float(of_one[0]["value"]) == pytest.approx(sum(answer) / 3)
    assert (float(of_one[0]["low"]), float(of_one[0]["high"])) == (min(answer), max(answer))


def test_means_of_long_runs_are_those_of_numpy(home, chromium, tmp_path):
    """Whatever else is chosen, means, bands and smoothed means are those of all points; so is the CSV of one curve."""
    home.prepare()
    value = plain_means.fill(home, "long", 6, 10_000)
    runs = [f"long{number:03d}" for number in range(6)]

    with shown(home, chromium) as site:

        def exported(query: str, chosen: list[str]) -> list[dict[str, str]]:
            page = site.open(f"/compare?runs={','.join(chosen)}&m=loss{query}")
            page.locator('[aria-busy="false"] [data-panel]').first.wait_for(state="attached")
            return list(csv.DictReader(_export(page, "CSV", tmp_path).decode().splitlines()))

        assert plain_means.worst(exported("&over=*&hue=", runs), value) < plain_means.NEAR
        assert plain_means.worst(exported("&over=*&hue=&smooth=0.9", runs), value, 0.9) < plain_means.NEAR
        halves = exported("&over=config.seed&hue=config.half", runs)
        even = [row for row in halves if row["config.half"] == "0"]
        assert plain_means.worst(even, value[::2]) < plain_means.NEAR
        alone = exported("&over=config.seed&hue=config.half", runs[::2])
        assert [row["value"] for row in alone] == [row["value"] for row in even]
        of_one = [row for row in exported("", runs) if row["runs"] == runs[3]]
        assert [float(row["value"]) for row in of_one] == pytest.approx(value[3].reshape(-1, 16).mean(axis=1).tolist())
        assert {row["points_here"] for row in of_one} == {"16"}
        assert site.wrong == []


@pytest.fixture
def pair(hub, home, chromium, tmp_path, monkeypatch):
    monkeypatch.setenv("VEDETTE_CAPTURE_ENABLE", "true")
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "train.py").write_text(_TRAIN)
    (repo / "model.py").write_text(_MODEL)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(repo)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    for count, (lr, name) in enumerate((("0.02", "first"), ("0.05", "second")), 1):
        subprocess.run([sys.executable, "train.py", lr, name], cwd=repo, check=True, timeout=120)
        # What was run is taken down beside it: the file changes only after that.
        eventually(lambda count=count: sum(1 for run in read_runs(home) if run.attrs.get("code.digest")) == count, 60)
        (repo / "model.py").write_text(_MODEL.replace("lr * grad", "lr * min(grad, 1.0)"))
    with shown(home, chromium) as found:
        yield found


def test_why_two_runs_differ(pair):
    """The changed key and the changed line are told first, the diff is there, and where the metric parted is drawn."""
    page = pair.open("/explain?a=first&b=second")
    causes = page.get_by_role("listitem").filter(has=page.locator("[data-cause]"))
    causes.first.wait_for()
    told = causes.all_inner_texts()
    assert "config.lr is 0.02 in A and 0.05 in B" in told[0]
    assert "model.py" in told[1]
    code = page.get_by_role("region", name="Code")
    assert code.locator("tr.removed").inner_text().split("\t")[-1].strip() == "return w - lr * grad"
    assert code.locator("tr.added").inner_text().split("\t")[-1].strip() == "return w - lr * min(grad, 1.0)"
    page.get_by_role("img", name="loss of both runs").locator("canvas").wait_for()
    page.get_by_text("differs from the first step on").wait_for()
    page.keyboard.press("s")
    page.get_by_text("config.lr is 0.05 in A and 0.02 in B").first.wait_for()
    assert "a=second&b=first" in page.url
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.hasAttribute('data-cause')")
    page.keyboard.press("v")
    page.get_by_role("heading", name="Compare").wait_for()
    assert pair.wrong == []


def test_too_many_runs_are_capped_with_a_sentence(site):
    """More runs than make a picture are cut with a word about it; an unknown one is a sentence, not a blank page."""
    page = site.open(f"/compare?runs={','.join(site.runs * 20)}")
    page.get_by_role("status").filter(has_text="The first 200 of 240 runs").wait_for()
    page.goto(f"{site.base}/compare?runs={site.runs[0]},nobody")
    page.get_by_role("alert").filter(has_text="nobody").wait_for()


def test_no_key_or_value_is_ever_run(hub, home, finish, chromium, tmp_path):
    """Markup and scripts in keys, values and names stay text on both pages and in every file that is exported."""
    assert finish(_HOSTILE_RUNS, json.dumps(_HOSTILE))[0] == 0
    runs = eventually(
        lambda: found if len(found := [run for run in read_runs(home) if run.state == "done"]) == len(_HOSTILE) else [],
        60,
    )
    ids = ",".join(run.id for run in runs)
    key = quote(f"config.{_HOSTILE[1]}", safe="")
    with shown(home, chromium) as site:
        page = site.open()
        for view in ("charts", "config", "scatter", "parallel"):
            page.goto(
                f"{site.base}/compare?runs={ids}&view={view}&hue=config.plain&rows={key}&sx=config.plain&sc=config.plain"
            )
            page.get_by_role("tab", name=view, exact=False).wait_for()
            page.get_by_role("main").locator("canvas, table").first.wait_for()
            page.wait_for_timeout(200)
            assert page.evaluate("window.hit") is None, view
            exported = _export(page, "HTML", tmp_path).decode()
            assert _hit(page, exported) is None, view
            if view != "config":
                assert _hit(page, _export(page, "SVG", tmp_path).decode()) is None, view
        for one, other in itertools.pairwise(runs):
            page.goto(f"{site.base}/explain?a={one.id}&b={other.id}")
            page.locator("[data-cause]").first.wait_for()
            assert page.evaluate("window.hit") is None, one.name
        assert site.wrong == []
        # The check catches a file that does run what it was given.
        assert _hit(page, html.unescape(exported)) == 1


def _hit(page: Any, text: str) -> Any:
    """Open a file in a window of its own, under no policy at all, and return what ran in it."""
    window = page.context.browser.new_context()
    window.route("**/*", lambda route: route.abort())
    opened = window.new_page()
    opened.set_content(text.replace('http-equiv="Content-Security-Policy"', ""))
    opened.wait_for_timeout(200)
    hit = opened.evaluate("window.hit")
    window.close()
    return hit
