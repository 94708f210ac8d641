"""The one guarded edge: nothing of ours raises into the user's code, and what is swallowed is counted and said."""

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

swallowed = 0
_said: set[str] = set()


def say_once(text: str) -> None:
    """Tell the user something on stderr, once; never through `warnings`, which can be made to raise."""
    if text in _said or len(_said) > 1000:
        return
    _said.add(text)
    try:
        sys.stderr.write(f"vedette: {text}\n")
    except Exception:
        return


def swallow(error: BaseException, doing: str) -> None:
    """Count an error of ours, and name it once."""
    global swallowed
    swallowed += 1
    say_once(f"{doing} failed and goes on without: {type(error).__name__}: {error}")


def guarded(function: Callable[P, R]) -> Callable[P, R | None]:
    """Make a public verb of the client safe to call: on an error of ours it returns None."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            swallow(error, f"{function.__name__}()")
            return None

    return call
