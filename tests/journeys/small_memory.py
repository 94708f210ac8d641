"""A cgroup with a memory limit, for programs that the kernel should kill."""

import contextlib
import os
import time
import uuid

import pytest

_V1, _V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


@contextlib.contextmanager
def memory_cgroup(limit_bytes):
    """Make a cgroup with a memory limit, and yield its directory; skip the test if that is not possible."""
    if os.geteuid() != 0:
        pytest.skip("NO MEMORY LIMIT WAS STAGED: a cgroup needs root")
    old = os.path.exists(f"{_V1}/memory.limit_in_bytes")
    path = f"{_V1 if old else _V2}/vdt-{uuid.uuid4().hex[:8]}"
    try:
        os.mkdir(path)
        write(f"{path}/{'memory.limit_in_bytes' if old else 'memory.max'}", limit_bytes)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.rmdir(path)
        pytest.skip(f"NO MEMORY LIMIT WAS STAGED: {error}")
    for name, value in (("memory.swappiness", 0), ("memory.swap.max", 0)):
        with contextlib.suppress(OSError):
            write(f"{path}/{name}", value)
    try:
        yield path
    finally:
        for _ in range(200):
            with contextlib.suppress(OSError):
                os.rmdir(path)
                break
            time.sleep(0.05)


def write(path, value):
    """Write a value to a file of the kernel."""
    with open(path, "w") as file:
        file.write(str(value))


def enter(path, *command):
    """Return the command line that runs a command inside a cgroup."""
    return ["sh", "-c", f'echo $$ > {path}/cgroup.procs && exec "$@"', "sh", *command]
