"""Notices how this process ends: by an exception, at the end of the interpreter, or as a worker. Also notices forks."""

import atexit
import functools
import os
import sys
import threading
from types import TracebackType
from typing import Any, NoReturn

from vedette.client import screen, streams
from vedette.client.faults import swallow
from vedette.client.quiet import quiet
from vedette.client.run import Run, describe_exception

_open: list[Run] = []  # kept here so that a run without other references ends at exit, not before
_installed = False
_RUN_LAST = -1000  # the priority of our finalizer: a worker calls it last
_exit_code = 0  # what sys.exit was last called with; used when nobody sees the real exit status


def watch(run: Run) -> None:
    """Record the end of this process in the run, and give a fork child a spool of its own."""
    global _installed
    _open.append(run)
    run._on_end.append(lambda: _open.remove(run))
    run._journal.on_announce = lambda: _watch_worker(run)
    if not run._journal.has_said_nothing:
        _watch_worker(run)
    _watch_once_it_is_a_worker(run)
    if not _installed:
        _installed = True
        atexit.register(_leave)
        os.register_at_fork(after_in_child=_after_fork)
        _hook_exceptions()
        _hook_exit()


def _hook_exit() -> None:
    """Note what sys.exit is called with: atexit is not told, and a short process may be gone before the hub looks."""
    original_exit = sys.exit

    @functools.wraps(original_exit)
    def exit_noting_status(status: Any = None, /) -> NoReturn:
        global _exit_code
        if threading.current_thread() is threading.main_thread():  # in another thread it ends only that thread
            _exit_code = 0 if status is None else status & 0xFF if isinstance(status, int) else 1
        original_exit(status)

    sys.exit = exit_noting_status


def _for_each_run(doing: str, act: Any) -> None:
    for run in _open.copy():  # a run removes itself from the list when it ends
        try:
            act(run)
        except Exception as error:
            swallow(error, doing)


def _leave() -> None:
    _for_each_run("the end of the run", lambda run: run._leave(_exit_code))


def _after_fork() -> None:
    screen.after_fork()
    streams.after_fork()
    _for_each_run("the fork of the run", Run._after_fork)
    _for_each_run("the fork of the run", _watch_once_it_is_a_worker)


def _watch_once_it_is_a_worker(run: Run) -> None:
    """Call `_watch_worker` if this process becomes a worker: multiprocessing forgets older finalizers then."""
    util, process = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.process")
    if util is None or process is None:
        return
    util.register_after_fork(run, _watch_worker)
    if getattr(process.current_process(), "_inheriting", False):  # it is a worker that has not begun its work yet
        util.Finalize(None, lambda: _end_worker(run), exitpriority=_RUN_LAST)


def _watch_worker(run: Run) -> None:
    """Notice the end of a multiprocessing worker: it ends without atexit, and swallows its exception."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:
        return
    from multiprocessing.util import Finalize  # noqa: PLC0415 - it is loaded already

    Finalize(None, lambda: _end_worker(run), exitpriority=_RUN_LAST)


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
        with screen.hold_last_line():  # the console prints how the run ended after the traceback
            try:
                _for_each_run("the record of an exception", lambda run: run._fail(error))
            finally:  # show the traceback even if we are interrupted
                previous(kind, error, trace)

    def hook_in_thread(args: Any) -> None:
        if args.exc_value is not None:
            _record_exception(args.exc_value, {"thread": args.thread.name if args.thread else ""})
        before, quiet.on = quiet.on, True
        try:
            previous_in_thread(args)
        finally:
            quiet.on = before

    def hook_unraisable(args: Any) -> None:
        if args.exc_value is not None:
            _record_exception(args.exc_value, {"unraisable": True})
        before, quiet.on = quiet.on, True
        try:
            previous_unraisable(args)
        finally:
            quiet.on = before

    sys.excepthook = hook
    threading.excepthook = hook_in_thread
    sys.unraisablehook = hook_unraisable


def _record_exception(error: BaseException, extra: dict[str, Any]) -> None:
    """Record an exception that ends only a thread, or that Python ignores."""

    def tell(run: Run) -> None:
        text, attrs = describe_exception(error)
        run._journal.event("exception", text, 40, attrs | extra)

    _for_each_run("the record of an exception", tell)
