"""Notices how this process ends: by an exception, at the end of the interpreter, or as a worker. Also notices forks."""

import atexit
import functools
import os
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, NoReturn

from vedette.client import open_runs, pools, screen, streams
from vedette.client.faults import swallow
from vedette.client.messages import clean_text
from vedette.client.quiet import quiet
from vedette.client.raised import MOST_EXIT_TEXT, last_line
from vedette.client.run import Run, describe_exception
from vedette.client.values import text_of
from vedette.interrupts import is_of_handler, let_through

_open: list[Run] = []  # kept here so that a run without other references ends at exit, not before
_installed = False
_RUN_LAST = -1000  # the priority of our finalizer: a worker calls it last
_exit_code: int | None = None  # what sys.exit was last called with; None: it was not called
_exit_text = ""  # the text that it was called with in place of a code
_has_left = False
_told = ""  # the signal whose handler has called sys.exit last
_program: FrameType | None = None  # the outermost frame of the program


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
        _note_program()
        atexit.register(_leave)
        os.register_at_fork(after_in_child=_after_fork, after_in_parent=pools.watch)
        _hook_exceptions()
        _hook_exit()


def _note_program() -> None:
    """Keep the outermost frame of the main thread: at the end it shows whether the program came to its last line."""
    global _program
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        _program, frame = frame, frame.f_back


def _guess_exit_code() -> int | None:
    """Return the exit code as far as it shows: for the console, which cannot wait until it is known."""
    if _program is None:
        return None
    from opcode import opname  # noqa: PLC0415 - not before the end of the program

    if opname[_program.f_code.co_code[_program.f_lasti]].startswith("RETURN"):
        return 0
    return 1 if streams.said_at_the_end() else _exit_code  # without a return SystemExit has ended it


def _hook_exit() -> None:
    """Note what sys.exit is called with: atexit is not told."""
    original_exit = sys.exit

    @functools.wraps(original_exit)
    def exit_noting_status(status: Any = None, /) -> NoReturn:
        global _exit_code, _exit_text, _told
        if threading.current_thread() is threading.main_thread():  # in another thread it ends only that thread
            _exit_code = 0 if status is None else status & 0xFF if isinstance(status, int) else 1
            _exit_text = "" if status is None or isinstance(status, int) else text_of(status)
            _told = _handled_signal()
        original_exit(status)

    sys.exit = exit_noting_status


def _handled_signal() -> str:
    """Return the name of the signal whose handler in the program is running; empty if none is."""
    import signal  # noqa: PLC0415 - not before the end of the program

    handlers = {}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        handler = signal.getsignal(number)
        if (code := getattr(getattr(handler, "__func__", handler), "__code__", None)) is not None:
            handlers[code] = number.name
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code in handlers:
            return handlers[frame.f_code]
    return ""


def _for_each_run(doing: str, act: Any) -> None:
    interrupted: Exception | None = None
    for run in _open.copy():  # a run removes itself from the list when it ends
        try:
            act(run)
        except Exception as error:
            if is_of_handler(error):
                interrupted = error
            else:
                swallow(error, doing)
    if interrupted is not None:
        raise interrupted


def has_left() -> bool:
    """Tell whether Python shuts down, and the runs of this process were ended for that."""
    return _has_left


def _leave() -> None:
    global _has_left
    _has_left = True
    code = _guess_exit_code() if _open else None
    text = clean_text(streams.said_at_the_end() or _exit_text)[:MOST_EXIT_TEXT] if code == 1 else ""
    _for_each_run("the end of the run", lambda run: run._leave(code, text, _told))


def _after_fork() -> None:
    screen.after_fork()
    streams.after_fork()
    pools.after_fork()
    _for_each_run("the fork of the run", Run._after_fork)
    open_runs.after_fork()
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
        run._leave(0, sure=True)
    else:
        run._fail(error)


def _hook_exceptions() -> None:
    previous, previous_in_thread, previous_unraisable = sys.excepthook, threading.excepthook, sys.unraisablehook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with screen.hold_last_line():  # the console prints how the run ended after the traceback
            try:
                _for_each_run("the record of an exception", lambda run: _fail(run, error))
            finally:  # show the traceback even if we are interrupted
                previous(kind, error, trace)

    def hook_in_thread(args: Any) -> None:
        if args.exc_value is not None:
            name = args.thread.name if args.thread else ""
            _record_exception(args.exc_value, {"thread": name}, f"thread {name} died: ")
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


def _fail(run: Run, error: BaseException) -> None:
    """End a run by the exception that ends the main thread; a run of a thread that still runs goes on."""
    if not run._context.goes_on_elsewhere():
        run._fail(error)


def _record_exception(error: BaseException, extra: dict[str, Any], died: str = "") -> None:
    """Record an exception that ends only a thread, or that Python ignores; `died`: what it ended, in words."""
    journal = open_runs.journal()
    if journal is None:
        return
    try:
        text, attrs = describe_exception(error)
        if died:
            journal.mishap = (died + last_line(error))[:MOST_EXIT_TEXT]
        journal.event("exception", text, 40, attrs | extra)
    except Exception as trouble:
        let_through(trouble)
        swallow(trouble, "the record of an exception")
