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
from vedette.client import faults
from vedette.client.journal import Journal
from vedette.client.values import text_of
from vedette.interrupts import let_through
from vedette.model import Value
from vedette.settings import Settings

_MAX_WORDS = 1000
_MAX_CHARS = 100_000  # characters of all words of a command together


class Brief(Struct, frozen=True):
    """What the capture program is told."""

    run: str
    home: str
    settings: Settings
    cwd: str
    argv: list[str]
    script: str
    python: str
    sys_path: list[str]
    t: int
    launched: bool = False  # the command is another program, which has not started yet


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


def _begin(journal: Journal, settings: Settings, command: list[str] | None) -> None:
    given = list(getattr(sys, "orig_argv", sys.argv)) if command is None else command
    argv, cut = _cut(masks.argv(text_of(word) for word in given))
    try:
        cwd = os.getcwd()
    except OSError:  # the directory was removed
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
    ours = command is None
    brief = Brief(
        journal.run, journal.home.asked, settings, cwd, [text_of(word) for word in given][:_MAX_WORDS],
        _script() if ours else "", platform.python_version() if ours else "",
        [os.path.join(cwd, str(part)) for part in sys.path] if ours else [], journal.now(), launched=not ours,
    )  # fmt: skip
    try:
        _spawn(msgspec.msgpack.encode(brief))
    except OSError as error:
        journal.set(journal.run, {"capture": f"not begun: {error.strerror}"})


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


def _spawn(brief: bytes) -> None:
    """Start the program detached. Its brief is a file in memory: other users could read a command line."""
    handed = os.memfd_create("vedette-brief", os.MFD_CLOEXEC)
    try:
        with open(handed, "wb", closefd=False) as file:
            file.write(brief)
        os.lseek(handed, 0, os.SEEK_SET)
        detached.start("vedette.capture", (), detached.environment(), handed=(handed,))
    finally:
        os.close(handed)
