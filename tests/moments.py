"""Moments as a monitor hands them to its sinks."""

import time
from typing import Any

from vedette.kernel import host_span
from vedette.model import Sample
from vedette.sensing.sensor import Metric

METRICS = {
    "cpu_s": Metric("counter", "CPU time of the process and its children"),
    "cpu_percent": Metric("gauge", "CPU in percent of one core"),
    "memory_bytes": Metric("gauge", "Resident memory"),
    "memory_share_percent": Metric("gauge", "Memory in percent of the machine"),
    "load_1": Metric("gauge", "Load over one minute"),
    "net_sent_bytes": Metric("counter", "Bytes sent"),
    "net_received_bytes": Metric("counter", "Bytes received"),
    "read_bytes_per_s": Metric("gauge", "Bytes read in a second"),
    "power_w": Metric("gauge", "Power"),
    "energy_j": Metric("counter", "Energy"),
    "gpu_temperature_c": Metric("gauge", "Temperature of a GPU"),
}


def moment(i: int = 0, t: int | None = None, **more: Any) -> list[Sample]:
    """Return a moment: 10 % of CPU more each time, 100 bytes sent and 50 received between two."""
    t = time.time_ns() if t is None else t
    step, host = t // 10**6, host_span()
    own = {
        "cpu_s": i / 2,
        "cpu_percent": 10.5 + 10 * i,
        "memory_share_percent": 0.125,
        "memory_bytes": 1000 + i,
        **more,
    }
    return [
        Sample(t, step, own, "watched"),
        Sample(t, step, {"cpu_percent": 80.0, "load_1": 0.5}, host),
        Sample(t, step, {"cpu_percent": 40.0 + i}, host, {"core": "0"}),
        Sample(t, step, {"net_sent_bytes": 7 + 100 * i, "net_received_bytes": 50 * i}, host),
        Sample(t, step, {"power_w": 4.98, "energy_j": 3.5 * i}, host, {"group": "in"}),
    ]
