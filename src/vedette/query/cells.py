"""The cells that a notebook has run, as one Python file of the run's code: in order, each below a line with its number.

The kernel records each cell as an event of kind `cell` when it runs it.
"""

import ast
import hashlib
import re
import warnings
from collections.abc import Callable, Mapping, Sequence

from vedette import manifest
from vedette.manifest import Entry
from vedette.model import Value
from vedette.query.runs import RunView
from vedette.store import EventRow

Read = Callable[[str], bytes | None]

_MAGIC = re.compile(r"\s*[%!?]|[\w\s,.]+=\s*[%!]|.*\?\s*$")  # `%time x`, `!ls`, `?x`, `files = !ls`, `x?`
_OF_PYTHON = ("time", "timeit", "capture", "prun")  # `%%time` and so on: the rest of the cell is Python


class Cells:
    """The cells of one run as a file; `entry` is None if it ran none."""

    def __init__(self, view: RunView) -> None:
        """Read the run's events, if it began in a notebook."""
        cells = view.logs(kind=manifest.CELL) if view.attrs.get("notebook") else []
        self.count = len(cells)
        text, self.magics = source(cells)
        self.data = text.encode("utf-8", "surrogateescape")
        self.entry: Entry | None = None
        if cells:
            self.entry = Entry(script_of(view.attrs), hashlib.sha256(self.data).hexdigest(), len(self.data))

    def add_to(self, entries: list[Entry]) -> list[Entry]:
        """Return the files of the code, with this one among them."""
        return entries if self.entry is None else [*entries, self.entry]

    def reading(self, read: Read) -> Read:
        """Return a function that also knows the bytes of this file."""
        entry = self.entry
        return read if entry is None else lambda digest: self.data if digest == entry.digest else read(digest)


def script_of(attrs: Mapping[str, Value]) -> str:
    """Return the path of the cells among the files of the code, which never leads out of it, whatever a run says."""
    path = str(attrs.get("code.script") or "")
    return manifest.CELLS if manifest.path_fault(path) else path


def source(cells: Sequence[EventRow]) -> tuple[str, int]:
    """Return cells as Python, in the form that editors know: a line `# %%` begins each. Magics become comments.

    The number is how many magics there were.
    """
    found = [(_number(cell), *_python(cell.text)) for cell in cells]
    return "\n".join(f"# %% [{n}]\n{text}\n" for n, text, _ in found), sum(magics for _, _, magics in found)


def _number(cell: EventRow) -> str:
    """Return the number of a cell; what is none could be lines of its own."""
    n = cell.attrs.get("n")
    return str(n) if type(n) is int else "?"


def _python(text: str) -> tuple[str, int]:
    """Return a cell as Python, and how many magics are comments now."""
    lines = text.rstrip().split("\n")
    magics = 0
    if lines[0].startswith("%%"):
        if lines[0][2:].partition(" ")[0] not in _OF_PYTHON:  # all lines are of another language
            return _commented(lines), 1
        lines[0] = f"# {lines[0]}"
        magics = 1
    met: set[int] = set()
    while (at := _first_error(lines)) is not None:
        if at in met or not 0 <= at < len(lines) or _MAGIC.match(lines[at]) is None:
            return _commented(lines), magics  # it is not Python, so nothing of it was run
        met.add(at)
        bare = lines[at].lstrip()
        indent = lines[at][: -len(bare)]
        lines[at] = f"{indent}pass  # {bare}" if indent else f"# {bare}"  # the line may be all of a block
        magics += 1
    return "\n".join(lines), magics


def _first_error(lines: list[str]) -> int | None:
    """Return which line is not Python, -1 if no line can be named; None if all of it is Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile("\n".join(lines), "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return (error.lineno or 0) - 1
    except (ValueError, MemoryError, RecursionError):  # such as a NUL, or brackets without end
        return -1
    return None


def _commented(lines: list[str]) -> str:
    return "\n".join(f"# {line}" for line in lines)
