"""The owner's token of the page, as its file says it now, and codes that hand it to his browser.

`vedette token --new` replaces the file while the page is served. The old token opens nothing from then on, and what was
signed with it neither.
"""

import os
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from vedette import tokens
from vedette.home import Home

CODE = "once."  # a code begins so
CODE_S = 60.0  # for how long it is good
_MOST_OLD = 8  # replaced tokens that we know again, to say what has become of them


class Key:
    """The owner's token; thread-safe."""

    def __init__(self, read: Callable[[], str], stamp: Callable[[], Any] = lambda: None) -> None:
        """`read` returns the token; it is called again when `stamp` returns something else."""
        self._read = read
        self._stamp = stamp
        self._lock = threading.Lock()
        self._seen = stamp()
        self._now = read()
        self.old: list[str] = []  # the newest first
        self._codes: dict[str, float] = {}  # and until when each is good

    @classmethod
    def of(cls, home: Home) -> "Key":
        """Return the key of a home; if it has no token yet, one is made."""

        def stamp() -> Any:
            try:
                found = os.stat(tokens.page_path(home))
            except OSError:
                return None
            return found.st_ino, found.st_mtime_ns, found.st_size

        def read() -> str:
            try:
                return tokens.page_token(home)
            except OSError:
                return ""  # nobody is the owner, until it can be read again

        return cls(read, stamp)

    @property
    def now(self) -> str:
        """The token as it is now."""
        with self._lock:
            if (stamp := self._stamp()) != self._seen or stamp is None:
                self._seen = stamp
                if (token := self._read()) != self._now:
                    self.old = [self._now, *self.old][:_MOST_OLD]
                    self._now = token
                    self._codes.clear()
            return self._now

    def code(self) -> str:
        """Make a code that opens the page once, within a minute."""
        made = CODE + secrets.token_urlsafe(24)
        with self._lock:
            self._codes[made] = time.monotonic() + CODE_S
        return made

    def knows(self, code: str) -> bool:
        """Tell whether a code is good: it was not used yet, and is not too old."""
        with self._lock:
            return time.monotonic() < self._codes.get(code, 0.0)

    def use(self, code: str) -> None:
        """Use a code up."""
        with self._lock:
            self._codes.pop(code, None)
