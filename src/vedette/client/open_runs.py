"""The runs that are open in this process, and which of them a call, a log record or a printed line means.

Any number of runs may be open at once. `init` makes its run that of its context, which is a thread or an asyncio task.
What has no context of its own goes to the only open run, else to the main thread's, else to the newest (decisions/025).
"""

import os
import sys
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from vedette.client.faults import say_once

if TYPE_CHECKING:
    from vedette.client.journal import Journal
    from vedette.client.off import OffRun
    from vedette.client.run import Run


class Context(NamedTuple):
    """Where a run was begun: a thread, and the task of its event loop if there is one."""

    thread: int
    task: "ref[object] | None"

    def is_here(self) -> bool:
        """Tell whether this is the context of the caller."""
        task = _task()
        same_task = task is None if self.task is None else self.task() is task
        return same_task and self.thread == threading.get_ident()

    def goes_on_elsewhere(self) -> bool:
        """Tell whether this is another thread, and one that still runs."""
        others = {thread.ident for thread in threading.enumerate()}
        return self.thread != threading.get_ident() and self.thread in others


NOWHERE = Context(0, None)
_here: "ContextVar[Run | OffRun | None]" = ContextVar("vedette_run", default=None)
_open: list["Run"] = []  # in the order in which they began
_ended_last: "Run | None" = None
_lock = threading.RLock()
_exported: dict[str, str] = {}  # what we have put into the environment, for the processes that this one starts
_inherited: dict[str, str] = {}  # what stood there before
_exported_run = ""  # the run that we have exported last: it is not the run of a parent
_OF_A_RUN = ("VEDETTE_RUN", "VEDETTE_NAME", "VEDETTE_TRY", "VEDETTE_HOME")
_is_fork_child = False
_cell_task: "ref[object] | None" = None  # the task that runs the present cell of a notebook
_of_cells: "Run | OffRun | None" = None  # the run that a cell of the notebook has begun last


def enter(run: "Run | OffRun") -> None:
    """Make a run that of this context; the one that was here before comes back when it ends."""
    global _of_cells
    run._outer = here()
    _here.set(run)
    if _cell_task is not None and _task() is None and threading.current_thread() is threading.main_thread():
        _of_cells = run


def enter_cell() -> None:
    """Go on with the context of the cell before: some kernels run each cell of a notebook in a task of its own."""
    global _cell_task
    _cell_task = None
    task = _task()
    _cell_task = ref(task) if task is not None else None
    for run in _open:
        if _cell_task is not None and run._context.task == _cell_task:  # the cell that has begun the first run
            run._context = run._context._replace(task=None)
    if _of_cells is not None and here() is None:
        _here.set(_of_cells)


def add(run: "Run") -> None:
    """Count a run as open until it ends, and export it if it is the only one."""
    task = _task()
    run._context = Context(threading.get_ident(), ref(task) if task is not None else None)
    with _lock:
        _open.append(run)
        _export()
    run._on_end.append(lambda: _remove(run))


def _remove(run: "Run") -> None:
    global _ended_last
    with _lock:
        _ended_last = run
        if run in _open:
            _open.remove(run)
        _export()


def here() -> "Run | OffRun | None":
    """Return the open run of this context, if it has one."""
    run = _here.get()
    while run is not None and run.finished:
        run = run._outer
    return run


def meant(*, tell: bool = True) -> "Run | OffRun | None":
    """Return the run that a call in this context means; None if no run is open. `tell`: say so if it is a guess."""
    run = here()
    if run is not None or not _open:
        return run
    runs = _open.copy()  # other threads begin and end runs meanwhile
    if len(runs) == 1:
        return runs[0]
    main = threading.main_thread().ident
    chosen = next((one for one in reversed(runs) if one._context.thread == main), runs[-1] if runs else None)
    if chosen is not None and tell:
        say_once(
            f"{len(runs)} runs are open, and a thread or task that began none of them logs or prints: that goes to"
            f" {chosen.name or chosen.id}. Call run.log(...) of the run that you mean (this is said once)",
            "no context",
        )
    return chosen


def journal(*, tell: bool = True) -> "Journal | None":
    """Return the journal of the run that a call in this context means; None if there is none, or it is off."""
    return getattr(meant(tell=tell), "_journal", None)


def ended_last() -> "Run | None":
    """Return the run of this process that has ended last."""
    return _ended_last


def find(run_id: str) -> "Run | None":
    """Return an open run by its id."""
    return next((run for run in _open.copy() if run.id == run_id), None)


def count() -> int:
    """Return how many runs are open."""
    return len(_open)


def all_open() -> list["Run"]:
    """Return the open runs, oldest first."""
    return _open.copy()


def is_fork_child() -> bool:
    """Tell whether this process was forked while a run was open; it takes part in that run."""
    return _is_fork_child


def environ() -> dict[str, str]:
    """Return the environment as this process got it: what we export is meant for the processes that it starts."""
    with _lock:  # other threads begin and end runs meanwhile
        found = {key: value for key in list(os.environ) if (value := os.environ.get(key)) is not None}
        for key, value in _exported.items():
            if found.get(key) == value:
                found[key] = _inherited.get(key, "")
    if _exported_run and found.get("VEDETTE_RUN") == _exported_run:  # an interrupt came while it was taken back
        found.update(dict.fromkeys(_OF_A_RUN[:3], ""))
    return {key: value for key, value in found.items() if value or key not in _OF_A_RUN}


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()  # the thread that held it may be gone


os.register_at_fork(after_in_child=_renew_lock)


def after_fork() -> None:
    """Go on in a child: what its parent has exported is inherited here, and it joins the run of the forking thread."""
    global _is_fork_child, _exported_run
    _is_fork_child = _is_fork_child or bool(_open)
    _exported.clear()
    _inherited.clear()
    _exported_run = ""
    run = meant(tell=False)  # the child has said nothing yet
    joined = [one for one in _open if one is run]
    _open[:] = joined  # the others stay usable, but nothing goes to them by itself
    for one in joined:
        os.environ.update(_names(one))


def _names(run: "Run") -> dict[str, str]:
    journal = run._journal
    return {
        "VEDETTE_RUN": run.id,
        "VEDETTE_NAME": run.name.replace("\0", ""),
        "VEDETTE_TRY": journal.attempt,
        "VEDETTE_HOME": journal.home.asked,
    }


def _export() -> None:
    """Set what the processes that this one starts inherit: the run if just one is open, the home if all agree."""
    global _exported_run
    wanted = _names(_open[-1]) if _open else {}
    if len(_open) > 1:
        homes = {run._journal.home.asked for run in _open}
        wanted = {"VEDETTE_HOME": homes.pop()} if len(homes) == 1 else {}
    for key in [key for key in _exported if _exported[key] != wanted.get(key)]:
        if os.environ.get(key) == _exported[key]:  # else the program has set it itself
            os.environ[key] = _inherited.get(key, "")  # never deleted: another thread may be copying os.environ
        _exported.pop(key, None)
        _inherited.pop(key, None)
    for key, value in wanted.items():
        now = os.environ.get(key, "")
        if key not in _exported and now != value:
            _inherited[key] = now
            _exported[key] = value
            _exported_run = value if key == "VEDETTE_RUN" else _exported_run
        if _exported.get(key) == value and now == _inherited[key]:
            os.environ[key] = value


def _task() -> object | None:
    """Return the asyncio task that runs here, if there is one."""
    tasks = sys.modules.get("asyncio.tasks")
    if tasks is None:
        return None
    try:
        found: object | None = tasks.current_task()
    except RuntimeError:  # no loop runs in this thread
        return None
    return None if _cell_task is not None and _cell_task() is found else found
