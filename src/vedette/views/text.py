"""Text for people: made safe for a terminal; numbers, times and durations in readable form."""

import math
from datetime import datetime
from typing import Any

from vedette.views.ansi import bare

_NO_LENGTH_S = 1e12


def clean(text: str, *, one_line: bool = False) -> str:
    """Return text without anything that a terminal could obey."""
    text = bare(text)
    return " ".join(text.split()) if one_line else text


def number(value: object, room: int = 13) -> str:
    """Return a number with six digits, or with fewer if it would not fit; its exponent is never cut off."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        texts = [f"{value:.{digits}g}" for digits in range(6, 0, -1)]
        return next((text for text in texts if len(text) <= room), texts[-1])
    return "" if value is None else clean(str(value), one_line=True)


def counted(count: object, word: str) -> str:
    """Return a count with its noun: 1 file, 2 files."""
    return f"{number(count)} {word}{'' if count == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """Return a length of time, in its two largest units."""
    if seconds is None:
        return ""
    if round(seconds, 1) < 10:
        return f"{seconds:.1f}s"
    if not abs(seconds) < _NO_LENGTH_S:  # of a store, which may say anything
        return f"{seconds:g} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    for unit, size, lower, small in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // small:02d}{lower}"
    return ""


def percent(fraction: float | None) -> str:
    """Return a fraction in percent; 100% only if it is complete."""
    return "" if fraction is None else f"{min(100, math.floor(fraction * 100 + 1e-9))}%"


def moment(t: int | None, *, exact: bool = False) -> str:
    """Return a time in nanoseconds as the local date and time."""
    if t is None:
        return ""
    at = datetime.fromtimestamp(t / 1e9).astimezone()
    return at.isoformat(sep=" ", timespec="milliseconds" if exact else "seconds")[: 23 if exact else 19]


def size(count: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        text = f"{count:.0f}" if unit == "B" else f"{count:.1f}"
        if float(text) < 1000:
            return f"{text} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def for_json(value: Any) -> Any:
    """Return a value that JSON can hold: NaN and infinity, which JSON does not have, become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(item) for item in value]
    return value
