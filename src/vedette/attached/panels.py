"""The displays of a notebook: the name and state of a run, its bars, and charts of its metrics."""

import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from vedette.access.home_access import HomeAccess
from vedette.access.page_address import PageAddress, find_page
from vedette.client.progress import Progress
from vedette.client.run import Run
from vedette.errors import VedetteError
from vedette.ids import new_id
from vedette.query.progress import Bar
from vedette.query.progress import bars as stored_bars
from vedette.store.sqlite_file import open_reader
from vedette.views import notebook as views
from vedette.views.notebook import Head, Shown

if TYPE_CHECKING:
    from vedette.attached.points import PointReader
    from vedette.store import Reader

_PAGE_S = 5.0  # between two looks whether somebody serves the page
_STORE_S = 1.0  # between two readings of the store
_BEING_READ = "its points are being read"
_LAST_S = 3.0  # how long charts are still read after the run's end: the hub may be behind


class RunHead:
    """What is known of a run without the store."""

    def __init__(self, run: Run, access: HomeAccess) -> None:
        self.run = run
        self.access = access
        self.page = PageAddress()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._looked = 0.0

    def now(self) -> Head:
        """Return it as it is now."""
        run, now = self.run, time.monotonic()
        if run.finished and self._ended is None:
            self._ended = now
        if not self._looked or now - self._looked > _PAGE_S:
            self._looked, self.page = now, find_page(self.access.home)
        state, cause = run._ended_as if run.finished else ("running", "")  # noqa: SLF001 - made for the console
        took_s = None if self._ended is None else self._ended - self._began
        return Head(run.id, run.name or run.id, state or "ended", cause, took_s, self.page.of_run(run.id))


class Panel(ABC):
    """One display. `render` is quick; `look` reads what takes longer, in the thread of the displays."""

    is_busy = False  # it changes all the time

    def __init__(self) -> None:
        self.id = f"vedette-{new_id(10)}"
        self.shown: Shown | None = None

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether it will not change any more."""

    @abstractmethod
    def render(self) -> Shown:
        """Return what it shows now."""

    def look(self) -> None:  # noqa: B027 - some need nothing
        """Read what `render` needs."""


class HeadPanel(Panel):
    """The name, state and page of a run."""

    def __init__(self, head: RunHead) -> None:
        super().__init__()
        self._head = head

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._head.run.finished

    def render(self) -> Shown:
        """Return the run's head."""
        return views.head(self._head.now())


class BarsPanel(Panel):
    """The bars that one cell has begun in one run."""

    def __init__(self, head: RunHead) -> None:
        super().__init__()
        self.is_open = True  # the cell may begin more
        self._run, self._home = head.run, head.access.home
        self._own: dict[str, tuple[Progress, Bar]] = {}
        self._more = 0  # ended bars that are not kept
        self._done_elsewhere: dict[str, float] = {}  # by id, with what other processes have done
        self._reader: Reader | None = None
        self._looked = time.monotonic()

    def note(self, bar: Progress, state: str, cause: str) -> None:
        """Take a bar that begins, or the end of one that is shown here."""
        now_t = time.time_ns()
        if state == "running":
            self._own[bar.id] = bar, Bar(bar.id, self._run.id, "", bar.total, 0.0, state, "", now_t, now_t, None)
        elif bar.id in self._own:
            self._own[bar.id] = bar, self._seen(bar, state, cause, now_t)
            ended = [id_ for id_, (_, seen) in self._own.items() if seen.state != "running"]
            for id_ in ended[: -views.MOST_ROWS]:  # a loop may begin thousands of short ones
                del self._own[id_]
                self._more += 1

    @property
    def is_busy(self) -> bool:  # type: ignore[override]
        """Whether one of the bars runs."""
        return any(seen.state == "running" for _, seen in list(self._own.values()))

    @property
    def is_over(self) -> bool:
        """Whether all bars have ended, and no more can begin."""
        return self._run.finished or (not self.is_open and not self.is_busy)

    def render(self) -> Shown:
        """Return all bars as they are now."""
        now_t = time.time_ns()
        for bar, seen in list(self._own.values()):
            if seen.state == "running":
                state, cause = ("running", "") if not self._run.finished else self._run._ended_as  # noqa: SLF001
                self._own[bar.id] = bar, self._seen(bar, state or "cancelled", cause, now_t)
        return views.bars([seen for _, seen in list(self._own.values())], now_t, self._more)

    def look(self) -> None:
        """Read how far the bars have come in all processes together."""
        if time.monotonic() - self._looked < _STORE_S:
            return
        self._looked = time.monotonic()
        try:
            self._reader = self._reader or open_reader(self._home.store)
            self._done_elsewhere = {bar.id: bar.done for bar in stored_bars(self._reader, self._run.id)}
        except VedetteError:  # the store is being created, or is busy
            self._reader = None

    def _seen(self, bar: Progress, state: str, cause: str, now_t: int) -> Bar:
        done = max((bar._at or 0.0) + bar._added, self._done_elsewhere.get(bar.id, 0.0))  # noqa: SLF001
        if bar._is_complete and bar.total is not None:  # noqa: SLF001
            done = max(done, bar.total)
        name = " | ".join(word for word in bar._msg if word)  # noqa: SLF001
        begun_t = self._own[bar.id][1].start_t
        ended_t = None if state == "running" else now_t
        return Bar(bar.id, self._run.id, name, bar.total, done, state, cause, begun_t, now_t, ended_t)


class ChartPanel(Panel):
    """A chart of each metric of a run."""

    is_busy = True

    def __init__(self, head: RunHead, points: "PointReader", *, elsewhere: bool = False) -> None:
        """`elsewhere`: the run's points go to the hub of another machine."""
        super().__init__()
        self._note = "its points go to another hub: `vedette ui` there shows them" if elsewhere else ""
        self.is_read = threading.Event()
        self._head, self._points = head, points
        self._charts = views.charts(head.now(), [], note=_BEING_READ)
        self._until: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, and the hub had time to read all that it said."""
        if self._head.run.finished and self._until is None:
            self._until = time.monotonic() + _LAST_S
        return self._until is not None and time.monotonic() > self._until

    def render(self) -> Shown:
        """Return what was read last."""
        return self._charts

    def look(self) -> None:
        """Read the points."""
        found = self._points.read()
        if found is None and not self._note:  # a hub is being started
            self._charts = views.charts(self._head.now(), [], note=_BEING_READ)
            return
        self._charts = views.charts(self._head.now(), *(found or ([], 0)), note=self._note)
        self.is_read.set()
