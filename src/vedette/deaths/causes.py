"""Causes of death, in words: what an exit code, a signal, a stack or a traceback says to a person."""

import os
import re
import signal
from collections.abc import Sequence

from vedette.deaths.memory import Baseline, Shortage, shortage

CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS})
_ASKED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE})  # somebody wanted an end
_MEANINGS = {
    signal.SIGXCPU: "its limit of CPU time (ulimit -t) was reached",
    signal.SIGXFSZ: "its limit of a file's size (ulimit -f) was reached",
    signal.SIGPIPE: "nobody read its output any more",
    signal.SIGHUP: "its terminal was closed",
    signal.SIGINT: "Ctrl-C",
}
UNSEEN_KILL = "kill -9, a scheduler, or the kernel for want of memory"
NO_SHORTAGE = "kill -9 or a scheduler; there is no sign of want of memory"
_EXITS = {
    126: "exit code 126: what it should run cannot be executed",
    127: "exit code 127: a command was not found",
}
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python[\d.]+/|^<")
_FATAL = re.compile(r"^Fatal Python error: (.*)$", re.MULTILINE)
_FATAL_SIGNALS = {
    "Segmentation fault": signal.SIGSEGV, "Aborted": signal.SIGABRT, "Bus error": signal.SIGBUS,
    "Floating point exception": signal.SIGFPE, "Illegal instruction": signal.SIGILL,
}  # fmt: skip
_NO_SPACE = re.compile(r"\[Errno (?:28|122)\]|No space left on device|Disk quota exceeded")
_IN_QUOTES = re.compile(r"'([^']*)'\s*(?:->.*)?$")
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:: .*|:)?$")
_MOST_AFTER = 20  # lines behind the name of an exception that may be its message
_EXIT_BY_SIGNAL = 128


def of_signal(number: int, why: str = "", frame: str = "") -> tuple[str, str]:
    """Return the end state and cause of a process that a signal killed; `frame`: where it was."""
    name = signal_name(number)
    why = why or _MEANINGS.get(signal.Signals(number), "") if name.startswith("SIG") else why
    where = f" in {frame}" if frame else ""
    return ("cancelled" if number in _ASKED else "failed"), f"killed by {name}{where}" + (f": {why}" if why else "")


def of_exit(code: int) -> tuple[str, str]:
    """Return the end state and cause of a process that ended by itself."""
    if code == 0:
        return "done", ""
    number = code - _EXIT_BY_SIGNAL
    if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGXCPU, signal.SIGXFSZ, *CRASHES):
        state = "cancelled" if number in _ASKED else "failed"
        return state, f"exit code {code}: probably {signal_name(number)} killed what it had started"
    return "failed", _EXITS.get(code, f"exit code {code}")


def of_shortage(short: Shortage) -> str:
    """Say what was short."""
    if short.limit is None:
        return "the machine ran out of memory"
    peak = f", peak {_size(short.peak)}" if short.peak is not None and short.peak < short.limit else ""
    return f"the memory limit of its cgroup ({_size(short.limit)}{peak}) was hit"


def of_kill(before: Baseline | None) -> str:
    """Say who may have sent a SIGKILL to a process that is dead now, by what stood at its beginning."""
    if before is None or not before.levels:
        return UNSEEN_KILL
    short = shortage(before)
    return of_shortage(short) if short else NO_SHORTAGE


def of_exception(last: str) -> str:
    """Return the cause that the last line of a traceback is; a full disk is called so."""
    last = last.strip()[:500]
    if _NO_SPACE.search(last) is None:
        return last
    path = _IN_QUOTES.search(last)
    return f"disk full{f' ({path[1]})' if path else ''}: {last}"


def full_disk(lines: Sequence[str]) -> str:
    """Return the last of some lines that tells of a full disk; else nothing."""
    return next((line.strip()[:500] for line in reversed(lines) if _NO_SPACE.search(line)), "")


def raised(lines: Sequence[str]) -> str:
    """Return the last line of the traceback that some output ends in, such as `ValueError: bad`; else nothing."""
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].lstrip("| ").startswith(_TRACEBACK):
            break
    else:
        return ""
    behind = at + 1
    while behind < len(lines) and (lines[behind].startswith((" ", "\t")) or not lines[behind]):
        behind += 1
    if behind == at + 1 or behind >= len(lines) or len(lines) - behind > _MOST_AFTER:
        return ""
    return lines[behind].strip() if _RAISED.match(lines[behind].strip()) else ""


def crash(lines: Sequence[str]) -> str:
    """Return the stacks that faulthandler has printed at the end of some output, from their first line on."""
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].startswith("Fatal Python error: "):
            return "\n".join(lines[at:])
    return ""


def fatal_signal(stacks: str) -> int:
    """Return the signal of a crash that faulthandler tells of; 0 when it tells of none."""
    found = _FATAL.search(stacks)
    return int(_FATAL_SIGNALS.get(found[1].strip(), 0)) if found else 0


def frame_of(stacks: str) -> str:
    """Return where the thread that crashed was, as `train.py:12 (function)`.

    It is the topmost frame of the user's own, if there is one: that a library crashed tells less than who called it.
    """
    current = max(0, stacks.find("Current thread"))
    end = stacks.find("\n\n", current)
    frames = list(_FRAME.finditer(stacks, current, end if end > 0 else len(stacks)))
    found = next((frame for frame in frames if not _LIBRARY.search(frame["file"])), frames[0] if frames else None)
    return f"{os.path.basename(found['file'])}:{found['line']} ({found['function'].strip()})" if found else ""


def signal_name(number: int) -> str:
    """Return how a signal is called."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
