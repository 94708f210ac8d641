"""What a part has found, kept as one JSON file each, and the page that is made of them all."""

import os
import platform
import sqlite3
import time

import msgspec
from msgspec import Struct

FOLDER = os.path.dirname(os.path.abspath(__file__))
_KEPT = os.path.join(FOLDER, ".results")
_PAGE = os.path.join(FOLDER, "RESULTS.md")

PASS, SHORT = "pass", "**short**"


class Row(Struct, frozen=True):
    """One figure. Without a goal it is there to be known."""

    what: str
    figure: str
    goal: str = ""
    verdict: str = ""


class Part(Struct):
    """What one part of the bench has found."""

    title: str
    rows: list[Row] = []
    notes: list[str] = []
    command: str = ""
    taken: str = ""
    machine: str = ""

    def note(self, text: str) -> None:
        """Add what a reader must know of how it was measured."""
        self.notes.append(text)

    def know(self, what: str, figure: str) -> None:
        """Add a figure that has no goal."""
        self.rows.append(Row(what, figure))

    def judge(self, what: str, figure: str, goal: str, met: bool) -> None:
        """Add a figure and whether it meets its goal."""
        self.rows.append(Row(what, figure, goal, PASS if met else SHORT))

    def most(self, what: str, value: float, limit: float, figure: str, unit: str) -> None:
        """Add a figure that must not be over a limit."""
        self.judge(what, figure, f"<= {limit:g}{unit}", value <= limit)

    def least(self, what: str, value: float, limit: float, figure: str, unit: str) -> None:
        """Add a figure that must not be under a limit."""
        self.judge(what, figure, f">= {limit:g}{unit}", value >= limit)


def machine() -> str:
    """Say what was measured on, without naming the machine."""
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores ({platform.machine()}), Linux {platform.release().split('-')[0]},"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def keep(name: str, part: Part, command: str) -> None:
    """Keep what a part has found in place of what it found before, and make the page anew."""
    part.command, part.machine = command, machine()
    part.taken = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    os.makedirs(_KEPT, exist_ok=True)
    with open(os.path.join(_KEPT, name + ".json"), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(part)))


def render(names: list[str]) -> str:
    """Write RESULTS.md from all that is kept, in this order; return the text."""
    parts = []
    for name in names:
        try:
            with open(os.path.join(_KEPT, name + ".json"), "rb") as file:
                parts.append((name, msgspec.json.decode(file.read(), type=Part)))
        except FileNotFoundError:
            continue
    rows = [row for _, part in parts for row in part.rows]
    short = [f"{row.what} ({row.figure})" for row in rows if row.verdict == SHORT]
    passed = sum(row.verdict == PASS for row in rows)
    how = (
        "Made by `scripts/bench`; do not edit. Trust the ratios, which come from rounds that alternate in one run,"
        " not the microseconds, which are this machine's. Spreads are median (lower quartile to upper quartile)"
        " unless they say otherwise."
    )
    lines = [
        "# Measured",
        "",
        how,
        "",
        f"Machine: {'; '.join(sorted({part.machine for _, part in parts}))}.",
        "",
        f"{passed} goals are met, {len(short)} fall short{': ' if short else '.'}{'; '.join(short)}",
    ]
    for name, part in parts:
        lines += ["", f"## {name}: {part.title}", "", f"Taken {part.taken}.", ""]
        lines += ["| what | figure | goal | | command |", "|---|---|---|---|---|"]
        lines += [f"| {row.what} | {row.figure} | {row.goal} | {row.verdict} | `{part.command}` |" for row in part.rows]
        lines += ["", *(f"- {note}" for note in part.notes)] if part.notes else []
    text = "\n".join(lines) + "\n"
    with open(_PAGE, "w") as file:
        file.write(text)
    return text


def show(name: str, part: Part) -> None:
    """Print what a part has found."""
    print(f"\n{name}: {part.title}")
    for row in part.rows:
        goal = f"   [{row.goal}: {row.verdict.strip('*')}]" if row.goal else ""
        print(f"  {row.what}: {row.figure}{goal}")
    for note in part.notes:
        print(f"  - {note}")
