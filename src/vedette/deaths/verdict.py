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
from vedette.kernel import signal_name
from vedette.model import UNSEEN


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
    UNKNOWN = "unknown"  # it ended, and nobody saw how


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
_NOT_MEMORY = "the memory limit was not reached"
_EXITS = {
    124: "probably the time limit of `timeout` was over",
    126: "what it should run cannot be executed",
    127: "a command was not found",
}
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


def _ended_well_when_told(of: Evidence) -> Verdict | None:
    if of.code != 0:
        return None
    if of.stopped_by is not None:
        told = f"told to stop by {of.stopped_by}" if of.stopped_by else "told to stop"
        return Verdict(EndKind.STOPPED, "cancelled", f"{told}, and exited with code 0", _sure(of))
    number = _asked(of)
    if number is None and of.told in _ASKED:
        cause = f"told to stop by {of.told} (who sent it was not seen), and exited with code 0"
        return Verdict(EndKind.SIGNAL, "cancelled", cause, _sure(of))
    if number is None:
        return None
    cause = f"told to stop by {signal_name(number)}, sent by {of.sent[number]}, and exited with code 0"
    return Verdict(EndKind.SIGNAL, "cancelled", cause, _sure(of))


def _idle_worker(of: Evidence) -> Verdict | None:
    if signal_name(of.signal) != "SIGTERM" or of.stacks is None or not of.stacks.is_idle_worker:
        return None
    return Verdict(EndKind.DONE, "done", "its pool ended it, as it had nothing more to do", Sure.LIKELY)


def _leaving_worker(of: Evidence) -> Verdict | None:
    if signal_name(of.signal) != "SIGTERM":
        return None
    has_left = of.left and of.said_code == 0  # it writes no stacks any more, and Python may take long to shut down
    if not has_left and (of.stacks is None or not of.stacks.is_leaving_worker):
        return None
    return Verdict(EndKind.DONE, "done", "it was ended by SIGTERM when its work was done, as it left", Sure.LIKELY)


def _success(of: Evidence) -> Verdict | None:
    return Verdict(EndKind.DONE, "done", of.mishap, _sure(of)) if of.code == 0 else None


def _own_time_limit(of: Evidence) -> Verdict | None:
    late = _ended_by(of, "SIGKILL")
    if not of.own_limit or (of.code != 124 and not late):
        return None
    how = ", killed by SIGKILL" if late else ""
    return Verdict(EndKind.TIME, "failed", f"time limit of `timeout {of.own_limit}`{how}", Sure.LIKELY)


def _batch_limit(of: Evidence) -> Verdict | None:
    if not of.batch_job or signal_name(of.signal) not in _STOPPING:
        return None
    cause = f"killed by {signal_name(of.signal)}: the time limit of {of.batch_job}"
    return Verdict(EndKind.TIME, "failed", cause, Sure.LIKELY)


def _told_to_stop(of: Evidence) -> Verdict | None:
    if of.stopped_by is None or signal_name(of.signal) not in _STOPPING:
        return None
    told = f"told to stop by {of.stopped_by}" if of.stopped_by else "told to stop"
    late = signal_name(of.signal) == "SIGKILL"
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


def _cpu_limit(of: Evidence) -> Verdict | None:
    if of.cpu is None or not of.cpu.is_over or not _ended_by(of, "SIGKILL"):
        return None
    how = "killed by SIGKILL" if of.code is None else f"exit code {of.code}"
    cause = f"{how}: its limit of CPU time (ulimit -t {of.cpu.limit_s:g}) was reached"
    return Verdict(EndKind.TIME, "failed", cause, Sure.LIKELY)


def _killed(of: Evidence) -> Verdict | None:
    if signal_name(of.signal) != "SIGKILL":
        return None
    return _by_signal(of, EndKind.KILLED, _killers(of), sure=Sure.LIKELY)


def _killers(of: Evidence) -> str:
    """Return who may have sent SIGKILL."""
    who = ["kill -9", "a scheduler"]
    if of.cpu is not None and of.cpu.used_s is None:
        who.append(f"its limit of CPU time (ulimit -t {of.cpu.limit_s:g})")
    if not of.memory_watched:
        who.append("the kernel because memory ran out")
    listed = " or ".join(who) if len(who) == 2 else f"{', '.join(who[:-1])}, or {who[-1]}"
    return f"{listed}; {_NOT_MEMORY}" if of.memory_watched else listed


def _crash(of: Evidence) -> Verdict | None:
    if signal_name(of.signal) not in _CRASHES:
        return None
    frame = of.stacks.frame if of.stacks and of.stacks.signal == of.signal else ""
    return _by_signal(of, EndKind.CRASH, of.thrown, frame)


def _signal(of: Evidence) -> Verdict | None:
    if not of.signal:
        return None
    why = _MEANINGS.get(signal_name(of.signal), "")
    if of.launched and signal_name(of.signal) == "SIGTERM":
        why = "who sent it was not seen, as it did not come through `vedette run`"
    elif of.sender_unseen and signal_name(of.signal) == "SIGTERM":
        why = "who sent it was not seen; `vedette run` sees it"
    return _by_signal(of, EndKind.SIGNAL, why)


def _exit_after_signal(of: Evidence) -> Verdict | None:
    number = _asked(of)
    if of.code is None or number is None:
        return None
    return Verdict(
        EndKind.SIGNAL, "cancelled", f"exit code {of.code} after {signal_name(number)}, sent by {of.sent[number]}"
    )


def _crash_below(of: Evidence) -> Verdict | None:
    if of.code is None or signal_name(of.code - _PASSED_ON) not in _CRASHES:
        return None
    frame = of.stacks.frame if of.stacks is not None and of.stacks.signal == of.code - _PASSED_ON else ""
    if not frame and not of.thrown:
        return None
    state, cause = _exit_code(of.code)
    where = f" in {frame}" if frame else ""
    return Verdict(EndKind.CRASH, state, cause + where + (f": {of.thrown}" if of.thrown else ""), Sure.LIKELY)


def _mpi(of: Evidence) -> Verdict | None:
    if of.code is None or not of.rank:
        return None
    # Who is killed raises nothing: what was raised is of another rank, for want of this one.
    why = f": {of.raised.text}" if of.raised is not None and "killed" not in of.rank else ""
    return Verdict(EndKind.EXIT, "failed", f"exit code {of.code}: {of.rank}{why}", Sure.LIKELY)


def _broken_pool(of: Evidence) -> Verdict | None:
    if of.raised is None or not of.raised.pool_error:
        return None
    who = "a worker" if of.worker is None else f"worker {of.worker.pid}"
    if of.worker is not None and of.worker.code >= 0:
        how = f"exited with code {of.worker.code}"
    elif of.worker is not None:
        how = f"was killed by {signal_name(-of.worker.code)}"
    else:
        how = "was killed"
    kind, why = EndKind.EXCEPTION, ""
    if of.shortage is not None:
        kind, why = EndKind.MEMORY, f": {_short(of.shortage)}"
    elif of.worker is not None and signal_name(-of.worker.code) == "SIGKILL":
        why = f": {_killers(of)}"
    cause = f"{who} of the process pool {how}{why}; {of.raised.pool_error} followed"
    return Verdict(kind, "failed", cause, Sure.LIKELY)


def _exception(of: Evidence) -> Verdict | None:
    if of.raised is None:
        return None
    if of.raised.interrupt:
        return Verdict(
            EndKind.INTERRUPT, "cancelled", of.raised.text.replace("KeyboardInterrupt", "KeyboardInterrupt (Ctrl-C)")
        )
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
    guessed = signal_name(of.code - _PASSED_ON) in _TELLING or of.code == 124
    state, cause = _exit_code(of.code)
    if of.code == 1 and of.exit_text:  # Python prints such a text, and exits with 1
        cause = f"{cause}: {of.exit_text}"
    elif of.code == 1 and of.last_error:
        cause = f"{cause}; its last line on stderr: {of.last_error}"
    elif of.code == 1 and of.last_line:
        cause = f"{cause}; its last line: {of.last_line}"
    return Verdict(EndKind.EXIT, state, cause, Sure.LIKELY if guessed else _sure(of))


def _reboot(of: Evidence) -> Verdict | None:
    if not of.rebooted:
        return None
    return Verdict(EndKind.REBOOT, "failed", "the machine went down, and was started again since", Sure.LIKELY)


def _left(of: Evidence) -> Verdict | None:
    return Verdict(EndKind.UNKNOWN, UNSEEN, "its exit code was not seen", Sure.UNKNOWN) if of.left else None


def _elsewhere(of: Evidence) -> Verdict | None:
    if not of.elsewhere:
        return None
    cause = "it ended without a word where nobody here sees how: in another container, or on another machine"
    return Verdict(EndKind.UNKNOWN, UNSEEN, cause, Sure.UNKNOWN)


_UNKNOWN = Verdict(EndKind.UNKNOWN, UNSEEN, "it ended without a word, and nobody saw how", Sure.UNKNOWN)
RULES: tuple[Rule, ...] = (
    _never_started, _time_limit, _ended_well_when_told, _idle_worker, _leaving_worker, _success, _own_time_limit,
    _batch_limit, _told_to_stop, _no_room_for_output, _signal_passed_on, _out_of_memory, _cpu_limit, _killed, _crash,
    _signal,
    # The rules below are for an end without a signal.
    _exit_after_signal, _crash_below, _mpi, _broken_pool, _exception, _disk_full, _exit,
    _reboot, _left, _elsewhere,
)  # fmt: skip


def _asked(of: Evidence) -> int | None:
    """Return the signal by which somebody asked for its end, if that was seen."""
    return next((number for number in (signal.SIGTERM, signal.SIGINT) if number in of.sent), None)


def _ended_by(of: Evidence, name: str) -> bool:
    """Tell whether this signal killed the process, or a child of a shell that reports it."""
    return name == signal_name(of.signal if of.code is None else of.code - _PASSED_ON)


def _sure(of: Evidence) -> Sure:
    return Sure.LIKELY if of.status is None else Sure.SEEN


def _by_signal(of: Evidence, kind: EndKind, why: str = "", frame: str = "", sure: Sure | None = None) -> Verdict:
    state = "cancelled" if signal_name(of.signal) in _ASKED else "failed"
    where = f" in {frame}" if frame else ""
    cause = f"killed by {signal_name(of.signal)}{where}" + (f": {why}" if why else "")
    return Verdict(kind, state, cause, sure or _sure(of))


def _exit_code(code: int) -> tuple[str, str]:
    """Return the state and the meaning of an exit code."""
    passed_on = signal_name(code - _PASSED_ON)
    if passed_on in _TELLING:
        state = "cancelled" if passed_on in _ASKED else "failed"
        return state, f"exit code {code}: probably {passed_on} killed what it had started"
    return "failed", f"exit code {code}" + (f": {_EXITS[code]}" if code in _EXITS else "")


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
