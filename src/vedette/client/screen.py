"""The terminal of this process, while a console draws on it: what the program prints goes around the console.

The console itself is a view, and handed in from outside (`open_console`): nothing here knows how it looks.
"""

import builtins
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TextIO

from vedette import kernel
from vedette.client import faults
from vedette.client.faults import swallow
from vedette.client.run import Run
from vedette.settings import Settings


class Console(Protocol):
    """What a console inside a run's own process can do."""

    alive: bool  # it has not failed

    def lock_for(self, stream: TextIO) -> AbstractContextManager[Any] | None:
        """Return what is to be held while the program prints on a stream; None: it goes elsewhere."""

    def make_room(self, text: str) -> None:
        """Take everything away that a text would be printed over."""

    def go_on(self, text: str) -> None:
        """Put everything back behind a text that was printed."""

    def read(self, on: bool, *, ended: bool = True) -> None:
        """Leave the cursor alone while the program has a line typed; `ended`: the line was."""

    def close(self, name: str, state: str, cause: str) -> str:
        """Go away, within 2 s; return the last line to be shown."""

    def forget(self) -> None:
        """Do nothing any more: this is the child of a fork, and the terminal is the parent's to draw on."""


_PATIENCE_S = 0.2
Open = Callable[[Run, Settings], Console]

open_console: Open | None = None  # set by the composition root
_console: Console | None = None
_of_parent = False  # the parent of this process draws on the terminal
_put: list[tuple[Any, str, Any, Any]] = []  # objects, the names that we put into them, ours, and what was there
_here = threading.local()
_last: list[str] | None = None  # last lines that wait until a traceback is out


def wanted(mode: str, stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Tell whether a run in this process is to have a console on a stream."""
    if mode == "off" or stream is None or environ.get("VEDETTE_CAPTURED"):
        return False
    if mode == "on":
        return True
    interactive = hasattr(sys, "ps1") or sys.flags.interactive or "ipykernel" in sys.modules
    return stream.isatty() and not interactive and environ.get("TERM", "dumb") not in ("", "dumb")


def begin(run: Run, settings: Settings) -> None:
    """Open a console for a run that this process has begun, where one is wanted."""
    global _console
    if open_console is None or _console is not None or _of_parent:
        return
    if not wanted(settings.console.mode, sys.stderr, os.environ):
        return
    try:
        _console = open_console(run, settings)
    except Exception as error:
        swallow(error, "the console")
        return
    faults.write_notice = _write_around_console
    for stream in (sys.stdout, sys.stderr):
        _wrap(stream)
    _wrap_input()
    run._on_end.append(lambda: _end(run))


def is_on() -> bool:
    """Tell whether a console is drawn by this process."""
    return _console is not None


def tidies() -> bool:
    """Tell whether a console shows what is logged here, in its own way: this process's, or that of its parent."""
    return _of_parent or (_console is not None and _console.alive)


def after_fork() -> None:
    """Leave the terminal to the parent."""
    global _console, _of_parent
    if _console is not None:
        _console.forget()
        _console = None
        _of_parent = True


@contextmanager
def held() -> Iterator[None]:
    """Keep the last line back until what is printed in here is out."""
    global _last
    _last = []
    try:
        yield
    finally:
        waiting, _last = _last, None
        for line in waiting:
            _say(line)


def _end(run: Run) -> None:
    global _console
    if _console is None:
        return
    console, _console = _console, None
    _unwrap()
    try:
        line = console.close(run.name or run.id, *run._how)
    except Exception as error:
        swallow(error, "the end of the console")
        return
    if _last is None:
        _say(line)
    else:
        _last.append(line)


def _say(line: str) -> None:
    try:
        if line and kernel.wait((), [sys.stderr], _PATIENCE_S):  # it may be stopped, by Ctrl-S
            faults.write_stderr(line + "\n")
    except Exception:
        return


def _write_around_console(text: str, write: Callable[[str], None]) -> None:
    """Write words of ours where the console is."""
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
    """Put a method of ours before the stream's own `write`; a stream that does not let us is left alone."""
    try:
        before = vars(stream).get("write")  # somebody else's, if there is one
        original = stream.write

        def write(*args: Any, **named: Any) -> Any:
            console = _console
            if _of_parent:
                _make_room(stream)
            if console is None or getattr(_here, "inside", False) or not args or not isinstance(args[0], str):
                return original(*args, **named)
            lock = console.lock_for(stream)
            if lock is None:
                return original(*args, **named)
            _here.inside = True
            try:
                with lock:  # in C, where no interrupt can come in: one in a context manager's code would leave it held
                    try:
                        console.make_room(args[0])
                        written = original(*args, **named)
                        if "\n" in args[0]:
                            stream.flush()
                    finally:
                        console.go_on(args[0])
                return written
            finally:
                _here.inside = False

        stream.write = write
        _put.append((stream, "write", write, before))
    except Exception:  # whatever a stranger's stream raises
        return


def _wrap_input() -> None:
    """Have the console leave the terminal alone during `input()`, whose prompt C writes, and whose echo the kernel."""
    original = builtins.input

    def input(*args: Any) -> str:  # noqa: A001 - it is the one that we stand for
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
    _put.append((builtins, "input", input, original))


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except Exception:  # whatever stands in the place of stdin
        return False


def _make_room(stream: Any) -> None:
    """Take away what the parent has drawn below the cursor; it draws it again behind what is printed now."""
    try:
        if _is_terminal(stream):
            os.write(stream.fileno(), b"\x1b[J")
    except Exception:  # it is not a stream of ours
        return


def _unwrap() -> None:
    while _put:
        owner, name, ours, before = _put.pop()
        try:
            if vars(owner).get(name) is not ours:
                continue
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        except Exception:  # noqa: S112 - it stays, and passes on what it gets
            continue
