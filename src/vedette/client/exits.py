"""How a process ends, as seen from inside: an exception, the interpreter's end, the end of a worker; and forks."""

import atexit
import functools
import os
import sys
import threading
from types import TracebackType
from typing import Any, NoReturn

from vedette.client import screen, streams
from vedette.client.faults import swallow
from vedette.client.quiet import here
from vedette.client.run import Run, account

_open: list[Run] = []  # a run that nobody holds any more still ends at exit, not before
_installed = False
_LAST = -1000  # of what a worker does at its end
_exit_code = 0  # what sys.exit was last called with: a hint, for when nobody sees the real one


def watch(run: Run) -> None:
    """See to it that the end of this process is on the run's record, and that a fork begins its own spool."""
    global _installed
    _open.append(run)
    run._on_end.append(lambda: _open.remove(run))
    run._journal.on_announce = lambda: _watch_worker(run)
    if not run._journal.silent:
        _watch_worker(run)
    _watch_as_worker(run)
    if not _installed:
        _installed = True
        atexit.register(_leave)
        os.register_at_fork(after_in_child=_after_fork)
        _hook_exceptions()
        _hook_exit()


def _hook_exit() -> None:
    """Note what sys.exit is called with: atexit cannot tell, and a short process may be gone before the hub looks."""
    leave = sys.exit

    @functools.wraps(leave)
    def leave_with(status: Any = None, /) -> NoReturn:
        global _exit_code
        if threading.current_thread() is threading.main_thread():  # elsewhere it ends the thread alone
            _exit_code = 0 if status is None else status & 0xFF if isinstance(status, int) else 1
        leave(status)

    sys.exit = leave_with


def _each(doing: str, act: Any) -> None:
    for run in _open.copy():  # it leaves the list when it ends
        try:
            act(run)
        except Exception as error:
            swallow(error, doing)


def _leave() -> None:
    _each("the end of the run", lambda run: run._leave(_exit_code))


def _after_fork() -> None:
    screen.after_fork()
    streams.after_fork()
    _each("the fork of the run", Run._after_fork)
    _each("the fork of the run", _watch_as_worker)


def _watch_as_worker(run: Run) -> None:
    """Have `_watch_worker` called should this process become a worker: what it was told before is forgotten then."""
    util, process = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.process")
    if util is None or process is None:
        return
    util.register_after_fork(run, _watch_worker)
    if getattr(process.current_process(), "_inheriting", False):  # it is one, and has not begun its work yet
        util.Finalize(None, lambda: _end_worker(run), exitpriority=_LAST)


def _watch_worker(run: Run) -> None:
    """A worker of multiprocessing ends without atexit, and swallows its exception: look there too."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        return
    from multiprocessing.util import Finalize  # noqa: PLC0415 - it is loaded already

    Finalize(None, lambda: _end_worker(run), exitpriority=_LAST)


def _end_worker(run: Run) -> None:
    error = sys.exc_info()[1]
    if run.finished:
        return
    if error is None:
        run._leave(0)
    else:
        run._fail(error)


def _hook_exceptions() -> None:
    previous, previous_in_thread, previous_unraisable = sys.excepthook, threading.excepthook, sys.unraisablehook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with screen.held():  # how it ended is the last line
            try:
                _each("the record of an exception", lambda run: run._fail(error))
            finally:  # whatever interrupts us, the traceback is shown
                previous(kind, error, trace)

    def hook_in_thread(args: Any) -> None:
        if args.exc_value is not None:
            _tell(args.exc_value, {"thread": args.thread.name if args.thread else ""})
        before, here.on = here.on, True
        try:
            previous_in_thread(args)
        finally:
            here.on = before

    def hook_unraisable(args: Any) -> None:
        if args.exc_value is not None:
            _tell(args.exc_value, {"unraisable": True})
        before, here.on = here.on, True
        try:
            previous_unraisable(args)
        finally:
            here.on = before

    sys.excepthook = hook
    threading.excepthook = hook_in_thread
    sys.unraisablehook = hook_unraisable


def _tell(error: BaseException, more: dict[str, Any]) -> None:
    """Put an exception on record that ends a thread, or nothing at all."""

    def tell(run: Run) -> None:
        text, attrs = account(error)
        run._journal.event("exception", text, 40, attrs | more)

    _each("the record of an exception", tell)
