"""Makes workers that `multiprocessing` starts in a new interpreter (spawn, forkserver) join the run of their parent.

Such a worker gets a pickled `Process`, with a copy of its parent's `_config` in it. While a run is open we keep an
Invitation in that `_config`; when the worker unpickles it, the worker joins the run. A fork child needs none of this.
"""

import os
import sys
from typing import Any

from vedette.client import open_runs, pools
from vedette.client.faults import never_raises

_KEY = "vedette"


class Invitation:
    """Tells a worker which run it belongs to: that of the thread or task that starts the worker."""

    def __reduce__(self) -> tuple[Any, tuple[str, str, str, str]]:
        pools.watch()  # a worker is being started
        journal = open_runs.journal(tell=False)
        if journal is None:
            return accept, ("", "", "", "")
        return accept, (journal.run, journal.attempt, journal.home.asked, journal.upstream)


def accept(run: str, attempt: str, home: str, upstream: str) -> Invitation:
    """Join a run, in a worker that has just been started; never raise."""
    if run:
        _join(run, attempt, home, upstream)
    return _invitation  # for the workers that this worker starts


def is_worker() -> bool:
    """Tell whether this process is a worker that was invited to a run."""
    return _is_worker


_invitation = Invitation()
_is_worker = False


@never_raises
def _join(run: str, attempt: str, home: str, upstream: str) -> None:
    global _is_worker
    from vedette.client import current  # noqa: PLC0415 - it imports this module

    if open_runs.count():
        return  # its main module has begun or joined a run already
    _is_worker = True
    if os.environ.get("VEDETTE_RUN") != run:
        os.environ.pop("VEDETTE_NAME", None)  # it is another run's
    os.environ.update({"VEDETTE_RUN": run, "VEDETTE_TRY": attempt, "VEDETTE_HOME": home})
    current.init(hub=upstream or None)


class _ImportHook:
    """A finder in `sys.meta_path` that finds nothing; it notices when `multiprocessing` is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:  # noqa: ARG002
        """Find nothing."""
        if name.startswith("multiprocessing.") and _attach():
            _remove_import_hook()


def invite() -> None:
    """Make the workers that this process starts join a run."""
    if not _attach() and not any(isinstance(finder, _ImportHook) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ImportHook())


def uninvite() -> None:
    """Leave later workers alone: no run is open."""
    _remove_import_hook()
    config = _config()
    if config is not None and config.get(_KEY) is _invitation:
        del config[_KEY]


def _remove_import_hook() -> None:
    for finder in [finder for finder in sys.meta_path if isinstance(finder, _ImportHook)]:
        sys.meta_path.remove(finder)


def _config() -> dict[str, Any] | None:
    """Return the dict that this process hands on to its workers; None before `multiprocessing` is imported."""
    process = sys.modules.get("multiprocessing.process")
    config = getattr(getattr(process, "_current_process", None), "_config", None)
    return config if isinstance(config, dict) else None


def _attach() -> bool:
    config = _config()
    if config is None:
        return False
    config[_KEY] = _invitation
    return True
