"""Takes pictures of every page, light and dark, wide and narrow, of real runs, into docs/images.

python -m tests.journeys.screenshots [NAME ...]   (all pages, or those named: top runs run charts usage logs config ...)
"""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from typing import Any

from tests.journeys.browser import launched, shown, why_not
from tests.journeys.conftest import eventually, read_runs
from vedette.home import Home

_ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
_OUT = os.path.join(_ROOT, "docs", "images")
_TABS = ("charts", "usage", "logs", "config", "code", "files", "processes")
_SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
_SWEEP = """
    import itertools, math, random, vedette
    random.seed(7)
    for lr, model, seed in itertools.product((0.3, 0.1, 0.03, 0.01), ("resnet18", "resnet50", "vit-small"), range(3)):
        run = vedette.init(project="cifar", experiment="sweep", console=False, usage=False,
                           tags=["best"] if (lr, model) == (0.1, "resnet50") else [],
                           config={"lr": lr, "model": model, "seed": seed, "batch_size": 128})
        best = {"resnet18": 0.35, "resnet50": 0.22, "vit-small": 0.3}[model]
        for step in vedette.track(range(200), "training"):
            loss = 2.3 * math.exp(-step * lr / 8) + best + random.gauss(0, 0.03)
            accuracy = max(0.1, 1 - loss / 2.6) + random.gauss(0, 0.008)
            run.log({"train/loss": loss, "train/accuracy": accuracy}, step=step)
            if step % 10 == 9:
                run.log({"val/loss": loss + 0.08, "val/accuracy": accuracy - 0.02}, step=step)
        run.finish()
"""
_FAIL = """
    import vedette
    run = vedette.init(project="cifar", name="wide-batch", config={"lr": 1.0, "batch_size": 8192}, console=False)
    for step in vedette.track(range(100), "training"):
        run.log({"train/loss": 2.3 - step / 50}, step=step)
        if step == 40:
            raise MemoryError("cannot allocate 6.4 GB for activations")
"""
_LONG = """
    import logging, math, multiprocessing, random, struct, time, vedette, zlib
    CROP = 32
    log = logging.getLogger("train")
    def picture(size, paint):
        rows = b"".join(b"\\0" + bytes(x for column in range(size) for x in paint(column, row)) for row in range(size))
        parts = [(b"IHDR", struct.pack(">2I5B", size, size, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows))]
        parts.append((b"IEND", b""))
        framed = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
                  for kind, data in parts)
        return b"\\x89PNG\\r\\n\\x1a\\n" + b"".join(framed)
    def confusion(column, row):
        shade = 40 if column // 24 == row // 24 else 225 - (column // 24 * 7 + row // 24 * 13) % 30
        return shade, shade + 15, 250 if shade == 40 else shade + 20
    def load(number):
        kept, end = [], time.time() + 12 + number
        while time.time() < end:
            kept.append(bytearray(300_000 * (number + 1)))
            sum(range(100_000 * (number + 1)))
            time.sleep(0.1)
    if __name__ == "__main__":
        config = {"lr": 0.1, "model": "resnet50", "seed": 0, "data": {"augment": True, "crop": [32, 32]}}
        run = vedette.init(project="cifar", name="reference", console=False, tags=["best"], config=config,
                           notes="What all else is compared with.")
        workers = [multiprocessing.Process(target=load, args=(number,)) for number in range(3)]
        for worker in workers:
            worker.start()
        step = 0
        for epoch in vedette.track(range(24), "epochs"):
            for _ in range(100):
                loss = 2.3 * math.exp(-step / 600) + 0.22 + random.gauss(0, 0.05)
                told = math.nan if step in (900, 1402) else loss
                run.log({"train/loss": told, "train/accuracy": 1 - loss / 2.6}, step=step)
                step += 1
                time.sleep(0.004)
            run.log({"val/loss": loss + 0.08, "val/accuracy": 0.93 - loss / 2.7}, step=step)
            if epoch % 6 == 0:
                run.mark(f"epoch {epoch}")
            log.info("epoch %d: loss %.3f", epoch, loss)
            if epoch % 5 == 4:
                log.warning("gradients were clipped %d times", epoch * 3)
            if epoch == 15:
                log.error("batch 8812 could not be read, and was passed over")
        run.save(picture(240, confusion), "confusion.png")
        run.save(random.randbytes(3_000_000), "weights/last.bin")
        with open("report.md", "w") as file:
            file.write("# Reference\\nBest of all seeds: **0.93** accuracy on held out data.\\n")
        run.save("report.md")
        for worker in workers:
            worker.join()
"""
_LIVE = """
    import math, random, time, vedette
    config = {"lr": 0.05, "model": "resnet18", "seed": 4}
    run = vedette.init(project="cifar", name="in-progress", config=config, console=False)
    for step in vedette.track(range(6000), "training"):
        run.log({"train/loss": 2.2 * math.exp(-step / 200) + 0.3 + random.gauss(0, 0.04)}, step=step)
        time.sleep(0.05)
"""
_TOP = """
    import asyncio
    from vedette import settings
    from vedette.access.home_access import HomeAccess
    from vedette.views.top.app import Top
    from vedette.views.top.feed import Options
    async def main():
        top = Top(HomeAccess.of(settings.load()), options=Options(ended=9))
        async with top.run_test(size=(150, 16)) as pilot:
            await pilot.pause(4)
            print(top.export_screenshot(title="vedette top"))
    asyncio.run(main())
"""


def main(wanted: list[str]) -> int:
    """Make the runs, open every page, and save the pictures."""
    if problem := why_not():
        sys.stderr.write(f"no pictures: {problem}\n")
        return 1
    os.makedirs(_OUT, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        home = Home(root)
        place = os.path.join(root, "cifar")
        os.makedirs(place)
        _repository(place)
        path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
        how: dict[str, Any] = {"env": {**os.environ, "VEDETTE_HOME": root, "PATH": path}, "cwd": place}
        for name, code in (("sweep", _SWEEP), ("wide", _FAIL), ("train", _LONG)):
            subprocess.run(_command(place, name, code), check=False, stderr=subprocess.DEVNULL, **how)
        living = subprocess.Popen(_command(place, "live", _LIVE), **how)
        try:
            runs = eventually(lambda: found if len(found := read_runs(home)) >= 39 else [], 60)
            time.sleep(15)
            first = [run.id for run in runs if run.config.get("model") == "resnet50" and run.config.get("seed") == 0]
            a, b, c = first[:3]
            some = ",".join(run.id for run in runs if "batch_size" in run.config and run.name != "wide-batch")
            pages = {
                "runs": "/?columns=config.lr,config.model",
                "run": "/run/reference",
                **{tab: f"/run/reference/{tab}" for tab in _TABS},
                "failed": "/run/wide-batch",
                "compare": f"/compare?runs={some}&m=train/loss&cols=config.model&hue=config.lr&over=config.seed",
                **{view: f"/compare?runs={some}&view={view}" for view in ("scatter", "parallel")},
                "beside": f"/compare?runs={a},{b},{c}&view=config&equal=hide",
                "explain": f"/explain?a={a}&b={b}",
            }
            shares = {"share": ("/run/reference", _press_share), "shared": ("/run/reference", _follow_link)}
            with launched() as browser, shown(home, browser) as site:
                if not wanted or "top" in wanted:
                    _take_top(browser, how)
                for name, path in pages.items():
                    if not wanted or name in wanted:
                        _take(site, name, path)
                for name, (path, act) in shares.items():
                    if not wanted or name in wanted:
                        _take(site, name, path, act)
        finally:
            living.kill()
            living.wait()
            if pid := home.hub_pid():
                os.kill(pid, signal.SIGTERM)
    return 0


def _take_top(browser: Any, how: dict[str, Any]) -> None:
    """Save what `vedette top` shows, as a terminal would draw it."""
    drawn = subprocess.run([sys.executable, "-c", textwrap.dedent(_TOP)], check=True, capture_output=True, **how).stdout
    page = browser.contexts[0].new_page()
    page.set_viewport_size({"width": 1440, "height": 500})
    page.set_content(f"<body style='margin: 0'>{drawn.decode()}</body>")
    page.locator("svg").first.screenshot(path=os.path.join(_OUT, "top.png"))
    page.close()


def _repository(place: str) -> None:
    """Make a repository in which the working tree differs from the last commit."""
    for name, code in (("sweep", _SWEEP), ("wide", _FAIL), ("train", _LONG), ("live", _LIVE)):
        _command(place, name, code.replace("CROP = 32", "CROP = 28"))
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    for args in (("init", "-qb", "main"), ("add", "."), (*who, "commit", "-qm", "Smaller crops")):
        subprocess.run(["git", *args], cwd=place, check=True, capture_output=True)


def _command(place: str, name: str, code: str) -> list[str]:
    """Write a program, and return the command as a user would type it: the pictures show it."""
    with open(os.path.join(place, f"{name}.py"), "w") as file:
        file.write(textwrap.dedent(code).lstrip())
    return ["python", f"{name}.py"]


def _take(site: Any, name: str, path: str, act: Callable[[Any], None] = lambda _: None) -> None:
    """Take the pictures of a page; `act` does something on it first."""
    for scheme in ("light", "dark"):
        for size, (width, height) in _SIZES.items():
            page = site.open(path, width=width, height=height, scheme=scheme)
            page.wait_for_selector("main")
            act(page)
            page.wait_for_timeout(2000)
            page.screenshot(path=os.path.join(_OUT, f"{name}-{scheme}-{size}.png"))
            page.context.clear_cookies()
            page.close()


def _press_share(page: Any) -> None:
    page.get_by_role("button", name="Share").click()
    page.get_by_text("until 20").wait_for()


def _follow_link(page: Any) -> None:
    """Open what was shared, as somebody who has only the link."""
    _press_share(page)
    url = page.get_by_label("Link to share").input_value()
    page.context.clear_cookies()
    page.goto(url)
    page.get_by_text("Shared with you").wait_for()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
