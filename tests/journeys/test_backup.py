"""Backups as a user makes them: while jobs log and hubs relay, and of a home that is lost after that."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import warm
from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs, spools
from tests.rooms.conftest import call
from vedette.home import Home
from vedette.segment import list_segments
from vedette.store.sqlite_file import open_reader

# Logs so many points each time that it is told how many; ends when it is told nothing more.
JOB = """
import sys, vedette
run = vedette.init(name="job")
run.save(b"the same weights", "weights")
step = 0
for line in sys.stdin:
    for step in range(step, step + int(line)):
        run.log({"x": step}, step=step)
    step += 1
    print(step, flush=True)
run.finish()
"""


def told(job, count):
    """Have a job log so many points; wait until it has."""
    job.stdin.write(f"{count}\n")
    job.stdin.flush()
    return int(job.stdout.readline())


def steps_of(home):
    """Return the steps of the one run of a home."""
    [run] = read_runs(home)
    return run.history("x").step.tolist()


def test_a_home_that_is_lost_while_jobs_log(home, hub, start, tmp_path):
    """What was logged before the backup is in it, in order and once, though the job never stopped."""
    job = start(JOB, stdin=subprocess.PIPE)
    told(job, 20_000)
    job.stdin.write("3000000\n")
    job.stdin.flush()
    path = str(tmp_path / "home.tar")
    done = call("backup", path, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert (said["path"], said["runs"], said["files"]) == (path, 1, 1)
    job.kill()
    end_hub(home)
    for name in os.listdir(home.root):
        lost = os.path.join(home.root, name)
        shutil.rmtree(lost) if os.path.isdir(lost) else os.unlink(lost)

    done = call("backup", "--restore", path)
    assert (done.returncode, done.stderr) == (0, "")
    steps = steps_of(home)
    assert len(steps) >= 20_000
    assert steps == list(range(len(steps)))
    assert call("files", "job", "weights", "-o", "-").stdout == "the same weights"


@pytest.fixture
def upstream():
    """A home whose hub others relay to; a function starts its hub."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        far = Home(f"{root}/far")

        def begin():
            words = ["hub", "--quiet", "--home", far.root, "--address", f"{root}/up"]
            far.prepare()
            warm.start(words, env={**os.environ}, log=far.log)
            eventually(lambda: os.path.exists(f"{root}/up"))
            return f"{root}/up"

        yield far, begin
        end_hub(far)


def test_a_hub_that_is_restored_and_the_hubs_that_relay_to_it(home, hub, start, upstream, tmp_path):
    """They go on, and send again what they still have; what nobody has any more is counted as a gap."""
    far, begin = upstream
    job = start(JOB, stdin=subprocess.PIPE, environ={"VEDETTE_HUB": begin()})
    told(job, 20_000)
    eventually(lambda: os.path.exists(far.store) and len(read_runs(far)) and len(steps_of(far)) == 20_000)
    path = str(tmp_path / "far.tar")
    assert call("backup", path, home=far.root).returncode == 0
    [spool] = [os.path.join(home.spool, name) for name in spools(home)]
    written = list_segments(spool, "s")[-1]  # the segment in which what follows begins
    told(job, 60_000)
    eventually(lambda: len(steps_of(far)) == 80_000 and list_segments(spool, "s")[0] > written)
    end_hub(far)
    shutil.rmtree(far.root)
    os.unlink(f"{os.path.dirname(far.root)}/up")

    assert call("backup", "--restore", path, home=far.root).returncode == 0
    begin()
    told(job, 5_000)
    job.communicate()
    eventually(lambda: [run.state for run in read_runs(far)] == ["done"])
    steps = steps_of(far)
    lost = sorted(set(range(85_000)) - set(steps))
    assert steps == sorted(set(steps))
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert 20_000 <= lost[0] < lost[-1] < 80_000
    assert sum(row.damaged for row in open_reader(far.store).origins()) == 1
    assert "damaged    1 records" in call("doctor", home=far.root).stdout


def test_what_the_page_on_backups_shows(tmp_path):
    """Every command of docs/backup.md does what the page says, one after the other, in the home of a user."""
    page = (Path(__file__).parent.parent.parent / "docs" / "backup.md").read_text()
    lines = re.findall(
        r"^\$ (.*)$", "".join(re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)), re.MULTILINE
    )
    assert len(lines) == 15
    user = {"HOME": str(tmp_path), "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    user = {**os.environ, **user, "VEDETTE_HUB_IDLE_S": "5"}
    homes = [Home(str(tmp_path / name)) for name in (".vedette", "restored", "broken", "large/vedette")]
    try:
        job = "import vedette; run = vedette.init(name='mine'); run.save(b'weights', 'w'); run.finish()"
        subprocess.run([sys.executable, "-c", job], env=user, check=True)
        shown = subprocess.run(
            ["sh", "-ec", "\n".join(f"echo '$' {line.split('#')[0]}\n{line}" for line in lines)],
            env=user, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    finally:
        for each in homes:
            end_hub(each)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    said = {part.partition("\n")[0]: part.partition("\n")[2] for part in shown.stdout.split("$ ")[1:]}
    assert "vedette.tar: 1 run, 1 file" in said["vedette backup vedette.tar"]
    assert "store.db" in said["tar -tf vedette.tar"]
    assert "mine" in said[f"vedette ls --home {tmp_path}/restored"]
    assert "mine" in said["vedette ls"]
    assert [run.name for run in read_runs(homes[3], fresh=False)] == ["mine"]
