"""The one guarded edge: nothing of ours raises into the user's code, and what is swallowed is counted and said."""

import functools
import io
import os
import signal
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from vedette.client.quiet import here

P = ParamSpec("P")
R = TypeVar("R")

swallowed = 0
_said: set[str] = set()


def say_once(text: str) -> None:
    """Tell the user something on stderr, once; never through `warnings`, which can be made to raise."""
    if text in _said or len(_said) > 1000:
        return
    _said.add(text)
    before, here.on = here.on, True
    try:
        beside(f"vedette: {text}\n", put)
    except Exception:
        return
    finally:
        here.on = before


def put(text: str) -> None:
    """Write to stderr, past its buffer: what stays there because it cannot be written fails the program at its end."""
    stream = sys.stderr
    try:
        fd = stream.fileno() if isinstance(stream, io.TextIOWrapper) else -1
    except (OSError, ValueError):  # it only looks like a file
        fd = -1
    if fd < 0:
        stream.write(text)
        return
    stream.flush()
    os.write(fd, text.encode(errors="backslashreplace"))


def beside(text: str, write: Callable[[str], None]) -> None:
    """Write; a console puts something in place of this, that makes room first."""
    write(text)


def swallow(error: BaseException, doing: str) -> None:
    """Count an error of ours, and name it once."""
    global swallowed
    swallowed += 1
    try:
        what = f"{type(error).__name__}: {error}"
    except Exception:  # an exception of the user's, whose text cannot be had
        what = "an error without a text"
    say_once(f"{doing} failed and goes on without: {what}")


def let_through(error: BaseException) -> None:
    """Raise an error again that a signal handler of the user raised while our code ran: it is not ours to swallow."""
    handlers = {
        code
        for number in signal.valid_signals()
        if (code := getattr(signal.getsignal(number), "__code__", None)) is not None
    }
    trace = error.__traceback__
    while handlers and trace is not None:
        if trace.tb_frame.f_code in handlers:
            raise error
        trace = trace.tb_next


def guarded(function: Callable[P, R]) -> Callable[P, R | None]:
    """Make a public verb of the client safe to call: on an error of ours it returns None."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            let_through(error)
            swallow(error, f"{function.__name__}()")
            return None

    return call
