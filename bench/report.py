"""What a part has found, and RESULTS.md, which has a section for each: one is written anew, the others stay."""

import os
import platform
import sqlite3
import time

from msgspec import Struct

FOLDER = os.path.dirname(os.path.abspath(__file__))
_PAGE = os.path.join(FOLDER, "RESULTS.md")

_HOW = (
    "Made by `scripts/bench`; do not edit. Trust the ratios, which come from rounds that alternate in one run,"
    " not the microseconds, which are this machine's. Spreads are median (lower quartile to upper quartile)"
    " unless they say otherwise."
)
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


def write(name: str, part: Part, names: list[str]) -> None:
    """Write a part's section of RESULTS.md anew, in the order of all names; the others stay as they are."""
    part.taken = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    sections = _sections()
    sections[name] = _section(name, part)
    rows = [line for section in sections.values() for line in section.splitlines() if line.endswith("` |")]
    cells = [row.removeprefix("| ").removesuffix(" |").rsplit(" | ", 4) for row in rows]
    short = [f"{what} ({figure})" for what, figure, _, verdict, _ in cells if verdict == SHORT]
    passed = sum(verdict == PASS for *_, verdict, _ in cells)
    lines = [
        "# Measured",
        "",
        _HOW,
        "",
        f"Machine: {machine()}.",
        "",
        f"{passed} goals are met, {len(short)} fall short{': ' if short else '.'}{'; '.join(short)}",
    ]
    with open(_PAGE, "w") as file:
        file.write("\n".join([*lines, *("\n" + sections[key] for key in names if key in sections)]) + "\n")


def _sections() -> dict[str, str]:
    """Return the sections of RESULTS.md as they stand, by the names of their parts."""
    try:
        with open(_PAGE) as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    return {section.partition(":")[0]: f"## {section.rstrip()}" for section in text.split("\n## ")[1:]}


def _section(name: str, part: Part) -> str:
    lines = [f"## {name}: {part.title}", "", f"Taken {part.taken}.", ""]
    lines += ["| what | figure | goal | | command |", "|---|---|---|---|---|"]
    lines += [f"| {row.what} | {row.figure} | {row.goal} | {row.verdict} | `{part.command}` |" for row in part.rows]
    lines += ["", *(f"- {note}" for note in part.notes)] if part.notes else []
    return "\n".join(lines)


def show(name: str, part: Part) -> None:
    """Print what a part has found."""
    print(f"\n{name}: {part.title}")
    for row in part.rows:
        goal = f"   [{row.goal}: {row.verdict.strip('*')}]" if row.goal else ""
        print(f"  {row.what}: {row.figure}{goal}")
    for note in part.notes:
        print(f"  - {note}")
