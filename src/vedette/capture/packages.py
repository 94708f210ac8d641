"""The packages that a run's Python can import: names and versions, from metadata, without importing any."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata

from msgspec import Struct

from vedette import masks
from vedette.errors import NotFoundError

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PATIENCE_S = 30.0
# Nothing is imported that a file of the user's could stand in for; what else is printed lies outside of the NULs.
_ASK = (
    "import sys; sys.stdout.buffer.write('\\0'.join(['', sys.version.split()[0]] + sys.path + [''])"
    ".encode(sys.getfilesystemencoding(), 'surrogateescape'))"
)


class Installed(Struct, frozen=True):
    """What is installed, and where it did not come from an index: from there."""

    versions: dict[str, str]
    direct: dict[str, str]


def installed(path: Sequence[str]) -> Installed:
    """Return the packages on a `sys.path`, the first of each name, as an import would find it."""
    versions: dict[str, str] = {}
    direct: dict[str, str] = {}
    for found in metadata.distributions(path=list(path)):
        try:
            name, version = found.metadata["Name"], found.version
            if not name or not version or name in versions:
                continue
            versions[name] = version
            origin = json.loads(found.read_text("direct_url.json") or "null")
            if isinstance(origin, Mapping) and isinstance(origin.get("url"), str):
                direct[name] = masks.text(_pinned(origin))
        except Exception:  # noqa: S112 - metadata that somebody has spoilt says nothing of the others
            continue
    return Installed(dict(sorted(versions.items())), dict(sorted(direct.items())))


def _pinned(origin: Mapping[str, object]) -> str:
    vcs = origin.get("vcs_info")
    if isinstance(vcs, Mapping):
        return f"{vcs.get('vcs', 'git')}+{origin['url']}@{vcs.get('commit_id', '')}"
    return str(origin["url"])


def python_of(command: Sequence[str], cwd: str) -> str:
    """Return the Python that a command is run by, itself or as a script of its; empty where it is none.

    Raise NotFoundError when there is no such program, or a script's Python is not there.
    """
    program = _which(command[0] if command else "", cwd)
    if os.path.basename(program).startswith("python"):
        return program
    try:
        with open(program, "rb") as file:
            first = file.readline(500)
    except OSError as error:
        raise NotFoundError(f"{program} cannot be read: {error.strerror}") from None
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return _which(words[0], cwd) if words and os.path.basename(words[0]).startswith("python") else ""


def _which(name: str, cwd: str) -> str:
    """Return where a program is for who calls it in a directory, which need not be ours."""
    path = os.pathsep.join(os.path.join(cwd, part) for part in os.get_exec_path())
    if found := shutil.which(os.path.join(cwd, name) if "/" in name else name, path=path):
        return found
    raise NotFoundError(f"{name!r} is not found")


def ask(python: str, cwd: str) -> tuple[str, list[str]]:
    """Ask a Python for its version and its path, as it is in a directory; raise NotFoundError when it does not tell."""
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            cwd="/",  # a json.py in the user's directory is not run
            env=_environ(cwd),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=True,
        )
        _, version, *path, _ = os.fsdecode(done.stdout).split("\0")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NotFoundError(f"{python} does not tell its version and path: {type(error).__name__}") from None
    return version, [os.path.join(cwd, part) for part in path if part]


def _environ(cwd: str) -> dict[str, str]:
    """Return the environment of the user's Python: paths lead to where they do for it, and ours is not among them."""
    environ = {**os.environ, "PYTHONSAFEPATH": "1"}  # an option that an older Python does not know would end it
    parts = environ.pop("PYTHONPATH", "").split(os.pathsep)
    if parts[0] == _OURS:  # see client/capturing.py
        del parts[0]
    if any(parts):
        environ["PYTHONPATH"] = os.pathsep.join(os.path.join(cwd, part) for part in parts)
    return environ
