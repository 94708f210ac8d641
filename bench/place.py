"""A home of its own for each measurement, whose hub ends with it."""

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator

from vedette.home import Home
from vedette.model import HUB
from vedette.segment import origin_of


@contextlib.contextmanager
def fresh_home(*, hub: bool) -> Iterator[Home]:
    """Make a home that VEDETTE_HOME points at; `hub`: whether one may start, else we hold its lock ourselves."""
    with tempfile.TemporaryDirectory(prefix="vdb-", ignore_cleanup_errors=True) as root:
        home = Home(root)
        before = os.environ.get("VEDETTE_HOME")
        os.environ["VEDETTE_HOME"] = root
        home.prepare()
        lock = None if hub else home.take_lock()
        try:
            yield home
        finally:
            if lock is None:
                end_hub(home)
            else:
                os.close(lock)
            if before is None:
                os.environ.pop("VEDETTE_HOME", None)
            else:
                os.environ["VEDETTE_HOME"] = before


def end_hub(home: Home) -> None:
    """End the hub of a home, also one that is only just starting, and wait until it is gone."""
    deadline = time.monotonic() + 20
    quiet_since = time.monotonic()
    while time.monotonic() < deadline:
        pid = home.hub_pid()
        if pid is None:
            if time.monotonic() - quiet_since > _settling_s(home):
                return
        else:
            quiet_since = time.monotonic()
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    raise TimeoutError("the hub does not end")


def _settling_s(home: Home) -> float:
    """Return how long a hub could still be on its way: one that was woken seconds ago may not have its lock yet."""
    try:
        return 1.0 if time.time() - os.stat(os.path.join(home.root, "hub.waking")).st_mtime < 3 else 0.0
    except OSError:
        return 0.0


def wait_for_burials(home: Home, living: int = 0) -> int:
    """Wait until the hub has buried all spools but those of the living; return how many too many there are at last.

    A spool without a segment, whose process died before it said anything, does not count: it may wait longer. Nor do
    those of the living hub and its meter.
    """
    deadline = time.monotonic() + 30
    while (left := _with_segment(home) - living) > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    return max(0, left)


def _with_segment(home: Home) -> int:
    count = 0
    for name in os.listdir(home.spool):
        folder = os.path.join(home.spool, name)
        with contextlib.suppress(FileNotFoundError):  # it is being buried right now
            begun = any(part[:2] in ("f.", "s.") and not part.endswith(".new") for part in os.listdir(folder))
            origin = origin_of(folder)
            count += begun and (origin is None or origin.voice != HUB or not os.path.exists(f"/proc/{origin.pid}"))
    return count
