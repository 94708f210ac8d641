"""The state of GPUs, from NVML. A value that the driver does not have is None or left out; nothing here raises."""

import contextlib
from typing import Any, NamedTuple

_NOT_LOADED = "no NVIDIA driver (libnvidia-ml.so.1)"


class Gpu(NamedTuple):
    """One GPU at one moment."""

    percent: float | None  # of the time that it was busy
    memory_bytes: int | None
    power_w: float | None
    temperature_c: float | None
    processes: dict[int, int]  # memory in bytes, by pid
    total_bytes: int | None = None
    energy_j: float | None = None  # since the driver was loaded


class Gpus:
    """The GPUs of this machine. The library is opened once; without library or GPU, `look` returns nothing.

    A GPU that falls off the bus is left out while it is lost; each look tries to find it again by its index.
    """

    def __init__(self) -> None:
        """Open the library, if there is one; `why` says what is missing."""
        self._handles: dict[int, Any] = {}
        self._open = False
        self.why = ""
        try:
            import pynvml  # noqa: PLC0415 - loaded only when it is needed

            self._nvml = pynvml
            pynvml.nvmlInit()
            self._open = True
            count = pynvml.nvmlDeviceGetCount()
            self._handles = {index: self._ask(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)}
            self.why = "" if count else "the NVIDIA driver finds no GPU"
        except ImportError:
            self.why = "nvidia-ml-py is not installed"
        except Exception as error:  # no library, no driver, or one that is too old: then we report no GPUs
            self.why = _NOT_LOADED if getattr(error, "value", 0) == 12 else f"NVML: {error}"  # 12: no library

    def look(self) -> dict[int, Gpu]:
        """Return the present state of each GPU, by its index."""
        found = {}
        for index, handle in self._handles.items():
            gpu = self._look(handle) if handle is not None else _LOST
            if gpu == _LOST:  # a GPU that comes back has a new handle
                self._handles[index] = self._ask(self._nvml.nvmlDeviceGetHandleByIndex, index)
            else:
                found[index] = gpu
        return found

    def _look(self, handle: Any) -> Gpu:
        nvml, ask = self._nvml, self._ask
        used = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        power_mw = ask(nvml.nvmlDeviceGetPowerUsage, handle)
        temperature = ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        energy_mj = ask(nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        return Gpu(
            None if used is None else float(used.gpu),
            None if memory is None else int(memory.used),
            None if power_mw is None else power_mw / 1000,
            None if temperature is None else float(temperature),
            self._processes(handle) or self._in_instances(handle),
            None if memory is None else int(memory.total),
            None if energy_mj is None else energy_mj / 1000,
        )

    def _processes(self, handle: Any) -> dict[int, int]:
        nvml, processes = self._nvml, dict[int, int]()
        for running in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            for process in self._ask(running, handle) or ():
                if process.usedGpuMemory is not None:  # a process may be in both lists, with the same number
                    processes[process.pid] = max(processes.get(process.pid, 0), int(process.usedGpuMemory))
        return processes

    def _in_instances(self, handle: Any) -> dict[int, int]:
        """Return the processes of a GPU that is divided into instances (MIG): there the GPU itself may list none."""
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
        except Exception:  # the driver does not support this call, or it failed
            return None

    def shut(self) -> None:
        """Close the library."""
        if self._open:
            self._open = False
            self._handles = {}
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()


_LOST = Gpu(None, None, None, None, {})
