"""What `vedette doctor` says of the store: what is in it, what is wrong with it, and how to save what can be saved.

Not a command itself.
"""

import os
import shlex

from vedette.access.home_access import HomeAccess
from vedette.errors import DamagedError, LockedError, NotFoundError, StoreError, VedetteError, VersionError
from vedette.fileio import file_size
from vedette.home import Home
from vedette.query.losses import losses
from vedette.views.text import counted, moment, size

Check = tuple[str, str, str]  # what, what was found, what to do about it

_MOST_NAMED = 5


def check_store(home: Home) -> list[Check]:
    """Examine the store."""
    try:
        store = HomeAccess(home).reader()
        wrong = store.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if wrong != "ok":
            raise DamagedError(f"it is damaged ({wrong.splitlines()[-1]})")
        count = {
            t: store.connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("runs", "series", "events")
        }
        lost = losses(store)
    except NotFoundError:
        return [("store", f"{home.store} does not exist yet", ""), *_spared(home)]
    except VedetteError as error:
        found = str(error).partition(": `vedette doctor`")[0]  # that is us
        return [("store", f"{home.store}: {found}", store_advice(home, error)), *_spared(home)]
    used = size(file_size(home.store) + file_size(home.store + "-wal"))
    what = f"{counted(count['runs'], 'run')}, {count['series']} series, {counted(count['events'], 'event')}"
    checks = [("store", f"{used}, {what}", "")]
    dropped = "; ".join(lost.reasons)
    checks.append(("dropped", f"{lost.dropped} records" + (f" ({dropped})" if dropped else ""),
                   "make room on disk, or raise spool.cap_bytes" if lost.dropped else ""))  # fmt: skip
    checks.append(("damaged", f"{lost.damaged} records", ""))
    failed = f"{lost.swallowed} calls had no effect because of an error in vedette itself"
    checks.append(("errors", failed, "please report what stderr said" if lost.swallowed else ""))
    refused = f"{lost.refused} values that were no numbers, files that could not be kept, words of relays about others"
    checks.append(("refused", refused, ""))
    checks += [
        ("refused", f"{count} points over the limit {limit}", f"raise {limit}, or log less")
        for limit, count in lost.limited.items()
    ]
    return [*checks, *_unbegun(lost.unbegun), *_spared(home)]


def store_advice(home: Home, error: VedetteError) -> str:
    """Say what to do about a store that cannot be used."""
    if isinstance(error, VersionError):
        return "upgrade vedette: a newer one has written this store, and nothing is wrong with it"
    if isinstance(error, DamagedError):
        return _rescue(home)
    if isinstance(error, LockedError):
        return f"`fuser {shlex.quote(home.store)}` tells which program has it: end that one; the hub goes on by itself"
    cause = error.__cause__
    if isinstance(cause, IsADirectoryError):
        path = shlex.quote(home.store)
        return f"a directory is where the store should be: `mv {path} {path}.moved`, and the hub makes a new store"
    if isinstance(cause, PermissionError):
        return f"{_rights(home.store)}: let its owner do `chmod 600 {shlex.quote(home.store)}`, or be that user"
    if isinstance(error, StoreError):
        return "see whether its disk is mounted, has room and is without errors: what is logged waits in the spool"
    return f"look at {home.store}"


def _rights(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "you may not look at it"
    return f"it belongs to user {status.st_uid} and has mode {status.st_mode & 0o777:03o}, and you are {os.getuid()}"


def _rescue(home: Home) -> str:
    """Return the commands that move a damaged store away and take in what can be read of it."""
    old = os.path.join(home.root, "damaged")
    while os.path.exists(old):
        old += "-"
    asked, store, into = shlex.quote(home.asked), shlex.quote(home.store), shlex.quote(old)
    commands = (
        f"vedette hub --stop --home {asked} && mkdir -m 700 {into} && mv {store}* {into}/"
        f" && vedette sync {into}/store.db --home {asked}"
    )
    return (
        f"`{commands}` begins a new store, and saves all that can be read of this one; files of runs stay where they"
        " are, and jobs may go on meanwhile; or restore a backup (`vedette backup --restore`)"
    )


def _spared(home: Home) -> list[Check]:
    """Report that files are kept which no run may name."""
    until = HomeAccess(home).blobs.spared_until()
    if until is None:
        return []
    found = (
        f"the store was begun anew on {moment(int(until * 1e9))}: files that runs had saved before are kept, even if"
        f" no run names them; remove {os.path.join(home.root, 'blobs', 'spared')} to have those deleted"
    )
    return [("files", found, "")]


def _unbegun(runs: list[str]) -> list[tuple[str, str, str]]:
    """Report runs that are in no list, though processes have recorded something of them."""
    if not runs:
        return []
    names = ", ".join(runs[:_MOST_NAMED]) + (", ..." if len(runs) > _MOST_NAMED else "")
    one = len(runs) == 1
    found = (
        f"processes have recorded something of {len(runs)} {'run' if one else 'runs'} whose beginning is not here,"
        f" so no list shows {'it' if one else 'them'}: {names}; probably VEDETTE_RUN named a run of another home, or"
        " this home was removed or moved while the run was running"
    )
    advice = (
        "`vedette sync OTHER_HOME` brings the beginning here; if it is nowhere any more,"
        f" `vedette run --resume {runs[0]} -- true` makes a run of it, which can be shown and removed"
    )
    return [("no begin", found, advice)]
