"""What all routes share: the home, the threads that read it, caches, and the live viewers."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from vedette.access.home_access import HomeAccess
from vedette.query.curves import Curves
from vedette.query.listing import Listing
from vedette.query.means import Means
from vedette.query.unsealed import UnsealedPoints
from vedette.views.web.key import Key
from vedette.views.web.live import Live
from vedette.views.web.manifests import Manifests
from vedette.views.web.read_pool import ReadPool


class AppState:
    """The state of a web server: one home, and what was made for it."""

    def __init__(self, home: HomeAccess, key: Key, *, read_only: bool = False, project: str = "") -> None:
        """`key`: the owner's token; `project`: the one to show first."""
        self.home = home
        self.key = key
        self.read_only = read_only
        self.project = project
        self.unsealed = UnsealedPoints()
        self.pool = ReadPool(home, unsealed=self.unsealed)
        self.link_pool = ReadPool(home, unsealed=self.unsealed, threads=2)  # of links: they keep the owner from nothing
        self.listing = Listing(home.lost_after_s)
        self.link_listing = Listing(home.lost_after_s, self.listing.trails)  # who reads a list waits for its readers
        self.live = Live(home, self.listing, self.unsealed, self.link_listing)
        self.curves = Curves()
        self.means = Means()
        self.cache = Cache()
        self.manifests = Manifests()
        self.described: Any = None  # the OpenAPI document

    def start(self) -> None:
        """Start following the hub."""
        self.live.start()

    def close(self) -> None:
        """Stop following it, and end the threads."""
        self.live.close()
        self.pool.close()
        self.link_pool.close()


class Cache:
    """An LRU cache of answers, up to `most_bytes`. If an answer is being made, others who ask for it wait."""

    def __init__(self, most_bytes: int = 64 << 20) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._answers: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return the answer for this key; make it if it is not cached."""
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
    """Return an attribute as text, whatever type it has."""
    return value if isinstance(value, str) else "" if value is None else str(value)
