"""The one place where our own errors stop: none reaches the user's code.

Each error is counted in `swallowed`, and the user is told once on stderr.
"""

import functools
import io
import os
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from vedette.client.quiet import quiet
from vedette.interrupts import let_through

P = ParamSpec("P")
R = TypeVar("R")

swallowed = 0
_said: set[str] = set()


def say_once(text: str, topic: str = "") -> None:
    """Print a message on stderr, once for each topic. Not by `warnings`: the user can turn warnings into errors.

    The topic is the text itself if none is given.
    """
    if (topic or text) in _said or len(_said) > 1000:
        return
    _said.add(topic or text)
    before, quiet.on = quiet.on, True
    try:
        write_notice(f"vedette: {text}\n", write_stderr)
    except Exception as error:
        let_through(error)
        return
    finally:
        quiet.on = before


def write_stderr(text: str) -> None:
    """Write to stderr, past its buffer.

    A text that stays in the buffer of a stream that cannot be written makes Python exit with an error.
    """
    stream = sys.stderr
    try:
        fd = stream.fileno() if isinstance(stream, io.TextIOWrapper) else -1
    except (OSError, ValueError):  # a stream without a file descriptor
        fd = -1
    if fd < 0:
        stream.write(text)
        return
    stream.flush()
    os.write(fd, text.encode(errors="backslashreplace"))


def write_notice(text: str, write: Callable[[str], None]) -> None:
    """Write a message of ours. `screen` replaces this while a console is drawn, to make room for the text first."""
    write(text)


def swallow(error: BaseException, doing: str) -> None:
    """Count an error of our own, and tell the user once; `doing` names what failed."""
    global swallowed
    swallowed += 1
    try:
        what = f"{type(error).__name__}: {error}"
    except Exception as inner:  # str() of a user's exception may raise
        let_through(inner)
        what = "an error without a message"
    say_once(f"{doing} failed, and your program goes on without it: {what}")


def never_raises(function: Callable[P, R]) -> Callable[P, R | None]:
    """Wrap a public function so that it never raises: after an error of our own it returns None."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            let_through(error)
            swallow(error, f"{function.__name__}()")
            return None

    return call
