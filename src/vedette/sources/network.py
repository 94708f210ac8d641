"""The sensor of the network: the interfaces of this machine, each one and all together, including the loopback.

The kernel counts bytes per network namespace, not per process. If the watched process has a namespace of its own, that
is measured too; its readings have the tag `namespace=own`.
"""

import os
import time
from collections.abc import Mapping

from vedette.sensing.probe import Counter, OpenFile, number, sound
from vedette.sensing.sensor import Absent, Metric, Reading, Scope, Sensor, Target

METRICS: Mapping[str, Metric] = {
    "net_sent_bytes": Metric("counter", "bytes sent"),
    "net_received_bytes": Metric("counter", "bytes received"),
    "net_sent_bytes_per_s": Metric("gauge", "bytes sent per second"),
    "net_received_bytes_per_s": Metric("gauge", "bytes received per second"),
}


def sensor(target: Target) -> Sensor | Absent:
    """Return the sensor: it reads /proc, or uses psutil where there is no /proc."""
    if os.path.isfile(f"{target.proc}/net/dev"):
        return _Network(target)
    try:
        import psutil  # noqa: F401, PLC0415 - only where it is needed
    except ImportError:
        return Absent(f"there is no {target.proc}/net/dev, and psutil is not installed")
    return _Network(target) if not os.path.isdir(target.proc) else Absent(f"there is no {target.proc}/net/dev")


class _Network:
    """The interfaces of this namespace, and those of the watched process's namespace if that is another."""

    metrics = METRICS

    def __init__(self, target: Target) -> None:
        by_psutil = not os.path.isdir(target.proc)
        self._all = [_Namespace("" if by_psutil else f"{target.proc}/net/dev", {}, "host")]
        theirs = _namespace(target.proc, str(target.pid))
        if theirs and theirs != _namespace(target.proc, "self"):
            self._all.append(_Namespace(f"{target.proc}/{target.pid}/net/dev", {"namespace": "own"}, "process"))

    def look(self) -> list[Reading]:
        """Return the bytes sent and received, in total and per second."""
        return [reading for namespace in self._all for reading in namespace.look()]

    def close(self) -> None:
        """Close all files."""
        for namespace in self._all:
            namespace.close()


class _Namespace:
    """The interfaces of one namespace, and their sum, which keeps the bytes of interfaces that have disappeared."""

    def __init__(self, path: str, tags: Mapping[str, str], scope: Scope) -> None:
        self._file = OpenFile(path)
        self._tags = tags
        self._scope = scope
        self._interfaces: dict[str, _Flow] = {}
        self._sum = _Flow()

    def look(self) -> list[Reading]:
        at_s = time.monotonic()
        interfaces = _interfaces(self._file.read()) if self._file.path else _by_psutil()
        if not interfaces:
            return []
        found = []
        grown = [0, 0]
        for name, counts in interfaces.items():
            new = name not in self._interfaces
            flow = self._interfaces.setdefault(name, _Flow())
            mine = flow.take(counts, at_s)
            if new:
                mine = counts  # the interface is new, so all its bytes are; at the first look all interfaces are new
            grown = [sum(pair) for pair in zip(grown, mine, strict=True)]
            found.append(Reading(flow.values, {**self._tags, "interface": name}, self._scope))
        before = self._sum.counters
        self._sum.take((before[0].total + grown[0], before[1].total + grown[1]), at_s)
        return [Reading(self._sum.values, self._tags, self._scope), *found]

    def close(self) -> None:
        self._file.close()


class _Flow:
    """Bytes sent and received, in total and per second."""

    def __init__(self) -> None:
        self.counters = Counter(), Counter()
        self.values: dict[str, float | int] = {}
        self._at_s: float | None = None

    def take(self, counts: tuple[int, int], at_s: float) -> tuple[int, int]:
        """Update the counters, and return by how much they have grown."""
        sent, received = (counter.take(count) for counter, count in zip(self.counters, counts, strict=True))
        totals = {"net_sent_bytes": self.counters[0].total, "net_received_bytes": self.counters[1].total}
        seconds = at_s - self._at_s if self._at_s is not None else 0.0
        self._at_s = at_s
        rates = (
            {"net_sent_bytes_per_s": sent / seconds, "net_received_bytes_per_s": received / seconds} if seconds else {}
        )
        self.values = sound({**totals, **rates})
        return sent, received


def _interfaces(text: bytes) -> dict[str, tuple[int, int]]:
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(b":")
        words = rest.split()
        if not colon or len(words) < 9:
            continue
        try:
            found[name.strip().decode(errors="replace")] = number(words[8]), number(words[0])
        except ValueError:
            continue
    return found


def _by_psutil() -> dict[str, tuple[int, int]]:
    import psutil  # noqa: PLC0415 - only where it is needed

    try:
        counters = psutil.net_io_counters(pernic=True)
    except (psutil.Error, OSError):
        return {}
    return {name: (int(one.bytes_sent), int(one.bytes_recv)) for name, one in counters.items()}


def _namespace(proc: str, pid: str) -> str:
    try:
        return os.readlink(f"{proc}/{pid}/ns/net")
    except OSError:
        return ""
