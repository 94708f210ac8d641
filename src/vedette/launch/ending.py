"""Gathers what the launcher has seen of a command's end, as evidence."""

import pwd
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vedette.deaths import last_words, memory
from vedette.deaths.evidence import Evidence

_ABOUT_S = 5.0  # a scheduler may kill this long before its time limit


class Ending(NamedTuple):
    """How a command ended, and what is known about the reason."""

    status: int
    baseline: memory.Baseline
    sent: dict[int, str]  # by signal that we passed on: who sent it
    timed_out: bool
    killed: bool  # we killed it, because it did not stop in time
    output_errno: int = 0  # the errno of a failed write to our own output


def evidence(ending: Ending, last: Sequence[str], limit: str, environ: Mapping[str, str]) -> Evidence:
    """Return all evidence of a command's end; `last`: its last lines, `limit`: its time limit in words."""
    return Evidence(
        status=ending.status,
        stacks=last_words.crash(last),
        raised=last_words.raised(last),
        full_disk=last_words.full_disk(last),
        output_errno=ending.output_errno,
        sent=ending.sent,
        time_limit=limit if ending.timed_out else "",
        killed_late=ending.killed,
        batch_job=_slurm_job(environ),
        memory_watched=bool(ending.baseline.levels),
        shortage=memory.look_back(ending.baseline, ending.status),
    )


def sender(pid: int, uid: int) -> str:
    """Return who sent a signal, as far as we can find out."""
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"
    if not pid:
        return user
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).decode(errors="replace").split("\0")
    except OSError:
        return f"process {pid} of {user}"
    if "vedette" in words and "hub" in words:
        return "`vedette stop`"
    name = " ".join(filter(None, words))[:60] or "a program"
    return f"{name} (process {pid} of {user})"


def _slurm_job(environ: Mapping[str, str]) -> str:
    """Return the Slurm job of this process, if the time of that job is over."""
    end = environ.get("SLURM_JOB_END_TIME", "")
    if end.isascii() and end.isdigit() and time.time() >= int(end) - _ABOUT_S:
        return f"Slurm job {environ.get('SLURM_JOB_ID', '')}".rstrip()
    return ""
