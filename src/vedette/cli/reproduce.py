"""write what a run was made of into a directory: its code, packages, environment, and the command to run it again
examples:
  vedette reproduce brisk-otter-417 --dir again
  vedette reproduce 2pg66 --dir again --run
  vedette reproduce 2pg66 --dir again --force --json

The directory gets code/, requirements.txt, env.sh, config.json, git.diff, run.sh and README.md. With --run it is also
run, by the Python that runs vedette. What is missing is printed, and listed in README.md.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
from typing import Any

from vedette import manifest
from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, open_home, print_json
from vedette.errors import VedetteError
from vedette.fileio import make_directory
from vedette.fold import flatten
from vedette.manifest import Entry
from vedette.query.cells import Cells, Read
from vedette.query.recipe import recipe
from vedette.query.runs import RunView
from vedette.query.runs import view as find_view
from vedette.views.text import clean, counted

_MOST_SAID = 20


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", help="an id, the beginning of one, or a name").completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("--dir", required=True, metavar="D", help="where to write it: a directory, new or empty")
    parser.add_argument("--run", action="store_true", dest="again", help="run it there, too")
    parser.add_argument("--force", action="store_true", help="even into a directory that is not empty")
    parser.add_argument("--json", action="store_true", help="what was written and what is missing, as JSON")


def run(args: argparse.Namespace) -> int:
    """Write it; run it if that is asked for, and return its exit code."""
    store = open_home(args.settings)
    view = find_view(store, args.RUN, lost_after_s=args.settings.lost_after_s)
    target = os.path.abspath(args.dir)
    _check(target, force=args.force)
    home = HomeAccess.of(args.settings)
    digests = {file.name: file.digest for file in view.files()}
    entries = manifest.read(home.blob_bytes(digests[manifest.NAME])) if manifest.NAME in digests else []
    cells = Cells(view)
    entries = cells.add_to(entries)
    packages, direct = (_names(home, digests.get(name)) for name in (manifest.PACKAGES, manifest.DIRECT_PACKAGES))
    made = recipe(
        view.id, view.name, view.attrs, flatten(view.config), [entry.path for entry in entries], packages, direct,
        _ranks(view),
    )  # fmt: skip
    launch = made.launch.replace("{}/", os.path.join(args.dir, ""))
    gone = _write_code(cells.reading(home.read_blob), entries, target)
    _write_texts(target, made.texts | {"config.json": json.dumps(view.config, indent=2, default=str) + "\n"})
    if manifest.DIFF in digests:
        with contextlib.suppress(VedetteError):
            _write_file(target, manifest.DIFF, home.blob_bytes(digests[manifest.DIFF]), 0o644)
    missing = made.missing + [f"{counted(cells.magics, 'magic')} of IPython: comments now"] * bool(cells.magics)
    missing += [f"the bytes of {path} are not in this home" for path in gone]
    store.close()
    if args.json:
        print_json(
            {"run": view.id, "dir": target, "files": len(entries) - len(gone), "missing": missing, "launch": launch}
        )
    else:
        _tell(target, len(entries) - len(gone), missing, args, launch, runs="run.sh" in made.texts)
    if not args.again:
        return 0
    if "run.sh" not in made.texts or not entries:
        raise VedetteError("it cannot be run again: its code or its command is missing")
    if launch:
        raise VedetteError(f"--run cannot run it: {clean(launch, one_line=True)}")
    sys.stdout.flush()
    environ = {"PYTHON": sys.executable, **os.environ}
    return _exit_code(subprocess.run(["/bin/sh", os.path.join(target, "run.sh")], env=environ, check=False).returncode)


def _ranks(view: RunView) -> int:
    """Return how many ranks its newest try had; 0 if it was not started as ranks."""
    told = [row.attrs.get("ranks") for row in view.tries()][-1:]
    return next((count for count in told if isinstance(count, int)), 0)


def _check(target: str, *, force: bool) -> None:
    if os.path.lexists(target) and not os.path.isdir(target):
        raise VedetteError(f"{target} is not a directory")
    try:
        if os.path.isdir(target) and os.listdir(target) and not force:
            raise VedetteError(f"{target} is not empty: name another directory, or give --force to write into it")
        make_directory(target, 0o755)
    except OSError as error:
        raise VedetteError(f"{target} cannot be written to: {error.strerror}") from None


def _names(home: HomeAccess, digest: str | None) -> dict[str, str]:
    if digest is None:
        return {}
    try:
        found: Any = json.loads(home.blob_bytes(digest))
    except (ValueError, VedetteError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _write_code(read: Read, entries: list[Entry], target: str) -> list[str]:
    """Write the files; return the paths of those whose bytes are missing or damaged."""
    gone = []
    for entry in entries:
        data = read(entry.digest)
        if data is None:
            gone.append(entry.path)
            continue
        _write_file(target, f"code/{entry.path}", data, manifest.permissions(entry.mode))
    return gone


def _write_texts(target: str, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        _write_file(target, name, text.encode("utf-8", "surrogateescape"), 0o755 if name == "run.sh" else 0o644)


def _write_file(target: str, path: str, data: bytes, mode: int) -> None:
    """Write a file below a directory, with a mode less the umask; neither its path nor a link leads out of it."""
    if fault := manifest.path_fault(path):
        raise VedetteError(f"the run has a file {clean(path, one_line=True)[:200]}, {fault}: it is not written")
    *folders, name = path.split("/")
    at = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o755, dir_fd=at)
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=at)
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at)
        with open(fd, "wb") as file:
            file.write(data)
    except OSError as error:
        raise VedetteError(f"{os.path.join(target, path)} cannot be written: {error.strerror}") from None
    finally:
        os.close(at)


def _tell(target: str, count: int, missing: list[str], args: argparse.Namespace, launch: str, *, runs: bool) -> None:
    print(f"{counted(count, 'file')} of code, and what is needed to run it, in {clean(target, one_line=True)}")
    for one in missing[:_MOST_SAID]:
        print(f"  missing: {clean(one, one_line=True)}")
    if len(missing) > _MOST_SAID:
        print(f"  and {len(missing) - _MOST_SAID} more: see README.md")
    if launch and not args.again:
        print(clean(launch, one_line=True))
    elif runs and not args.again:
        print(f"`sh {clean(os.path.join(args.dir, 'run.sh'), one_line=True)}` runs it again")


def _exit_code(code: int) -> int:
    return 128 - code if code < 0 else code
