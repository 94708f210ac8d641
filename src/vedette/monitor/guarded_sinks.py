"""The sinks of one monitor, each behind a guard: failures of a sink are counted, and the other sinks go on."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from vedette import sinks
from vedette.errors import SettingError, VedetteError
from vedette.model import Sample
from vedette.monitor.plan import Plan
from vedette.sensing.sensor import Metric
from vedette.sinks import Sink


class GuardedSink:
    """A sink with its label and the number of its failures."""

    def __init__(self, label: str, sink: Any) -> None:
        """Guard an open sink."""
        self.label, self.sink = label, sink
        self._failed = 0
        self._why = ""

    @property
    def trouble(self) -> str:
        """What is wrong, in a sentence; empty when all is well."""
        what = getattr(self.sink, "lost_what", "moment")
        missing = {"moment": self._failed}
        missing[what] = missing.get(what, 0) + getattr(self.sink, "lost", 0)
        why = self._why or getattr(self.sink, "trouble", "")
        if not any(missing.values()) and not why:
            return ""
        named = [f"{count} {name}{'s' * (count != 1)}" for name, count in missing.items() if count] or ["0 moments"]
        return f"{self.label} lacks {' and '.join(named)}" + (f": {why}" if why else "")

    def prime(self, samples: list[Sample]) -> None:
        """Give the first look, which has no rates yet, to a sink that counts from it."""
        if hasattr(self.sink, "prime"):
            self._guard(lambda: self.sink.prime(samples))

    def put(self, samples: list[Sample], say: Callable[[str], None]) -> None:
        """Give a moment to the sink; report the first failure."""
        if not self._guard(lambda: self.sink.put(samples)):
            self._failed += 1
            if self._failed == 1:
                say(f"{self.label} cannot be written; missing moments are counted: {self._why}")

    def close(self, say: Callable[[str], None]) -> None:
        """Close the sink."""
        if not self._guard(self.sink.close):
            say(f"{self.label} could not be closed: {self._why}")

    def _guard(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except Exception as error:
            self._why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            return False
        return True


def open_all(plan: Plan, metrics: Mapping[str, Metric], pid: int, command: Sequence[str] = ()) -> list[GuardedSink]:
    """Open all sinks of a plan, or none; raise SettingError for a sink that cannot be opened.

    `command`: what the process that is watched is about to execute.
    """
    watched = {"pid": pid, "command": list(command)}
    opened: list[GuardedSink] = []
    try:
        for name, config in plan.sinks:
            opened.append(GuardedSink(_label(name, config), _open(name, config, metrics, watched)))
    except BaseException:
        for guarded in opened:
            guarded.close(lambda _: None)
        raise
    return opened


def _open(name: str, config: dict[str, Any], metrics: Mapping[str, Metric], watched: dict[str, Any]) -> Sink:
    module: Any = sinks.find(name)
    config = config | {
        key: value for key, value in watched.items() if key in module.Config.__struct_fields__ and not config.get(key)
    }
    try:
        sink: Sink = module.open(msgspec.convert(config, module.Config), metrics)
        return sink
    except msgspec.ValidationError as error:
        raise SettingError(f"the sink {name} has a bad setting: {error}") from None
    except VedetteError:
        raise
    except Exception as error:
        raise SettingError(f"the sink {name} cannot be opened: {type(error).__name__}: {error}") from None


def _label(name: str, config: Mapping[str, Any]) -> str:
    where = next((str(config[key]) for key in ("path", "host", "home") if config.get(key)), "")
    return f"{name}:{where}" if where else name
