"""Reads what a program wrote as it died: stacks of faulthandler, a traceback, a C++ exception, MPI, a full disk."""

import errno
import os
import re
import signal
from collections.abc import Sequence

from vedette.deaths.evidence import CrashStacks, Raised
from vedette.kernel import signal_name

_FATAL = "Fatal Python error: "
_FATAL_SIGNALS = {
    "Segmentation fault": signal.SIGSEGV, "Aborted": signal.SIGABRT, "Bus error": signal.SIGBUS,
    "Floating point exception": signal.SIGFPE, "Floating-point exception": signal.SIGFPE,
    "Illegal instruction": signal.SIGILL,
}  # fmt: skip
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python[\d.]+/|^<")
_FULL = re.compile(r"\[Errno 28\]|No space left on device|(?P<quota>\[Errno 122\]|Disk quota exceeded)")
_IN_QUOTES = re.compile(r"'([^']*)'\s*(?:->.*)?$")
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:: .*|:)?$")
_MOST_AFTER = 20  # an exception's message may have so many lines
_MOST_CHARS = 500
_SEARCHED = 60  # last lines that are searched for what C++ or MPI says
_THROWN = re.compile(
    r"^terminate called after throwing an instance of '(?P<type>[^'\n]{1,200})'(?:\n\s*what\(\):(?P<what>[^\n]*))?",
    re.MULTILINE,
)
_RANKS = tuple(
    re.compile(pattern)
    for pattern in (
        r"MPI_ABORT was invoked on rank (?P<rank>\d+) .{0,200}?[Ee]rrorcode:? (?P<code>-?\d+)",
        r"MPI_Abort\([^)]*, ?(?P<code>-?\d+)\) - process (?P<rank>\d+)",
        r"Abort\((?P<code>-?\d+)\) on node \d+ \(rank (?P<rank>\d+) in comm",
        r"noticed that process rank (?P<rank>\d+) .{0,200}?exited on signal (?P<signal>\d+)",
    )
)
_LAST = 5  # only so many last lines are searched for a full disk


def stacks(text: str) -> CrashStacks | None:
    """Read the file to which faulthandler writes a process's stacks on a crash or on SIGTERM."""
    if not text:
        return None
    found = _crash(text)
    return found._replace(text=text) if found is not None else CrashStacks(signal.SIGTERM, _frame(text), text)


def crash(lines: Sequence[str]) -> CrashStacks | None:
    """Read stacks that faulthandler printed at the end of the output."""
    return _crash("\n".join(lines))


def raised(lines: Sequence[str]) -> Raised | None:
    """Read the last line of a traceback at the end of the output, such as `ValueError: bad`."""
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].lstrip("| ").startswith(_TRACEBACK):
            break
    else:
        return None
    behind = at + 1
    while behind < len(lines) and (lines[behind].startswith((" ", "\t")) or not lines[behind]):
        behind += 1
    if behind == at + 1 or behind >= len(lines) or len(lines) - behind > _MOST_AFTER:
        return None
    text = lines[behind].strip()
    if not _RAISED.match(text):
        return None
    text = text[:_MOST_CHARS]
    full = _FULL.search(text)
    if full is None:
        return Raised(text)
    path = _IN_QUOTES.search(text)
    return Raised(text, errno.EDQUOT if full["quota"] else errno.ENOSPC, path[1] if path else "")


def thrown(lines: Sequence[str]) -> str:
    """Return the C++ exception that nobody caught, such as `std::runtime_error: bad`; empty if there was none."""
    found = list(_THROWN.finditer("\n".join(lines[-_SEARCHED:])))
    if not found:
        return ""
    what = (found[-1]["what"] or "").strip()
    return f"{found[-1]['type']}{': ' if what else ''}{what}"[:_MOST_CHARS]


def failed_rank(lines: Sequence[str]) -> str:
    """Return what MPI says of the rank that ended all: Open MPI and MPICH print it, wrapped or not; else empty."""
    text = " ".join(" ".join(line.split()) for line in lines[-_SEARCHED:])
    for pattern in _RANKS:
        if (found := pattern.search(text)) is not None:
            rank, code, number = (found.groupdict().get(name) or "" for name in ("rank", "code", "signal"))
            if number:
                return f"rank {rank} was killed by {signal_name(int(number))}"
            return f"rank {rank} aborted with code {code} (MPI_Abort)" if code else f"rank {rank} failed"
    return ""


def full_disk(lines: Sequence[str]) -> str:
    """Return the newest of the last lines that reports a full disk, or an empty text."""
    return next((line.strip()[:_MOST_CHARS] for line in reversed(lines[-_LAST:]) if _FULL.search(line)), "")


def _crash(text: str) -> CrashStacks | None:
    """Read the stacks of a crash. A fatal error without a signal's name is one after which Python aborts."""
    at = text.rfind("\n" + _FATAL) + 1
    if not text.startswith(_FATAL, at):
        return None
    text = text[at:]
    what = text.partition("\n")[0].removeprefix(_FATAL).strip()
    return CrashStacks(_FATAL_SIGNALS.get(what, signal.SIGABRT), _frame(text), text)


def _frame(text: str) -> str:
    """Return where the interrupted thread was, such as `train.py:12 (function)`.

    It is the topmost frame of the user's own code, if there is one: who called a library says more than the library.
    """
    current = max(0, text.find("Current thread"))
    end = text.find("\n\n", current)
    frames = list(_FRAME.finditer(text, current, end if end > 0 else len(text)))
    found = next((frame for frame in frames if not _LIBRARY.search(frame["file"])), frames[0] if frames else None)
    return f"{os.path.basename(found['file'])}:{found['line']} ({found['function'].strip()})" if found else ""
