"""What a monitor shall do, checked before it starts; plain data, so that it can be sent to the monitor's process."""

import math
import os
from collections.abc import Iterable
from typing import Any, Literal, get_args

import msgspec

from vedette import sinks
from vedette.errors import SettingError
from vedette.sources import SENSORS, sampler

Where = Literal["thread", "process"]
DEFAULT = ("process", "host", "network")  # the sensors that cost little
KEEP = 100_000
_LEAST_S, _MOST_S = 0.001, 86_400.0


class Plan(msgspec.Struct, frozen=True):
    """What to measure, how often, and where the samples go. `pid` 0 is the process that starts the monitor."""

    pid: int = 0
    interval_s: float = 1.0
    sensors: tuple[str, ...] = DEFAULT
    sinks: list[tuple[str, dict[str, Any]]] = []
    where: Where = "thread"
    keep: int = KEEP


def make(to: Any, *, interval_s: float, where: str, pid: int | None, sensors: Any, keep: int) -> Plan:
    """Check the arguments and return a plan; raise SettingError for a bad one."""
    if not _is_number(interval_s) or not _LEAST_S <= interval_s <= _MOST_S:
        raise SettingError(f"an interval is from {_LEAST_S} to {_MOST_S:.0f} seconds, not {interval_s!r}")
    if where not in get_args(Where):
        raise SettingError(f"where is 'thread' or 'process', not {where!r}")
    if pid is not None and (not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0):
        raise SettingError(f"pid is the number of a process, not {pid!r}")
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
        raise SettingError(f"keep is a number of moments, at least 1, not {keep!r}")
    wanted = [_sink(one) for one in ([to] if _is_one(to) else to)]
    return Plan(pid or 0, float(interval_s), names(sensors), wanted, where, keep)  # type: ignore[arg-type]


def names(sensors: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of sensors, from a list, from a text with commas, or from `all`."""
    asked = [name.strip() for name in sensors.split(",")] if isinstance(sensors, str) else list(sensors)
    if asked == ["all"]:
        return tuple(sampler.known())
    unknown = [name for name in asked if name not in SENSORS]
    known = sampler.known() if unknown else []
    for name in unknown:
        if name not in known:
            import difflib  # noqa: PLC0415 - needed only after a mistake

            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise SettingError(f"there is no sensor {name!r}; {hint}")
    if not asked:
        raise SettingError("a monitor needs at least one sensor; `all` stands for every one")
    return tuple(dict.fromkeys(asked))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_one(to: Any) -> bool:
    """Tell one sink from several: a path, `NAME:TEXT`, a Config, or a name with its Config."""
    pair = isinstance(to, tuple) and len(to) == 2 and isinstance(to[1], dict | msgspec.Struct)
    return isinstance(to, str | os.PathLike | msgspec.Struct) or pair


def _sink(to: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(to, msgspec.Struct):
        home = type(to).__module__
        name = next((name for name, module in sinks.SINKS.items() if module == home), None)
        if name is None:
            raise SettingError(f"{type(to).__name__} of {home} is not the Config of a known sink; use (NAME, CONFIG)")
        return name, msgspec.to_builtins(to)
    if isinstance(to, tuple) and len(to) == 2:
        name, config = to
        return str(name), config if isinstance(config, dict) else msgspec.to_builtins(config)
    if not isinstance(to, str | os.PathLike):
        raise SettingError(f"a sink is a path, NAME:TEXT, or a Config, not {to!r}")
    name, config = sinks.parse(os.fsdecode(to))
    return name, msgspec.to_builtins(config)
