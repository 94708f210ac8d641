"""What all routes share: the home behind them, threads that read it, what was seen before, and who listens."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from vedette.access.home_access import HomeAccess
from vedette.query.curves import Curves
from vedette.query.listing import Listing
from vedette.query.unsealed import UnsealedPoints
from vedette.views.web.live import Live
from vedette.views.web.read_pool import ReadPool


class AppState:
    """One home on show."""

    def __init__(self, home: HomeAccess, token: str, *, read_only: bool = False, project: str = "") -> None:
        """`project`: which one is shown at first."""
        self.home = home
        self.token = token
        self.read_only = read_only
        self.project = project
        self.unsealed = UnsealedPoints()
        self.pool = ReadPool(home, unsealed=self.unsealed)
        self.listing = Listing(home.lost_after_s)
        self.live = Live(home, self.listing, self.unsealed)
        self.curves = Curves()
        self.cache = Cache()
        self.described: Any = None  # what describes the routes

    def start(self) -> None:
        """Begin to listen to the hub."""
        self.live.start()

    def close(self) -> None:
        """Let go of everything."""
        self.live.close()
        self.pool.close()


class Cache:
    """Answers that are asked for again and again, up to so many bytes. Who asks while one is made waits for it."""

    def __init__(self, most_bytes: int = 64 << 20) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._answers: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the answer for this key; make it if it is not here."""
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                if key in self._answers:
                    return self._answers[key]
            try:
                made = make()
            finally:
                with self._lock:
                    self._making.pop(key, None)
            with self._lock:
                if key not in self._answers and len(made) <= self._most_bytes:
                    self._answers[key] = made
                    self._bytes += len(made)
                    while self._bytes > self._most_bytes:
                        self._bytes -= len(self._answers.popitem(last=False)[1])
        return made


def text_of(value: Any) -> str:
    """Return an attribute that should be text as text."""
    return value if isinstance(value, str) else "" if value is None else str(value)
