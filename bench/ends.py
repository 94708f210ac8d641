"""Ends of processes: what the store says of each, with a hub in every state."""

import os

from tests.journeys.ends import SEEN_BY_ALL, STATES, WAYS, Found, end_many

from bench.place import fresh_home
from bench.report import Part


def measure(*, quick: bool, times: int | None) -> Part:
    """End processes in every way, with a hub in every state, several times; then count."""
    os.environ["VEDETTE_CAPTURE_ENABLE"] = "false"
    os.environ["VEDETTE_USAGE_ENABLE"] = "false"
    rounds = times or (1 if quick else 4)
    found: list[Found] = []
    for _ in range(rounds):
        for hub in STATES:
            with fresh_home(hub=True) as home:
                found += end_many(home, hub, list(WAYS))
    part = Part("ends of processes, right after init")
    wrong = [one for one in found if not one.is_right and not one.is_unseen]
    part.judge(f"ends that are shown wrong, of {len(found)}", _named(wrong), "0", not wrong)
    for hub in STATES:
        some = [one for one in found if one.hub == hub]
        unseen = [one for one in some if one.is_unseen]
        what = f"ends that nobody saw, hub {hub}, of {len(some)}"
        if hub in SEEN_BY_ALL:
            part.judge(what, _named(unseen), "0", not unseen)
        else:
            part.know(what, _named(unseen))
    part.note(
        "Each process is a new Python that calls `init`, logs a point and ends at once: "
        + ", ".join(WAYS)
        + ". Warm: a hub runs. Cold: none does, so that each starts one. Starting: one was started just before, and all"
        " end before it is up. Stopped: a hub runs, but does not get the CPU (SIGSTOP) until all have ended. Killed:"
        " the hub is killed while they live. An end without its point counts as wrong."
    )
    return part


def _named(some: list[Found]) -> str:
    ways = sorted({f"{one.way}, hub {one.hub}: {one.state} {one.cause}".strip() for one in some})
    return f"{len(some)}" + (f" ({'; '.join(ways)[:500]})" if ways else "")
