"""The public verbs that read a home from another process: `vedette.runs`, `get`, `diff` and `compare`."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vedette import settings
from vedette.access.home_access import HomeAccess
from vedette.query import runs as query_runs
from vedette.query.runs import RunList, RunView
from vedette.store import Reader

if TYPE_CHECKING:
    from vedette.query.compare import Comparison
    from vedette.query.explain import Explanation


def runs(where: str | None = None, project: str | None = None, home: str | None = None) -> RunList:
    """Return the matching runs, the newest first: `vedette.runs("config.lr > 0.1 and state = failed")`.

    The list also has `to_pandas()`: a row for each run.
    """
    access = _access(home)
    return RunList(query_runs.select(_open(access), where or "", project or "", lost_after_s=access.lost_after_s))


def get(run: str, home: str | None = None) -> RunView:
    """Return the run with this id, unique prefix of an id, or name."""
    access = _access(home)
    return query_runs.view(_open(access), run, lost_after_s=access.lost_after_s)


def diff(a: str | RunView, b: str | RunView, home: str | None = None) -> "Explanation":
    """Return how run `b` differs from run `a`, the most likely causes first; give a RunView, id or name for each."""
    from vedette.query.explain import explain  # noqa: PLC0415 - it loads numpy, which a list of runs does not need

    access = _access(home)
    views = _views([a, b], access)
    return explain(views[0], views[1], access.read_blob)


def compare(runs: Sequence[str | RunView], home: str | None = None) -> "Comparison":
    """Compare runs: which keys differ, and their metrics; give a RunView, id or name for each."""
    from vedette.query.compare import compare as query_compare  # noqa: PLC0415 - as above

    words = [runs] if isinstance(runs, str | RunView) else list(runs)
    return query_compare(_views(words, _access(home)))


def _access(home: str | None) -> HomeAccess:
    return HomeAccess.of(settings.load({"home": home}))


def _views(runs: Sequence[str | RunView], access: HomeAccess) -> list[RunView]:
    """Return the runs; look up those that are given by id or name, in one opening of the home."""
    if all(isinstance(run, RunView) for run in runs):
        return [run for run in runs if isinstance(run, RunView)]
    store = _open(access)
    lost_after_s = access.lost_after_s
    return [run if isinstance(run, RunView) else query_runs.view(store, run, lost_after_s=lost_after_s) for run in runs]


def _open(access: HomeAccess) -> Reader:
    store, warning = access.open()
    if warning:
        warnings.warn(warning, stacklevel=3)
    return store
