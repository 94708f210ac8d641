"""GPUs through the real pynvml, with a driver made for the test."""

import json
import os
import shutil
import subprocess
import sys

import pytest

DRIVER = """
#include <string.h>
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long used; unsigned a, b; } Running;
int nvmlInitWithFlags(unsigned flags) { return INIT; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = COUNT; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetUtilizationRates(void *handle, Rates *rates) { rates->gpu = 40 + (long)handle; return 0; }
#ifndef OLD
int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) { memory->used = 1ull << 33; return 0; }
int nvmlDeviceGetPowerUsage(void *handle, unsigned *mw) { *mw = 123456; return (long)handle == 2 ? 3 : 0; }
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *c) { *c = 61; return 0; }
static int list(unsigned *count, Running *found, unsigned pid) {
  if (*count < 1 || !found) { *count = 1; return 7; }
  memset(found, 0, sizeof *found); found->pid = pid; found->used = pid * 1000ull; *count = 1; return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, Running *found) {
  return list(count, found, 7);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, Running *found) {
  return (long)handle == 2 ? 999 : list(count, found, 8);
}
#endif
"""

LOOK = """
import json
from vedette.sources.gpu import Gpus
gpus = Gpus()
first, second = gpus.look(), gpus.look()
assert first == second
gpus.shut(); gpus.shut()
print(json.dumps([first, gpus.look()]))
"""


@pytest.fixture
def gpus(tmp_path):
    """Return what is seen with a driver of this kind; None: without any."""

    def see(*flags):
        environ = dict(os.environ)
        if flags != (None,):
            if (compiler := shutil.which("gcc")) is None:
                pytest.skip("NO GPU WAS LOOKED AT: there is no gcc to make a driver with")
            (tmp_path / "driver.c").write_text(DRIVER)
            library = str(tmp_path / "libnvidia-ml.so.1")
            given = {"COUNT": "2", "INIT": "0"} | dict(flag.split("=") for flag in flags)
            defined = [f"-D{key}={value}" for key, value in given.items()]
            subprocess.run(
                [compiler, "-shared", "-fPIC", *defined, "-o", library, str(tmp_path / "driver.c")], check=True
            )
            environ["LD_LIBRARY_PATH"] = str(tmp_path)
        done = subprocess.run([sys.executable, "-c", LOOK], env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found, after = json.loads(done.stdout)
        assert after == {}
        return found

    return see


def test_what_two_gpus_do(gpus):
    """Use, memory, power and temperature, memory of each process; an error of one call costs its value alone."""
    assert gpus() == {
        "0": [41.0, 1 << 33, 123.456, 61.0, {"7": 7000, "8": 8000}],
        "1": [42.0, 1 << 33, None, 61.0, {"7": 7000}],
    }


def test_an_old_driver(gpus):
    """What the driver has no function for is absent."""
    assert gpus("OLD=1", "COUNT=1") == {"0": [41.0, None, None, None, {}]}


@pytest.mark.parametrize("flags", [(None,), ("INIT=9",), ("COUNT=0",)], ids=["no library", "no driver", "no GPU"])
def test_nothing_there(gpus, flags):
    """Without library, driver or GPU there is nothing to see, and no error."""
    assert gpus(*flags) == {}
