"""The packages that a run's Python can import: names and versions from their metadata; nothing is imported."""

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
# It imports only `sys`, which no file of the user can replace. Output of others, such as a sitecustomize, is outside of
# the NULs.
_ASK = (
    "import sys; sys.stdout.buffer.write('\\0'.join(['', sys.version.split()[0]] + sys.path + [''])"
    ".encode(sys.getfilesystemencoding(), 'surrogateescape'))"
)


class Installed(Struct, frozen=True):
    """The versions of packages, and the URL of each that was not installed from an index."""

    versions: dict[str, str]
    direct: dict[str, str]


def installed(path: Sequence[str]) -> Installed:
    """Return the packages on a `sys.path`; if a name is there twice, the first, which an import would find."""
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
        except Exception:  # noqa: S112 - broken metadata of one package must not stop the others
            continue
    return Installed(dict(sorted(versions.items())), dict(sorted(direct.items())))


def _pinned(origin: Mapping[str, object]) -> str:
    vcs = origin.get("vcs_info")
    if isinstance(vcs, Mapping):
        return f"{vcs.get('vcs', 'git')}+{origin['url']}@{vcs.get('commit_id', '')}"
    return str(origin["url"])


def python_of(command: Sequence[str], cwd: str) -> str:
    """Return the Python that runs a command: the program itself, or that in a script's first line; empty if neither.

    Raise NotFoundError when the program or the script's Python does not exist.
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
    """Return the path of a program as a shell in the directory `cwd` would find it."""
    path = os.pathsep.join(os.path.join(cwd, part) for part in os.get_exec_path())
    if found := shutil.which(os.path.join(cwd, name) if "/" in name else name, path=path):
        return found
    raise NotFoundError(f"{name!r} is not found")


def ask(python: str, cwd: str) -> tuple[str, list[str]]:
    """Ask a Python for its version and its `sys.path` in a directory; raise NotFoundError when it does not answer."""
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            cwd="/",  # so that a json.py in the user's directory is not run
            env=_environ(cwd),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=True,
        )
        _, version, *path, _ = os.fsdecode(done.stdout).split("\0")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NotFoundError(f"{python} did not return its version and path: {type(error).__name__}") from None
    return version, [os.path.join(cwd, part) for part in path if part]


def _environ(cwd: str) -> dict[str, str]:
    """Return the environment for the user's Python: relative paths are made absolute, and our own path is removed."""
    environ = {**os.environ, "PYTHONSAFEPATH": "1"}  # a variable, since an older Python does not know the option -P
    parts = environ.pop("PYTHONPATH", "").split(os.pathsep)
    if parts[0] == _OURS:  # `detached.environment` has put it there
        del parts[0]
    if any(parts):
        environ["PYTHONPATH"] = os.pathsep.join(os.path.join(cwd, part) for part in parts)
    return environ
