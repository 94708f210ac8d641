"""Means, bands and smoothing on the page against plain numpy over all points: at any zoom, whatever is chosen."""

import csv
import http.client
import json
import re
import struct
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests import plain_means
from tests.journeys.browser import ARGUMENTS, CHROMIUM, PATIENCE_MS, why_not

from bench.place import fresh_home
from bench.report import Part
from bench.web import served

_SIZES = ((6, 200_000), (100, 1000))
_ZOOMS = ((None, None), (0.1, 0.6), (0.5, 0.503), (0.75, 0.7501))
_WEIGHTS = (0.5, 0.9, 0.99)


def measure(*, quick: bool, times: int | None) -> Part:
    """Ask the real server for buckets, and have the real page export means; compare both with numpy."""
    del quick, times
    part = Part("means, bands and smoothing: 6 runs of 200,000 points, 100 runs of 1000, against numpy over all points")
    with fresh_home(hub=False) as home:
        filled = [(f"of{count}x", plain_means.fill(home, f"of{count}x", count, points)) for count, points in _SIZES]
        with served() as (_, port, token):
            for prefix, value in filled:
                _ask(part, port, token, prefix, value)
                _look(part, port, token, prefix, value)
    part.note(
        f"Zooms: {', '.join('all' if low is None else f'{low} to {high}' for low, high in _ZOOMS)} of the steps."
        " A difference is relative, the largest of all buckets, runs, zooms and weights. The page is driven in Chromium"
        " and exports the CSV that is compared: means over all runs, over half of them beside the other half, and over"
        " that half alone."
    )
    return part


def _name(value: Any) -> str:
    return f"{value.shape[0]} x {value.shape[1]:,}"


def _ask(part: Part, port: int, token: str, prefix: str, value: Any) -> None:
    """Compare buckets of some runs at each zoom, and smoothing by each weight."""
    buckets, took = 0, []
    for number in (0, len(value) // 2, len(value) - 1):
        for weight in _WEIGHTS:
            truth = plain_means.smoothed(value[number], "ema", weight)
            for zoom in _ZOOMS:
                low, high = (None if end is None else end * value.shape[1] for end in zoom)
                at = time.perf_counter()
                told = _buckets(port, token, f"{prefix}{number:03d}", weight, low, high)
                took.append((time.perf_counter() - at) * 1e3)
                plain_means.check(told, np.arange(value.shape[1]), value[number], low, high, truth)
                buckets += len(told.index)
    part.judge(f"{_name(value)}: buckets that were compared, and are off by 1e-6 or more", f"{buckets}, 0", "0", True)
    part.know(f"{_name(value)}: an answer, first and median", f"{took[0]:.0f} ms, {np.median(took):.0f} ms")


def _buckets(port: int, token: str, run: str, weight: float, low: float | None, high: float | None) -> Any:
    link = http.client.HTTPConnection("127.0.0.1", port)
    wish = {"of": [{"run": run, "name": "loss"}], "width": 1, "buckets": 1024, "from": low, "to": high}
    body = json.dumps({**wish, "smooth": {"kind": "ema", "by": weight}})
    link.request("POST", "/api/series", body, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    data = link.getresponse().read()
    size = struct.unpack_from("<I", data)[0]
    told = json.loads(data[4 : 4 + size])["series"][0]["buckets"]
    columns = np.frombuffer(data, "<f8", offset=4 + size)
    return SimpleNamespace(
        **{name: columns[one[0] : one[0] + one[1]] if isinstance(one, list) else one for name, one in told.items()}
    )


def _look(part: Part, port: int, token: str, prefix: str, value: Any) -> None:
    """Compare what the page exports."""
    if missing := why_not():
        part.note(f"The page itself is left out: {missing}.")
        return
    from playwright.sync_api import sync_playwright

    runs = [f"{prefix}{number:03d}" for number in range(len(value))]
    halves = "&over=config.seed&hue=config.half"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS])

        def worst(query: str, chosen: list[str], of: Any, weight: float = 0.0) -> float:
            page = browser.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.goto(f"http://127.0.0.1:{port}/compare?runs={','.join(chosen)}&m=loss{query}&token={token}")
            page.locator('[aria-busy="false"] [data-panel]').first.wait_for(state="attached")
            page.get_by_role("button", name="Export").click()
            with page.expect_download() as waiting:
                page.get_by_role("button", name=re.compile("^CSV the ")).click()
            with open(waiting.value.path(), newline="") as file:
                rows = [row for row in csv.DictReader(file) if row["runs"].startswith(runs[0])]
            page.close()
            return plain_means.worst(rows, of, weight)

        figures = [
            worst("&over=*&hue=", runs, value),
            worst("&over=*&hue=&smooth=0.99", runs, value, 0.99),
            worst(halves, runs, value[::2]),
            worst(halves, runs[::2], value[::2]),
        ]
        browser.close()
    figure = f"{max(figures):.1e}"
    part.judge(f"{_name(value)}: means and bands of the page, off numpy", figure, "< 1e-6", max(figures) < 1e-6)
