"""Limits that end a process from outside without saying so: of CPU time, and of the batch job that it runs in."""

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from vedette import kernel, proc_stat

_ABOUT_S = 5.0  # a scheduler may kill this long before its time limit
_NEAR, _NEAR_S = 0.1, 1.0  # the kernel counts the limit in ticks; a process is seen last some time before its end


class CpuUse(NamedTuple):
    """How much CPU time a process may use (`ulimit -t`, the hard limit), and has used; None: that is not known."""

    limit_s: float
    used_s: float | None

    @property
    def is_over(self) -> bool:
        """Whether the limit was reached, as far as one can tell."""
        return self.used_s is not None and self.used_s >= self.limit_s - max(_NEAR_S, _NEAR * self.limit_s)


def cpu_use(pid: int, started: int = 0, proc: str = "/proc") -> CpuUse | None:
    """Return the CPU time of a process that lives or was not reaped yet; None if it has no limit, or is gone."""
    try:
        with open(f"{proc}/{pid}/limits") as file:
            hard = next((line.split()[4] for line in file if line.startswith("Max cpu time")), "")
        fields = proc_stat.fields_of(proc_stat.read(pid, proc))
        if not hard.isdigit() or started not in (0, int(fields[proc_stat.STARTED_TICKS])):
            return None
        ticks = int(fields[proc_stat.USER_TICKS]) + int(fields[proc_stat.SYSTEM_TICKS])
    except (OSError, IndexError):
        return None
    return CpuUse(float(hard), ticks / os.sysconf("SC_CLK_TCK"))


def environ_of(pid: int, proc: str = "/proc") -> dict[str, str]:
    """Return what a process's environment says of its batch job, as far as it can be read."""
    try:
        return {name: value for name, value in kernel.environ(pid, proc).items() if name.startswith("SLURM_JOB_")}
    except OSError:
        return {}


def batch_job(environ: Mapping[str, str]) -> str:
    """Return the Slurm job of a process with this environment, if the time of that job is over."""
    end = environ.get("SLURM_JOB_END_TIME", "")
    if end.isascii() and end.isdigit() and time.time() >= int(end) - _ABOUT_S:
        return f"Slurm job {environ.get('SLURM_JOB_ID', '')}".rstrip()
    return ""
