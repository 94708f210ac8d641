"""Lines of the console: one event, one bar or one end, as text for a terminal or for a pipe."""

import os
import time
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

from msgspec import Struct
from rich.cells import cell_len, set_cell_size

from vedette.query.progress import Bar
from vedette.query.runs import RunView
from vedette.query.silence import LOST
from vedette.store import EventRow
from vedette.views.ansi import RESET, one_line, painted, plain
from vedette.views.text import duration, percent

_LEVELS = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}
_LEVEL_WIDTH = 8
STYLES = {
    "DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31", "stderr": "2", "mark": "36",
    "done": "32", "running": "36", "leaving": "36", "failed": "1;31", "cancelled": "33", "ended": "35", "lost": "35",
}  # fmt: skip
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPIN_NS = 2 * 10**8  # how long each of its signs stands
_LEAST_BAR, _MOST_BAR = 6, 40
_LEAST_NAME = 8


class Appearance(Struct, frozen=True):
    """What the output can show."""

    terminal: bool = False  # it understands escape codes: links, and the rows below
    colour: bool = False
    unicode: bool = True

    def paint(self, text: str, style: str) -> str:
        """Return our own text in a style."""
        return f"\x1b[{style}m{text}{RESET}" if self.colour and style and text else text


def event_lines(event: EventRow, label: str, look: Appearance) -> list[str]:
    """Return an event as lines; `label` names its process, if there are several."""
    word, style = _word(event)
    head = f"{_time(event.t, look)} " + look.paint(word.ljust(_LEVEL_WIDTH), style) + " "
    if label:
        head += look.paint(one_line(label), "2") + " "
    ansi = event.attrs.get("ansi")
    coloured = look.colour and isinstance(ansi, str)
    text = (painted(ansi) if coloured and isinstance(ansi, str) else plain(event.text)).rstrip("\n")
    first, *rest = text.split("\n")
    if not coloured and event.level >= 40 and event.kind != "output":
        first, rest = look.paint(first, "31"), [look.paint(line, "31") for line in rest]
    where = _where(event, look)
    if rest and isinstance(ansi, str):  # such as a table, whose first line must be aligned with the second
        return [head + where.strip(), *("  " + line for line in (first, *rest))]
    return [head + first + where, *("    " + line for line in rest)]


def _word(event: EventRow) -> tuple[str, str]:
    if event.kind == "output":
        word = "stderr" if event.attrs.get("stream") == "stderr" else ""
        return word, STYLES.get(word, "")
    level = _LEVELS.get(event.level, f"level {event.level}"[:_LEVEL_WIDTH])
    if event.kind in ("log", "warning"):
        return level, STYLES.get(level, "")
    return one_line(event.kind)[:20], STYLES.get(event.kind, STYLES.get(level, "") if event.level > 20 else "36")


def _where(event: EventRow, look: Appearance) -> str:
    """Return the line of code that logged it, as a link if the terminal has links."""
    path, line = event.attrs.get("file"), event.attrs.get("line")
    if not isinstance(path, str) or not path:
        return ""
    shown = one_line(os.path.basename(path) or path)[:60]
    if isinstance(line, int) and not isinstance(line, bool):
        shown += f":{line}"
    shown = look.paint(shown, "2")
    if look.terminal and path.startswith("/"):
        host, path = (quote(text.encode(errors="replace"), safe="/") for text in (event.host.replace("/", ""), path))
        target = f"file://{host}{path}"
        shown = f"\x1b]8;;{target}\x1b\\{shown}\x1b]8;;\x1b\\"
    return "  " + shown


def _time(t: int, look: Appearance) -> str:
    try:
        at = datetime.fromtimestamp(t / 1e9).astimezone()
    except (ValueError, OverflowError, OSError):
        return "?"
    return look.paint(f"{at:%H:%M:%S}", "2") if look.terminal else f"{at:%Y-%m-%d %H:%M:%S}"


def say(t: int, word: str, text: str, look: Appearance) -> str:
    """Return a line of our own."""
    return f"{_time(t, look)} {look.paint(word.ljust(_LEVEL_WIDTH), STYLES.get(word, '36'))} {one_line(text)}"


def amount(bar: Bar) -> str:
    """Return how far a bar is, in its own numbers."""
    done = f"{bar.done:.6g}"
    return done if bar.total is None else f"{done}/{bar.total:.6g}"


def _elapsed_s(bar: Bar, now_t: int) -> float:
    return max(0, (bar.end_t or now_t) - (bar.start_t or now_t)) / 1e9


def bar_end(bar: Bar, label: str, look: Appearance) -> str:
    """Return the last line of a bar that has ended."""
    now_t = time.time_ns()
    took = duration(_elapsed_s(bar, now_t))
    name = f"{label} {bar.name}".strip() or "progress"
    if bar.state == "done":
        text = f"{name}: {amount(bar)} done in {took}"
    else:
        cause = f": {bar.cause}" if bar.cause else ""
        text = f"{name}: {bar.state} at {amount(bar)} after {took}{cause}"
    return say(bar.end_t or now_t, bar.state, text, look)


def bar_plain(bar: Bar, label: str, now_t: int, look: Appearance) -> str:
    """Return a bar as one plain line."""
    left_s = bar.eta_s(now_t)
    left = "" if left_s is None else f" +{duration(left_s)}"
    name = f"{label} {bar.name}".strip() or "progress"
    numbers = f"{amount(bar)} {percent(bar.fraction)}".strip()
    return say(now_t, "progress", f"{name}: {numbers} {duration(_elapsed_s(bar, now_t))}{left}", look)


def bar_row(bar: Bar, label: str, width: int, now_t: int, look: Appearance) -> str:
    """Return a bar as a row that is redrawn, narrower than `width`."""
    turn = now_t // _SPIN_NS
    spin = _SPINNER[turn % len(_SPINNER)] if look.unicode else "|/-\\"[turn % 4]
    left_s, fraction = bar.eta_s(now_t), bar.fraction
    times = duration(_elapsed_s(bar, now_t)) + ("" if left_s is None else f" +{duration(left_s)}")
    share = percent(fraction)
    tail = [part for part in (amount(bar), share, times) if part]
    room = width - 3
    if room < 70 and share and len(tail) == 3:
        del tail[0]
    words = "  ".join(tail)[: max(0, room - 2)]
    room -= cell_len(words) + 2
    name = _named(label, bar.name)
    bar_width = 0
    if fraction is not None and room >= _LEAST_BAR + 2:
        bar_width = max(_LEAST_BAR, min(_MOST_BAR, room - min(cell_len(name), max(_LEAST_NAME, room // 2)) - 2))
        room -= bar_width + 2
    shown = cut(name, max(0, room), look)
    drawn = _drawn(fraction or 0.0, bar_width, look) if bar_width else ""
    parts = [shown + " " * max(0, room - cell_len(shown)) if bar_width and cell_len(name) >= room else shown]
    parts += [drawn, look.paint(words, "2")]
    return look.paint(spin, "36") + " " + "  ".join(part for part in parts if part)


@lru_cache(maxsize=256)  # a bar is drawn often, and has the same name each time
def _named(label: str, name: str) -> str:
    return one_line(f"{label} {name}".strip())


def _drawn(fraction: float, width: int, look: Appearance) -> str:
    full = int(fraction * width)
    filled, empty = ("━", "─") if look.unicode else ("#", "-")
    return look.paint(filled * full, "36") + look.paint(empty * (width - full), "2")


def cut(text: str, width: int, look: Appearance) -> str:
    """Cut text to a width in cells."""
    if cell_len(text) <= width:
        return text
    if width < 2:
        return ""
    return set_cell_size(text, width - 1).rstrip() + ("…" if look.unicode else "~")


def run_row(run: RunView, width: int, look: Appearance) -> str:
    """Return the state of a watched run, as one row."""
    text = f"{run.name or run.id} {run.state}"
    if run.state == LOST:
        text += f": nothing heard for {duration(run.silent_s)}"
    elif run.duration_s is not None:
        text += f" for {duration(run.duration_s)}"
    dot = "●" if look.unicode else "*"
    return look.paint(dot, STYLES.get(run.state, "36")) + " " + cut(one_line(text), width - 3, look)


def run_end(name: str, state: str, cause: str, took_s: float | None, look: Appearance) -> str:
    """Return the last line: how a run ended, and why."""
    took = "" if took_s is None else f" {'in' if state == 'done' else 'after'} {duration(took_s)}"
    why = f": {one_line(cause)}" if cause else ""
    return f"{one_line(name)} {look.paint(one_line(state), STYLES.get(state, ''))}{took}{why}"
