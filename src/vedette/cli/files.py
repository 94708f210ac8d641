"""list the files that a run has saved, or write one out
examples:
  vedette files brisk-otter-417
  vedette files brisk-otter-417 plots/loss.png -o loss.png
  vedette files 2pg66 metrics.json | jq .
  vedette files 2pg66 --json
"""

import argparse
import os
import shutil
import sys

from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, open_home, print_json, table
from vedette.errors import VedetteError
from vedette.media import TEXTS, media_of
from vedette.query.files import File, file, files
from vedette.query.finding import find
from vedette.views.text import clean, moment, size


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", help="an id, the beginning of one, or a name").completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("NAME", nargs="?", default="", help="the file to write out (default: list them)")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="where to write it; - is stdout (default)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--json", action="store_true", help="as JSON: name, digest, size, media, t and here")


def run(args: argparse.Namespace) -> int:
    """List files, or write one out."""
    store = open_home(args.settings, glance=True)
    home = HomeAccess.of(args.settings)
    span = find(store, args.RUN).id
    found = [file(store, span, args.NAME)] if args.NAME else files(store, span)
    if args.json:
        print_json([_as_dict(one, home) for one in found])
    elif args.NAME:
        _write(found[0], home, args.output, force=args.force)
    elif found:
        rows = [
            [one.name, size(one.size), one.media, moment(one.t), one.digest[:12], _where(one, home)] for one in found
        ]
        table(["NAME", "SIZE", "MEDIA", "SAVED", "DIGEST", "BYTES"], rows, right=["SIZE"])
    else:
        sys.stderr.write("the run has saved no files\n")
    return 0


def _as_dict(one: File, home: HomeAccess) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__struct_fields__} | {"here": home.has_blob(one.digest, one.size)}


def _where(one: File, home: HomeAccess) -> str:
    return "here" if home.has_blob(one.digest, one.size) else "not here"


def _write(one: File, home: HomeAccess, path: str, *, force: bool) -> None:
    """Write a file to `path`; the name that the run gave it is never used as a path."""
    with home.open_blob(one.digest) as source:
        if os.fstat(source.fileno()).st_size != one.size:
            raise VedetteError(f"the bytes of {one.name} are incomplete in this home")
        if path == "-":
            if sys.stdout.isatty():
                _show(one, source.read())
            else:
                shutil.copyfileobj(source, sys.stdout.buffer)
            return
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if force else os.O_EXCL)
            with open(os.open(path, flags, 0o666), "wb") as target:
                shutil.copyfileobj(source, target)
        except FileExistsError:
            raise VedetteError(f"{path} exists already: give another name, or --force") from None
        except OSError as error:
            raise VedetteError(f"{path} cannot be written: {error.strerror or error}") from None


def _show(one: File, data: bytes) -> None:
    """Print text to a terminal; refuse other bytes, which may hold control sequences."""
    if media_of(data) not in TEXTS:
        raise VedetteError(f"{one.name} is not text, and stdout is a terminal: give -o FILE")
    print(clean(data.decode("utf-8", "replace")))
