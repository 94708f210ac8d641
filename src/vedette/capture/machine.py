"""The machine of a run: its system, processor, memory and GPUs. What cannot be found is left out."""

import os
import platform
import threading
from typing import Any

from vedette import kernel
from vedette.model import Value

_GPU_PATIENCE_S = 20.0


def describe(proc: str = "/proc") -> dict[str, Value]:
    """Return what can be read at once: system, host, processor, memory."""
    found: dict[str, Value] = {
        "os": platform.platform(),
        "host": kernel.host(),
        "cpu": {"count": os.cpu_count() or 0, "model": _cpu_model(proc)},
    }
    if hasattr(os, "sched_getaffinity"):
        found["cpu"]["usable"] = len(os.sched_getaffinity(0))
    if memory := _memory_bytes(proc):
        found["memory_bytes"] = memory
    return found


def _cpu_model(proc: str) -> str:
    fields = _fields(os.path.join(proc, "cpuinfo"))
    named = next((fields[key] for key in ("model name", "Model", "Hardware", "cpu model") if fields.get(key)), "")
    return named or platform.processor() or platform.machine()


def _memory_bytes(proc: str) -> int:
    words = _fields(os.path.join(proc, "meminfo")).get("MemTotal", "").split()
    return int(words[0]) * 1024 if words and words[0].isdigit() else 0


def _fields(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        with open(path, errors="replace") as file:
            for line in file.read(1 << 20).splitlines():
                key, _, value = line.partition(":")
                found.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    return found


def gpus() -> dict[str, Value]:
    """Return the names and the driver of the GPUs; nothing if there are none, or their driver hangs."""
    found: dict[str, Value] = {}
    asking = threading.Thread(target=_ask, args=(found,), daemon=True)
    asking.start()
    asking.join(_GPU_PATIENCE_S)
    return dict(found)


def _ask(found: dict[str, Value]) -> None:
    try:
        import pynvml  # noqa: PLC0415 - only here

        nvml: Any = pynvml
        nvml.nvmlInit()
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        count = nvml.nvmlDeviceGetCount()
        names = [_text(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index))) for index in range(count)]
    except Exception:  # no library, no driver, or a lost GPU: then we record no GPUs
        return
    if names:
        found["gpu"] = {"names": names, "driver": driver}


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
