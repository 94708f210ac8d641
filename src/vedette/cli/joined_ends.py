"""What the processes that joined a command's run said of their ends: they often know more than their exit code.

The hub knows. It is asked once the command has ended, and not for long: the command's end does not depend on it.
"""

import time

from vedette.access.home_access import HomeAccess
from vedette.deaths.process_ends import ProcessEnd
from vedette.errors import VedetteError
from vedette.ids import is_by_pid, prefix_below, run_of
from vedette.settings import Settings
from vedette.store import SpanQuery

_PATIENCE_S = 2.0
_EACH_S = 0.05


def read(settings: Settings, attempt: str, own: str, pid: int) -> list[ProcessEnd]:
    """Return how the processes of a try have ended, but for our `own`; none if nobody here can tell.

    It waits a little for the ends of ranks and of the command itself, whose `pid` this is: the hub may see them some
    milliseconds later.
    """
    if settings.upstream:  # another hub keeps the run
        return []
    access, deadline = HomeAccess.of(settings), time.monotonic() + _PATIENCE_S
    try:
        while True:
            access.seal(run_of(attempt), max(0.1, deadline - time.monotonic()))
            found = _read(access, attempt, own)
            if all(one.t is not None for one in found if one.rank or one.pid == pid) or time.monotonic() > deadline:
                return found
            time.sleep(_EACH_S)
    except VedetteError:  # no hub, or it is stopped: the exit code has to do
        return []


def _read(access: HomeAccess, attempt: str, own: str) -> list[ProcessEnd]:
    store = access.reader()
    try:
        rows = store.spans(SpanQuery(prefix=prefix_below(attempt), kind="process", only=("rank", "pid", "mishap")))
    finally:
        store.close()
    return [
        ProcessEnd(
            row.id, row.state, row.cause, row.end_t,
            "" if row.attrs["rank"] is None else str(row.attrs["rank"]),
            pid if isinstance(pid := row.attrs["pid"], int) else 0,
            str(row.attrs["mishap"] or ""),
        )
        for row in rows
        if row.id != own and not is_by_pid(row.id)  # what only the meter has found says nothing
    ]  # fmt: skip
