"""GPUs as NVML counts them. What the driver does not tell is None or left out; nothing here raises."""

import contextlib
from typing import Any, NamedTuple

_NOT_LOADED = "no NVIDIA driver (libnvidia-ml.so.1)"


class Gpu(NamedTuple):
    """One GPU at one moment."""

    percent: float | None  # of the time in which something ran on it
    memory_bytes: int | None
    power_w: float | None
    temperature_c: float | None
    processes: dict[int, int]  # memory in bytes, by pid
    total_bytes: int | None = None
    energy_j: float | None = None  # since the driver was loaded


class Gpus:
    """The GPUs of this machine. The library is opened once; where there is none, or no GPU, there is nothing to see.

    One that falls off the bus is left out while it is lost, and is asked for by its number at each look.
    """

    def __init__(self) -> None:
        """Open the library, if there is one; `why` says in words what is missing."""
        self._handles: dict[int, Any] = {}
        self._open = False
        self.why = ""
        try:
            import pynvml  # noqa: PLC0415 - where it is not asked for it is not loaded

            self._nvml = pynvml
            pynvml.nvmlInit()
            self._open = True
            count = pynvml.nvmlDeviceGetCount()
            self._handles = {index: self._ask(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)}
            self.why = "" if count else "the NVIDIA driver knows no GPU"
        except ImportError:
            self.why = "nvidia-ml-py is not installed"
        except Exception as error:  # no library, no driver, one that is too old: then there are no GPUs
            self.why = _NOT_LOADED if getattr(error, "value", 0) == 12 else f"NVML: {error}"  # 12: no library

    def look(self) -> dict[int, Gpu]:
        """Return what each GPU does now, by its number."""
        found = {}
        for index, handle in self._handles.items():
            gpu = self._look(handle) if handle is not None else _LOST
            if gpu == _LOST:  # a GPU that is back is known by another handle
                self._handles[index] = self._ask(self._nvml.nvmlDeviceGetHandleByIndex, index)
            else:
                found[index] = gpu
        return found

    def _look(self, handle: Any) -> Gpu:
        nvml, ask = self._nvml, self._ask
        used = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        power_mw = ask(nvml.nvmlDeviceGetPowerUsage, handle)
        warmth = ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        energy_mj = ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        return Gpu(
            None if used is None else float(used.gpu),
            None if memory is None else int(memory.used),
            None if power_mw is None else power_mw / 1000,
            None if warmth is None else float(warmth),
            self._processes(handle) or self._in_instances(handle),
            None if memory is None else int(memory.total),
            None if energy_mj is None else energy_mj / 1000,
        )

    def _processes(self, handle: Any) -> dict[int, int]:
        nvml, processes = self._nvml, dict[int, int]()
        for running in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            for process in self._ask(running, handle) or ():
                if process.usedGpuMemory is not None:  # one that computes and draws is in both lists, with the same sum
                    processes[process.pid] = max(processes.get(process.pid, 0), int(process.usedGpuMemory))
        return processes

    def _in_instances(self, handle: Any) -> dict[int, int]:
        """Return the processes of a GPU that is cut into instances (MIG), which may be all that we are told of."""
        nvml, processes = self._nvml, dict[int, int]()
        modes = self._ask(nvml.nvmlDeviceGetMigMode, handle)
        for index in range(self._ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0 if modes and modes[0] else 0):
            instance = self._ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            for pid, memory in (self._processes(instance) if instance is not None else {}).items():
                processes[pid] = processes.get(pid, 0) + memory
        return processes

    def _ask(self, question: Any, *args: Any) -> Any:
        try:
            return question(*args)
        except Exception:  # this driver does not know, or not now
            return None

    def shut(self) -> None:
        """Let go of the library."""
        if self._open:
            self._open = False
            self._handles = {}
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()


_LOST = Gpu(None, None, None, None, {})
