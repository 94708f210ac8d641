"""Makes workers that `multiprocessing` starts in a new interpreter (spawn, forkserver) join the run of their parent.

Such a worker gets a pickled `Process`, with a copy of its parent's `_config` in it. While the run lasts we keep an
Invitation in that `_config`; when the worker unpickles it, the worker joins the run. A fork child needs none of this.
"""

import os
import sys
from typing import Any

from vedette.client.faults import never_raises, swallow
from vedette.client.run import Run

_KEY = "vedette"


class Invitation:
    """Tells a worker which run it belongs to."""

    def __init__(self, run: str, attempt: str, home: str, upstream: str) -> None:
        self.fields = (run, attempt, home, upstream)

    def __reduce__(self) -> tuple[Any, tuple[str, str, str, str]]:
        return accept, self.fields


def accept(run: str, attempt: str, home: str, upstream: str) -> Invitation:
    """Join a run, in a worker that has just been started; never raise."""
    _join(run, attempt, home, upstream)
    return Invitation(run, attempt, home, upstream)  # for the workers that this worker starts


@never_raises
def _join(run: str, attempt: str, home: str, upstream: str) -> None:
    from vedette.client import current  # noqa: PLC0415 - it imports this module

    if current._current is not None and not current._current.finished:
        return  # its main module has begun or joined a run already
    os.environ.update({"VEDETTE_RUN": run, "VEDETTE_TRY": attempt, "VEDETTE_HOME": home})
    current.init(hub=upstream or None)


class _ImportHook:
    """A finder in `sys.meta_path` that finds nothing; it notices when `multiprocessing` is imported."""

    def __init__(self, invitation: Invitation) -> None:
        self.invitation = invitation

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:  # noqa: ARG002
        """Find nothing."""
        if name.startswith("multiprocessing.") and _attach(self.invitation):
            _remove_import_hook()


def invite(run: Run, upstream: str) -> None:
    """Make the workers that this process starts join the run, until the run ends."""
    journal = run._journal
    invitation = Invitation(run.id, journal.attempt, journal.home.asked, upstream)
    if not _attach(invitation):
        sys.meta_path.insert(0, _ImportHook(invitation))

    def end() -> None:
        try:
            _remove_import_hook()
            config = _config()
            if config is not None and config.get(_KEY) is invitation:
                del config[_KEY]
        except Exception as error:
            swallow(error, "the end of the run")

    run._on_end.append(end)


def _remove_import_hook() -> None:
    for finder in [finder for finder in sys.meta_path if isinstance(finder, _ImportHook)]:
        sys.meta_path.remove(finder)


def _config() -> dict[str, Any] | None:
    """Return the dict that this process hands on to its workers; None before `multiprocessing` is imported."""
    process = sys.modules.get("multiprocessing.process")
    config = getattr(getattr(process, "_current_process", None), "_config", None)
    return config if isinstance(config, dict) else None


def _attach(invitation: Invitation) -> bool:
    config = _config()
    if config is None:
        return False
    config[_KEY] = invitation
    return True
