"""Which worker broke a pool."""

import multiprocessing
import multiprocessing.popen_fork
import os
import signal

import pytest

from vedette.client import pools
from vedette.deaths.evidence import Evidence, Raised


@pytest.fixture
def ended(monkeypatch):
    """Processes that end in these ways, one after another, are noted; the pool is broken then."""
    monkeypatch.setattr(pools, "_ended", {})
    fork = multiprocessing.get_context("fork")

    def end(*codes):
        pools.watch()
        pids = {}
        for code in codes:
            act = (lambda n=code: os.kill(os.getpid(), -n)) if code < 0 else (lambda n=code: os._exit(n))
            process = fork.Process(target=act)
            process.start()
            process.join()
            pids[process.pid] = process.exitcode
        raised = Raised("concurrent.futures.process.BrokenProcessPool: A process was terminated abruptly")
        return pids, pools.with_worker(Evidence(raised=raised)).worker

    return end


@pytest.mark.parametrize(
    ("codes", "blamed"),
    [
        ((1, -signal.SIGKILL), -signal.SIGKILL),
        ((-signal.SIGTERM, 5), 5),
        ((-signal.SIGTERM, 3, -signal.SIGSEGV, -signal.SIGTERM), -signal.SIGSEGV),
        ((-signal.SIGTERM,), -signal.SIGTERM),
    ],
)
def test_who_broke_it(ended, codes, blamed):
    """One that a signal killed is blamed before one that exited, and the pool's own SIGTERM comes last."""
    pids, worker = ended(*codes)

    assert pids[worker.pid] == worker.code == blamed


def test_many_that_exited_before(ended, monkeypatch):
    """However many workers have exited before, the one that was killed is noted."""
    monkeypatch.setattr(pools, "_MOST", 2)

    assert ended(1, 1, 1, -signal.SIGKILL)[1].code == -signal.SIGKILL
