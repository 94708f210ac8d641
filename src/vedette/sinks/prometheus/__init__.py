"""Serves `/metrics` for Prometheus: the newest value of each number, from an HTTP server of its own.

A number that the newest moments do not have keeps its value for a minute, or for three moments if that is longer: some
numbers are read rarely. After that it is removed, as when a GPU has gone for good.

- `page`: the web server of that page, in a thread of its own
"""

import builtins
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from vedette import guard, host_port, kernel
from vedette.errors import MissingError, SettingError
from vedette.ids import is_host
from vedette.model import Sample
from vedette.sensing.sensor import Metric
from vedette.sinks import options, wanted
from vedette.sinks.plain import KEYS, Plain
from vedette.sinks.prometheus.page import Page

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

_UNITS = {"_per_s": "_per_second", "_s": "_seconds", "_j": "_joules", "_w": "_watts", "_c": "_celsius"}
_KNOWN_UNITS = ("seconds", "joules", "watts", "celsius", "bytes", "percent")
_KEEP_S, _KEEP_MOMENTS = 60.0, 3
_PLAIN = {
    KEYS[0]: ("cpu_usage", "CPU usage percentage"),
    KEYS[1]: ("memory_usage", "Memory usage percentage"),
    KEYS[2]: ("bytes_sent", "Bytes sent"),
    KEYS[3]: ("bytes_recv", "Bytes recv"),
    KEYS[4]: ("vdd_in", "VDD in"),
    KEYS[5]: ("vdd_cpu_gpu_cv", "VDD cpu_gpu_cv"),
    KEYS[6]: ("vdd_soc", "VDD soc"),
}
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
_Key = tuple[str, tuple[tuple[str, str], ...]]


class Config(Struct, frozen=True):
    """Where to listen (port 0: any free port), and whether to use our own metric names or the plain ones."""

    host: str = "127.0.0.1"
    port: int = 0
    names: Literal["own", "plain"] = "own"
    pid: int = 0  # a label on the process's metrics, unless it is 0
    token: str = ""
    cert: str = ""  # paths of the certificate and its key
    key: str = ""
    wanted: tuple[str, ...] = ("cpu", "memory", "network", "power")  # which plain numbers
    hostnames: tuple[str, ...] = ()  # more names of this machine that readers may use


def parse(text: str) -> Config:
    """Read `[HOST:]PORT[?names=plain&wanted=cpu,power&token_file=PATH&cert=PATH&key=PATH&hostnames=A,B]`."""
    where, chosen = options(text, ("names", "wanted", "token_file", "cert", "key", "hostnames"))
    host, port = guard.bind(where or "0")
    names = chosen.get("names", "own")
    if names not in ("own", "plain"):
        raise SettingError(f"prometheus has names=own and names=plain, not names={names}")
    token = _token(chosen["token_file"]) if "token_file" in chosen else ""
    return Config(
        host, port, "plain" if names == "plain" else "own",
        token=token, cert=chosen.get("cert", ""), key=chosen.get("key", ""), wanted=wanted(chosen, Config().wanted),
        hostnames=tuple(filter(None, chosen.get("hostnames", "").split(","))),
    )  # fmt: skip


def _token(path: str) -> str:
    try:
        with builtins.open(path) as file:
            text = file.read(10_000).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"the token in {path} cannot be read: {error}") from None
    if not text:
        raise SettingError(f"{path} should hold a token, and is empty")
    return text


class Prometheus:
    """Holds the newest values, and serves them."""

    def __init__(self, config: Config, metrics: Mapping[str, Metric]) -> None:
        """Begin to listen; raise SettingError if that is not safe, or fails."""
        try:
            from prometheus_client import CollectorRegistry  # noqa: PLC0415 - it loads much
        except ImportError:
            raise MissingError("the prometheus sink needs prometheus-client: pip install prometheus-client") from None
        self.lost = 0
        self.trouble = ""
        self._metrics = metrics
        self._pid = str(config.pid) if config.pid else ""
        self._plain = Plain(config.wanted) if config.names == "plain" else None
        self._values: dict[_Key, tuple[float, float]] = {}  # value and time; the dict is replaced, never changed
        self._described: dict[str, Metric] = {}  # by metric name on the page
        self._names: dict[tuple[str, bool], str] = {}  # metric name by our name, and whether it is the host's
        self._last_s = self._gap_s = 0.0
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        own = (*host_port.own_names(), kernel.host().partition(".")[0]) if config.token else ()
        names = (*config.hostnames, *own)
        self._page = Page(config.host, config.port, self._render, config.token, _context(config), names)
        self.port = self._page.port

    def prime(self, samples: list[Sample]) -> None:
        """Take the first reading, from which the first counts are computed."""
        if self._plain is not None:
            self._plain.of(samples)

    def put(self, samples: list[Sample]) -> None:
        """Take the newest values."""
        now = time.monotonic()
        values = dict(self._values)
        if self._plain is not None:
            for key, value in self._plain.of(samples).items():
                name, text = _PLAIN[key]
                self._described[name] = Metric("gauge", text)
                values[name, ()] = float(value), now
        else:
            for sample in samples:
                host = is_host(sample.span)
                tags = dict(sample.tags) if host or not self._pid else {"pid": self._pid, **sample.tags}
                labels = tuple(sorted((_label(key), value) for key, value in tags.items()))
                for raw, value in sample.values.items():
                    name = self._names.get((raw, host)) or self._name(raw, host=host)
                    values[name, labels] = float(value), now
        if self._last_s:
            self._gap_s = now - self._last_s
        self._last_s = now
        self._values = {key: found for key, found in values.items() if not self._is_old(found[1], now)}

    def _is_old(self, at: float, now: float) -> bool:
        return self._gap_s > 0 and now - at > max(_KEEP_S, _KEEP_MOMENTS * self._gap_s)

    def _name(self, raw: str, *, host: bool) -> str:
        metric = self._metrics.get(raw) or Metric("gauge", raw)
        name = _NOT_IN_NAMES.sub("_", raw)
        for short, spelled in _UNITS.items():
            if name.endswith(short):
                name = name.removesuffix(short) + spelled
                break
        name = f"vedette_{'host' if host else 'process'}_{name}".removesuffix("_total")
        self._names[raw, host] = name
        self._described.setdefault(name, metric)
        return name

    def collect(self) -> Iterator["Family"]:
        """Yield the families of numbers as prometheus_client wants them."""
        from prometheus_client.core import Metric as Family  # noqa: PLC0415

        now = time.monotonic()
        families: dict[str, Family] = {}
        for (name, labels), (value, at) in sorted(self._values.items()):
            if self._is_old(at, now):
                continue
            kind, text, _ = self._described[name]
            if name not in families:
                unit = next((unit for unit in _KNOWN_UNITS if name.endswith("_" + unit)), "")
                families[name] = Family(name, text, kind, unit)
            families[name].add_sample(name + ("_total" if kind == "counter" else ""), dict(labels), value)
        yield from families.values()

    def _render(self, accept: str) -> tuple[bytes, str]:
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415

        try:
            encode, kind = choose_encoder(accept)
            return encode(self._registry), kind
        except (ValueError, TypeError):  # such as a version that is not a number
            encode, kind = choose_encoder("")
            return encode(self._registry), kind

    def close(self) -> None:
        """Stop listening."""
        self._page.close()


def open(config: Config, metrics: Mapping[str, Metric]) -> Prometheus:  # noqa: A001 - the name that every sink has
    """Open it."""
    return Prometheus(config, metrics)


def _context(config: Config) -> ssl.SSLContext | None:
    if not config.cert and not config.key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.cert, config.key or None)
    except (OSError, ValueError) as error:
        raise SettingError(f"cert {config.cert!r} and key {config.key!r} cannot be used: {error}") from None
    return context


def _label(key: str) -> str:
    name = _NOT_IN_NAMES.sub("_", key).lstrip("_")
    return name if name and not name[0].isdigit() else f"tag_{name}"
