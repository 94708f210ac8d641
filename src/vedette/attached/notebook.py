"""A notebook: its cells are recorded with the runs that they begin, it shows these runs, and its end is named."""

import atexit
import functools
import os
from typing import Any
from weakref import WeakKeyDictionary

from vedette.attached.cells import Recorder
from vedette.client import notebook, raised
from vedette.client.faults import swallow
from vedette.client.run import Run
from vedette.interrupts import let_through
from vedette.settings import Settings

_notebook: "Notebook | None" = None


def attach(run: Run, settings: Settings) -> None:
    """Record the cells of this process's notebook with a run, and show the run in it."""
    global _notebook
    if _notebook is None:
        _notebook = Notebook(notebook.shell())
    _notebook.add(run, settings)


class Notebook:
    """The notebook of this process."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._recorder = Recorder(shell)
        notebook.end_earlier = self._recorder.end_earlier
        self._display: Any = None
        self._settings: WeakKeyDictionary[Run, Settings] = WeakKeyDictionary()
        self._end_asked = ("", "")  # state and cause of the runs' end, if the kernel was asked to end
        if hasattr(shell, "kernel"):
            raised.interrupted = self._interrupted
            self._watch_end(shell.kernel)
            formatter = shell.display_formatter.ipython_display_formatter
            formatter.for_type(Run, self._show)

    def add(self, run: Run, settings: Settings) -> None:
        """Record the cells with a run, and show it."""
        self._recorder.add(run, settings)
        self._settings[run] = settings
        if settings.console.mode != "off" and hasattr(self._shell, "kernel"):
            if self._display is None:
                from vedette.attached.display import Display  # noqa: PLC0415 - what it loads nobody else needs here

                self._display = Display(self._shell)
                self._shell.events.register("post_run_cell", lambda _result: self._display.after_cell())
            self._display.begin(run, settings)

    def _show(self, run: Run) -> None:
        """Show a run that is the last expression of a cell."""
        try:
            if self._display is not None and run in self._settings:
                self._display.chart(run, self._settings[run])
                return
        except Exception as error:
            let_through(error)
            swallow(error, "the chart in the notebook")
        self._shell.display_pub.publish({"text/plain": repr(run)})

    def _interrupted(self) -> str:
        number = self._recorder.number
        return "the kernel was interrupted" + (f" while it ran cell {number}" if number else "")

    def _watch_end(self, kernel: Any) -> None:
        """Note that the kernel is asked to end, and end the runs when it does."""
        original = getattr(kernel, "do_shutdown", None)
        atexit.register(self._end)
        if original is None:  # a kernel of another make
            return

        @functools.wraps(original)
        def noting(restart: bool) -> Any:
            try:
                self._note_end("restarted" if restart else "shut down")
            except Exception as error:
                swallow(error, "the end of the kernel")
            return original(restart)

        kernel.do_shutdown = noting

    def _note_end(self, how: str) -> None:
        number, (failed, error) = self._recorder.number, self._recorder.failed
        said = f"the kernel was {how}" + (f" while it ran cell {number}" if number else "")
        if number or how == "restarted":
            self._end_asked = "cancelled", said
        else:  # all cells have run, as in a script that comes to its end
            self._end_asked = ("failed", f"cell {failed}: {error}") if failed else ("done", "")
        for run in self._recorder.runs:
            level = 30 if self._end_asked[0] == "cancelled" else 20
            run._journal.event("kernel", said, level, {"pid": os.getpid()})  # noqa: SLF001

    def _end(self) -> None:
        """End the runs that are open when the kernel leaves."""
        for run in self._recorder.runs if self._end_asked[0] else ():
            try:
                run._end(*self._end_asked)  # noqa: SLF001
            except Exception as error:
                let_through(error)
                swallow(error, "the end of the run")
