"""Settings and where they come from: defaults < files < environment < arguments of the call; the later one wins.

Files: first `vedette.toml` in the home; then `vedette.toml`, or `[tool.vedette]` of `pyproject.toml`, in the working
directory or the nearest one above it. Environment: VEDETTE_SPOOL_CAP_BYTES sets `spool.cap_bytes`; VEDETTE_HUB sets
`upstream`.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vedette import host_port
from vedette.errors import SettingError

Seconds = Annotated[float, Meta(ge=0, le=1e9)]


class Spool(Struct, frozen=True, forbid_unknown_fields=True):
    """How much disk space the spool of one process may use while no hub reads it."""

    cap_bytes: Annotated[int, Meta(ge=0, le=1 << 60)] = 1 << 30
    cap_share: Annotated[float, Meta(ge=0, le=1)] = 0.1  # of the free disk


class Hub(Struct, frozen=True, forbid_unknown_fields=True):
    """How often the hub does things, and where it listens."""

    turn_s: Seconds = 0.1  # between two looks at the spools
    sync_s: Seconds = 1.0  # between two flushes to disk: a power cut may lose this much
    seal_s: Seconds = 60.0  # the age at which points in the spool are sealed into chunks
    ship_s: Seconds = 1.0  # the age at which they are shipped, if they are for another hub
    idle_s: Seconds = 60.0  # how long the hub stays when nothing uses it
    without_upstream_s: Seconds = 3600.0  # how long it stays for what is meant for a hub that does not answer
    address: str = ""  # where it listens for other hubs: HOST:PORT, :PORT, or a path or name; empty: nowhere
    advertise: str = ""  # the HOST or HOST:PORT to tell others, if the guess is wrong
    onward: str = ""  # the hub to which it passes on what other hubs ship here; empty: it is stored here
    reroute: str = ""  # the hub to relay to instead of all others, when one has moved
    listen: str | list[str] = ""  # listeners for clients of other programs: NAME=ADDRESS, with commas between
    heflwr: str = ""  # the same as heflwr=ADDRESS in `listen`
    trusted_network: bool = False  # nobody can eavesdrop: connections need no TLS
    mask: bool = True  # secrets in lines and causes are replaced by ***, before they are stored or relayed

    def listeners(self) -> dict[str, str]:
        """Return the addresses of listeners by name; raise SettingError when `listen` is malformed."""
        words = self.listen.split(",") if isinstance(self.listen, str) else self.listen
        pairs = [word.strip().partition("=") for word in words if word.strip()]
        for name, _, address in pairs:
            if not name or not address:
                raise SettingError(f"hub.listen has {name!r}, and takes NAME=ADDRESS, such as heflwr=:5000")
        if len({name for name, _, _ in pairs}) < len(pairs):
            raise SettingError("hub.listen has a name twice: each listener takes one address")
        named = {"heflwr": self.heflwr} if self.heflwr else {}
        return named | {name: address for name, _, address in pairs}


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of what a hub accepts; what exceeds them is refused and counted."""

    connections: Annotated[int, Meta(ge=1, le=1 << 20)] = 1024
    inbox_bytes: Annotated[int, Meta(ge=0, le=1 << 60)] = 1 << 30  # shipments of one hub that wait to be stored
    name_chars: Annotated[int, Meta(ge=1, le=1 << 20)] = 500  # of a series, of a tag
    series_per_run: Annotated[int, Meta(ge=1, le=1 << 40)] = 100_000
    points_per_s: Annotated[int, Meta(ge=0, le=1 << 60)] = 0  # of one process, over ten seconds; 0: any number
    blob_bytes: Annotated[int, Meta(ge=0, le=1 << 60)] = 4 << 30  # of one saved file; 0: any number
    blobs_bytes: Annotated[int, Meta(ge=0, le=1 << 60)] = 64 << 30  # of all saved files of a home; 0: any number


class Keep(Struct, frozen=True, forbid_unknown_fields=True):
    """Which finished runs the hub removes for good by itself; 0 removes none."""

    age_d: Annotated[float, Meta(ge=0, le=1e5)] = 0.0  # those that ended more than this many days ago
    runs: Annotated[int, Meta(ge=0, le=1 << 40)] = 0  # all but this many newest ones of each project
    size_bytes: Annotated[int, Meta(ge=0, le=1 << 60)] = 0  # the oldest ones, while store and files are larger


class Usage(Struct, frozen=True, forbid_unknown_fields=True):
    """What the hub measures of the processes of a run, from outside."""

    enable: bool = True
    interval_s: Annotated[float, Meta(ge=0.05, le=3600)] = 1.0
    gpu: bool = True


class Logs(Struct, frozen=True, forbid_unknown_fields=True):
    """What `init` records of the program's logging and output."""

    enable: bool = True  # records of the module logging, warnings
    level: Annotated[int, Meta(ge=0, le=100)] = 20  # records below it are not recorded: 10 is DEBUG, 20 INFO
    output: bool = True  # lines of stdout and stderr


class Capture(Struct, frozen=True, forbid_unknown_fields=True):
    """What the capture process records about a run: its code, environment and packages."""

    enable: bool = True
    code: bool = True  # the files of the working tree, or of the script's directory
    max_bytes: Annotated[int, Meta(ge=0, le=1 << 40)] = 64 << 20  # of all files of a run's code
    max_file_bytes: Annotated[int, Meta(ge=0, le=1 << 40)] = 4 << 20  # of one file
    max_files: Annotated[int, Meta(ge=0, le=1 << 20)] = 10_000
    env: str = ""  # more environment variables to record, with commas between; NAME* for all that begin with NAME


class Console(Struct, frozen=True, forbid_unknown_fields=True):
    """The live view in the terminal of a run's main process."""

    mode: Literal["auto", "on", "off"] = "auto"  # auto: where stderr is a terminal


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings."""

    home: str = "~/.vedette"
    upstream: str = ""
    mode: Literal["on", "off"] = "on"
    foreign_home: bool = False  # work in a home that belongs to another user, too
    lost_after_s: Seconds = 60.0  # readers show a run as lost after this much silence
    spool: Spool = Spool()
    hub: Hub = Hub()
    limits: Limits = Limits()
    keep: Keep = Keep()
    usage: Usage = Usage()
    logs: Logs = Logs()
    capture: Capture = Capture()
    console: Console = Console()


_LENGTH_OF_TOKEN = 32
_LONG_WORD = re.compile(r"[\w~-]{16,}", re.ASCII)

# Variables that are not settings.
_OTHER_VARIABLES = {
    "VEDETTE_RUN", "VEDETTE_TRY", "VEDETTE_NAME", "VEDETTE_RESUME", "VEDETTE_TOKEN", "VEDETTE_CAPTURED", "VEDETTE_NEW",
    "VEDETTE_ASKED",
}  # fmt: skip


def names() -> dict[str, Any]:
    """Return every setting's dotted name with its default."""
    flat: dict[str, Any] = {}
    for key, value in msgspec.structs.asdict(Settings()).items():
        if isinstance(value, Struct):
            flat |= {f"{key}.{name}": v for name, v in msgspec.structs.asdict(value).items()}
        else:
            flat[key] = value
    return flat


def load(arguments: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Load the settings; raise SettingError, with a message that names the fix, when one is wrong."""
    environ = os.environ if environ is None else environ
    from_environment = _from_environment(environ)
    arguments = {key: value for key, value in (arguments or {}).items() if value is not None}
    home = _as_path(arguments.get("home") or from_environment.get("home") or Settings().home)
    layers: list[tuple[str, Mapping[str, Any]]] = [
        _from_file(os.path.join(os.path.expanduser(home), "vedette.toml")),
        _from_project(),
        ("the environment", from_environment),
        ("the call", arguments),
    ]
    tree: dict[str, Any] = {}
    for source, layer in layers:
        for key, value in layer.items():
            _check(key, source)
            section, _, name = key.rpartition(".")
            (tree.setdefault(section, {}) if section else tree)[name] = value
    _as_path(tree.get("home", ""))
    tree["upstream"] = _with_token(str(tree.get("upstream", "")), environ)
    if tree["upstream"] and not _looks_like_address(tree["upstream"]):
        raise SettingError(
            f"VEDETTE_HUB is {without_token(tree['upstream'])[:60]!r}, which is not the address of a hub: use the whole"
            " connect string that `vedette hub` printed, or HOST:PORT, or the path or name of a socket"
        )
    try:
        return msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        what, _, key = str(error).partition(" - at `$.")
        raise SettingError(f"the setting {key.rstrip('`')} has a bad value: {what[:1].lower()}{what[1:]}") from None


def chosen() -> set[str]:
    """Return the names of the settings that a file or the environment sets."""
    given = _from_environment(os.environ)
    home = os.path.expanduser(str(given.get("home") or Settings().home))
    return {*_from_file(os.path.join(home, "vedette.toml"))[1], *_from_project()[1], *given}


def _as_path(home: object) -> str:
    """Return the path of a home; raise SettingError when no file can have it."""
    path = str(home)
    try:
        if b"\0" not in os.fsencode(path):
            return path
        why = "it has a zero byte"
    except UnicodeEncodeError:
        why = "it is not UTF-8"
    raise SettingError(f"the setting home is {path[:60]!r}, which cannot be a path: {why}")


def _looks_like_address(upstream: str) -> bool:
    """Tell whether a text can be the address of a hub; the hub checks it fully."""
    if is_token(upstream):
        return False
    if upstream.startswith(("/", ".", "~", "unix:")) or upstream.replace("-", "").replace(".", "").isidentifier():
        return True  # a path, or the name of a socket
    found = host_port.split(upstream.removeprefix("vedette://").partition("/")[0].rpartition("@")[2])
    return found is not None and found[0] != ""


def has_token(text: str) -> bool:
    """Tell whether a text has a connect string with a token in it."""
    _, scheme, rest = text.partition("vedette://")
    return bool(scheme) and "@" in rest.partition("/")[0]


def is_token(text: str) -> bool:
    """Tell whether a text looks like a token: it is as long, and no word of any language."""
    return len(text) >= _LENGTH_OF_TOKEN - 2 and _masked(text) == "***"


def without_token(text: str) -> str:
    """Return what was given as an address, as it may be shown: whatever in it may be a token is masked."""
    scheme, mark, rest = text.rpartition("://")
    _, at, address = rest.rpartition("@")
    return _masked(scheme) + mark + ("***" if at else "") + at + _masked(address)


def _masked(text: str) -> str:
    """Mask each word of 16 characters and more with letters of both cases: tokens have them, and parts of tokens."""
    return _LONG_WORD.sub(lambda word: word[0] if word[0] in (word[0].lower(), word[0].upper()) else "***", text)


def _with_token(upstream: str, environ: Mapping[str, str]) -> str:
    """Add VEDETTE_TOKEN to the HOST:PORT of a hub, so that its address is complete."""
    token = environ.get("VEDETTE_TOKEN", "")
    if not token or not upstream or "/" in upstream.partition("://")[0] or "@" in upstream:
        return upstream
    return f"vedette://{token}@{upstream.removeprefix('vedette://')}" if ":" in upstream else upstream


def fallback(home: str | None, upstream: str | None, environ: Mapping[str, str]) -> Settings:
    """Return the defaults with home, hub and mode as set: these must hold even when another setting is wrong."""
    wanted = _with_token(upstream or environ.get("VEDETTE_HUB") or "", environ)
    off = environ.get("VEDETTE_MODE") == "off"
    return Settings(
        home=home or environ.get("VEDETTE_HOME") or Settings().home,
        upstream=wanted if _looks_like_address(wanted) else "",
        mode="off" if off else "on",
    )


def _check(key: str, source: str) -> None:
    if key not in names():
        near = _nearest(key, names())
        raise SettingError(
            f"{source} sets {key!r}, which is not a setting" + (f"; did you mean {near!r}?" if near else "")
        )


def _nearest(word: str, known: Iterable[str]) -> str:
    """Return the word that is meant, probably; empty if none is near."""
    import difflib  # noqa: PLC0415 - needed only for an error

    return next(iter(difflib.get_close_matches(word, known, 1)), "")


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that looks like one of ours and is none.

    It is no error: it may be meant for another version, or for the program; and what the others say must hold.
    """
    known = [*_variables(), *_OTHER_VARIABLES]
    sentences = []
    for name, value in environ.items():
        if name.startswith("VEDETTE_") and value and name not in known:
            bare = [one.removeprefix("VEDETTE_") for one in known]  # the prefix alone would make all of them near
            near = "HUB" if name == "VEDETTE_UPSTREAM" else _nearest(name.removeprefix("VEDETTE_"), bare)
            hint = f"; did you mean VEDETTE_{near}?" if near else ""
            sentences.append(f"the environment has {name}, which vedette does not know: ignored{hint}")
    return sentences


def _variables() -> dict[str, str]:
    """Return the names of settings by the variable that sets them."""
    variables = {"VEDETTE_" + key.replace(".", "_").upper(): key for key in names()}
    del variables["VEDETTE_UPSTREAM"]
    return variables | {"VEDETTE_HUB": "upstream"}


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: environ[name] for name, key in _variables().items() if environ.get(name)}


def _from_file(path: str, table: tuple[str, ...] = ()) -> tuple[str, dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return path, {}
    if table and b"tool.vedette" not in text:
        return path, {}
    import tomllib  # noqa: PLC0415 - needed only if there is a file

    try:
        tree = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is not TOML: {error}") from None
    for key in table:
        tree = tree.get(key, {})
        if not isinstance(tree, dict):
            raise SettingError(f"{'.'.join(table)} in {path} is not a table")
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


# msgspec learns a type when it first meets it, and crashes if a signal handler or thread meets it while it does.
msgspec.convert({}, Settings)
