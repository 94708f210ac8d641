"""How soon the page shows what one came for, in a real browser over a large store, beside TensorBoard and MLflow."""

import contextlib
import glob
import gzip
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
from tests.journeys.browser import ARGUMENTS, CHROMIUM, PATIENCE_MS, why_not

import bench
from bench.page_peers import PEERS, Peer, served_peer, wait_written, write_runs
from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles, ratios
from bench.top import _ENDED, _T, _cpu_s, _fill
from bench.web import _fill_long, served
from vedette.home import Home
from vedette.model import LANE_SAMPLES, Origin
from vedette.store import Batch, Block
from vedette.store.sqlite import SqliteStore

_SIZE = {"width": 1280, "height": 800}
_ASSETS = os.path.join(os.path.dirname(bench.__file__), "..", "src", "vedette", "views", "web", "page", "assets")
_TREND = 20  # points of each of the many runs: enough for a sparkline
_LOCAL = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"  # what wants to go out fails at once
_RUNS = "document.querySelectorAll('[role=grid] [role=row] a.name').length >= 15"
# Axes, grid and labels are grey; only a line of data has a colour.
_CHART = """[
  ...document.querySelectorAll('[role=img]:is([aria-label^=loss], [aria-label^=Metrics]) canvas'),
].some((canvas) => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let coloured = 0;
  for (let i = 0; i < data.length; i += 16) {
    const [red, green, blue, opaque] = data.subarray(i, i + 4);
    coloured += opaque > 100 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
  }
  return coloured > 200;
})"""
# Asked in each frame; a message that is posted before a paint arrives behind it.
_PROBE = """(() => {
  const wanted = {%s}, frame = requestAnimationFrame.bind(window);
  window.seenAt = {};
  window.longTasks = [];
  const told = (list) => longTasks.push(...list.getEntries().map((one) => one.duration));
  new PerformanceObserver(told).observe({ type: 'longtask', buffered: true });
  const look = () => {
    for (const [name, stands] of Object.entries(wanted))
      if (stands()) {
        delete wanted[name];
        const painted = new MessageChannel();
        painted.port1.onmessage = () => (seenAt[name] = performance.now());
        painted.port2.postMessage(0);
      }
    if (Object.keys(wanted).length) frame(look);
  };
  frame(look);
})()"""
_SCROLL = """async (frames) => {
  const view = document.querySelector('[role=grid]'), gaps = [];
  let empty = 0;
  const way = view.scrollHeight - view.clientHeight;
  longTasks.length = 0;
  let before = performance.now();
  for (let i = 1; i <= frames; i++) {
    view.scrollTop = (way * i) / frames;
    await new Promise(requestAnimationFrame);
    gaps.push(performance.now() - before);
    before = performance.now();
    empty += !document.querySelector('[role=grid] a.name');
  }
  while (![...document.querySelectorAll('[role=grid] a.name')].some((one) => one.textContent === 'old-heron-0'))
    await new Promise(requestAnimationFrame);
  const settled = performance.now() - before;
  await new Promise((done) => setTimeout(done, 200));
  return { gaps, empty, settled, tasks: longTasks };
}"""


class Seen(NamedTuple):
    """When each thing that was waited for stood on the screen, in ms since navigation began; what was asked for."""

    at_ms: dict[str, float]
    requests: list[str]
    browser_cpu_ms: float
    long_tasks_ms: list[float]


class Window:
    """A browser; each look is a new window of it, with nothing in its cache."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    @contextlib.contextmanager
    def look(self, url: str, wanted: dict[str, str], width: int = _SIZE["width"]) -> Iterator[tuple[Any, Seen]]:
        """Open an address, and wait until all that is wanted has been painted."""
        context = self._browser.new_context(viewport={**_SIZE, "width": width}, color_scheme="light")
        try:
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            requests: list[str] = []
            page.on("request", lambda request: requests.append(request.url))
            page.add_init_script(_PROBE % ", ".join(f"{name}: () => {test}" for name, test in wanted.items()))
            before = _browser_cpu_s()
            page.goto(url, wait_until="commit")
            until = time.monotonic() + PATIENCE_MS / 1e3
            while len(page.evaluate("window.seenAt ?? {}")) < len(wanted):  # wait_for_function is not let in by the CSP
                if time.monotonic() > until:
                    raise TimeoutError(f"{url.partition('?')[0]} does not show {', '.join(wanted)}")
                page.wait_for_timeout(100)
            cpu_ms = (_browser_cpu_s() - before) * 1e3
            yield page, Seen(page.evaluate("seenAt"), requests, cpu_ms, page.evaluate("longTasks"))
        finally:
            context.close()

    def times(self, url: str, wanted: dict[str, str], width: int = _SIZE["width"]) -> Seen:
        """Look, and close."""
        with self.look(url, wanted, width) as (_, seen):
            return seen


def measure(*, quick: bool, times: int | None) -> Part:
    """Look at a real `vedette ui` by a headless Chromium, and in turn at its peers."""
    part = Part("the page in Chromium: 10,000 runs, 10 M points; TensorBoard and MLflow with 100 runs")
    if missing := why_not():
        part.note(f"Left out: {missing}.")
        return part
    from playwright.sync_api import sync_playwright

    rounds = times or (2 if quick else 5)
    with (
        fresh_home(hub=True) as home,
        tempfile.TemporaryDirectory(prefix="vdb-", ignore_cleanup_errors=True) as folder,
        sync_playwright() as playwright,
        contextlib.ExitStack() as stack,
    ):
        writing = [write_runs(peer, folder) for peer in PEERS]
        _fill(home)
        _fill_trends(home)
        _fill_long(home)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS, _LOCAL])
        stack.callback(browser.close)
        window = Window(browser)
        wait_written(writing)
        requests = _cold(part, window, rounds)
        with served() as (_, port, token):
            _scroll(part, window, f"http://127.0.0.1:{port}/?token={token}", 200 if quick else 600)
        peers = []
        for one in writing:
            url = stack.enter_context(served_peer(one))
            if url.startswith("http"):
                peers.append((one.peer, url))
            else:
                part.note(f"{one.peer.name} is left out: {url}")
        with served() as (process, port, token):
            requests += _warm(part, window, (process.pid, f"http://127.0.0.1:{port}", token), peers, rounds)
    away = [url for url in requests if urlsplit(url).hostname not in ("127.0.0.1", None)]
    part.judge("requests of the page, and those to another machine", f"{len(requests)}, {len(away)}", "0", not away)
    _weigh(part)
    part.note(
        f"{rounds} rounds, in turn, each in a new window with an empty cache, {_SIZE['width']} x {_SIZE['height']}:"
        " from the beginning of the navigation, the redirect that takes the token included, to the frame in which 15"
        " rows of the table are on the screen, or the line of the chart has its colour on its canvas."
        " Cold: `vedette ui` was started for this look alone."
    )
    part.note(
        f"The many runs have {_TREND} points each, the long one 10 M. A peer has 100 runs of 300 points, written by its"
        " own writer, its server has read them before it is looked at, and names are resolved by nobody. A ratio is"
        " theirs, with 100 runs, over ours, with 10,000 runs or 10 M points, of the same round."
    )
    part.note("A task is long from 50 ms on; shorter ones Chromium does not tell of. Wall time: load shows.")
    return part


def _fill_trends(home: Home) -> None:
    """Give each of the many runs some points."""
    store = SqliteStore(home.store)
    chance = np.random.default_rng(2)
    step = np.arange(_TREND, dtype=np.int64)
    for first in range(0, _ENDED, 500):
        batches = []
        for number in range(first, first + 500):
            run = f"ended{number:05d}"
            value = np.exp(-step / 5) + chance.normal(0, 0.05, _TREND)
            block = Block(run, {}, ("loss",), (step + 1) * 40, _T + number * 10**9 + step * 10**7, step, (value,))
            origin = Origin("origin-" + run, host="camp", span=run, process=run + "/1/p")
            batches.append(Batch(origin, LANE_SAMPLES, int(block.n[-1]), columns=[block]))
        store.keep(batches)
    store.close()


def _cold(part: Part, window: Window, rounds: int) -> list[str]:
    """Look with a server that has answered nobody yet."""
    requests = []
    with served() as (_, port, token):  # the browser has just been started, too
        window.times(f"http://127.0.0.1:{port}/?token={token}", {"runs": _RUNS})
    for what, path, name, test in (
        ("Runs, 10,000 of them", "/", "runs", _RUNS),
        ("a chart of 10 M points", "/run/long/charts", "chart", _CHART),
    ):
        took, cpu = [], []
        for _ in range(max(2, rounds // 2)):
            with served() as (process, port, token):
                before = _cpu_s(process.pid)
                seen = window.times(f"http://127.0.0.1:{port}{path}?token={token}", {name: test})
                cpu.append((_cpu_s(process.pid) - before) * 1e3)
            took.append(seen.at_ms[name])
            requests += seen.requests
        spread = quartiles(took)
        part.judge(f"{what}: first useful paint, cold", spread.show(".0f", " ms"), "< 1000 ms", spread.median < 1000)
        part.know(f"{what}: CPU of the server meanwhile, cold", f"{statistics.median(cpu):.0f} ms")
    return requests


def _warm(
    part: Part, window: Window, ours: tuple[int, str, str], peers: list[tuple[Peer, str]], rounds: int
) -> list[str]:
    """Look at ours and at theirs in turn."""
    pid, base, token = ours
    looks = [
        ("Runs, 10,000 of them", "/", "runs", _RUNS),
        ("a chart of 10 M points", "/run/long/charts", "chart", _CHART),
        ("a run of 10 M points, overview", "/run/long", "overview", _CHART),
    ]
    took: dict[str, list[float]] = {name: [] for _, _, name, _ in looks}
    cpu: dict[str, list[tuple[float, float]]] = {name: [] for _, _, name, _ in looks}
    theirs: dict[tuple[str, str], list[float]] = {}
    asked: dict[str, set[str]] = {peer.name: set() for peer, _ in peers}
    requests: list[str] = []
    for number in range(rounds + 1):
        for _, path, name, test in looks:
            before = _cpu_s(pid)
            # Another width each time: what is asked for twice is only copied.
            seen = window.times(f"{base}{path}?token={token}", {name: test}, _SIZE["width"] + 4 * number)
            if number:
                took[name].append(seen.at_ms[name])
                cpu[name].append(((_cpu_s(pid) - before) * 1e3, seen.browser_cpu_ms))
            requests += seen.requests
        for peer, url in peers:
            for path, tests in peer.looks:
                seen = window.times(url + path, tests, _SIZE["width"] + 4 * number)
                asked[peer.name] |= {urlsplit(one).hostname or "" for one in seen.requests} - {"127.0.0.1", ""}
                for name, at_ms in seen.at_ms.items() if number else ():
                    theirs.setdefault((peer.name, name), []).append(at_ms)
    for what, _, name, _ in looks:
        spread = quartiles(took[name])
        part.judge(f"{what}: first useful paint, warm", spread.show(".0f", " ms"), "< 1000 ms", spread.median < 1000)
        server, browser = (statistics.median(one) for one in zip(*cpu[name], strict=True))
        part.know(f"{what}: CPU, warm", f"{server:.0f} ms of the server, {browser:.0f} ms of the browser")
    for peer, _ in peers:
        for name, what in (("runs", "list of 100 runs"), ("chart", peer.chart)):
            figures = theirs[peer.name, name]
            times_ours = ratios(figures, took[name]).show(".1f", "")
            part.know(f"{peer.name}: {what}", f"{quartiles(figures).show('.0f', ' ms')}: {times_ours} times ours")
        if asked[peer.name]:
            part.note(f"{peer.name}'s page asks other machines: {', '.join(sorted(asked[peer.name]))}.")
    return requests


def _scroll(part: Part, window: Window, url: str, frames: int) -> None:
    """Go through all rows, so many frames long."""
    with window.look(url, {"runs": _RUNS}) as (page, _):
        begun = time.monotonic()
        told = page.evaluate(_SCROLL, frames)
        took = time.monotonic() - begun
    longest = max(told["tasks"], default=0)
    figure = f"{longest:.0f} ms, {len(told['tasks'])} over 50 ms" if longest else "none over 50 ms"
    part.judge("scrolling through 10,000 rows: longest task", figure, "<= 100 ms", longest <= 100)
    gaps = np.percentile(told["gaps"], [50, 99])
    part.know(
        f"scrolling through 10,000 rows in {frames} frames, {took:.0f} s: between two frames",
        f"{gaps[0]:.0f} ms in the middle, {gaps[1]:.0f} ms in one of a hundred; the last rows came"
        f" {told['settled']:.0f} ms after the end, and {told['empty']} frames had no row yet",
    )


def _weigh(part: Part) -> None:
    """Weigh all JavaScript that the page has, whether or not a view loads it."""
    total = 0
    for path in glob.glob(os.path.join(_ASSETS, "*.js")):
        with open(path, "rb") as file:
            total += len(gzip.compress(file.read(), 9, mtime=0))
    assert total, "the page has no JavaScript"
    part.judge("JavaScript of all views, gzipped", f"{total / 1e3:.1f} kB", "< 250 kB", total < 250_000)


def _browser_cpu_s() -> float:
    """Return the CPU of everything below this process that is the browser."""
    parents, names = {}, {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(stat) as file:
            head, _, rest = file.read().rpartition(")")
            pid = int(stat.split("/")[2])
            parents[pid], names[pid] = int(rest.split()[1]), head.partition("(")[2]
    total = 0.0
    for pid, name in names.items():
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and "chrom" in name:
            with contextlib.suppress(OSError):
                total += _cpu_s(pid)
    return total
