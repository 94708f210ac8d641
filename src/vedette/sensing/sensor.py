"""What a sensor is, and what it returns: the protocol of everything in `sources/` that measures.

A module with a sensor has a function `sensor(target) -> Sensor | Absent`, and is listed in `sources.SENSORS`.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from vedette.ids import is_host
from vedette.labels import label
from vedette.model import Sample

Scope = Literal["process", "host"]


class Target(Struct, frozen=True):
    """What to measure: the process whose tree is watched, and the paths of /proc and /sys.

    The processes in `apart` and their descendants do not count as part of the tree: a monitor leaves itself out.
    """

    pid: int
    proc: str = "/proc"
    sys: str = "/sys"
    apart: tuple[int, ...] = ()


class Metric(NamedTuple):
    """What a number means. A metric's name ends in its unit. A counter only grows, and may start at any value.

    `from_zero`: a counter that was 0 when its sensor was made. If its first value comes later than the first look, all
    of it has come since then.
    """

    kind: Literal["gauge", "counter"]
    help: str
    from_zero: bool = False


class Reading(NamedTuple):
    """Named numbers of one thing at one moment; `scope`: of the watched process tree, or of the host."""

    values: dict[str, float | int]
    tags: Mapping[str, str] = MappingProxyType({})
    scope: Scope = "host"


class Absent(NamedTuple):
    """Why this sensor does not work here, as the end of a sentence: `no /sys/class/powercap`."""

    why: str


class Sensor(Protocol):
    """Something that can be measured again and again.

    The first look returns counters and present values, but no rates yet. Each later look also returns the rates since
    the look before, over the time that has really passed. A value that cannot be read is left out; nothing raises.
    """

    metrics: Mapping[str, Metric]

    def look(self) -> list[Reading]:
        """Return the present readings."""
        ...

    def close(self) -> None:
        """Close everything that is open."""
        ...


def tried(make: Callable[[], Sensor], why_not: str) -> Sensor | Absent:
    """Try a look with one sensor; if it returns anything, return a new sensor, else Absent with this reason."""
    trial = make()
    try:
        return make() if trial.look() else Absent(why_not)
    finally:
        trial.close()


def flat_name(name: str, span: str, tags: Mapping[str, str]) -> str:
    """Return a number's name with its scope and tags, such as `host_cpu_percent[core=0]`."""
    return ("host_" if is_host(span) else "") + label(name, tags)


def flat_values(samples: Iterable[Sample]) -> dict[str, float | int]:
    """Return all numbers of one moment, by their flat names."""
    return {
        flat_name(name, sample.span, sample.tags): value for sample in samples for name, value in sample.values.items()
    }
