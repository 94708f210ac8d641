"""What a monitor has measured, by heflwr's keys: a list for each number, and a summary of each list."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from vedette.model import Sample
from vedette.sensing.sensor import flat_values
from vedette.sinks.plain import KEYS

Wanted = Sequence[str]  # of cpu, memory, network and power

# By key: the metric it belongs to, its name in a monitor's stats, and the factor of heflwr's unit.
_STATS = dict(
    zip(
        KEYS,
        (
            ("cpu", "cpu_percent", 1),
            ("memory", "memory_share_percent", 1),
            ("network", "host_net_sent_bytes", 1),
            ("network", "host_net_received_bytes", 1),
            ("power", "host_power_w[group=in]", 1000),
            ("power", "host_power_w[group=cpu_gpu_cv]", 1000),
            ("power", "host_power_w[group=soc]", 1000),
        ),
        strict=True,
    )
)
# The same for the summary: a mean over time, or a total.
_SUMMARY = {
    "avg_cpu_usage": ("cpu", "cpu_percent", 1),
    "avg_memory_usage": ("memory", "memory_share_percent", 1),
    "total_network_bytes_sent": ("network", "host_net_sent_bytes", 1),
    "total_network_bytes_recv": ("network", "host_net_received_bytes", 1),
    "total_power_vdd_in": ("power", "host_energy_j[group=in]", 1000),  # mJ
    "total_power_vdd_cpu_gpu_cv": ("power", "host_energy_j[group=cpu_gpu_cv]", 1000),
    "total_power_vdd_soc": ("power", "host_energy_j[group=soc]", 1000),
}


class Account:
    """All that was measured, over one or more starts."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.stats: dict[str, list[float]] = {key: [] for key in KEYS}
        self._sums: dict[str, float] = dict.fromkeys(_SUMMARY, 0)
        self._lasted_s = dict.fromkeys(_SUMMARY, 0.0)

    def plus(
        self, wanted: Wanted, primed: Sequence[Sample], stats: Mapping[str, list[Any]], summary: Mapping[str, Any]
    ) -> "Account":
        """Return the sum of this and what a monitor measured; `primed` is that monitor's first reading."""
        more = Account()
        whole = len(stats.get("t", ())) == summary.get("samples")  # else the first moments were dropped
        for key, (metric, name, factor) in _STATS.items():
            column = [value for value in stats.get(name, ()) if value is not None] if metric in wanted else []
            if metric == "network":
                column = [max(0, now - then) for then, now in pairwise(_first(name, primed if whole else ()) + column)]
            more.stats[key] = self.stats[key] + [value * factor for value in column]
        for key, (metric, name, factor) in _SUMMARY.items():
            found = summary[name] if metric in wanted and name in summary else {}
            seconds = summary["seconds"] if found else 0.0
            amount = (found.get("mean") or 0) * seconds if key.startswith("avg_") else found.get("total", 0) * factor
            more._sums[key] = self._sums[key] + amount
            more._lasted_s[key] = self._lasted_s[key] + seconds
        return more

    @property
    def summary(self) -> dict[str, float]:
        """Time-weighted averages, and totals; 0 if unknown."""
        return {
            key: self._sums[key] / self._lasted_s[key] if key.startswith("avg_") and self._lasted_s[key] else total
            for key, total in self._sums.items()
        }


def _first(name: str, primed: Sequence[Sample]) -> list[float]:
    """Return a counter's first reading, from which the first difference is computed."""
    return [value for own, value in flat_values(primed).items() if own == name]
