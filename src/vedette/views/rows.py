"""What a monitor measures, as rows of a terminal: one per moment, in columns of fixed width, and a summary."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from vedette.views.text import duration, moment, size


class _Column(NamedTuple):
    title: str
    width: int
    name: str
    unit: str


_COLUMNS = (
    _Column("CPU", 7, "cpu_percent", "%"),
    _Column("memory", 9, "memory_bytes", "B"),
    _Column("threads", 7, "threads", ""),
    _Column("read/s", 9, "read_bytes_per_s", "B"),
    _Column("write/s", 9, "written_bytes_per_s", "B"),
    _Column("net in/s", 9, "host_net_received_bytes_per_s", "B"),
    _Column("net out/s", 9, "host_net_sent_bytes_per_s", "B"),
    _Column("procs", 5, "processes", ""),
    _Column("GPU", 5, "host_gpu_percent", "%"),
    _Column("GPU mem", 9, "host_gpu_memory_bytes", "B"),
    _Column("power", 7, "host_power_w[group=in]", "W"),
)
_ALWAYS = 7  # the first columns are shown even without values


class Rows:
    """Makes a row of each moment. The first row under a header, and the width, decide which columns are shown."""

    def __init__(self, width: int, height: int, *, tenths: bool = False) -> None:
        """Fit rows into a terminal of this size; height 0 is endless. `tenths`: show tenths of a second."""
        self._width, self._height = width, height
        self._time_width = 10 if tenths else 8
        self._columns: list[_Column] = []
        self._shown = 0

    def fit(self, width: int, height: int) -> None:
        """Change the size of the terminal: the next row gets a header."""
        if (width, height) != (self._width, self._height):
            self._width, self._height, self._shown = width, height, 0

    def lines(self, t: int, values: Mapping[str, float | int]) -> list[str]:
        """Return the row of a moment, below a header if it begins a screenful."""
        values = _with_sums(values)
        lines = []
        if self._shown == 0:
            self._columns = self._choose(values)
            titles = [column.title.rjust(column.width) for column in self._columns]
            lines.append("  ".join(["time".ljust(self._time_width), *titles]))
        self._shown += 1
        if self._height and self._shown >= max(2, self._height - 2):
            self._shown = 0
        cells = [shown(values.get(column.name), column.unit).rjust(column.width) for column in self._columns]
        return [*lines, "  ".join([moment(t, exact=True)[11 : 11 + self._time_width], *cells])]

    def _choose(self, values: Mapping[str, float | int]) -> list[_Column]:
        left, chosen = self._width - self._time_width, []
        for n, column in enumerate(_COLUMNS):
            if n >= _ALWAYS and column.name not in values:
                continue
            left -= column.width + 2
            if left < 0:
                break
            chosen.append(column)
        return chosen


def _with_sums(values: Mapping[str, float | int]) -> dict[str, float | int]:
    """Add the sums over all GPUs: of their load, and of their memory."""
    found = dict(values)
    for name in ("host_gpu_percent", "host_gpu_memory_bytes"):
        parts = [value for flat, value in values.items() if flat.startswith(name + "[")]
        if parts:
            found[name] = sum(parts)
    return found


def shown(value: float | None, unit: str) -> str:
    """Return a number with its unit, or a dash if there is none."""
    if value is None:
        return "-"
    if unit == "B":
        return size(value)
    return f"{value:.0f}%" if unit == "%" else f"{value:.1f} {unit}" if unit else f"{value:.0f}"


_WHOLE = "host CPU share"  # 100 at most: the kernel counts in ticks, so a short time may seem to have more
_GAUGES = (
    ("CPU", "cpu_percent", "%"),
    ("CPU share", "cpu_share_percent", "%"),
    ("memory", "memory_bytes", "B"),
    (_WHOLE, "host_cpu_share_percent", "%"),
    ("host memory", "host_memory_bytes", "B"),
    ("power", "host_power_w[group=in]", "W"),
)
_TOTALS = (
    ("CPU time", "cpu_s", "s"),
    ("read", "read_bytes", "B"),
    ("written", "written_bytes", "B"),
)
_HOST_TOTALS = (
    ("host received", "host_net_received_bytes", "B"),
    ("host sent", "host_net_sent_bytes", "B"),
    ("energy", "host_energy_j[group=in]", "J"),
)


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return the summary of a whole period: means over time, maxima and totals."""
    lines = []
    gauges = [(title, summary[name], unit) for title, name, unit in _GAUGES if "mean" in summary.get(name, {})]
    wide = max((len(title) for title, _, _ in gauges), default=0)
    for title, found, unit in gauges:
        values = (min(100.0, found[key]) if title == _WHOLE else found[key] for key in ("mean", "max"))
        mean, most = (shown(value, unit).rjust(8) for value in values)
        lines.append(f"  {title.ljust(wide)}  mean {mean}  max {most}")
    for row in (_TOTALS, _HOST_TOTALS):
        totals = [
            f"{title} {duration(found) if unit == 's' else shown(found, unit)}"
            for title, name, unit in row
            if (found := summary.get(name, {}).get("total")) is not None
        ]
        lines += ["  " + ", ".join(totals)] if totals else []
    return lines
