"""Settings and where they come from: defaults < files < environment < what was said in the call.

Files, the nearer to the work the stronger: `vedette.toml` in the home; `vedette.toml`, or `[tool.vedette]` of
`pyproject.toml`, in the working directory or the nearest one above it. Environment: VEDETTE_SPOOL_CAP_BYTES
sets `spool.cap_bytes`; VEDETTE_HUB sets `upstream`.
"""

import os
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vedette.errors import SettingError


class Spool(Struct, frozen=True, forbid_unknown_fields=True):
    """How much one process may leave on disk while no hub takes it away."""

    cap_bytes: int = 1 << 30
    cap_share: float = 0.1  # of the free disk


class Hub(Struct, frozen=True, forbid_unknown_fields=True):
    """The pace of the hub."""

    turn_s: float = 0.1  # between two looks at the spools
    sync_s: float = 1.0  # between two flushes to disk: what a power cut may cost
    seal_s: float = 60.0  # how old points grow in the spool before they are sealed into chunks
    idle_s: float = 60.0  # how long it stays when nobody speaks


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All there is to set."""

    home: str = "~/.vedette"
    upstream: str = ""
    mode: str = "on"
    spool: Spool = Spool()
    hub: Hub = Hub()


# Variables that say something else than a setting.
_OTHER_VARIABLES = {"VEDETTE_RUN", "VEDETTE_TRY", "VEDETTE_TOKEN"}


def names() -> dict[str, Any]:
    """Return every setting's dotted name with its default."""
    flat: dict[str, Any] = {}
    for key, value in msgspec.structs.asdict(Settings()).items():
        if isinstance(value, Struct):
            flat |= {f"{key}.{name}": v for name, v in msgspec.structs.asdict(value).items()}
        else:
            flat[key] = value
    return flat


def load(said: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Gather the settings; raise SettingError, in a sentence that names the fix, when one is wrong."""
    environ = os.environ if environ is None else environ
    from_environment = _from_environment(environ)
    said = {key: value for key, value in (said or {}).items() if value is not None}
    home = said.get("home") or from_environment.get("home") or Settings().home
    layers: list[tuple[str, Mapping[str, Any]]] = [
        _from_file(os.path.join(os.path.expanduser(str(home)), "vedette.toml")),
        _from_project(),
        ("the environment", from_environment),
        ("the call", said),
    ]
    tree: dict[str, Any] = {}
    for source, layer in layers:
        for key, value in layer.items():
            _check(key, source)
            section, _, name = key.rpartition(".")
            (tree.setdefault(section, {}) if section else tree)[name] = value
    try:
        return msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingError(f"a setting has a bad value: {error}") from None


def _check(key: str, source: str) -> None:
    known = names()
    if key not in known:
        import difflib  # noqa: PLC0415 - only on the way to an error

        near = difflib.get_close_matches(key, known, 1, 0.0)
        raise SettingError(f"{source} sets {key!r}, which is no setting; did you mean {near[0]!r}?")


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    variables = {"VEDETTE_" + key.replace(".", "_").upper(): key for key in names()}
    del variables["VEDETTE_UPSTREAM"]
    variables["VEDETTE_HUB"] = "upstream"
    found = {}
    for name, value in environ.items():
        if not name.startswith("VEDETTE_") or name in _OTHER_VARIABLES:
            continue
        found[variables.get(name, name)] = value
    return {key: value for key, value in found.items() if value != "" or key != "mode"}


def _from_file(path: str, table: tuple[str, ...] = ()) -> tuple[str, dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return path, {}
    if table and b"tool.vedette" not in text:
        return path, {}
    import tomllib  # noqa: PLC0415 - only where there is a file

    try:
        tree = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is not TOML: {error}") from None
    for key in table:
        tree = tree.get(key, {})
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= {f"{key}.{name}": v for name, v in value.items()} if isinstance(value, dict) else {key: value}
    return path, flat


def _from_project() -> tuple[str, dict[str, Any]]:
    try:
        folder = os.getcwd()
    except OSError:
        return "", {}
    while True:
        for name, table in (("vedette.toml", ()), ("pyproject.toml", ("tool", "vedette"))):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                source, flat = _from_file(path, table)
                if flat or name == "vedette.toml":
                    return source, flat
        parent = os.path.dirname(folder)
        if parent == folder:
            return "", {}
        folder = parent
