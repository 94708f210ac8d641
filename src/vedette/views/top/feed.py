"""The feed of the screen: a thread that follows the hub and reads the store, so that the screen never waits."""

import contextlib
import math
import threading
import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from vedette.access.home_access import GLANCE_S, HomeAccess
from vedette.errors import HubError, NotFoundError, WhereError
from vedette.ids import is_within
from vedette.query.closeup import CloseUp, closeup
from vedette.query.overview import Known, Overview, Trails, forget, overview
from vedette.store.sqlite_read import SqliteReader
from vedette.wire import Change, Health, Newest

_LEAST_S = 0.2  # the least pause between two looks, however much changes
_HEALTH_S = 5.0
_QUIET_S = 10.0  # the pause between two looks at a home where nothing runs and nothing changes
_JOIN_S = 1.0


class Options(Struct, frozen=True):
    """What the screen wants to show."""

    where: str = ""
    ended: int = 0
    metric: str = ""
    run: str = ""  # the run that is open
    opened: int = 0  # how often a run was opened: a new screen needs its lines from the first on


class Look(Struct, frozen=True):
    """What one look has read."""

    options: Options
    overview: Overview | None  # None: nothing has been logged here yet
    closeup: CloseUp | None = None
    mistake: str = ""  # in the options, such as in the filter
    trouble: str = ""  # with the hub


class Feed:
    """Looks when something has changed, and passes what it reads to `show`; `close` ends it."""

    def __init__(
        self, home: HomeAccess, show: Callable[[Look], object], *, options: Options, interval_s: float
    ) -> None:
        """`show` is called in the thread of the feed."""
        self.looks = 0
        self._home = home
        self._show = show
        self._options = options
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._closed = False
        self._urgent = True  # the user waits for the result
        self._trouble = ""
        self._alive = 0
        self._store: SqliteReader | None = None
        self._behind = ""
        self._known: dict[str, Known] = {}
        self._trails = Trails()
        self._fresh: list[Newest] = []
        self._health: Health | None = None
        self._health_at = 0.0
        self._fresh_at = 0.0
        self._after = 0
        self._last: Look | None = None
        self._follower = home.follower(least_s=_LEAST_S, most_s=_QUIET_S, needs_hub=lambda: self._alive > 0)
        self._thread = threading.Thread(target=self._keep_looking, name="vedette-top", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, **wanted: str | int) -> None:
        """Change the options, and look at once."""
        with self._lock:
            if wanted.get("opened", self._options.opened) != self._options.opened:
                self._after = 0
            self._options = replace(self._options, **wanted)
            self._urgent = True
        self._follower.wake()

    @property
    def options(self) -> Options:
        """The current options."""
        return self._options

    def close(self) -> None:
        """End the thread; if it is waiting for the hub, it ends with the program."""
        self._closed = True
        self._follower.wake()
        self._thread.join(_JOIN_S)

    def _keep_looking(self) -> None:
        looked_at, changed = -math.inf, True
        while not self._closed:
            full_at = looked_at + (_QUIET_S if self._is_quiet and not changed else self._interval_s)
            change = self._follower.wait(full_at - time.monotonic())
            options, urgent = self._take()
            if change is not None:
                changed = changed or bool(change.spans or change.events or change.points or change.missed)
                self._forget(change)
            if self._follower.trouble != self._trouble:
                self._trouble, urgent = self._follower.trouble, True
            full = urgent or time.monotonic() >= full_at
            if full:
                looked_at, changed = time.monotonic(), False
            if full or (change is not None and self._concerns(change, options)):
                self._look(options, full=full)
        self._follower.close()

    @property
    def _is_quiet(self) -> bool:
        last = self._last
        return last is not None and last.overview is not None and not self._alive and not last.trouble

    def _take(self) -> tuple[Options, bool]:
        with self._lock:
            urgent, self._urgent = self._urgent, False
            return self._options, urgent

    @staticmethod
    def _concerns(change: Change, options: Options) -> bool:
        """Tell whether the open run has changed."""
        spans = (*change.spans, *change.events)
        return bool(options.run) and (change.missed or any(is_within(span, options.run) for span in spans))

    def _forget(self, change: Change) -> None:
        if change.missed:
            self._known.clear()
        else:
            forget(self._known, change)

    def _look(self, options: Options, *, full: bool) -> None:
        try:
            look = self._see(options, full=full)
        except WhereError as error:
            look = Look(options, self._last.overview if self._last else None, mistake=str(error), trouble=self._trouble)
        except NotFoundError as error:
            if options.run and self._store is not None:
                look = Look(options, self._last.overview if self._last else None, mistake=str(error))
            else:
                look = Look(options, None, trouble=self._trouble)
        except Exception as error:  # such as a store that is being replaced: the screen stays, and says so
            self._shut()
            look = Look(
                options, self._last.overview if self._last else None, trouble=f"the store cannot be read: {error}"
            )
        self._last = look
        self._alive = look.overview.alive if look.overview is not None else 0
        self.looks += 1
        if not self._closed:
            self._show(look)

    def _see(self, options: Options, *, full: bool) -> Look:
        if self._store is not None and not self._home.is_current(self._store):
            self._shut()
            self._after = 0  # its events have other numbers
        if self._store is None:
            self._store, self._behind = self._home.open(GLANCE_S) if self.looks == 0 else (self._home.reader(), "")
        if full or self._last is None or self._last.overview is None:
            self._ask_hub()
            seen = overview(
                self._store,
                options.where,
                ended=options.ended,
                metric=options.metric,
                fresh=self._fresh,
                trails=self._trails,
                health=self._health,
                here=self._home.host,
                known=self._known,
                lost_after_s=self._home.lost_after_s,
            )
            self._trails.watch((line.id, line.metric) for line in seen.runs if line.alive and line.metric)
        else:
            seen = self._last.overview
        near = None
        if options.run:
            near = closeup(
                self._store, options.run, after=self._after, fresh=self._fresh, lost_after_s=self._home.lost_after_s
            )
            with self._lock:
                if near.events and self._options.opened == options.opened:
                    self._after = max(event.id for event in near.events)
        return Look(options, seen, near, trouble=self._trouble or self._behind)

    def _ask_hub(self) -> None:
        """Get what is not in the store yet; do not wait for a hub that is not there."""
        now = time.monotonic()
        if not self._home.has_hub():
            self._fresh, self._health = [], None
            return
        try:
            self._fresh = []
            self._fresh = self._home.newest()
            self._trails.take(self._fresh)
            self._behind = ""
            if now - self._health_at >= _HEALTH_S:
                self._health_at = now
                self._health = self._home.health()
        except HubError as error:
            self._behind = f"{error}; what you see may be behind"

    def _shut(self) -> None:
        if self._store is not None:
            with contextlib.suppress(Exception):
                self._store.close()
        self._store = None
        self._known.clear()
