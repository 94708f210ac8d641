"""Starts the program that takes down what a run is made of, beside the user's process and not as its child.

All that happens here is one record, a file in memory, and a small shell that is gone at once (decisions/014).
"""

import os
import platform
import sys
from typing import Any

import msgspec
from msgspec import Struct

from vedette import detached, kernel, masks
from vedette.client import faults
from vedette.client.journal import Journal
from vedette.client.values import text_of
from vedette.model import Value
from vedette.settings import Settings

_MOST_WORDS = 1000
_MOST_CHARS = 100_000  # of all words of a command


class Brief(Struct, frozen=True):
    """What the program has to know."""

    run: str
    home: str
    settings: Settings
    cwd: str
    argv: list[str]
    script: str
    python: str
    sys_path: list[str]
    t: int
    launched: bool = False  # the command is another program's, which is yet to begin


def begin(journal: Journal, settings: Settings, command: list[str] | None = None) -> None:
    """Put on record what is known at once, and start the program; never raise, never wait.

    `command`: what the run was begun for, where it is not this process.
    """
    if not settings.capture.enable:
        return
    try:
        _begin(journal, settings, command)
    except Exception as error:
        faults.let_through(error)
        faults.swallow(error, "taking down what the run is made of")


def _begin(journal: Journal, settings: Settings, command: list[str] | None) -> None:
    words = list(getattr(sys, "orig_argv", sys.argv)) if command is None else command
    argv, cut = _within(masks.argv(text_of(word) for word in words))
    try:
        cwd = os.getcwd()
    except OSError:  # it was removed
        cwd = ""
    attrs: dict[str, Value] = {"argv": argv, "cwd": masks.text(text_of(cwd)), "host": kernel.host()}
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
    own = command is None
    brief = Brief(
        journal.run, journal.home.asked, settings, cwd, [text_of(word) for word in words][:_MOST_WORDS],
        _script() if own else "", platform.python_version() if own else "",
        [os.path.join(cwd, str(part)) for part in sys.path] if own else [], journal.now(), launched=not own,
    )  # fmt: skip
    try:
        _spawn(msgspec.msgpack.encode(brief))
    except OSError as error:
        journal.set(journal.run, {"capture": f"not begun: {error.strerror}"})


def _within(words: list[str]) -> tuple[list[str], bool]:
    """Return as many words as are kept, and whether that is not all of them."""
    kept, room = [], _MOST_CHARS
    for word in words[:_MOST_WORDS]:
        kept.append(word[:room])
        room -= len(kept[-1])
    return kept, kept != words


def _script() -> str:
    """Return the file of the program that runs, if it is one of the user's and not of a library's."""
    path: Any = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(path, str) or not os.path.isfile(path):
        return ""
    path = os.path.abspath(path)
    prefixes = {os.path.join(prefix, "") for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    libraries = [part for part in sys.path if os.path.basename(part) in ("site-packages", "dist-packages")]
    return "" if path.startswith((*prefixes, *(os.path.join(part, "") for part in libraries))) else path


def _spawn(brief: bytes) -> None:
    """Start the program as nobody's child. Its brief is a file in memory: an argument could be seen by everybody."""
    handed = os.memfd_create("vedette-brief", os.MFD_CLOEXEC)
    try:
        with open(handed, "wb", closefd=False) as file:
            file.write(brief)
        os.lseek(handed, 0, os.SEEK_SET)
        detached.start("vedette.capture", (), detached.environment(), handed=(handed,))
    finally:
        os.close(handed)
