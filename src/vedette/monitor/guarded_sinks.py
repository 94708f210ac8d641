"""The sinks of one monitor, each behind a guard: one that fails is counted, and the others go on."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from vedette import sinks
from vedette.errors import SettingError, VedetteError
from vedette.model import Sample
from vedette.monitor.plan import Plan
from vedette.sensing.sensor import Metric
from vedette.sinks import Sink


class Outlet:
    """A sink, what it is called, and how often it failed."""

    def __init__(self, label: str, sink: Any) -> None:
        """Stand before a sink that is open."""
        self.label, self.sink = label, sink
        self._failed = 0
        self._why = ""

    @property
    def trouble(self) -> str:
        """What is wrong, in a sentence; empty when all is well."""
        lacking = self._failed + getattr(self.sink, "lost", 0)
        why = self._why or getattr(self.sink, "trouble", "")
        if not lacking and not why:
            return ""
        return f"{self.label} lacks {lacking} moment{'s' * (lacking != 1)}" + (f": {why}" if why else "")

    def prime(self, samples: list[Sample]) -> None:
        """Hand over the first look, which has no rates yet, to a sink that counts from it."""
        if hasattr(self.sink, "prime"):
            self._guard(lambda: self.sink.prime(samples))

    def put(self, samples: list[Sample], say: Callable[[str], None]) -> None:
        """Hand over a moment; the first failure is said."""
        if not self._guard(lambda: self.sink.put(samples)):
            self._failed += 1
            if self._failed == 1:
                say(f"{self.label} cannot be written, what it lacks is counted: {self._why}")

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


def open_all(plan: Plan, metrics: Mapping[str, Metric], pid: int) -> list[Outlet]:
    """Open the sinks of a plan, all or none; raise SettingError in a sentence for one that cannot be."""
    opened: list[Outlet] = []
    try:
        for name, config in plan.sinks:
            opened.append(Outlet(_label(name, config), _open(name, config, metrics, pid)))
    except BaseException:
        for outlet in opened:
            outlet.close(lambda _: None)
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
        raise SettingError(f"the sink {name} cannot take this: {error}") from None
    except VedetteError:
        raise
    except Exception as error:
        raise SettingError(f"the sink {name} cannot be opened: {type(error).__name__}: {error}") from None


def _label(name: str, config: Mapping[str, Any]) -> str:
    where = next((str(config[key]) for key in ("path", "host", "home") if config.get(key)), "")
    return f"{name}:{where}" if where else name
