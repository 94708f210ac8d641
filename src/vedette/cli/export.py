"""write runs to one file: an archive that `vedette sync` reads back, or their points as Parquet or CSV
examples:
  vedette export brisk-otter-417
  vedette export --where "project = cifar and state = done" -o cifar.vedette
  vedette export 2pg66 --format parquet -o points.parquet
  vedette export 2pg66 --format csv -o - | head
"""

import argparse
import os
import re
import sys
from typing import Any

from vedette.access.home_access import HomeAccess
from vedette.cli.ls import as_dict
from vedette.cli.output import CsvRows, PointCount, complete_runs, csv_cell, json_line, open_home, print_json
from vedette.errors import VedetteError
from vedette.query.runs import RunView, select, view
from vedette.store.sqlite_read import SqliteReader
from vedette.views.text import clean, size

_ENDINGS = {"archive": ".vedette", "parquet": ".parquet", "csv": ".csv"}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    runs = parser.add_argument("RUN", nargs="*", help="an id, the beginning of one, or a name")
    runs.completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("--where", default="", help="also all runs that match this filter")
    parser.add_argument(
        "--format", choices=tuple(_ENDINGS), default="archive", help="archive (default), parquet or csv"
    )
    parser.add_argument("-o", "--output", default="", metavar="PATH", help="the file to write; - is stdout, for csv")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--json", action="store_true", help="print as JSON what was written")


def run(args: argparse.Namespace) -> int:
    """Write runs to a file."""
    if not args.RUN and not args.where:
        raise VedetteError("name a RUN, or say which ones with --where")
    if args.output == "-" and args.format != "csv":
        raise VedetteError("only --format csv can go to stdout")
    store = open_home(args.settings)
    views = {
        found.id: found for found in (view(store, text, lost_after_s=args.settings.lost_after_s) for text in args.RUN)
    }
    if args.where:
        views |= {found.id: found for found in select(store, args.where, lost_after_s=args.settings.lost_after_s)}
    if not views:
        raise VedetteError("no run matches")
    if args.output == "-":
        _write_csv(store, list(views), sys.stdout)
        return 0
    path = args.output or _name(list(views.values())) + _ENDINGS[args.format]
    _check_free(path, force=args.force)
    part = f"{path}.{os.getpid()}.part"
    try:
        _write(args.format, store, HomeAccess.of(args.settings), list(views.values()), part)
        _check_free(path, force=args.force)
        os.replace(part, path)
    except OSError as error:
        raise VedetteError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        if os.path.exists(part):
            os.unlink(part)
    written = os.stat(path).st_size
    if args.json:
        print_json({"path": path, "bytes": written, "runs": list(views)})
    else:
        print(f"{clean(path, one_line=True)}: {len(views)} {'run' if len(views) == 1 else 'runs'}, {size(written)}")
    return 0


def _name(views: list[RunView]) -> str:
    if len(views) > 1:
        return "runs"
    return views[0].name if re.fullmatch(r"\w[\w.-]{0,99}", views[0].name) else views[0].id.replace("/", "-")


def _check_free(path: str, *, force: bool) -> None:
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise VedetteError(f"there is no directory {os.path.dirname(path)}")
    if os.path.isdir(path):
        raise VedetteError(f"{path} is a directory: give the name of a file")
    if os.path.lexists(path) and not force:
        raise VedetteError(f"{path} exists already: give another name, or --force")


def _write(form: str, store: SqliteReader, home: HomeAccess, views: list[RunView], path: str) -> None:
    runs = [found.id for found in views]
    if form == "archive":
        from vedette.store.sqlite_export import write_archive

        counted = PointCount()
        missing = write_archive(store, runs, path, counted.show, home.blobs)
        counted.close()
        if missing:
            sys.stderr.write(f"vedette: the bytes of {len(missing)} files are not in this home: they are left out\n")
    elif form == "parquet":
        from vedette.query.table import write_parquet

        about = [as_dict(found, store.last_values([found.id]).get(found.id, {})) for found in views]
        write_parquet(store, runs, path, json_line(about))
    else:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as file:
            _write_csv(store, runs, file)


def _write_csv(store: SqliteReader, runs: list[str], file: Any) -> None:
    """Write the table; times are ISO 8601 in UTC, to the microsecond, which is how they are stored."""
    import numpy as np

    from vedette.query.table import stretches

    put = CsvRows(file).put
    put(["run", "name", "tags", "step", "t", "value"])
    for stretch in stretches(store, runs):
        head = [stretch.run, stretch.name, stretch.tags]
        if file.isatty():
            head = [clean(text, one_line=True) for text in head]
        head = [csv_cell(text) for text in head]
        times = np.datetime_as_string(stretch.points.t.astype("datetime64[ns]"), unit="us")
        steps, values = stretch.points.step.tolist(), stretch.points.value.tolist()
        for step, t, value in zip(steps, times, values, strict=True):
            put([*head, step, f"{t}Z", repr(value)])
