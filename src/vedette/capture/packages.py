"""The packages that a run's Python can import: names and versions, from metadata, without importing any."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata

from msgspec import Struct

from vedette import masks

_PATIENCE_S = 30.0
_ASK = "import json, platform, sys; print(json.dumps([platform.python_version(), sys.path]))"


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
    """Return the Python that a command is run by, itself or as a script of its; empty where it is none."""
    program = shutil.which(command[0], path=None) if command else None
    if program is None:
        return ""
    program = os.path.join(cwd, program)
    if os.path.basename(program).startswith("python"):
        return program
    try:
        with open(program, "rb") as file:
            first = file.readline(500)
    except OSError:
        return ""
    words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = words[1:]
    python = shutil.which(words[0]) if words and os.path.basename(words[0]).startswith("python") else None
    return python or ""


def ask(python: str, cwd: str) -> tuple[str, list[str]]:
    """Ask a Python for its version and its path; empty when it does not tell."""
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=True,
        )
        version, path = json.loads(done.stdout)
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return "", []
    return str(version), [os.path.join(cwd, str(part)) for part in path if part]
