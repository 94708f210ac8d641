"""Starts the program that records what a run is made of: code, packages, machine.

That program is not a child of the user's process. The user's process only writes one record
and a file in memory, and starts a small shell that exits at once (decisions/014).
"""

import os
import platform
import sys
from typing import Any

import msgspec
from msgspec import Struct

from vedette import detached, kernel, masks
from vedette.client import capture_program, faults, notebook
from vedette.client.journal import Journal
from vedette.client.values import plain, text_of
from vedette.interrupts import let_through
from vedette.model import Value
from vedette.settings import Settings

_MAX_WORDS = 1000
_MAX_CHARS = 100_000  # characters of all words of a command together


class Brief(Struct, frozen=True):
    """What the capture program is told."""

    run: str
    home: bytes  # a path need not be text
    settings: Settings
    cwd: str
    argv: list[str]
    script: str
    python: str
    sys_path: list[str]
    t: int
    launched: bool = False  # the command is another program, which has not started yet
    environ: dict[str, bytes] = {}  # of the process that began the run
    notebook: str = ""  # the path of the notebook, or its working directory; empty outside notebooks
    modules: list[str] = []  # the files of local modules that a notebook has imported
    only_code: bool = False  # the rest has been captured before


def begin(journal: Journal, settings: Settings, command: list[str] | None = None) -> None:
    """Record what this process knows already, and start the capture program; never raise, never wait.

    `command`: the program that the run is about, if that is not this process.
    """
    if not settings.capture.enable:
        return
    try:
        _begin(journal, settings, command)
    except Exception as error:
        let_through(error)
        faults.swallow(error, "the record of what the run is made of")


def again(journal: Journal, settings: Settings, modules: list[str]) -> None:
    """Capture the code of a notebook again, since it has imported more modules; raise OSError if that cannot be."""
    if detached.is_possible():
        _capture(_of_notebook(journal, settings, os.getcwd(), modules, only_code=True))


def _of_notebook(journal: Journal, settings: Settings, cwd: str, modules: list[str], *, only_code: bool) -> Brief:
    return Brief(
        journal.run, os.fsencode(journal.home.asked), settings, cwd, [], "", platform.python_version(),
        [os.path.join(cwd, str(part)) for part in sys.path], journal.now(), notebook=notebook.path(), modules=modules,
        only_code=only_code,
    )  # fmt: skip


def _begin(journal: Journal, settings: Settings, command: list[str] | None) -> None:
    given = list(getattr(sys, "orig_argv", sys.argv)) if command is None else command
    argv, cut = _cut(masks.argv(text_of(word) for word in given))
    try:
        cwd = os.getcwd()
    except OSError:  # the directory was removed
        cwd = ""
    attrs: dict[str, Value] = {"argv": argv, "cwd": masks.text(text_of(cwd)), "host": kernel.host()}
    in_notebook = command is None and notebook.shell() is not None
    if in_notebook:  # the command of a kernel says nothing of the notebook, and names a file with the kernel's key
        del attrs["argv"]
        attrs["notebook"] = masks.text(text_of(notebook.path() if cwd else ""))
    elif options := _options(command):
        attrs["arg"] = masks.values(plain(options))
    if command is None:
        attrs["python"] = platform.python_version()
    if cut:
        attrs["argv_cut"] = True
    can = detached.is_possible() and bool(cwd)
    why_not = "no program can be started from here" if cwd else "the working directory is gone"
    attrs["capture"] = "begun" if can else f"not begun: {why_not}"
    journal.set(journal.run, attrs)
    if not can:
        return
    ours = command is None
    if in_notebook:
        brief = _of_notebook(journal, settings, cwd, notebook.modules(), only_code=False)
    else:
        brief = Brief(
            journal.run, os.fsencode(journal.home.asked), settings, cwd, [text_of(word) for word in given][:_MAX_WORDS],
            _script() if ours else "", platform.python_version() if ours else "",
            [os.path.join(cwd, str(part)) for part in sys.path] if ours else [], journal.now(), launched=not ours,
        )  # fmt: skip
    try:
        _capture(brief)
    except OSError as error:
        journal.set(journal.run, {"capture": f"not begun: {error.strerror}"})


def _options(command: list[str] | None) -> dict[str, Any]:
    """Return the options of the command, or of this process; those of a notebook's kernel are not the user's."""
    words = (command or sys.argv)[1:]
    if not words or (command is None and "ipykernel" in sys.modules):
        return {}
    from vedette.client import arguments  # noqa: PLC0415 - its patterns take longer than the rest of `init`

    if command is not None:
        words = arguments.of_program(command)
    return arguments.read([text_of(word) for word in words[:_MAX_WORDS]])


def _capture(brief: Brief) -> None:
    environ = {text_of(name): os.fsencode(value) for name, value in detached.environment().items()}
    settings = msgspec.structs.replace(brief.settings, home="")  # `brief.home` has it
    whole = msgspec.structs.replace(brief, environ=environ, settings=settings)
    capture_program.capture(msgspec.msgpack.encode(whole))


def _cut(words: list[str]) -> tuple[list[str], bool]:
    """Return the words that fit into the limits, and whether something was cut."""
    kept, room = [], _MAX_CHARS
    for word in words[:_MAX_WORDS]:
        kept.append(word[:room])
        room -= len(kept[-1])
    return kept, kept != words


def _script() -> str:
    """Return the path of the running script, if it is the user's own; a library's is not."""
    path: Any = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(path, str) or not os.path.isfile(path):
        return ""
    path = os.path.abspath(path)
    prefixes = {os.path.join(prefix, "") for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    libraries = [part for part in sys.path if os.path.basename(part) in ("site-packages", "dist-packages")]
    return "" if path.startswith((*prefixes, *(os.path.join(part, "") for part in libraries))) else path
