"""Why a command ended, from all that its launcher has seen of it."""

import errno
import os
import signal
import time
from collections.abc import Mapping, Sequence

from vedette.deaths import causes
from vedette.deaths.memory import shortage
from vedette.launch.local import Ending

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_ROOM = "disk full: its output could not be written any more"
_ABOUT_S = 5.0  # how far from its time limit a scheduler may be


def name(ending: Ending, last: Sequence[str], limit: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the end state of a command and its cause; `last`: its last lines, `limit`: its time limit in words."""
    if ending.timed_out:
        return "failed", f"time limit of {limit}" + (
            ", and killed by SIGKILL as it did not stop" if ending.killed else ""
        )
    if os.WIFSIGNALED(ending.status):
        return _by_signal(os.WTERMSIG(ending.status), ending, last, environ)
    return _by_exit(os.WEXITSTATUS(ending.status), ending, last)


def _by_signal(number: int, ending: Ending, last: Sequence[str], environ: Mapping[str, str]) -> tuple[str, str]:
    job = _slurm_limit(environ) if number in (signal.SIGTERM, signal.SIGKILL) else ""
    if job:
        return "failed", f"killed by {causes.signal_name(number)}: {job}"
    if number == signal.SIGPIPE and ending.refused in _FULL:
        return "failed", _NO_ROOM
    if number in ending.sent:
        return causes.of_signal(number, f"sent by {ending.sent[number]}")
    if number == signal.SIGKILL:
        return causes.of_signal(number, causes.of_kill(ending.baseline))
    frame = causes.frame_of(causes.crash(last)) if number in causes.CRASHES else ""
    return causes.of_signal(number, frame=frame)


def _by_exit(code: int, ending: Ending, last: Sequence[str]) -> tuple[str, str]:
    state, cause = causes.of_exit(code)
    if code == 0:
        return state, cause
    if code == 128 + signal.SIGKILL and (short := shortage(ending.baseline)) is not None:
        return "failed", f"exit code {code}: {causes.of_shortage(short)}"
    if code == 128 + signal.SIGPIPE and ending.refused in _FULL:
        return "failed", f"exit code {code}: {_NO_ROOM}"
    for number in (signal.SIGTERM, signal.SIGINT):
        if number in ending.sent:
            return "cancelled", f"exit code {code} after {causes.signal_name(number)}, sent by {ending.sent[number]}"
    if stacks := causes.crash(last):
        frame = causes.frame_of(stacks)
        if causes.fatal_signal(stacks) == code - 128:
            return state, f"{cause}{f' in {frame}' if frame else ''}"
    if exception := causes.raised(last):
        return state, causes.of_exception(exception)
    if full := causes.full_disk(last[-5:]):
        return state, f"exit code {code}: disk full: {full}"
    return state, cause


def _slurm_limit(environ: Mapping[str, str]) -> str:
    end = environ.get("SLURM_JOB_END_TIME", "")
    if end.isascii() and end.isdigit() and time.time() >= int(end) - _ABOUT_S:
        return f"the time limit of Slurm job {environ.get('SLURM_JOB_ID', '')}".rstrip()
    return ""
