"""A store is damaged while jobs run: what `vedette doctor` advises is done word by word, and nothing is missing."""

import os
import subprocess
import sys
import time

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs, spools
from tests.rooms.conftest import call
from tests.rooms.store.damage import overwrite, pages_of
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.blobs import Blobs
from vedette.segment import list_segments

# Eight runs that end, and one that goes on when it is told to.
JOB = """
import sys, time, os, vedette
for number in range(8):
    run = vedette.init(name=f"run{number}", config={"number": number})
    for step in range(500):
        run.log({"loss": step / 7}, step=step)
    run.save(b"weights of %d" % number, "weights")
    run.finish()
run = vedette.init(name="living")
for step in range(40_000):
    run.log({"x": step}, step=step)
print("ready", flush=True)
sys.stdin.readline()
for step in range(40_000, 80_000):
    run.log({"x": step}, step=step)
run.finish()
"""


@pytest.fixture
def damaged(home, hub, start):
    """A home with nine runs, two pages of whose store are overwritten; the job that logs to the ninth goes on."""
    job = start(JOB, stdin=subprocess.PIPE)
    assert job.stdout.readline() == "ready\n", job.stderr.read()
    ask(home, wire.Seal(""))
    eventually(lambda: len(spools(home)) == 1)  # those of the runs that have ended are removed
    [spool] = [os.path.join(home.spool, name) for name in spools(home)]
    eventually(lambda: list_segments(spool, "s")[0] > 0)  # some of it is only in the store by now
    end_hub(home, 15)
    for found in Blobs(home).all():  # older than what a hub spares because it is young
        os.utime(Blobs(home).path(found.digest), (time.time() - 7200,) * 2)
    overwrite(home.store, *pages_of(home.store, "spans_kind"), *pages_of(home.store, "claims"))
    return home, job


def advised():
    """Return the commands that `vedette doctor` advises."""
    told = call("doctor")
    assert told.returncode == 1
    [line] = [line for line in told.stdout.splitlines() if "-> `vedette hub --stop" in line]
    return line.split("`")[1]


def test_what_doctor_advises_saves_everything(damaged):
    """All runs, points and files are back, once each, also of a job that logs meanwhile."""
    home, job = damaged
    assert call("ls").returncode == 2
    path = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", advised()], env={**os.environ, **path}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "is damaged: what can be read is taken in" in done.stderr
    job.communicate("go on\n", timeout=60)
    assert job.returncode == 0

    runs = {run.name: run for run in read_runs(home)}
    assert sorted(runs) == ["living", *(f"run{number}" for number in range(8))]
    assert {run.state for run in runs.values()} == {"done"}
    assert runs["living"].history("x").value.tolist() == list(range(80_000))
    blobs = Blobs(home)
    for number in range(8):
        run = runs[f"run{number}"]
        assert run.config == {"number": number}
        assert run.history("loss").step.tolist() == list(range(500))
        [file] = run.files()
        assert blobs.verify(file.digest)
    assert "store      " in call("doctor").stdout
    assert "damaged    0 records" in call("doctor").stdout
