"""The points of one series, or of one metric over many runs."""

from collections.abc import Sequence

from vedette.errors import AmbiguousError, NotFoundError
from vedette.labels import parted
from vedette.query.tries import standing
from vedette.store import Points, Reader, SeriesRow


def history(
    store: Reader, run: str, name: str, tags: dict[str, str] | None = None, *, all_tries: bool = False
) -> Points:
    """Return the points of one series of a run; raise when it does not exist, or when several differ only by tags.

    When a later try logged a step again, the earlier try's point is left out, unless `all_tries` is set.
    """
    rows = store.series([run], name)
    if rows and tags is not None:
        wanted = {str(key): str(value) for key, value in tags.items()}
        some = "; ".join(str(row.tags) for row in rows[:5])
        rows = [row for row in rows if row.tags == wanted]
        if not rows:
            raise NotFoundError(f"series {name!r} of run {run} has no tags {wanted}; it has {some}")
    if not rows:
        import difflib

        names = sorted({row.name for row in store.series([run])})
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names[:10]) or 'none'}"
        raise NotFoundError(f"run {run} has no series {name!r}; {hint}")
    if len(rows) > 1 and tags is None:
        plain = [row for row in rows if not row.tags]
        if not plain:
            some = "; ".join(str(row.tags) for row in rows[:5])
            raise AmbiguousError(f"series {name!r} of run {run} comes with different tags: {some}")
        rows = plain
    return _points(store, [rows[0].id], all_tries)[rows[0].id]


def labelled(store: Reader, runs: Sequence[str], label: str) -> list[SeriesRow]:
    """Return the series of runs that a label means, such as `loss` or `loss[rank=0]`: with its tags, and maybe more."""
    name, tags = parted(label)
    rows = store.series(list(runs), label) if runs else []
    more = [row for row in store.series(list(runs), name) if row.tags.items() >= tags.items()] if tags and runs else []
    return rows + more


def over_runs(store: Reader, runs: list[str], name: str, *, all_tries: bool = False) -> dict[str, Points]:
    """Return one metric of many runs, in one read; `all_tries` is as for `history`."""
    rows = {row.id: row.span for row in store.series(runs, name) if not row.tags}
    return {rows[number]: points for number, points in _points(store, list(rows), all_tries).items()}


def histories(store: Reader, series: list[int]) -> dict[int, Points]:
    """Return the points of series by their ids, as `history` does."""
    return _points(store, series, all_tries=False)


def _points(store: Reader, series: list[int], all_tries: bool) -> dict[int, Points]:
    return store.points(series) if all_tries else standing(store, store.parts(series))
