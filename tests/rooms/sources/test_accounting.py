"""CPU time of real trees of processes, by our count and by the kernel's own."""

import os
import select
import struct
import subprocess
import sys
import time

import pytest

from tests.rooms import tree_job
from vedette.sensing.sensor import Target
from vedette.sources import process
from vedette.sources.process import ledger

SECONDS = 0.5


def watch(kind, every_s, seconds=SECONDS):
    """Have a job of a kind done, looked at so often; return what we counted, what it should be, and all the counts."""
    ear, mouth = os.pipe()
    command = [sys.executable, tree_job.__file__, kind, str(seconds), str(mouth)]
    with subprocess.Popen(command, stdin=-1, pass_fds=[mouth], start_new_session=True) as job:
        os.close(mouth)
        sensor = process.sensor(Target(job.pid))
        counts, heard = [sensor.look()[0].values["cpu_s"]], b""
        job.stdin.write(b"x")
        job.stdin.flush()
        begun = time.monotonic()
        while not heard.endswith(tree_job.DONE):
            left_s = begun + len(counts) * every_s - time.monotonic()
            if select.select([ear], [], [], max(0.0, left_s))[0]:
                heard += os.read(ear, 1 << 16)
            else:
                counts.append(sensor.look()[0].values["cpu_s"])
        counts.append(sensor.look()[0].values["cpu_s"])
        job.stdin.close()
    os.close(ear)
    sensor.close()
    told = heard.removesuffix(tree_job.DONE)
    return counts[-1], sum(struct.unpack(f"{len(told) // 8}d", told)), counts


def about(truth):
    """Allow for 3 %, or for the two ticks that rounding may cost."""
    return pytest.approx(truth, rel=0.03, abs=0.02)


@pytest.mark.parametrize("every_s", [0.1, 0.5])
@pytest.mark.parametrize("kind", [kind for kind in tree_job.KINDS if kind != "ignored"])
def test_a_tree_is_counted_as_the_kernel_does(kind, every_s):
    """Whoever works, ends, is waited for or not, however rarely it is seen: it is what rusage says, and never falls."""
    found, truth, counts = watch(kind, every_s)
    assert found == about(truth)
    assert counts == sorted(counts)


def test_of_a_child_that_nobody_waits_for_what_was_seen_is_kept():
    """Where SIGCHLD is ignored no parent has it, not even by rusage; what was seen at the last look stays."""
    found, truth, counts = watch("ignored", 0.1)
    assert found == about(truth)
    assert counts == sorted(counts)


class Forgetful(ledger.Ledger):
    """Does not know what a parent takes over."""

    def take(self, now):
        return super().take({key: one._replace(waited=(0, 0, 0)) for key, one in now.items()})


class Greedy(ledger.Ledger):
    """Keeps what everybody had who is gone, also when its parent has it."""

    def _match(self, one, now, growth):
        pass


class Careless(ledger.Ledger):
    """Keeps nothing of those who are gone."""

    def take(self, now):
        self._seen = {key: one for key, one in self._seen.items() if key in now}
        return super().take(now)


@pytest.mark.parametrize(("broken", "kind"), [(Forgetful, "short"), (Greedy, "long"), (Careless, "ignored")])
def test_the_check_catches_a_wrong_count(monkeypatch, broken, kind):
    """One that does not count the children, one that counts them twice and one that forgets are all found out."""
    monkeypatch.setattr(process, "Ledger", broken)
    found, truth, _ = watch(kind, 0.1)
    assert found != about(truth)
