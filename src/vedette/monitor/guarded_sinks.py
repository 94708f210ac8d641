"""The sinks of one monitor, each behind a guard: failures of a sink are counted, and the other sinks go on."""

from collections.abc import Callable, Mapping
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
        missing = self._failed + getattr(self.sink, "lost", 0)
        why = self._why or getattr(self.sink, "trouble", "")
        if not missing and not why:
            return ""
        return f"{self.label} lacks {missing} moment{'s' * (missing != 1)}" + (f": {why}" if why else "")

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


def open_all(plan: Plan, metrics: Mapping[str, Metric], pid: int) -> list[GuardedSink]:
    """Open all sinks of a plan, or none; raise SettingError for a sink that cannot be opened."""
    opened: list[GuardedSink] = []
    try:
        for name, config in plan.sinks:
            opened.append(GuardedSink(_label(name, config), _open(name, config, metrics, pid)))
    except BaseException:
        for guarded in opened:
            guarded.close(lambda _: None)
        raise
    return opened


def _open(name: str, config: dict[str, Any], metrics: Mapping[str, Metric], pid: int) -> Sink:
    module: Any = sinks.find(name)
    if "pid" in module.Config.__struct_fields__ and not config.get("pid"):
        config = {**config, "pid": pid}
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
