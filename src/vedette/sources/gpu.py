"""GPUs as NVML counts them. What the driver does not tell is None or left out; nothing here raises."""

import contextlib
from typing import Any, NamedTuple


class Gpu(NamedTuple):
    """One GPU at one moment."""

    percent: float | None  # of the time in which something ran on it
    memory_bytes: int | None
    power_w: float | None
    temperature_c: float | None
    processes: dict[int, int]  # memory in bytes, by pid


class Gpus:
    """The GPUs of this machine. The library is opened once; where there is none, or no GPU, there is nothing to see."""

    def __init__(self) -> None:
        """Open the library, if there is one."""
        self._handles: dict[int, Any] = {}
        self._open = False
        try:
            import pynvml  # noqa: PLC0415 - where it is not asked for it is not loaded

            self._nvml = pynvml
            pynvml.nvmlInit()
            self._open = True
            for index in range(pynvml.nvmlDeviceGetCount()):
                handle = self._ask(pynvml.nvmlDeviceGetHandleByIndex, index)
                if handle is not None:
                    self._handles[index] = handle
        except Exception:  # no library, no driver, one that is too old: then there are no GPUs
            return

    def look(self) -> dict[int, Gpu]:
        """Return what each GPU does now, by its number."""
        return {index: self._look(handle) for index, handle in self._handles.items()}

    def _look(self, handle: Any) -> Gpu:
        nvml, ask = self._nvml, self._ask
        used = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        power_mw = ask(nvml.nvmlDeviceGetPowerUsage, handle)
        warmth = ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        processes: dict[int, int] = {}
        for running in (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses):
            for process in ask(running, handle) or ():
                if process.usedGpuMemory is not None:  # one that computes and draws is in both lists, with the same sum
                    processes[process.pid] = max(processes.get(process.pid, 0), int(process.usedGpuMemory))
        return Gpu(
            None if used is None else float(used.gpu),
            None if memory is None else int(memory.used),
            None if power_mw is None else power_mw / 1000,
            None if warmth is None else float(warmth),
            processes,
        )

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
