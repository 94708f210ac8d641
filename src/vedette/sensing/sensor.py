"""What a sensor is, and what it says: the shape that everything in `sources/` which measures has.

Such a module has a function `sensor(target) -> Sensor | Absent`, and is listed in `sources.SENSORS`.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from vedette.model import Sample

Scope = Literal["process", "host"]
_HOST_SPAN = "host-"


class Target(Struct, frozen=True):
    """Where to look: the process whose tree is watched, and the roots under which the kernel shows itself.

    The processes in `apart` are not part of that tree, nor is what descends from them: a monitor leaves itself out.
    """

    pid: int
    proc: str = "/proc"
    sys: str = "/sys"
    apart: tuple[int, ...] = ()


class Metric(NamedTuple):
    """What a number means. A name ends in its unit; a counter only grows, from wherever it began."""

    kind: Literal["gauge", "counter"]
    help: str


class Reading(NamedTuple):
    """Named numbers of one thing at one moment: of the watched tree of processes, or of the host."""

    values: dict[str, float | int]
    tags: Mapping[str, str] = MappingProxyType({})
    scope: Scope = "host"


class Absent(NamedTuple):
    """Why there is no such sensor here, in a few words that end a sentence: `no /sys/class/powercap`."""

    why: str


class Sensor(Protocol):
    """Something that can be looked at again and again.

    The first look primes it: it has counters and what stands at the moment, and no rates yet. Each later look has the
    rates since the one before, over the time that has really passed. What cannot be read is left out; nothing raises.
    """

    metrics: Mapping[str, Metric]

    def look(self) -> list[Reading]:
        """Return what is to be seen now."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


def tried(make: Callable[[], Sensor], why_not: str) -> Sensor | Absent:
    """Return a fresh sensor if a trial look by another one sees anything; Absent for this reason if not."""
    trial = make()
    try:
        return make() if trial.look() else Absent(why_not)
    finally:
        trial.close()


def flat_name(name: str, span: str, tags: Mapping[str, str]) -> str:
    """Return the one name of a number among those of a process and of its host: `host_cpu_percent[core=0]`."""
    inside = ",".join(f"{key}={value}" for key, value in sorted(tags.items()))
    return ("host_" if span.startswith(_HOST_SPAN) else "") + name + (f"[{inside}]" if inside else "")


def flat_values(samples: Iterable[Sample]) -> dict[str, float | int]:
    """Return all numbers of a moment, each by its one name."""
    return {
        flat_name(name, sample.span, sample.tags): value for sample in samples for name, value in sample.values.items()
    }
