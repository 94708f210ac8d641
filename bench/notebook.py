"""A notebook: how long it takes from `vedette.init` in a fresh kernel to the first bar on the screen."""

import subprocess
import sys
import time
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles

_CELL = """
import vedette
run = vedette.init(name="bench")
for i in vedette.track(range(3), "the first bar"):
    run.log({"x": i})
"""
_GOAL_S = 0.5


def measure(*, quick: bool, times: int | None) -> Part:
    """Start kernels, run a cell in each, and wait as an editor does for the display of the bar."""
    rounds = times or (2 if quick else 5)
    part = Part("the displays in a notebook")
    found = [_first_bar_s() for _ in range(rounds)]
    what = "`import vedette`, `init` and the first bar, fresh kernel and home"
    part.judge(what, quartiles(found).show(".2f", " s"), "< 0.5 s", max(found) < _GOAL_S)
    part.note(f"{rounds} kernels of ipykernel: from the request that runs the cell to the message that shows the bar.")
    return part


def _first_bar_s() -> float:
    with fresh_home(hub=True):
        manager = KernelManager()
        manager._kernel_spec = KernelSpec(  # else one would have to be installed
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="python", language="python",
        )  # fmt: skip
        manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(60)
        seen: list[float] = []

        def take(message: Any) -> None:
            shown = message["msg_type"] in ("display_data", "update_display_data")
            if shown and "the first bar" in str(message["content"]["data"]):
                seen.append(time.monotonic())

        try:
            began = time.monotonic()
            client.execute_interactive(_CELL, output_hook=take, timeout=60)
            return seen[0] - began
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
