"""The thread that follows the hub for all viewers: it gets changes, and points that are not sealed yet.

While somebody watches a run, it asks the hub each second for the points that are not in the store yet. Routes read
these together with the store's (query/unsealed.py); nothing is sealed for a viewer (decisions/019).
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from vedette.access.follower import LEFT
from vedette.access.home_access import HomeAccess
from vedette.errors import VedetteError
from vedette.ids import HOST, is_top, run_of
from vedette.query.listing import Listing
from vedette.query.unsealed import UnsealedPoints
from vedette.wire import Change

_LEAST_S = 0.05  # the least pause between two changes that are passed on
_ASK_S = 1.0  # how often the hub is asked for points of a run that somebody watches
_NEWEST_S = 2.0  # how often it is asked for the newest points, while somebody watches the list of runs
_MOST_TRAILS = 5000  # series whose unsealed points are collected


class Updater:
    """Updates the listings and the unsealed points as the hub reports changes, and passes these on."""

    def __init__(
        self, home: HomeAccess, listings: Sequence[Listing], unsealed: UnsealedPoints, tell: Callable[[Change], None]
    ) -> None:
        """`listings` have the same trails; `tell` is called in the thread of the updater."""
        self.connected = False  # there is a hub, and it reports changes
        self.trouble = ""  # why the hub that is there does not answer
        self._home = home
        self._listings = listings
        self._unsealed = unsealed
        self._tell = tell
        self._closed = False
        self._watched: frozenset[str] = frozenset()
        self._asked_for: frozenset[str] = frozenset()  # runs whose points are in `unsealed`
        # It does not start a hub: a page can also show a home in which nothing runs.
        self._follower = home.follower(least_s=_LEAST_S, most_s=_ASK_S, needs_hub=lambda: False)

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._follow, name="vedette-live", daemon=True).start()

    def close(self) -> None:
        """Stop; a thread that is waiting for an answer ends with the program."""
        self._closed = True
        self._follower.wake()

    def watch(self, scopes: Iterable[str]) -> None:
        """Set which runs are watched, by id; "" is the list of all."""
        watched = frozenset(scopes)
        more, self._watched = watched - self._watched, watched
        if more:
            self._follower.wake()

    def _follow(self) -> None:
        asked_at = newest_at = -math.inf
        while not self._closed:
            change = self._follower.wait()
            self._update(change)
            now = time.monotonic()
            if not self.connected or (change is not None and now - asked_at < _ASK_S):
                continue
            asked_at = now
            with contextlib.suppress(VedetteError, OSError):
                self._ask_for_points(self._watched - {""})
                if "" in self._watched and now - newest_at >= _NEWEST_S:
                    newest_at = now
                    self._ask_for_newest()
        self._follower.close()

    def _update(self, change: Change | None) -> None:
        if self.connected and not self._follower.connected:
            self.connected = False
            for listing in self._listings:
                listing.lose_touch()
            self._tell(Change(missed=True))
        self.connected = self._follower.connected
        if self.connected and change is not None and change != Change():
            self._pass_on(change)
        trouble = self._follower.trouble if self._follower.trouble != LEFT else ""
        if trouble != self.trouble:
            self.trouble = trouble
            self._tell(Change(missed=True))
        if not self._home.has_hub():
            for listing in self._listings:
                listing.rest()

    def _pass_on(self, change: Change, fresh: Collection[str] = ()) -> None:
        for listing in self._listings:
            listing.take(change, fresh)
        self._tell(change)

    def _ask_for_points(self, runs: frozenset[str]) -> None:
        """Get the unsealed points of these runs, and drop all others."""
        if runs:
            anew = runs != self._asked_for
            after = {} if anew else self._unsealed.ends()
            answers = self._home.unsealed_batches([*sorted(runs), HOST], after)  # hosts' usage is shown with their runs
            if answers is None:  # the hub is of an older vedette: have it seal instead
                for run in runs:
                    self._home.seal(run)
                return
            touched = self._unsealed.take(*answers, anew=anew)
        else:
            touched = self._unsealed.clear()
        self._asked_for = runs
        if touched:
            self._pass_on(Change(points=sorted(touched)))

    def _ask_for_newest(self) -> None:
        """Get the newest unsealed point of each series, for those who watch the list of runs."""
        points = self._home.newest("")
        first = self._listings[0]
        before = {(point.span, point.name): point.t for point in first.fresh}
        fresh = {point.span for point in points if before.get((point.span, point.name)) != point.t}
        for listing in self._listings:
            listing.fresh = points
        runs = [point for point in points if is_top(point.span) and not point.tags][:_MOST_TRAILS]
        first.trails.watch((point.span, point.name) for point in runs)
        first.trails.take(runs)
        if fresh:
            self._pass_on(Change(points=sorted(fresh)), {run_of(span) for span in fresh})
