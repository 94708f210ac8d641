"""What a monitor has measured, in the original's keys: a list for each number, and one number for each list."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vedette.model import Sample
from vedette.plain import KEYS, Plain

Wanted = Sequence[str]  # of cpu, memory, network and power

# key: what must be wanted, the name in the summary of a monitor, which number there, and by how much it is more here
_SUMMARY = {
    "avg_cpu_usage": ("cpu", "cpu_percent", "mean", 1),
    "avg_memory_usage": ("memory", "memory_share_percent", "mean", 1),
    "total_network_bytes_sent": ("network", "host_net_sent_bytes", "total", 1),
    "total_network_bytes_recv": ("network", "host_net_received_bytes", "total", 1),
    "total_power_vdd_in": ("power", "host_energy_j[group=in]", "total", 1000),  # mJ
    "total_power_vdd_cpu_gpu_cv": ("power", "host_energy_j[group=cpu_gpu_cv]", "total", 1000),
    "total_power_vdd_soc": ("power", "host_energy_j[group=soc]", "total", 1000),
}


def stats_of(primed: Sequence[Sample], moments: Iterable[Sequence[Sample]], wanted: Wanted) -> dict[str, list[float]]:
    """Return a list for each number, of all moments after a first look; empty for what is not wanted or known."""
    found: dict[str, list[float]] = {key: [] for key in KEYS}
    plain = Plain(wanted)
    plain.of(primed)
    for samples in moments:
        for key, value in plain.of(samples).items():
            found[key].append(value)
    return found


def summary_of(stretches: Iterable[tuple[Wanted, Mapping[str, Any]]]) -> dict[str, float]:
    """Return averages by time and totals over the summaries of one monitor after another; 0 for what is not known."""
    total: dict[str, float] = dict.fromkeys(_SUMMARY, 0)
    lasted = dict.fromkeys(_SUMMARY, 0.0)
    for wanted, summary in stretches:
        for key, (metric, name, number, factor) in _SUMMARY.items():
            if metric in wanted and name in summary:
                seconds = summary["seconds"] if number == "mean" else 1
                total[key] += summary[name][number] * factor * seconds
                lasted[key] += seconds
    return {
        key: total[key] / lasted[key] if number == "mean" and lasted[key] else total[key]
        for key, (_, _, number, _) in _SUMMARY.items()
    }
