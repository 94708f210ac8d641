"""Removes runs by the rules of the settings `keep.*`, and deletes the data of purged ones.

`sweep` is one small step between two turns. A failure here does not stop ingest: it is noted, and tried again later.
"""

import os
import time
from collections.abc import Callable, Collection

from vedette.blobs import Blobs
from vedette.errors import VedetteError
from vedette.home import Home
from vedette.hub.log import Log
from vedette.model import HUB, PURGED, Fact, Span
from vedette.query import retention
from vedette.settings import Keep, Settings
from vedette.store import Store

_EVERY_S = 3600.0
_LOOK_EVERY_S = 1.0  # how often we check whether the file of settings has changed
_RETRY_S = 60.0
_PAGES = 250  # pages of the store that one step deletes: some milliseconds
_REST = 4.0  # the pause after a step, in lengths of that step: sweeping takes at most a fifth of the keeper's time
_MOST_AT_ONCE = 500  # runs that are removed at once


class Sweeper:
    """Applies the rules of retention to a store."""

    def __init__(
        self, home: Home, store: Store, log: Log, keep: Keep, reload: Callable[[], Settings] | None = None
    ) -> None:
        """Sweep this store; `reload` reads the settings again, when their file in the home has changed."""
        self.keep = keep
        self.trouble = ""
        self.busy = True  # until the store says that nothing is left to delete
        self._store = store
        self._blobs = Blobs(home)
        self._log = log
        self._reload = reload
        self._file = os.path.join(home.asked, "vedette.toml")
        self._stamp = self._look()
        self._looked = time.monotonic()
        self._bad_rules = ""
        self._due_at = 0.0
        self._resume_at = 0.0

    def sweep(self, say: Callable[[list[Fact]], None], living: Callable[[], Collection[str]]) -> None:
        """Do one step; `say` writes facts of the hub, `living` returns the runs whose processes live."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_EVERY_S:
            self._looked = now
            if (stamp := self._look()) != self._stamp:
                self._stamp = stamp
                self._change_rules()
        if now < self._resume_at:
            return
        try:
            self.busy = self._store.reclaim(_PAGES)
            # Rules about space wait until all is deleted: only then is it known how much there is.
            if not self.busy and now >= self._due_at:
                self._due_at = now + _EVERY_S
                self._apply(say, living())
            self.trouble = self._bad_rules
            self._resume_at = now + (1 + _REST) * (time.monotonic() - now)
        except Exception as error:  # a full disk, a damaged page: ingest must continue
            self.busy = False
            self._resume_at = now + _RETRY_S
            self._complain(f"{type(error).__name__}: {error}")

    def _apply(self, say: Callable[[list[Fact]], None], living: Collection[str]) -> None:
        t = time.time_ns()
        found = retention.due(self._store, self._blobs, self.keep, t, living)[:_MOST_AT_ONCE]
        if found:
            say([Span(run.id, t, PURGED, run.why, HUB) for run in found])
            self.busy = True
            self._due_at = 0.0  # look again when they are deleted: there may be more

    def _look(self) -> tuple[int, int]:
        try:
            status = os.stat(self._file)
        except OSError:
            return 0, 0
        return status.st_mtime_ns, status.st_size

    def _change_rules(self) -> None:
        """Use the new rules; if they are invalid, remove nothing until they are corrected."""
        if self._reload is None:
            return
        try:
            self.keep, self._bad_rules = self._reload().keep, ""
        except VedetteError as error:
            self.keep, self._bad_rules = Keep(), str(error)
            self._complain(self._bad_rules)
        self._due_at = 0.0

    def _complain(self, trouble: str) -> None:
        if trouble != self.trouble:
            self._log.complain(f"cannot remove runs by the rules keep.*: {trouble}")
        self.trouble = trouble
