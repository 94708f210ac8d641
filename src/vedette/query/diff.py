"""The inputs of two runs, side by side: config, code, packages, hardware, command, environment, data."""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vedette import manifest
from vedette.errors import FormatError
from vedette.manifest import Entry
from vedette.model import Value
from vedette.query.cells import Cells
from vedette.query.code import CodeChange, code_changes
from vedette.query.runs import RunView

Read = Callable[[str], bytes | None]  # returns the bytes of a digest, or None if they are not available

_HARDWARE = ("host", "cpu.model", "cpu.count", "memory_bytes", "gpu.names", "gpu.driver", "os", "python")
_GIT = ("git.commit", "git.branch", "git.dirty", "git.remote")
_MOST_SHOWN = 60
_HEX = re.compile("[0-9a-f]{32,}")


class Pair(Struct, frozen=True):
    """One key and its values in two runs. If only one run has the key, `only` is "a" or "b", and the other is None."""

    key: str
    a: Value
    b: Value
    differs: bool
    only: str = ""


class Made(Struct, frozen=True):
    """The inputs of one run, as far as they are recorded; None when they are not."""

    name: str
    config: dict[str, Value]
    code: dict[str, Entry] | None
    code_digest: str
    script: str  # the file of the code that was run
    packages: dict[str, str] | None
    packages_digest: str
    hardware: dict[str, Value]
    git: dict[str, Value]
    argv: list[str]
    cwd: str
    environment: dict[str, Value]
    data: dict[str, Value]
    tries: int
    changed: list[str]  # files of its code that were changed after it began
    whole: bool  # the capture finished: what is not recorded was not there


class Sections(Struct, frozen=True):
    """Two runs, part by part. Equal keys are included; equal files are not."""

    config: list[Pair]
    code: list[CodeChange]
    packages: list[Pair]
    hardware: list[Pair]
    git: list[Pair]
    command: Pair
    environment: list[Pair]
    data: list[Pair]
    unread: list[str]  # sentences that say what could not be compared


def made_of(view: RunView, read: Read, cells: Cells | None = None) -> Made:
    """Return the inputs of a run; a list that cannot be read or parsed counts as not recorded.

    `cells`: the cells of a notebook, a file of its code.
    """
    attrs = view.attrs
    main = next((row.attrs for row in view.processes()), {})
    argv = attrs.get("argv") or ([] if attrs.get("notebook") else main.get("argv"))
    code_digest, packages_digest = str(attrs.get("code.digest") or ""), str(attrs.get("packages.digest") or "")
    code = _manifest(code_digest, read)
    if cells is not None and cells.entry is not None:
        code = (code or {}) | {cells.entry.path: cells.entry}
        code_digest += cells.entry.digest
    hardware = {key: attrs[key] for key in _HARDWARE if key in attrs}
    if "host" not in hardware and main.get("host"):
        hardware["host"] = main["host"]
    return Made(
        name=view.name,
        config=_below(attrs, "config."),
        code=code,
        code_digest=code_digest,
        script=str(attrs.get("code.script") or attrs.get("script") or ""),
        packages=_packages(packages_digest, read),
        packages_digest=packages_digest,
        hardware=hardware,
        git={key: attrs[key] for key in _GIT if key in attrs},
        argv=[str(word) for word in argv] if isinstance(argv, list) else [],
        cwd=str(attrs.get("cwd") or ""),
        environment=_below(attrs, "env."),
        data=_below(attrs, "data."),
        tries=max(1, len(view.tries())),
        changed=[str(path) for path in names] if isinstance(names := attrs.get("code.changed_names"), list) else [],
        whole=attrs.get("capture", "done" if "cpu.model" in hardware else "") == "done",
    )


def diff(a: Made, b: Made, read: Read) -> Sections:
    """Put the inputs of two runs side by side; files that differ are read."""
    unread = []
    if a.code_digest != b.code_digest and (a.code is None or b.code is None) and a.code_digest and b.code_digest:
        unread.append("the code differs, but the list of its files is not here")
    if (
        a.packages_digest != b.packages_digest
        and (a.packages is None or b.packages is None)
        and a.packages_digest
        and b.packages_digest
    ):
        unread.append("the installed packages differ, but their list is not here")
    for side, made in (("A", a), ("B", b)):
        if not made.whole:
            unread.append(f"run {side} was not recorded completely: what is missing there is not compared")
        if made.changed:
            some = ", ".join(made.changed[:3]) + (", ..." if len(made.changed) > 3 else "")
            unread.append(f"files were changed after run {side} began, so they may not be what ran: {some}")
    both = a.code is not None and b.code is not None
    entry = [word for word in (a.script, b.script, *a.argv, *b.argv) if word]
    return Sections(
        config=pairs(a.config, b.config),
        code=code_changes(a.code or {}, b.code or {}, read, entry) if both else [],
        packages=pairs(a.packages, b.packages) if a.packages is not None and b.packages is not None else [],
        hardware=_known(a, b, pairs(a.hardware, b.hardware)),
        git=_known(a, b, pairs(a.git, b.git)),
        command=Pair("argv", a.argv, b.argv, a.argv != b.argv),
        environment=_known(a, b, pairs(a.environment, b.environment)),
        data=pairs(a.data, b.data),
        unread=unread,
    )


def pairs(a: Mapping[str, Value], b: Mapping[str, Value]) -> list[Pair]:
    """Return every key of either mapping, sorted, with both values."""
    found = []
    for key in sorted({*a, *b}):
        only = "" if key in a and key in b else "a" if key in a else "b"
        differs = bool(only) or token(a[key]) != token(b[key])
        found.append(Pair(key, a.get(key), b.get(key), differs, only))
    return found


def token(value: Value) -> Any:
    """Return a hashable form of a value: equal values have equal forms.

    1 and 1.0 are equal; true is not a number; NaN equals NaN.
    """
    if isinstance(value, bool) or value is None:
        return str(value), None
    if isinstance(value, float) and math.isnan(value):
        return "number", "nan"
    if isinstance(value, int | float):
        return "number", value
    if isinstance(value, list | tuple):
        return "list", tuple(token(item) for item in value)
    if isinstance(value, dict):
        return "dict", tuple(sorted((str(key), token(item)) for key, item in value.items()))
    return "text", str(value)


def shown(value: Value) -> str:
    """Return a value as short text for a sentence or a cell; an empty text becomes visible."""
    if isinstance(value, str) and _HEX.fullmatch(value):
        text = value[:12] + "…"
    elif isinstance(value, str):
        text = value if value.strip() == value and value else json.dumps(value, ensure_ascii=False)
    elif isinstance(value, float):
        text = f"{value:.10g}"
    elif isinstance(value, bool) or value is None:
        text = {True: "true", False: "false", None: "none"}[value]
    elif isinstance(value, list | dict):
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN // 2 - 1]}…{text[-_MOST_SHOWN // 2 :]}"


def differing(found: Iterable[Pair]) -> list[Pair]:
    """Return the pairs that differ."""
    return [pair for pair in found if pair.differs]


def _known(a: Made, b: Made, found: list[Pair]) -> list[Pair]:
    """Leave out keys that only one run has, when the other run was not recorded completely."""
    return [one for one in found if not one.only or (b if one.only == "a" else a).whole]


def _below(attrs: Mapping[str, Value], prefix: str) -> dict[str, Value]:
    return {key[len(prefix) :]: value for key, value in attrs.items() if key.startswith(prefix)}


def _manifest(digest: str, read: Read) -> dict[str, Entry] | None:
    data = read(digest) if digest else None
    try:
        return {entry.path: entry for entry in manifest.read(data)} if data is not None else None
    except FormatError:
        return None


def _packages(digest: str, read: Read) -> dict[str, str] | None:
    data = read(digest) if digest else None
    try:
        return msgspec.json.decode(data, type=dict[str, str]) if data is not None else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
