"""Records the cells that IPython runs as events of the open runs: what each says, and how it failed.

It is one callback before and one after a cell; each appends a record, as every call of the client does.
"""

import os
import sys
import traceback
from typing import Any

from vedette import manifest, masks
from vedette.capture.cleaning import clean
from vedette.client import capturing, notebook, open_runs, streams
from vedette.client.faults import say_once, swallow
from vedette.client.messages import clean_text
from vedette.client.raised import last_line
from vedette.client.run import Run
from vedette.interrupts import let_through
from vedette.model import Value
from vedette.settings import Settings

_MOST_CELLS, _MOST_CHARS = 2000, 4_000_000  # of those that ran before the run began
_MOST_OF_ONE = 200_000  # characters
_MOST_CLEANED = 1000  # a cache


class Recorder:
    """Records the cells of one shell for any number of runs."""

    def __init__(self, shell: Any) -> None:
        self.number = len(shell.history_manager.input_hist_raw) - 1  # of the cell that runs now; 0 between cells
        self.failed: tuple[int, str] = (0, "")  # the number of the last cell, if it failed, and its error
        self._shell = shell
        self._pid = os.getpid()
        self._runs: dict[Run, tuple[Settings, frozenset[str]]] = {}  # with the modules that were captured
        self._begun_by: dict[Run, tuple[str, int]] = {}  # the cell that began a run, and its number then
        self._cleaned: dict[str, tuple[str, int]] = {}  # cells without their secrets, and how many there were
        self._module_count = 0
        open_runs.enter_cell()
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)

    @property
    def runs(self) -> list[Run]:
        """The open runs of this process."""
        return [run for run in self._runs if not run.finished] if os.getpid() == self._pid else []

    def add(self, run: Run, settings: Settings) -> None:
        """Record the cells that ran so far, the present one among them, and those that follow."""
        # New dicts: other threads may begin runs while a callback goes through these.
        begun_by, modules = (self._cell(), self.number), frozenset(notebook.modules())
        self._begun_by = {one: cell for one, cell in self._begun_by.items() if not one.finished} | {run: begun_by}
        self._runs = {one: kept for one, kept in self._runs.items() if not one.finished} | {run: (settings, modules)}
        if _is_wanted(settings):
            cells = list(enumerate(self._shell.history_manager.input_hist_raw))[1:]
            room, first = _MOST_CHARS, len(cells)
            while first and len(cells) - first < _MOST_CELLS and room > len(cells[first - 1][1]):
                first -= 1
                room -= len(cells[first][1])
            for number, text in cells[first:]:
                self._record(run, number, text)

    def end_earlier(self) -> None:
        """End the runs that the present cell began when it was run before.

        `init` ends the run before it in the same context. A cell with `await` has a context of its own each time.
        """
        here = self._cell()
        for run in self.runs:
            cell, number = self._begun_by.get(run, ("", 0))
            if cell == here and number != self.number and self.number and run._journal.main:  # noqa: SLF001
                say_once(f"run {run.name} ({run.id}) ends, since the cell that began it is run again")
                run.finish()

    def _cell(self) -> str:
        """Return what tells the present cell from others: its id, else its text."""
        try:
            return str(self._shell.kernel.get_parent("shell")["metadata"]["cellId"])
        except (AttributeError, KeyError, TypeError):
            return str(self._shell.history_manager.input_hist_raw[-1])

    def _before(self, info: Any) -> None:
        """Record a cell; called by IPython before it runs the cell."""
        open_runs.enter_cell()
        streams.renew()
        if info.silent or not info.store_history:  # a question of the editor's, no cell
            return
        # Not `execution_count`, which some versions of IPython raise before this call, and some after.
        self.number = len(self._shell.history_manager.input_hist_raw)
        for run in self.runs:
            if _is_wanted(self._runs[run][0]):
                self._guarded("the record of a cell", self._record, run, self.number, info.raw_cell)

    def _record(self, run: Run, number: int, text: str) -> None:
        if text.strip():
            if text not in self._cleaned:
                if len(self._cleaned) >= _MOST_CLEANED:
                    self._cleaned.clear()
                self._cleaned[text] = clean(_cut(text), "cell.py", masks.known(os.environ))
            text, masked = self._cleaned[text]
            attrs: dict[str, Value] = {"n": number} | ({"masked": masked} if masked else {})
            run._journal.event(manifest.CELL, clean_text(text), 10, attrs)  # noqa: SLF001 - made for the composition root

    def _after(self, result: Any) -> None:
        """Record how a cell failed, and which modules it imported; called by IPython after the cell."""
        info = result.info
        if info is not None and (info.silent or not info.store_history):
            return
        error = result.error_before_exec or result.error_in_exec
        number, self.number = self.number, 0
        self.failed = (number, last_line(error)) if error is not None else (0, "")
        for run in self.runs:
            if error is not None:
                self._guarded("the record of an exception", self._record_error, run, number, error)
        if len(sys.modules) != self._module_count:
            self._module_count = len(sys.modules)
            for run in self.runs:
                self._guarded("the record of imported modules", self._look_for_modules, run)

    def _record_error(self, run: Run, number: int, error: BaseException) -> None:
        kind, level, said = "exception", 40, last_line(error)
        if isinstance(error, KeyboardInterrupt):
            kind, level, said = "interrupt", 30, f"the kernel was interrupted while it ran cell {number}"
        attrs: dict[str, Value] = {"type": clean_text(type(error).__name__), "message": said, "pid": os.getpid()}
        text = f"{said}\n{self._trace(error)}" if kind == "interrupt" else self._trace(error)
        run._journal.event(kind, text, level, attrs | {"cell": number})  # noqa: SLF001

    def _trace(self, error: BaseException) -> str:
        """Return the traceback without IPython's own frames, and with the numbers of cells as file names."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename.endswith("interactiveshell.py"):
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(error), error, trace))
        for name, number in getattr(self._shell.compile, "_filename_map", {}).items():
            text = text.replace(f'"{name}"', f'"In[{number}]"')
        return clean_text(text)

    def _look_for_modules(self, run: Run) -> None:
        settings, known = self._runs[run]
        found = notebook.modules()
        if not known.issuperset(found) and _is_wanted(settings):
            self._runs[run] = settings, frozenset(found)
            capturing.again(run._journal, settings, found)  # noqa: SLF001

    def _guarded(self, doing: str, act: Any, *args: Any) -> None:
        try:
            act(*args)
        except Exception as error:
            let_through(error)
            swallow(error, doing)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_OF_ONE else text[:_MOST_OF_ONE] + "\n# (cut: the cell is longer)"


def _is_wanted(settings: Settings) -> bool:
    return settings.capture.enable and settings.capture.code
