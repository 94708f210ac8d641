"""What the tests of `launch` share."""

import os
import pty
from collections.abc import Iterator

import pytest


@pytest.fixture
def terminals() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal of which nobody is in the foreground."""
    pair = pty.openpty()
    yield pair
    for fd in pair:
        os.close(fd)
