"""Why something ended: one list of rules over the evidence. The first rule that applies decides.

Nothing here reads a file or a clock, and it imports little: it also runs in the user's process. Code decides by the
kind of a verdict; its cause is for people.
"""

import errno
import signal
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from vedette.deaths.evidence import Evidence, Shortage


class EndKind(StrEnum):
    """What ended it."""

    DONE = "done"
    START = "start"  # it could not be started
    EXIT = "exit"  # an exit code, and no more is known
    EXCEPTION = "exception"
    INTERRUPT = "interrupt"  # Ctrl-C, as the exception KeyboardInterrupt
    SIGNAL = "signal"
    STOPPED = "stopped"  # `vedette stop`
    KILLED = "killed"  # SIGKILL, and who sent it is not known
    CRASH = "crash"
    MEMORY = "memory"
    DISK = "disk"
    TIME = "time"
    REBOOT = "reboot"
    UNKNOWN = "unknown"


class Sure(StrEnum):
    """How sure the cause is."""

    SEEN = "seen"  # the kernel, the launcher or the process itself reported it
    LIKELY = "likely"  # the signs point to it
    UNKNOWN = "unknown"


class Verdict(NamedTuple):
    """The judgement on one end."""

    kind: EndKind
    state: str  # the end state of its span
    cause: str  # in words
    sure: Sure = Sure.SEEN


Rule = Callable[[Evidence], Verdict | None]

# Signals by name: not every system has all of them, and this module is imported everywhere.
_CRASHES = frozenset("SIGSEGV SIGABRT SIGBUS SIGFPE SIGILL SIGSYS".split())
_ASKED = frozenset("SIGTERM SIGINT SIGHUP SIGPIPE".split())  # somebody asked for the end
_STOPPING = frozenset("SIGTERM SIGKILL".split())
_MEANINGS = {
    "SIGXCPU": "its limit of CPU time (ulimit -t) was reached",
    "SIGXFSZ": "its limit of a file's size (ulimit -f) was reached",
    "SIGPIPE": "nobody read its output any more",
    "SIGHUP": "its terminal was closed",
    "SIGINT": "Ctrl-C",
}
_EXITS = {126: "what it should run cannot be executed", 127: "a command was not found"}
_PASSED_ON = 128  # a shell exits with this plus the signal that killed its child
_TELLING = _CRASHES | frozenset("SIGKILL SIGTERM SIGINT SIGXCPU SIGXFSZ".split())
_FULL = (errno.ENOSPC, errno.EDQUOT)


def verdict(evidence: Evidence) -> Verdict:
    """Return why something ended."""
    return next((found for rule in RULES if (found := rule(evidence)) is not None), _UNKNOWN)


def _never_started(of: Evidence) -> Verdict | None:
    return Verdict(EndKind.START, "failed", f"it could not be started: {of.start_error}") if of.start_error else None


def _time_limit(of: Evidence) -> Verdict | None:
    if not of.time_limit:
        return None
    late = ", and killed by SIGKILL as it did not stop" if of.killed_late else ""
    return Verdict(EndKind.TIME, "failed", f"time limit of {of.time_limit}{late}")


def _success(of: Evidence) -> Verdict | None:
    return Verdict(EndKind.DONE, "done", "", _sure(of)) if of.code == 0 else None


def _batch_limit(of: Evidence) -> Verdict | None:
    if not of.batch_job or _name(of.signal) not in _STOPPING:
        return None
    cause = f"killed by {_name(of.signal)}: the time limit of {of.batch_job}"
    return Verdict(EndKind.TIME, "failed", cause, Sure.LIKELY)


def _told_to_stop(of: Evidence) -> Verdict | None:
    if of.stopped_by is None or _name(of.signal) not in _STOPPING:
        return None
    told = f"told to stop by {of.stopped_by}" if of.stopped_by else "told to stop"
    late = _name(of.signal) == "SIGKILL"
    cause = f"{told}, and killed by SIGKILL as it did not" if late else f"killed by SIGTERM: {told}"
    return Verdict(EndKind.STOPPED, "cancelled", cause, _sure(of))


def _no_room_for_output(of: Evidence) -> Verdict | None:
    if of.output_errno not in _FULL or not _ended_by(of, "SIGPIPE"):
        return None
    before = "" if of.code is None else f"exit code {of.code}: "
    return Verdict(EndKind.DISK, "failed", f"{before}disk full: its output could not be written any more")


def _signal_passed_on(of: Evidence) -> Verdict | None:
    return _by_signal(of, EndKind.SIGNAL, f"sent by {of.sent[of.signal]}") if of.signal in of.sent else None


def _out_of_memory(of: Evidence) -> Verdict | None:
    if of.shortage is None or not _ended_by(of, "SIGKILL"):
        return None
    how = "killed by SIGKILL" if of.code is None else f"exit code {of.code}"
    return Verdict(EndKind.MEMORY, "failed", f"{how}: {_short(of.shortage)}", Sure.LIKELY)


def _killed(of: Evidence) -> Verdict | None:
    if _name(of.signal) != "SIGKILL":
        return None
    if of.memory_watched:
        who = "kill -9 or a scheduler; there is no sign that memory ran out"
    else:
        who = "kill -9, a scheduler, or the kernel because memory ran out"
    return _by_signal(of, EndKind.KILLED, who, sure=Sure.LIKELY)


def _crash(of: Evidence) -> Verdict | None:
    if _name(of.signal) not in _CRASHES:
        return None
    return _by_signal(of, EndKind.CRASH, frame=of.stacks.frame if of.stacks and of.stacks.signal == of.signal else "")


def _signal(of: Evidence) -> Verdict | None:
    return _by_signal(of, EndKind.SIGNAL, _MEANINGS.get(_name(of.signal), "")) if of.signal else None


def _exit_after_signal(of: Evidence) -> Verdict | None:
    number = next((number for number in (signal.SIGTERM, signal.SIGINT) if number in of.sent), None)
    if of.code is None or number is None:
        return None
    return Verdict(EndKind.SIGNAL, "cancelled", f"exit code {of.code} after {_name(number)}, sent by {of.sent[number]}")


def _crash_below(of: Evidence) -> Verdict | None:
    if of.code is None or of.stacks is None or of.stacks.signal != of.code - _PASSED_ON:
        return None
    if _name(of.stacks.signal) not in _CRASHES:
        return None
    state, cause = _exit_code(of.code)
    return Verdict(EndKind.CRASH, state, cause + (f" in {of.stacks.frame}" if of.stacks.frame else ""), Sure.LIKELY)


def _exception(of: Evidence) -> Verdict | None:
    if of.raised is None:
        return None
    if of.raised.interrupt:
        return Verdict(EndKind.INTERRUPT, "cancelled", "KeyboardInterrupt (Ctrl-C)")
    state = "failed" if of.code is None else _exit_code(of.code)[0]
    if of.raised.errno not in _FULL:
        return Verdict(EndKind.EXCEPTION, state, of.raised.text)
    where = f" ({of.raised.path})" if of.raised.path else ""
    return Verdict(EndKind.DISK, state, f"disk full{where}: {of.raised.text}")


def _disk_full(of: Evidence) -> Verdict | None:
    if of.code is None or not of.full_disk:
        return None
    cause = f"exit code {of.code}: disk full: {of.full_disk}"
    return Verdict(EndKind.DISK, _exit_code(of.code)[0], cause, Sure.LIKELY)


def _exit(of: Evidence) -> Verdict | None:
    if of.code is None:
        return None
    guessed = _name(of.code - _PASSED_ON) in _TELLING
    return Verdict(EndKind.EXIT, *_exit_code(of.code), Sure.LIKELY if guessed else _sure(of))


def _reboot(of: Evidence) -> Verdict | None:
    if not of.rebooted:
        return None
    return Verdict(EndKind.REBOOT, "failed", "the machine went down, and was started again since", Sure.LIKELY)


def _unseen(of: Evidence) -> Verdict | None:
    if of.watched:
        return None
    return Verdict(EndKind.UNKNOWN, "failed", "died without a word; nobody saw how", Sure.UNKNOWN)


_UNKNOWN = Verdict(EndKind.UNKNOWN, "failed", "died without a word", Sure.UNKNOWN)
RULES: tuple[Rule, ...] = (
    _never_started, _time_limit, _success,
    _batch_limit, _told_to_stop, _no_room_for_output, _signal_passed_on, _out_of_memory, _killed, _crash, _signal,
    # The rules below are for an end without a signal.
    _exit_after_signal, _crash_below, _exception, _disk_full, _exit,
    _reboot, _unseen,
)  # fmt: skip


def _ended_by(of: Evidence, name: str) -> bool:
    """Tell whether this signal killed the process, or a child of a shell that reports it."""
    return name == _name(of.signal if of.code is None else of.code - _PASSED_ON)


def _sure(of: Evidence) -> Sure:
    return Sure.LIKELY if of.status is None else Sure.SEEN


def _by_signal(of: Evidence, kind: EndKind, why: str = "", frame: str = "", sure: Sure | None = None) -> Verdict:
    state = "cancelled" if _name(of.signal) in _ASKED else "failed"
    where = f" in {frame}" if frame else ""
    cause = f"killed by {_name(of.signal)}{where}" + (f": {why}" if why else "")
    return Verdict(kind, state, cause, sure or _sure(of))


def _exit_code(code: int) -> tuple[str, str]:
    """Return the state and the meaning of an exit code."""
    passed_on = _name(code - _PASSED_ON)
    if passed_on in _TELLING:
        state = "cancelled" if passed_on in _ASKED else "failed"
        return state, f"exit code {code}: probably {passed_on} killed what it had started"
    return "failed", f"exit code {code}" + (f": {_EXITS[code]}" if code in _EXITS else "")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _short(of: Shortage) -> str:
    if of.limit is None:
        return "the machine ran out of memory"
    peak = f", peak {_size(of.peak)}" if of.peak is not None and of.peak < of.limit else ""
    return f"the memory limit of its cgroup ({_size(of.limit)}{peak}) was hit"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
