"""What a notebook shows of its runs: a thread renders it a few times a second, and replaces what has changed.

A display begins in the call that asks for it, so that it is below the cell that made the call. A replacement goes by
the display's id to wherever it is shown. If anything goes wrong with a display, it stays as it is; the others, and
the program, go on.
"""

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from vedette.access.home_access import HomeAccess
from vedette.attached.panels import BarsPanel, ChartPanel, HeadPanel, Panel, RunHead
from vedette.client.faults import swallow
from vedette.client.progress import Progress
from vedette.client.run import Run
from vedette.interrupts import let_through
from vedette.settings import Settings
from vedette.views import notebook as views

if TYPE_CHECKING:
    from vedette.attached.points import PointReader

_TICK_S, _LEAST_S = 0.15, 0.1
_IDLE_S = 2.0  # while only the state of a run could change
_MOST_RUNS = 20  # that one cell shows
_FIRST_LOOK_S = 3.0  # how long a cell waits for the first chart: a hub may have to be started


class Display:
    """All displays of this process."""

    def __init__(self, shell: Any) -> None:
        self._publisher = shell.display_pub
        self._pid = os.getpid()
        self._lock = threading.RLock()  # held while something is published: an older state must not come last
        self._panels: list[Panel] = []
        self._heads: dict[Run, RunHead] = {}  # of open runs
        self._points: dict[Run, PointReader] = {}
        self._bars: dict[Run, BarsPanel] = {}  # of the present cell
        self._begun = 0  # runs that the present cell has begun
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, run: Run, settings: Settings) -> None:
        """Show a run that begins, and its bars; of many that one cell begins, only the first ones."""
        self._begun += 1
        if self._begun > _MOST_RUNS:
            if self._begun == _MOST_RUNS + 1:
                said = "more runs begin in this cell: `vedette ls` and `vedette top` show them all"
                self._publisher.publish({"text/plain": said}, {})
            return
        self._heads = {one: head for one, head in self._heads.items() if not one.finished}
        self._heads[run] = RunHead(run, HomeAccess.of(settings))
        self._open(HeadPanel(self._heads[run]))
        run._bars.watch = lambda bar, state, cause: self._note(run, bar, state, cause)  # noqa: SLF001
        run._on_end.append(self.refresh)  # noqa: SLF001

    def chart(self, run: Run, settings: Settings) -> None:
        """Show a chart of each metric of a run, and keep it up to date while the run lasts."""
        from vedette.attached.points import PointReader  # noqa: PLC0415 - it loads numpy

        head = self._heads.get(run) or RunHead(run, HomeAccess.of(settings))
        self._points = {one: points for one, points in self._points.items() if not one.finished}
        points = self._points.get(run) or PointReader(head.access, run.id)
        self._points[run] = points  # a cell that is run thirty times shows thirty charts, and reads once for all
        panel = ChartPanel(head, points, elsewhere=bool(settings.upstream))
        self._add(panel)
        panel.is_read.wait(_FIRST_LOOK_S)
        self._publish(panel)
        if address := head.page.frame_of_run(run.id):  # a display of its own: a replacement would close the frame
            self._publisher.publish(views.frame(address).bundle, {})

    def after_cell(self) -> None:
        """Show how things are at the end of a cell; later bars are shown below the cell that begins them."""
        self._begun = 0
        for panel in list(self._bars.values()):
            panel.is_open = False
        self._bars.clear()
        self.refresh()

    def refresh(self) -> None:
        """Show how everything is now."""
        if os.getpid() != self._pid:  # a fork child has no connection to the notebook, and maybe a lock that is held
            return
        try:
            for panel in list(self._panels):
                self._update(panel)
        except Exception as error:
            let_through(error)
            swallow(error, "the display in the notebook")
        self._wake.set()

    def _note(self, run: Run, bar: Progress, state: str, cause: str) -> None:
        """Show a bar that begins, or the end of one."""
        if os.getpid() != self._pid:
            return
        try:
            if state != "running":
                for known in list(self._panels):
                    if isinstance(known, BarsPanel):
                        known.note(bar, state, cause)
            elif run in self._bars:
                self._bars[run].note(bar, state, cause)
            else:
                panel = self._bars[run] = BarsPanel(self._heads[run])
                panel.note(bar, state, cause)
                self._open(panel)
            self._wake.set()
        except Exception as error:
            let_through(error)
            swallow(error, "the display in the notebook")

    def _open(self, panel: Panel) -> None:
        self._publish(panel)
        self._add(panel)

    def _add(self, panel: Panel) -> None:
        with self._lock:
            self._panels.append(panel)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="vedette notebook", daemon=True)
                self._thread.start()
        self._wake.set()

    def _publish(self, panel: Panel) -> None:
        with self._lock:
            panel.shown = panel.render()
            self._publisher.publish(panel.shown.bundle, {}, transient={"display_id": panel.id})

    def _update(self, panel: Panel) -> None:
        with self._lock:
            before, now = panel.shown, panel.render()
            if before is not None and now != before:
                panel.shown = now
                self._publisher.publish(now.bundle, {}, transient={"display_id": panel.id}, update=True)

    def _work(self) -> None:
        """Keep the displays up to date, while there are any."""
        try:
            while True:
                with self._lock:
                    if not self._panels:
                        self._thread = None
                        return
                busy = any(panel.is_busy for panel in self._panels)
                self._wake.wait(_TICK_S if busy else _IDLE_S)
                self._wake.clear()
                time.sleep(_LEAST_S)  # however often bars begin and end
                for panel in list(self._panels):
                    try:
                        is_last = panel.is_over  # if so, this is its last state
                        panel.look()
                        self._update(panel)
                    except Exception as error:  # it would break again each time
                        swallow(error, "a display in the notebook")
                        is_last = True
                    if is_last:
                        with self._lock:
                            self._panels.remove(panel)
        except Exception as error:
            swallow(error, "the display in the notebook")
