"""Which rank of which parallel job this process is, as the environment of mpiexec, srun or torchrun tells.

The ranks of one job are one run, without a launcher of ours: each derives the same id from what all of them see.
Workers of uvicorn are told by their common parent (decisions/032).
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from vedette import kernel
from vedette.ids import FIRST_TRY, from_digest
from vedette.interrupts import let_through

_MOST_RANKS = 10_000_000
_MOST_TRIES = 1_000_000
_MOST_BETWEEN = 10  # shells between a launcher and the rank


class Rank(NamedTuple):
    """One process of a parallel job."""

    number: int
    size: int  # how many ranks the job has
    key: str  # the same in all ranks of the job, and in no other job
    attempt: str = FIRST_TRY  # the launcher may start all ranks again

    def run_id(self, name: str, count: int) -> str:
        """Return the id of the run that the job begins as its `count`-th of this name."""
        return from_digest(self.digest(name, count))

    def digest(self, name: str, count: int) -> bytes:
        """Return bytes that all ranks of the job have in common, for one run."""
        import hashlib  # noqa: PLC0415 - most programs have no ranks

        return hashlib.sha256(f"{self.key}\n{count}\n{name}".encode(errors="surrogateescape")).digest()


def find(environ: Mapping[str, str], *, joins: bool = False) -> Rank | None:
    """Return which rank this process is; None if it is the only process of its job, or that cannot be told.

    `joins`: it joins the run of another process, so nothing has to tell its job from others.
    """
    for ask in (*_LAUNCHERS, _lightning) if joins else _LAUNCHERS:
        try:
            rank = ask(environ)
        except (KeyError, ValueError):  # not this launcher
            continue
        if rank is not None and 0 <= rank.number < rank.size <= _MOST_RANKS and rank.size > 1:
            return rank
    return None


def _torchrun(environ: Mapping[str, str]) -> Rank | None:
    number, size = int(environ["RANK"]), int(environ["WORLD_SIZE"])
    job, attempt = environ["TORCHELASTIC_RUN_ID"], _attempt(environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    key = _of_launcher(environ, "RANK", "TORCHELASTIC_RUN_ID", "MASTER_PORT")
    if int(environ.get("LOCAL_WORLD_SIZE", size)) != size:  # on several machines
        slurm = f"{environ.get('SLURM_JOB_ID', '')}.{environ.get('SLURM_STEP_ID', '')}"
        if job in ("", "none") and slurm == ".":
            return Rank(number, size, key, attempt)  # nothing tells this job from the next one there
        key = f"torchrun {job} {slurm} {environ['MASTER_ADDR']} {environ['MASTER_PORT']}"
    return Rank(number, size, key, attempt)


def _open_mpi(environ: Mapping[str, str]) -> Rank:
    number, size = int(environ["OMPI_COMM_WORLD_RANK"]), int(environ["OMPI_COMM_WORLD_SIZE"])
    if int(environ["OMPI_COMM_WORLD_LOCAL_SIZE"]) == size:
        return Rank(number, size, _of_launcher(environ, "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE"))
    job = environ.get("PMIX_NAMESPACE") or environ["OMPI_MCA_ess_base_jobid"]
    return Rank(number, size, f"mpi {job} {environ.get('OMPI_MCA_orte_hnp_uri', '')} {environ.get('SLURM_JOB_ID', '')}")


def _srun(environ: Mapping[str, str]) -> Rank:
    number = int(environ["SLURM_PROCID"])
    size = int(environ.get("SLURM_STEP_NUM_TASKS") or environ["SLURM_NTASKS"])
    if int(environ.get("PMI_SIZE", size)) != size:  # MPICH, whose proxies srun has started, one on each machine
        if size == 1:
            raise ValueError("a shell in a step of one task has started it")
        number, size = int(environ["PMI_RANK"]), int(environ["PMI_SIZE"])
    job = f"{int(environ['SLURM_JOB_ID'])}.{int(environ['SLURM_STEP_ID'])}"  # a batch script has no step of its own
    attempt = _attempt(environ.get("SLURM_RESTART_COUNT", "0"))
    cluster, user = environ.get("SLURM_CLUSTER_NAME", ""), environ.get("SLURM_JOB_USER", "")
    script = _script() if _launcher(environ, "SLURM_PROCID") != os.getppid() else ""
    return Rank(number, size, f"slurm {cluster} {user} {job} {script}", attempt)


def _mpich(environ: Mapping[str, str]) -> Rank:
    """MPICH and Intel MPI: nothing is common to the machines of a job, so the ranks of each machine are a run."""
    return Rank(int(environ["PMI_RANK"]), int(environ["PMI_SIZE"]), _of_launcher(environ, "PMI_RANK", "PMI_FD"))


def _lightning(environ: Mapping[str, str]) -> Rank | None:
    """Return the rank of a process that Lightning has started on its machine, beside the one that began the run."""
    if int(environ["NODE_RANK"]) or not environ["MASTER_PORT"]:
        return None
    return Rank(int(environ["LOCAL_RANK"]), int(environ["WORLD_SIZE"]), "")


def _uvicorn(_: Mapping[str, str]) -> Rank | None:
    process = getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)
    arguments: Any = getattr(process, "_kwargs", None)
    config: Any = arguments.get("config") if isinstance(arguments, dict) else None
    if type(config).__module__ != "uvicorn.config" or getattr(config, "workers", 1) < 2:
        return None
    identity = getattr(process, "_identity", None) or (1,)
    number = int(identity[-1]) - 1  # a worker that died is replaced by one with a new number
    return Rank(number, config.workers, _name_of(os.getppid()))


_LAUNCHERS: tuple[Callable[[Mapping[str, str]], Rank | None], ...] = (_torchrun, _open_mpi, _srun, _mpich, _uvicorn)


def _of_launcher(environ: Mapping[str, str], *names: str) -> str:
    """Return what only ranks that one launcher has started on this machine have in common.

    Where a shell of each rank starts its programs one after another, the script tells these apart.
    """
    launcher = _launcher(environ, *names)
    return _name_of(launcher) + (_script() if launcher != os.getppid() else "")


def _launcher(environ: Mapping[str, str], *names: str) -> int:
    """Return the process that has started the ranks: the first one above whose variables are not those of this rank."""
    pid = os.getppid()
    for _ in range(_MOST_BETWEEN):
        try:
            above = kernel.environ(pid)
        except OSError:  # of another user, as slurmstepd is
            break
        parent = kernel.parent(pid)
        if parent is None or any(above.get(name) != environ.get(name) for name in names):
            break
        pid = parent
    return pid


def _attempt(restarts: str) -> str:
    """Return which try it is; raise ValueError when the count of restarts makes no sense."""
    count = int(restarts)
    if not 0 <= count < _MOST_TRIES:
        raise ValueError("no count of restarts")
    return str(1 + count)


def _script() -> str:
    return f" {sys.argv[0]}" if sys.argv else ""


def _name_of(pid: int) -> str:
    """Return what names a process, and no other process ever."""
    try:
        started = kernel.start_ticks(pid)
    except OSError as error:
        let_through(error)
        started = None
    if pid <= 1 or started is None:
        raise ValueError("the parent is gone")
    return f"{kernel.host()} {kernel.boot()} {pid} {started}"
