"""The notebook or IPython session that this process runs, if it does: its path, and the local modules it has imported.

What is recorded of it and shown in it is beyond the client; the composition root hands it in (`attach`).
"""

import os
import re
import sys
from collections.abc import Callable
from typing import Any, Protocol, Self

from vedette.client.faults import swallow
from vedette.client.run import Run
from vedette.interrupts import let_through
from vedette.settings import Settings

_SESSION_ID = re.compile(r"(?<=\.ipynb)-[0-9a-f-]{36}$")  # a Jupyter server adds one to some names


class Input(Protocol):
    """Where a question is asked in this process: a context manager that reads one typed line."""

    never_blocks: bool  # `read` may be called at any time
    fd: int | None  # readable when something was typed; None: nothing can be typed any more

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def can_read(self) -> bool:
        """Tell whether it makes sense to wait for `fd` now."""

    def read(self) -> str | None:
        """Return the line once it is complete, else None."""


_modules: tuple[int, list[str]] = (0, [])  # how many modules there were at the last look, and the local ones
attach: Callable[[Run, Settings], None] | None = None  # set by the composition root
make_input: Callable[[Any, str, bool], Input | None] | None = None  # set by the composition root


def end_earlier() -> None:
    """End the runs that this cell began when it was run before; a notebook replaces this."""


def open_input(prompt: str, password: bool) -> Input | None:
    """Return the input of the notebook's frontend; None outside a notebook, and if its frontend has none."""
    found = shell()
    return make_input(found.kernel, prompt, password) if make_input is not None and hasattr(found, "kernel") else None


def begin(run: Run, settings: Settings) -> None:
    """Record the cells of this notebook with a run, and show the run in it; do nothing outside a notebook."""
    if attach is None or shell() is None:
        return
    try:
        attach(run, settings)
    except Exception as error:
        let_through(error)
        swallow(error, "the display in the notebook")


def shell() -> Any:
    """Return the IPython shell that runs this process's cells; None in a plain Python, and for `ipython script.py`."""
    if (ipython := sys.modules.get("IPython")) is None:
        return None
    try:
        found = ipython.get_ipython()
        runs_cells = hasattr(found, "kernel") or len(found.history_manager.input_hist_raw) > 1
    except AttributeError:  # it is not there, or half imported, or of another make
        return None
    return found if runs_cells else None


def has_display() -> bool:
    """Tell whether the notebook shows runs in its own way, so that no console is drawn."""
    return hasattr(shell(), "kernel")


def path() -> str:
    """Return the absolute path of the notebook; of a notebook that tells none, its working directory."""
    found = shell()
    told = "" if found is None else found.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME") or ""
    told = _SESSION_ID.sub("", told) if isinstance(told, str) else ""
    return os.path.join(os.getcwd(), told) if told.endswith(".ipynb") else os.getcwd()


def title() -> str | None:
    """Return the file name of the notebook, "" if it is not known; None outside a notebook."""
    if shell() is None:
        return None
    try:
        found = path()
    except OSError:  # the working directory is gone
        return ""
    return os.path.basename(found) if found.endswith(".ipynb") else ""


def modules() -> list[str]:
    """Return the files of the user's own modules that are imported: no library's, none of Python itself."""
    global _modules
    count = len(sys.modules)
    if count == _modules[0]:
        return _modules[1]
    prefixes = {os.path.join(prefix, "") for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    libraries = tuple(prefixes | {os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")})
    found = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and not file.startswith(libraries):
            file = os.path.abspath(file)
            if "/site-packages/" not in file and "/dist-packages/" not in file and os.path.isfile(file):
                found.add(file)
    _modules = count, sorted(found)
    return _modules[1]
