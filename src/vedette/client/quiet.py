"""What a thread prints while it is hushed stays off the record: it is there by another word, or is a word of ours."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Thread(threading.local):
    on = False


_here = _Thread()


def is_hushed() -> bool:
    """Tell whether this thread is hushed."""
    return _here.on


def hush(on: bool) -> bool:
    """Hush this thread or not; return what held before."""
    before = _here.on
    _here.on = on
    return before


@contextmanager
def hushed() -> Iterator[None]:
    """Hush this thread for a while."""
    before = hush(True)
    try:
        yield
    finally:
        hush(before)
