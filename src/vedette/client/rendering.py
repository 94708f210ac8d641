"""Draws objects of rich as text in the user's process, so that only text is recorded."""

import os
from typing import Any

from vedette.interrupts import let_through

MAX_CHARS = 64 << 10  # characters of a recorded text, and of the same text with colour codes
_WIDTH = 100  # columns of a text if there is no terminal


def is_rich(value: Any) -> bool:
    """Tell whether rich can draw an object. We ask its class: an instance may have a __getattr__ for any name."""
    kind = type(value)
    try:
        return hasattr(kind, "__rich_console__") or hasattr(kind, "__rich__")
    except Exception as error:  # raised by a metaclass
        let_through(error)
        return False


def render(value: Any) -> tuple[str, str]:
    """Return an object as plain text and as text with colour codes; a long drawing is cut."""
    from rich.color import ColorSystem  # noqa: PLC0415 - loaded only when there is an object of rich
    from rich.console import Console  # noqa: PLC0415

    with open(os.devnull, "w") as nowhere:
        console = Console(file=nowhere, width=_columns(), force_terminal=True, legacy_windows=False)
        plain: list[str] = []
        coloured: list[str] = []
        left_plain = left_coloured = MAX_CHARS
        for segment in console.render(value):
            if segment.control or not segment.text:
                continue
            text, style = segment.text, segment.style
            painted = style.update_link(None).render(text, color_system=ColorSystem.TRUECOLOR) if style else text
            left_plain -= len(text)
            left_coloured -= len(painted)
            if left_plain < 0 or left_coloured < 0:
                plain.append("\n(cut)")
                coloured.append("\n(cut)")
                break
            plain.append(text)
            coloured.append(painted)
    return "".join(plain).rstrip("\n"), "".join(coloured).rstrip("\n")


def _columns() -> int:
    for stream in (2, 1):
        try:
            return max(40, min(os.get_terminal_size(stream).columns, 300))
        except OSError:
            continue
    return _WIDTH
