"""Objects of rich, made into text where they were handed over: they travel as what they look like."""

import os
from typing import Any

MOST = 64 << 10  # characters of a text that is kept, and of the same with colour codes
_WIDTH = 100  # columns, where no terminal says another


def is_rich(value: Any) -> bool:
    """Tell whether an object draws itself by rich; its class is asked, since an instance may answer to any name."""
    kind = type(value)
    try:
        return hasattr(kind, "__rich_console__") or hasattr(kind, "__rich__")
    except Exception:  # of a metaclass
        return False


def render(value: Any) -> tuple[str, str]:
    """Return an object as plain text and with colour codes; what would be too long is not drawn to its end."""
    from rich.color import ColorSystem  # noqa: PLC0415 - only where an object of rich is, is rich loaded
    from rich.console import Console  # noqa: PLC0415

    with open(os.devnull, "w") as nowhere:
        console = Console(file=nowhere, width=_columns(), force_terminal=True, legacy_windows=False)
        plain: list[str] = []
        coloured: list[str] = []
        left_plain = left_coloured = MOST
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
