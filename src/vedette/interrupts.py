"""Errors that a signal handler of the user raises while our code runs, such as the timeout of a call.

They may be of any type, also of one that our code handles itself: ValueError when a segment is full, or OSError when a
disk fails, of which TimeoutError is a kind. Who handles such an error in the user's process lets these through first.
"""

# Not those of `signal`, which handle a ValueError of the user's themselves.
from _signal import NSIG, SIG_DFL, getsignal  # type: ignore[import-not-found]


def is_default(number: int) -> bool:
    """Tell whether a signal has its default effect: no handler is set, and it is not ignored."""
    return getsignal(number) is SIG_DFL


def is_of_handler(error: BaseException) -> bool:
    """Tell whether a signal handler of the user raised an error."""
    handlers = {code for number in range(1, NSIG) if (code := getattr(getsignal(number), "__code__", None)) is not None}
    trace = error.__traceback__
    while handlers and trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def let_through(error: BaseException) -> None:
    """Raise the error again if a signal handler of the user raised it while our code ran: it is the user's error."""
    if is_of_handler(error):
        raise error
