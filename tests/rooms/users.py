"""Another user of this machine, whom only root can be: tests that need one are skipped without."""

import os

import pytest

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN BECOME ANOTHER USER")


def as_nobody(act):
    """Return what a function returns when another user calls it, who may do nothing special."""
    read_end, write_end = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(write_end, act().encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with open(read_end) as pipe:
        return pipe.read()
