"""The sensor of GPUs: the state of each GPU, and the memory that the watched process tree has on it.

A separate thread calls the driver, so that a driver that hangs does not block other sensors.

- `nvml`: the state of GPUs, from the driver's library
"""

import threading
import time
from collections.abc import Iterable, Mapping

from vedette import proc_stat
from vedette.sensing.energy import Energy
from vedette.sensing.sensor import Absent, Metric, Reading, Target
from vedette.sources.gpu.nvml import Gpu, Gpus

__all__ = ["METRICS", "Gpu", "GpuSensor", "Gpus", "descendants", "sensor"]

METRICS = {
    "gpu_percent": Metric("gauge", "Share of the time in which something ran on the GPU, in percent"),
    "gpu_memory_bytes": Metric("gauge", "Memory of the GPU that is used, in bytes"),
    "gpu_memory_share_percent": Metric("gauge", "Memory of the GPU that is used, in percent of its total"),
    "gpu_power_w": Metric("gauge", "Power of the GPU, in watts"),
    "gpu_temperature_c": Metric("gauge", "Temperature of the GPU, in degrees Celsius"),
    "gpu_energy_j": Metric("counter", "Energy of the GPU since the first look, in joules"),
}
_PATIENCE_S = 0.5  # how long one look waits; if the driver takes longer, later looks do not wait until it has answered
_STALE_S = 5.0  # an answer that came too late for its look is used for the next one, if it is not older than this
_OPENING_S = 5.0  # an idle driver has to be loaded first, GPU by GPU
_JOIN_S = 0.02
_MOST_GENERATIONS = 256


class _DriverThread:
    """Calls the driver in a thread of its own, so that a driver that hangs does not block the caller."""

    def __init__(self) -> None:
        """Open the library, and wait for that a while; then `why` says what is missing, or is empty."""
        self.why = "the NVIDIA driver does not answer"
        self._answer: tuple[float, dict[int, Gpu]] | None = None
        self._asked, self._answered = threading.Event(), threading.Event()
        self._took_s = 0.0
        self._over = self._late = False
        self._thread = threading.Thread(target=self._serve, name="vedette-gpu", daemon=True)
        self._thread.start()
        self._late = not self._answered.wait(_OPENING_S)

    def ask(self) -> tuple[float, dict[int, Gpu]] | None:
        """Return the state of the GPUs and its time; None if the driver takes too long, at once if it is still busy."""
        if self._late:
            if not self._answered.is_set():
                return None
            if self._answer is not None and time.monotonic() - self._answer[0] <= _STALE_S:
                seen = self._answer
                self._late = self._took_s > _PATIENCE_S
                if self._late:  # the driver is slow: ask now for the next look
                    self._request()
                return seen
        self._request()
        self._late = not self._answered.wait(_PATIENCE_S)
        return None if self._late else self._answer

    def _request(self) -> None:
        self._answered.clear()
        self._asked.set()

    def close(self) -> None:
        self._over = True
        self._asked.set()
        self._thread.join(_JOIN_S)

    def _serve(self) -> None:
        gpus = Gpus()
        self.why = gpus.why
        self._answered.set()
        while self._asked.wait() and not self._over:
            self._asked.clear()
            begun_s = time.monotonic()
            seen = gpus.look()
            self._answer = time.monotonic(), seen
            self._took_s = self._answer[0] - begun_s
            self._answered.set()
        gpus.shut()


class GpuSensor:
    """The GPUs of this machine, and the memory that the watched process tree has on them."""

    metrics: Mapping[str, Metric] = METRICS

    def __init__(self, driver: _DriverThread, target: Target) -> None:
        """Read the GPUs through this thread."""
        self._driver = driver
        self._target = target
        self._energies: dict[int, _EnergyCounter] = {}
        self._ours: set[int] = set()  # GPUs on which the tree has had memory

    def look(self) -> list[Reading]:
        """Return the present values of each GPU; nothing while the driver does not answer."""
        seen = self._driver.ask()
        if seen is None:
            return []
        at_s, gpus = seen
        found = []
        for index, gpu in gpus.items():
            energy = self._energies.setdefault(index, _EnergyCounter())
            optional = {
                "gpu_percent": gpu.percent,
                "gpu_memory_bytes": gpu.memory_bytes,
                "gpu_memory_share_percent": _share(gpu),
                "gpu_power_w": gpu.power_w,
                "gpu_temperature_c": gpu.temperature_c,
                "gpu_energy_j": energy.take(gpu, at_s),
            }
            values = {name: value for name, value in optional.items() if value is not None}
            if values:
                found.append(Reading(values, {"gpu": str(index)}))
            ours = [gpu.processes[pid] for pid in descendants(gpu.processes, self._target)]
            if ours or index in self._ours:
                self._ours.add(index)
                found.append(Reading({"gpu_memory_bytes": sum(ours)}, {"gpu": str(index)}, "process"))
        return found

    def close(self) -> None:
        """Close the library; a driver that hangs is left behind."""
        self._driver.close()


class _EnergyCounter:
    """The energy of one GPU since the first look: from its own counter, else added up from its power."""

    def __init__(self) -> None:
        self._added = Energy()
        self._counted_j: float | None = None
        self._total_j = 0.0

    def take(self, gpu: Gpu, at_s: float) -> float | None:
        if gpu.energy_j is not None:
            if self._counted_j is not None:
                self._total_j += max(0.0, gpu.energy_j - self._counted_j)  # negative: the counter was reset
            self._counted_j = gpu.energy_j
        if self._counted_j is not None:
            return self._total_j
        return None if gpu.power_w is None else self._added.add(gpu.power_w, at_s)


def sensor(target: Target) -> GpuSensor | Absent:
    """Return the GPUs of this machine, if a driver knows any."""
    try:
        driver = _DriverThread()
    except RuntimeError as error:  # out of threads
        return Absent(f"the NVIDIA driver cannot be asked: {error}")
    if driver.why:
        driver.close()
        return Absent(driver.why)
    return GpuSensor(driver, target)


def descendants(pids: Iterable[int], target: Target) -> list[int]:
    """Return the processes that are the watched one or its descendants; only these and their ancestors are read."""
    return [pid for pid in pids if _descends(pid, target)]


def _descends(pid: int, target: Target) -> bool:
    for _ in range(_MOST_GENERATIONS):
        if pid == target.pid:
            return True
        try:
            pid = int(proc_stat.fields_of(proc_stat.read(pid, target.proc))[proc_stat.PARENT])
        except (OSError, ValueError, IndexError):
            return False
        if pid <= 1:
            return pid == target.pid
    return False


def _share(gpu: Gpu) -> float | None:
    return None if gpu.memory_bytes is None or not gpu.total_bytes else 100 * gpu.memory_bytes / gpu.total_bytes
