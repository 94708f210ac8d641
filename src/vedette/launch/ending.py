"""Gathers what the launcher has seen of a command's end, as evidence."""

import os
import pwd
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vedette.deaths import last_words, limits, memory
from vedette.deaths.evidence import Evidence

_MOST_CHARS = 500


class Ending(NamedTuple):
    """How a command ended, and what is known about the reason."""

    status: int
    baseline: memory.Baseline
    sent: dict[int, str]  # by signal that we passed on: who sent it
    timed_out: bool
    killed: bool  # we killed it, because it did not stop in time
    output_errno: int = 0  # the errno of a failed write to our own output
    cpu: limits.CpuUse | None = None


def evidence(
    ending: Ending,
    last: Sequence[str],
    limit: str,
    environ: Mapping[str, str],
    *,
    command: Sequence[str] = (),
    errors: Sequence[str] = (),
    together: bool = False,
) -> Evidence:
    """Return all evidence of a command's end.

    `last`: its last lines, `errors`: those on stderr, if that is apart; `together`: it is not; `limit`: its time limit
    in words.
    """
    raised = last_words.raised(last)
    broken = raised is not None and raised.is_broken_pool
    return Evidence(
        status=ending.status,
        launched=True,
        last_error=_last_of(errors),
        last_line=_last_of(last) if together else "",
        thrown=last_words.thrown(last),
        rank=last_words.failed_rank(last),
        cpu=ending.cpu,
        own_limit=_own_limit(command),
        stacks=last_words.crash(last),
        raised=raised,
        full_disk=last_words.full_disk(last),
        output_errno=ending.output_errno,
        sent=ending.sent,
        time_limit=limit if ending.timed_out else "",
        killed_late=ending.killed,
        batch_job=limits.batch_job(environ),
        memory_watched=bool(ending.baseline.levels),
        shortage=memory.shortage(ending.baseline) if broken else memory.look_back(ending.baseline, ending.status),
    )


def _last_of(lines: Sequence[str]) -> str:
    return next((line.strip()[:_MOST_CHARS] for line in reversed(lines) if line.strip()), "")


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


def _own_limit(command: Sequence[str]) -> str:
    """Return the limit that a command gives itself by the program `timeout`, as it was typed; else empty."""
    if not command or os.path.basename(command[0]) != "timeout":
        return ""
    words = iter(command[1:])
    for word in words:
        if word in ("-k", "-s"):  # a value follows
            next(words, "")
        elif not word.startswith("-"):
            return word
    return ""
