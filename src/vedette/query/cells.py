"""The cells that a notebook has run, as one Python file of the run's code: in order, each below a line with its number.

The kernel records each cell as an event of kind `cell` when it runs it.
"""

import hashlib
from collections.abc import Callable, Sequence

from vedette import manifest
from vedette.manifest import Entry
from vedette.query.runs import RunView
from vedette.store import EventRow

Read = Callable[[str], bytes | None]


class Cells:
    """The cells of one run as a file; `entry` is None if it ran none."""

    def __init__(self, view: RunView) -> None:
        """Read the run's events, if it began in a notebook."""
        cells = view.logs(kind=manifest.CELL) if view.attrs.get("notebook") else []
        self.count = len(cells)
        self.magics = sum(_is_magic(line) for cell in cells for line in cell.text.split("\n"))
        self.data = source(cells).encode("utf-8", "surrogateescape")
        self.entry: Entry | None = None
        if cells:
            path = str(view.attrs.get("code.script") or manifest.CELLS)
            self.entry = Entry(path, hashlib.sha256(self.data).hexdigest(), len(self.data))

    def add_to(self, entries: list[Entry]) -> list[Entry]:
        """Return the files of the code, with this one among them."""
        return entries if self.entry is None else [*entries, self.entry]

    def reading(self, read: Read) -> Read:
        """Return a function that also knows the bytes of this file."""
        entry = self.entry
        return read if entry is None else lambda digest: self.data if digest == entry.digest else read(digest)


def source(cells: Sequence[EventRow]) -> str:
    """Return cells as Python, in the form that editors know: a line `# %%` begins each. Magics become comments."""
    return "\n".join(f"# %% [{cell.attrs.get('n', '?')}]\n{_python(cell.text)}\n" for cell in cells)


def _python(text: str) -> str:
    lines = text.rstrip().split("\n")
    whole = lines[0].startswith("%%")  # it hands all lines to another language, or to a timer
    return "\n".join(f"# {line}" if whole or _is_magic(line) else line for line in lines)


def _is_magic(line: str) -> bool:
    return line.lstrip().startswith(("%", "!"))
