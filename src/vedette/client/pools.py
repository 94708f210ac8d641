"""Which worker of a process pool was killed: its parent is told only that the pool is broken.

Whoever waits for a worker learns how it ended, and forgets that. So we note it as `multiprocessing` reads it.
Nothing is done in a program that starts no worker.
"""

import functools
import os
import sys
from typing import Any

from vedette.deaths import memory
from vedette.deaths.evidence import Evidence, Worker
from vedette.interrupts import let_through

_POPENS = ("multiprocessing.popen_fork", "multiprocessing.popen_forkserver")
_MOST = 64

_ended: dict[int, int] = {}  # by pid: the exit codes of workers that did not end well, the newest last
_baseline: memory.Baseline | None = None  # the memory of this process as its first worker began
_wrapped: set[str] = set()


def watch() -> None:
    """Note from now on how workers end; call it when this process starts one. It never raises."""
    global _baseline
    try:
        for name in _POPENS:
            if name in sys.modules and name not in _wrapped:
                _wrapped.add(name)
                _wrap(sys.modules[name].Popen)
        if _wrapped and _baseline is None:
            _baseline = memory.begin(os.getpid())
    except Exception as error:
        let_through(error)


def after_fork() -> None:
    """Forget the parent's workers."""
    global _baseline
    _ended.clear()
    _baseline = None


def _wrap(popen: Any) -> None:
    if "poll" not in vars(popen):
        return
    original = popen.poll

    @functools.wraps(original)
    def poll(self: Any, *args: Any, **named: Any) -> Any:
        code = original(self, *args, **named)
        if code and self.pid not in _ended:
            while len(_ended) >= _MOST:
                _ended.pop(next(iter(_ended)), None)
            _ended[self.pid] = code
        return code

    popen.poll = poll


def with_worker(evidence: Evidence) -> Evidence:
    """Add to the evidence of a broken pool which of its workers was killed, and whether memory ran out."""
    if evidence.raised is None or not evidence.raised.is_broken_pool:
        return evidence
    import msgspec  # noqa: PLC0415 - it is loaded already

    found = _first_killed()
    killed = found is not None and found.code == -9 and _baseline is not None
    return msgspec.structs.replace(
        evidence,
        worker=found,
        memory_watched=_baseline is not None and bool(_baseline.levels),
        shortage=memory.shortage(_baseline, log="") if killed and _baseline is not None else None,
    )


def _first_killed() -> Worker | None:
    """Return the worker that broke the pool: one that a signal killed, else one that exited.

    The pool itself then sends SIGTERM to the others.
    """
    process = sys.modules.get("multiprocessing.process")
    for one in list(getattr(process, "_dangling", ())):  # those that nobody has waited for yet
        if getattr(one, "_parent_pid", 0) == os.getpid() and getattr(one, "_popen", None) is not None:
            one._popen.poll()  # noqa: SLF001 - its own `exitcode` may raise in another process
    found = min(_ended.items(), key=lambda item: (item[1] == -15, item[1] > 0), default=None)
    return Worker(*found) if found is not None else None
