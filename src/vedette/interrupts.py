"""Errors that a signal handler of the user raises while our code runs, such as the timeout of a call.

They may be of any type, also of one that our code handles itself: ValueError when a segment is full, or OSError when a
disk fails, of which TimeoutError is a kind. Who handles such an error in the user's process lets these through first.
"""

# Not those of `signal`, which handle a ValueError of the user's themselves.
from _signal import SIG_DFL, getsignal  # type: ignore[import-not-found]
from itertools import pairwise
from types import FrameType, TracebackType


def is_default(number: int) -> bool:
    """Tell whether a signal has its default effect: no handler is set, and it is not ignored."""
    return getsignal(number) is SIG_DFL


def is_of_handler(error: BaseException) -> bool:
    """Tell whether a signal handler of the user raised an error.

    Python calls a handler with the signal's number and the frame that it has interrupted. So in the traceback the
    frame of a handler has the one before it among its arguments, whatever kind of callable the handler is, and even if
    it is not registered any more.
    """
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        if _has_argument(trace.tb_next.tb_frame, trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def _has_argument(frame: FrameType, interrupted: FrameType) -> bool:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 1]  # the last may be `*args`
    given: list[object] = []
    for value in map(frame.f_locals.get, names):
        given += value if type(value) is tuple else [value]
    return any(isinstance(one, int) and other is interrupted for one, other in pairwise(given))


def let_through(error: BaseException) -> None:
    """Raise the error again if a signal handler of the user raised it while our code ran: it is the user's error."""
    if is_of_handler(error):
        raise error
