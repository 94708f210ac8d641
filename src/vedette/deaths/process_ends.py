"""How a run of several processes ended, by how each of them did: ranks, and those below `vedette run`.

Nothing here reads a file or a clock.
"""

from collections.abc import Sequence
from typing import NamedTuple

from vedette.deaths.evidence import Evidence
from vedette.deaths.verdict import EndKind, Verdict

_WORST = ("failed", "cancelled")  # the worst end first; all others are better
_SAY_LITTLE = frozenset((EndKind.DONE, EndKind.EXIT, EndKind.EXCEPTION))


class ProcessEnd(NamedTuple):
    """How one process ended, as far as is known."""

    id: str
    state: str
    cause: str
    t: int | None  # None: it has not ended
    rank: str = ""  # empty: it is no rank
    pid: int = 0
    mishap: str = ""  # as in `Evidence`


def worst(ranks: Sequence[ProcessEnd]) -> tuple[str, str]:
    """Return how a job of ranks ended: as its worst rank did; the cause names the first one that ended so."""
    states = {rank.state for rank in ranks}
    state = next((state for state in _WORST if state in states), "")
    if not state:
        return ("ended" if "ended" in states else "done"), ""
    first = min((rank for rank in ranks if rank.state == state), key=lambda rank: (rank.t or 0, rank.id))
    return state, f"rank {first.rank} was the first to fail: {first.cause}" if state == "failed" else first.cause


def may_say_more(end: Verdict, of: Evidence) -> bool:
    """Tell whether processes below a command may know more about its end than the verdict on the evidence says."""
    return end.kind in _SAY_LITTLE or (of.raised is not None and of.raised.is_broken_pool)


def of_command(end: Verdict, processes: Sequence[ProcessEnd], pid: int, t: int) -> Verdict:
    """Return how a command ended, with the cause that a process of it gave, if one says more.

    `pid`: that of the command itself, which ended at `t`. Where it did not join the run, as a shell does not, the last
    process that had ended by then is taken: a shell ends as the last one that it started.
    """
    if end.kind == EndKind.DONE:
        return end._replace(cause=next((one.mishap for one in processes if one.mishap), end.cause))
    if ranks := [one for one in processes if one.rank]:
        state, cause = worst(ranks)
    else:
        ended = [one for one in processes if one.t is not None and one.t <= t]
        own = [one for one in processes if one.pid == pid] or sorted(ended, key=lambda one: (one.t or 0, one.id))
        state, cause = (own[-1].state, own[-1].cause) if own else ("", "")
    if state != end.state or not cause or _says(end.cause, cause):
        return end
    return end._replace(cause=cause)


def _says(known: str, cause: str) -> bool:
    """Tell whether a cause is already part of a known one; of a rank that aborted MPI says more than its exit code."""
    plain = cause.partition(" was the first to fail: ")[2].startswith("exit code ")
    return known.startswith(cause) or (plain and " rank " in known)
