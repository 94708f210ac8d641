"""How a worker that `multiprocessing` starts afresh (spawn, forkserver) comes to take part in its parent's run.

A `Process` is pickled for such a worker together with what it has from its parent's `_config`. There a passport
of ours lies while the run lasts: to unpickle it is to join the run. A fork needs no passport.
"""

import os
import sys
from typing import Any

from vedette.client.faults import never_raises, swallow
from vedette.client.run import Run

_KEY = "vedette"


class Passport:
    """Tells a worker which run it belongs to."""

    def __init__(self, run: str, attempt: str, home: str, upstream: str) -> None:
        self.told = (run, attempt, home, upstream)

    def __reduce__(self) -> tuple[Any, tuple[str, str, str, str]]:
        return arrive, self.told


def arrive(run: str, attempt: str, home: str, upstream: str) -> Passport:
    """Join a run, in a worker that has just been started; never raise."""
    _join(run, attempt, home, upstream)
    return Passport(run, attempt, home, upstream)  # for the workers of the worker


@never_raises
def _join(run: str, attempt: str, home: str, upstream: str) -> None:
    from vedette.client import current  # noqa: PLC0415 - it stands on this module

    if current._current is not None and not current._current.finished:
        return  # its main module has begun or joined a run already
    os.environ.update({"VEDETTE_RUN": run, "VEDETTE_TRY": attempt, "VEDETTE_HOME": home})
    current.init(hub=upstream or None)


class _Wait:
    """Stands among the importers, finds nothing, and sees when `multiprocessing` has been imported."""

    def __init__(self, passport: Passport) -> None:
        self.passport = passport

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:  # noqa: ARG002
        """Find nothing."""
        if name.startswith("multiprocessing.") and _hand_out(self.passport):
            _stop_waiting()


def invite(run: Run, upstream: str) -> None:
    """Have the workers that this process starts join the run until it ends."""
    journal = run._journal
    passport = Passport(run.id, journal.try_id.removeprefix(run.id + "/"), journal.home.asked, upstream)
    if not _hand_out(passport):
        sys.meta_path.insert(0, _Wait(passport))

    def end() -> None:
        try:
            _stop_waiting()
            config = _config()
            if config is not None and config.get(_KEY) is passport:
                del config[_KEY]
        except Exception as error:
            swallow(error, "the end of the run")

    run._on_end.append(end)


def _stop_waiting() -> None:
    for finder in [finder for finder in sys.meta_path if isinstance(finder, _Wait)]:
        sys.meta_path.remove(finder)


def _config() -> dict[str, Any] | None:
    """Return what this process hands on to its workers, once `multiprocessing` is there."""
    process = sys.modules.get("multiprocessing.process")
    config = getattr(getattr(process, "_current_process", None), "_config", None)
    return config if isinstance(config, dict) else None


def _hand_out(passport: Passport) -> bool:
    config = _config()
    if config is None:
        return False
    config[_KEY] = passport
    return True
