"""draw curves of a metric in the terminal: one or more runs, live with -f
examples:
  vedette plot brisk-otter-417 loss
  vedette plot brisk-otter-417 calm-fox-12 loss -f
  vedette plot --where "project = cifar and state = done" val/loss --smooth 0.9
  vedette plot 2pg66 loss --x time --json

A series with tags is a curve of its own; `loss[rank=0]` chooses one.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, complete_series, count, open_home, print_json
from vedette.errors import HubError, NotFoundError, VedetteError
from vedette.labels import parted
from vedette.query.runs import RunView, select, view
from vedette.query.series import histories, labelled
from vedette.store import Points, Reader, SeriesRow
from vedette.store.sqlite_read import SqliteReader

if TYPE_CHECKING:
    from vedette.query.unsealed import UnsealedPoints
    from vedette.views.plot import Curve

_MOST_RUNS = 10
_LEAST_S = 0.5  # between two drawings
_HEIGHT = 20  # lines in a pipe, and at most on a terminal unless it is live
_WIDTH = 80  # characters in a pipe
_OTHER_SCREEN, _FIRST_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # the cursor is hidden on the other


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", nargs="*", help="an id, the beginning of one, or a name; or several").completer = (  # type: ignore[attr-defined]
        complete_runs
    )
    parser.add_argument("NAME", help="the name of the series").completer = complete_series  # type: ignore[attr-defined]
    parser.add_argument("--where", default="", help="also the runs that match this filter, as for `vedette ls`")
    parser.add_argument(
        "--limit", type=count, default=_MOST_RUNS, help="at most this many of them (default 10; 0 for all)"
    )
    parser.add_argument("--x", choices=("step", "time"), default="step", help="step (default), or time since the start")
    parser.add_argument(
        "--smooth",
        type=float,
        default=0.0,
        metavar="W",
        help="moving average: the weight of what was before, 0 to 0.999",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="draw again as points come, until all runs ended")
    parser.add_argument("--json", action="store_true", help="as JSON, with every point")


def run(args: argparse.Namespace) -> int:
    """Draw."""
    if not 0 <= args.smooth <= 0.999:
        raise VedetteError("--smooth takes a weight from 0 to 0.999")
    if not args.RUN and not args.where:
        raise VedetteError("name a run and a series, as in `vedette plot RUN loss`, or say --where")
    store = open_home(args.settings)
    lost_after_s = args.settings.lost_after_s
    views = [view(store, text, lost_after_s=lost_after_s) for text in args.RUN]
    if args.where:
        views += select(store, args.where, limit=args.limit or None, lost_after_s=lost_after_s)
        if args.limit and len(views) - len(args.RUN) == args.limit:
            sys.stderr.write(f"only the newest {args.limit}; --limit 0 shows all\n")
    views = list({one.id: one for one in views}.values())
    if not views:
        print("no run matches")
        return 0
    if args.json and args.follow:
        raise VedetteError("--follow draws again and again: leave it out for JSON, or leave out --json")
    if args.json:
        _check(store, views, args.NAME)
        print_json(
            {"name": args.NAME, "x": args.x, "curves": [_as_dict(*one, args) for one in _read(store, views, args)]}
        )
        return 0
    if args.follow:
        return _follow(args, store, views)
    _check(store, views, args.NAME)
    print("\n".join(_lines(args, store, views, live=False)))
    return 0


def _lines(args: argparse.Namespace, store: Reader, views: Sequence[RunView], *, live: bool) -> list[str]:
    from vedette.views.plot import draw

    terminal = sys.stdout.isatty()
    size = shutil.get_terminal_size((_WIDTH, _HEIGHT))
    width = size.columns if terminal else _WIDTH
    height = (
        (size.lines - 1 if live else min(size.lines - 2, _HEIGHT + len(views))) if terminal else _HEIGHT + len(views)
    )
    curves = [_curve(*one, args, several=len(views) > 1) for one in _read(store, views, args)]
    x_title = "step" if args.x == "step" else "seconds since the start"
    return draw(curves, args.NAME, x_title, width, height, colours=terminal)


def _read(store: Reader, views: Sequence[RunView], args: argparse.Namespace) -> list[tuple[RunView, SeriesRow, Points]]:
    """Return the series of these runs with their points, as `history` returns them."""
    by_id = {one.id: one for one in views}
    rows = labelled(store, list(by_id), args.NAME)
    points = histories(store, [row.id for row in rows])
    rows.sort(key=lambda row: list(by_id).index(row.span))
    return [(by_id[row.span], row, points[row.id]) for row in rows]


def _check(store: Reader, views: Sequence[RunView], name: str) -> None:
    """Raise NotFoundError when no run has the series; name on stderr those that lack it."""
    have = {row.span for row in labelled(store, [one.id for one in views], name)}
    lack = [one.name for one in views if one.id not in have]
    if len(lack) == len(views):
        import difflib

        rows = store.series([one.id for one in views])
        names = sorted({row.label if parted(name)[1] else row.name for row in rows})
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names[:10]) or 'none'}"
        raise NotFoundError(f"none of these runs has a series {name!r}; {hint}")
    if lack:
        sys.stderr.write(f"without {name}: {', '.join(lack)}\n")


def _x(view: RunView, points: Points, args: argparse.Namespace) -> Any:
    if args.x == "step":
        return points.step
    begin = view.start_t if view.start_t is not None else int(points.t.min()) if len(points) else 0
    return (points.t - begin) / 1e9


def _curve(view: RunView, row: SeriesRow, points: Points, args: argparse.Namespace, *, several: bool) -> "Curve":
    import numpy as np

    from vedette.views.plot import Curve, smoothed

    label = view.name or view.id
    if row.tags or not several:
        label = f"{label} {row.label}"
    values = smoothed(points.value.astype(np.float64), args.smooth)
    last = float(values[-1]) if len(values) else None
    return Curve(label, np.asarray(_x(view, points, args), dtype=np.float64), values, last)


def _as_dict(view: RunView, row: SeriesRow, points: Points, args: argparse.Namespace) -> dict[str, Any]:
    import numpy as np

    from vedette.views.plot import smoothed

    values = smoothed(points.value.astype(np.float64), args.smooth) if args.smooth else points.value
    return {
        "run": view.id, "run_name": view.name, "name": row.name, "tags": row.tags,
        "x": _x(view, points, args).tolist(), "value": values.tolist(),
    }  # fmt: skip


def _follow(args: argparse.Namespace, store: SqliteReader, views: list[RunView]) -> int:
    """Draw again and again until all runs have ended or Ctrl-C is pressed; the last drawing stays on the terminal."""
    from vedette.query.unsealed import UnsealedPoints

    access, unsealed = HomeAccess.of(args.settings), UnsealedPoints()
    terminal, ids = sys.stdout.isatty(), [one.id for one in views]
    follower = access.follower("", least_s=_LEAST_S)
    if terminal:
        sys.stdout.write(_OTHER_SCREEN)
    try:
        while any(one.end_t is None for one in views):
            if follower.wait() is None:
                continue
            _ask(access, unsealed, ids)
            views = [view(store, one) for one in ids]
            if terminal:
                sys.stdout.write("\x1b[H" + "\x1b[K\n".join(_now(args, store, unsealed, views)) + "\x1b[K\x1b[J")
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    finally:
        follower.close()
        if terminal:
            sys.stdout.write(_FIRST_SCREEN)
    store = open_home(args.settings)
    _check(store, views, args.NAME)
    print("\n".join(_lines(args, store, views, live=False)))
    return 0


def _now(
    args: argparse.Namespace, store: SqliteReader, unsealed: "UnsealedPoints", views: Sequence[RunView]
) -> list[str]:
    """Return the chart with the points that the hub has not stored yet."""
    from vedette.query.unsealed import with_unsealed

    waiting = unsealed.now()  # before the store is read: what is sealed in between is then in the store
    store.connection.execute("BEGIN")  # one moment for marks and points
    try:
        return _lines(args, with_unsealed(store, unsealed, waiting), views, live=True)
    finally:
        store.connection.rollback()


def _ask(access: HomeAccess, unsealed: "UnsealedPoints", runs: list[str]) -> None:
    """Get the points of these runs that are not in the store yet."""
    try:
        if access.has_hub() and (answers := access.unsealed_batches(runs, unsealed.ends())) is not None:
            unsealed.take(*answers)
    except (HubError, OSError):
        pass  # the next look asks again
