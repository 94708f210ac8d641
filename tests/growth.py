"""How the work for a text grows with its length: what is quadratic shows on any machine, whoever else uses it."""

import time
from collections.abc import Callable

_TIMES = 8
_MOST = 24.0  # of work for 8 times the length: it is 8 times if linear, and 64 times if quadratic
_TRIES = 4


def grows_with_length(work: Callable[[str], object], piece: str, tail: str = "", shorter: int = 5_000) -> bool:
    """Tell whether the work for many pieces grows with their number alone; it is tried again if others interfere."""
    short, long = (piece * (length // len(piece)) + tail for length in (shorter, shorter * _TIMES))
    return any(_seconds(work, long) < _MOST * _seconds(work, short) for _ in range(_TRIES))


def _seconds(work: Callable[[str], object], text: str) -> float:
    """Return the CPU time of this thread: that of others does not count."""
    began = time.thread_time()
    work(text)
    return time.thread_time() - began
