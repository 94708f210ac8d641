"""Lets a console and the program share the terminal of this process: before the program prints, the console makes room.

The console itself is a view, which the composition root hands in (`open_console`); this module does not draw.
"""

import builtins
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TextIO

from vedette import kernel
from vedette.client import faults, notebook
from vedette.client.faults import swallow
from vedette.client.run import Run
from vedette.interrupts import let_through
from vedette.settings import Settings


class Console(Protocol):
    """What a console inside a run's own process can do."""

    alive: bool  # False once it has failed

    def lock_for(self, stream: TextIO) -> AbstractContextManager[Any] | None:
        """Return the lock to hold while the program prints to a stream; None if the stream goes elsewhere."""

    def make_room(self, text: str) -> None:
        """Erase what the text would be printed over."""

    def go_on(self, text: str) -> None:
        """Draw everything again below the printed text."""

    def read(self, on: bool, *, ended: bool = True) -> None:
        """Leave the cursor alone while the user types a line for the program; `ended`: the line is complete."""

    def close(self, name: str, state: str, cause: str) -> str:
        """Close within 2 s; return the last line to print."""

    def forget(self) -> None:
        """Stop drawing: this is a fork child, and the terminal belongs to the parent."""


_WAIT_S = 0.2
Open = Callable[[Run, Settings], Console]

open_console: Open | None = None  # set by the composition root
_console: Console | None = None
_parent_has_console = False  # the parent of this process draws on the terminal
_replaced: list[tuple[Any, str, Any, Any]] = []  # (object, attribute, our function, what was there before)
_this_thread = threading.local()
_held_lines: list[str] | None = None  # last lines that wait until a traceback is printed


def wanted(mode: str, stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Tell whether a run in this process gets a console on a stream."""
    if mode == "off" or stream is None or environ.get("VEDETTE_CAPTURED") or notebook.has_display():
        return False
    if mode == "on":
        return True
    interactive = hasattr(sys, "ps1") or sys.flags.interactive or "ipykernel" in sys.modules
    return stream.isatty() and not interactive and environ.get("TERM", "dumb") not in ("", "dumb")


def begin(run: Run, settings: Settings) -> None:
    """Open a console for a run that this process has begun, if one is wanted."""
    global _console
    if open_console is None or _console is not None or _parent_has_console:
        return
    if not wanted(settings.console.mode, sys.stderr, os.environ):
        return
    try:
        _console = open_console(run, settings)
    except Exception as error:
        let_through(error)
        swallow(error, "the console")
        return
    faults.write_notice = _write_around_console
    for stream in (sys.stdout, sys.stderr):
        _wrap(stream)
    _wrap_input()
    run._on_end.append(lambda: _end(run))


def is_on() -> bool:
    """Tell whether this process draws a console."""
    return _console is not None


def shows_logs() -> bool:
    """Tell whether a console shows the log messages of this process: its own console, or that of its parent."""
    return _parent_has_console or (_console is not None and _console.alive)


def after_fork() -> None:
    """Leave the terminal to the parent."""
    global _console, _parent_has_console
    if _console is not None:
        _console.forget()
        _console = None
        _parent_has_console = True


@contextmanager
def hold_last_line() -> Iterator[None]:
    """Print the console's last line only after this block, behind what the block prints."""
    global _held_lines
    _held_lines = []
    try:
        yield
    finally:
        waiting, _held_lines = _held_lines, None
        for line in waiting:
            _say(line)


def _end(run: Run) -> None:
    global _console
    if _console is None:
        return
    console, _console = _console, None
    _unwrap()
    try:
        line = console.close(run.name or run.id, *run._ended_as)
    except Exception as error:
        let_through(error)
        swallow(error, "the end of the console")
        return
    if _held_lines is None:
        _say(line)
    else:
        _held_lines.append(line)


def _say(line: str) -> None:
    try:
        if line and kernel.wait((), [sys.stderr], _WAIT_S):  # Ctrl-S may have stopped the terminal
            faults.write_stderr(line + "\n")
    except Exception as error:
        let_through(error)
        return


def _write_around_console(text: str, write: Callable[[str], None]) -> None:
    """Write a message of ours to the terminal that the console draws on."""
    console = _console
    lock = console.lock_for(sys.stderr) if console is not None and sys.stderr is not None else None
    if console is None or lock is None:
        write(text)
        return
    with lock:
        console.make_room(text)
        try:
            write(text)
        finally:
            console.go_on(text)


def _wrap(stream: Any) -> None:
    """Replace the stream's `write` by ours, which calls it; leave a stream alone that does not allow that."""
    try:
        before = vars(stream).get("write")  # set on the instance by somebody else, or None
        original = stream.write

        def write(*args: Any, **named: Any) -> Any:
            console = _console
            if _parent_has_console:
                _make_room(stream)
            if console is None or getattr(_this_thread, "inside", False) or not args or not isinstance(args[0], str):
                return original(*args, **named)
            lock = console.lock_for(stream)
            if lock is None:
                return original(*args, **named)
            _this_thread.inside = True
            try:
                with lock:  # a lock in C: Ctrl-C inside a Python context manager would leave it held
                    try:
                        console.make_room(args[0])
                        written = original(*args, **named)
                        if "\n" in args[0]:
                            stream.flush()
                    finally:
                        console.go_on(args[0])
                return written
            finally:
                _this_thread.inside = False

        stream.write = write
        _replaced.append((stream, "write", write, before))
    except Exception as error:  # a user's stream may raise anything
        let_through(error)
        return


def _wrap_input() -> None:
    """Make the console pause during `input()`: C code writes the prompt, and the kernel echoes the keys."""
    original = builtins.input

    def input(*args: Any) -> str:  # noqa: A001 - it replaces the builtin
        console = _console
        if console is None or console.lock_for(sys.stdout) is None or not _is_terminal(sys.stdin):
            return original(*args)
        console.read(True)
        ended = False
        try:
            typed = original(*args)
            ended = True
            return typed
        finally:
            console.read(False, ended=ended)

    builtins.input = input
    _replaced.append((builtins, "input", input, original))


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except Exception as error:  # stdin may be any object
        let_through(error)
        return False


def _make_room(stream: Any) -> None:
    """Erase what the parent has drawn below the cursor; it draws again below what we print now."""
    try:
        if _is_terminal(stream):
            os.write(stream.fileno(), b"\x1b[J")
    except Exception as error:  # a user's stream may raise anything
        let_through(error)
        return


def _unwrap() -> None:
    while _replaced:
        owner, name, ours, before = _replaced.pop()
        try:
            if vars(owner).get(name) is not ours:
                continue
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        except Exception as error:  # our function stays, and calls the original
            let_through(error)
            continue
