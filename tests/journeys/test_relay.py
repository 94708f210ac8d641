"""Runs of other machines: shipped, acknowledged, taken up again after any outage; nothing lost, nothing twice."""

import getpass
import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.journeys.conftest import eventually, read_runs
from tests.journeys.hosts import Host, hosts
from vedette.query.runs import RunView, select
from vedette.store.sqlite_file import open_reader

VEDETTE = [sys.executable, "-m", "vedette"]
JOB = """
    import sys, time, vedette
    count, pause = int(sys.argv[1]), float(sys.argv[2])
    run = vedette.init(project="far", config={"count": count})
    print(run.id, flush=True)
    for step in range(count):
        run.log({"x": step, "y": -step}, step=step)
        if step % 100 == 0:
            run.mark(step)
        if pause:
            time.sleep(pause)
"""


def listen(host: Host, *more: str, **environ: str) -> "subprocess.Popen[str]":
    """Start a hub that listens on all addresses of a host, and wait until it does."""
    hub = host.start([*VEDETTE, "hub", "--address", ":7070", *more], **environ)
    eventually(lambda: os.path.exists(os.path.join(host.home, "hub.connect")) or hub.poll() is not None, 20)
    assert hub.poll() is None, hub.communicate()
    return hub


def connect_string(host: Host) -> str:
    """Return what to put into VEDETTE_HUB to reach a host's hub."""
    with open(os.path.join(host.home, "hub.connect")) as file:
        return file.read().strip()


def runs(host: Host, **options: Any) -> list[RunView]:
    """Return the runs that a host keeps, with all that has reached it."""
    if not host.seal():
        code, _, err = host.run([*VEDETTE, "ls", "--json"])
        assert code == 0, err
    return select(open_reader(os.path.join(host.home, "store.db")), **options)


def is_whole(run: RunView, count: int) -> bool:
    """Check that a finished run has every point once, in order, and every mark; False while some are on their way."""
    if run.end_t is None or {row.name: row.count for row in run.series()} != {"x": count, "y": count}:
        return False
    steps = list(range(count))
    for name, values in (("x", steps), ("y", [-step for step in steps])):
        points = run.history(name)
        assert points.step.tolist() == steps
        assert points.value.tolist() == values
    assert [event.text for event in run.logs() if event.kind == "mark"] == [str(s) for s in steps if s % 100 == 0]
    return True


def test_two_hosts():
    """A job on one host is seen whole on another, with the host that it ran on, its end, and its cause."""
    with hosts(2) as (far, here):
        listen(here)
        code, out, err = far.run(JOB, "2000", "0", VEDETTE_HUB=connect_string(here))
        assert (code, err) == (0, "")

        run = eventually(lambda: next((run for run in runs(here) if is_whole(run, 2000)), None), 30)
        assert (run.id, run.state) == (out.strip(), "done")
        assert [process.attrs["host"] for process in run.processes()] == [far.name]
        eventually(lambda: not [n for n in os.listdir(os.path.join(far.home, "spool")) if not n.startswith("hub-")])


def test_the_end_of_a_far_process_is_named():
    """A far process that is killed by -9 has its cause of death named here."""
    with hosts(2) as (far, here):
        listen(here)
        job = far.start(JOB, "100000", "0.01", VEDETTE_HUB=connect_string(here))
        job.stdout.readline()
        eventually(lambda: runs(here), 20)
        far.kill(job, signal.SIGKILL)

        run = eventually(lambda: next((run for run in runs(here) if run.end_t), None), 30)
        assert (run.state, run.cause[:17]) == ("failed", "killed by SIGKILL")


def test_a_far_run_is_stopped_from_here():
    """`vedette stop` reaches a process on another host, and says how it ended."""
    with hosts(2) as (far, here):
        listen(here)
        job = far.start(JOB, "100000", "0.01", VEDETTE_HUB=connect_string(here))
        run_id = job.stdout.readline().strip()
        eventually(lambda: runs(here), 20)

        code, out, err = here.run([*VEDETTE, "stop", run_id])
        assert (code, err) == (0, "")
        assert "cancelled" in out
        assert job.wait(10) != 0
        [run] = runs(here)
        assert (run.state, run.cause) == ("cancelled", f"killed by SIGTERM: told to stop by {getpass.getuser()}")
        [answer] = eventually(lambda: [event for event in runs(here)[0].logs() if event.kind == "answer"], 10)
        assert f"on {far.name}" in answer.text


def test_outages_lose_nothing():
    """The cable is pulled, packets vanish for a while, the link is slow and lossy: every point arrives, once."""
    with hosts(2) as (far, here):
        listen(here)
        job = far.start(JOB, "1500", "0.005", VEDETTE_HUB=connect_string(here))
        for trouble in (far.cut, far.half_open, lambda: far.delay(30, jitter_ms=20, loss_percent=2), here.cut):
            time.sleep(1.0)
            trouble()
            time.sleep(1.5)
            far.heal()
            here.heal()
        assert job.wait(60) == 0

        eventually(lambda: any(is_whole(run, 1500) for run in runs(here)), 90)


@pytest.mark.parametrize("killed", ["far", "here", "both"])
def test_hubs_that_are_killed_lose_nothing(killed):
    """Either hub, or both, killed by -9 time and again while points flow: every point arrives, once."""
    chance = random.Random(killed)
    with hosts(2) as (far, here):
        hub = listen(here)
        job = far.start(JOB, "1500", "0.003", VEDETTE_HUB=connect_string(here))
        job.stdout.readline()
        for _ in range(4):
            time.sleep(chance.uniform(0.1, 0.9))
            if killed in ("far", "both"):
                far.end_hub()
            if killed in ("here", "both"):
                here.kill(hub, signal.SIGKILL)
                hub.wait()
                os.unlink(os.path.join(here.home, "hub.connect"))
                hub = listen(here)
        assert job.wait(60) == 0
        far.run([*VEDETTE, "doctor"])  # sees to it that there is a hub

        eventually(lambda: any(is_whole(run, 1500) for run in runs(here)), 60)


def test_five_hosts_and_one_in_the_middle():
    """Hosts that relay through another one: all runs are kept at the far end, and stop and seal reach through it."""
    with hosts(5) as (one, two, three, middle, end):
        listen(end)
        listen(middle, VEDETTE_HUB_ONWARD=connect_string(end))
        through = connect_string(middle)
        jobs = [host.start(JOB, "1000", "0.002", VEDETTE_HUB=through) for host in (one, two)]
        long = three.start(JOB, "1000000", "0.01", VEDETTE_HUB=through)
        run_id = long.stdout.readline().strip()
        for job in jobs:
            assert job.wait(60) == 0

        eventually(lambda: sum(is_whole(run, 1000) for run in runs(end) if run.config["count"] == 1000) == 2, 60)
        eventually(lambda: any(run.id == run_id for run in runs(end)), 30)
        before = next(run for run in runs(end) if run.id == run_id).history("x").value[-1]
        time.sleep(0.3)
        assert next(run for run in runs(end) if run.id == run_id).history("x").value[-1] > before
        code, out, err = end.run([*VEDETTE, "stop", run_id])
        assert (code, err) == (0, "")
        assert "cancelled" in out


def test_who_may_not_come_in(tmp_path):
    """A wrong token and a wrong fingerprint are refused with a sentence, and what was logged waits on disk."""
    with hosts(2) as (far, here):
        listen(here)
        right = connect_string(here)
        token, _, rest = right.removeprefix("vedette://").partition("@")
        wrong = {"token": f"vedette://{'x' * len(token)}@{rest}", "certificate": right[:-4] + "0000"}
        for what, address in wrong.items():
            far.run(JOB, "10", "0", VEDETTE_HUB=address)

            def complaint(what=what):
                code, out, _ = far.run([*VEDETTE, "doctor"])
                return code == 1 and f"its {what} is not" in out.replace("the token", "its token")

            eventually(complaint, 20)
        plain = f"{here.address}:7070"
        far.run(JOB, "10", "0", VEDETTE_HUB=plain, VEDETTE_TOKEN=token)
        eventually(lambda: "has no fingerprint" in far.run([*VEDETTE, "doctor"])[1], 20)
        assert runs(here) == []
        assert len(os.listdir(os.path.join(far.home, "spool"))) >= 3


def test_a_wide_bind_without_tls_is_refused():
    """--no-tls beyond this machine is refused with a sentence, unless the network is said to be trusted."""
    with hosts(2) as (far, here):
        code, _, err = here.run([*VEDETTE, "hub", "--address", ":7070", "--no-tls"])
        assert code == 2
        assert "hub.trusted_network" in err
        assert err.count("\n") == 1
        listen(here, "--no-tls", "--set", "hub.trusted_network=true")
        code, _, _ = far.run(JOB, "500", "0", VEDETTE_HUB=connect_string(here), VEDETTE_HUB_TRUSTED_NETWORK="true")
        assert code == 0
        eventually(lambda: any(is_whole(run, 500) for run in runs(here)), 30)


def test_a_clock_that_is_off_is_shown_and_not_corrected(tmp_path):
    """The skew of a host's clock is measured by its hub, and shown; times stay as they were said."""
    with hosts(2) as (far, here):
        listen(here)
        job = far.start(JOB, "100000", "0.01", VEDETTE_HUB=connect_string(here))
        job.stdout.readline()

        def skew():
            rows = open_reader(os.path.join(here.home, "store.db")).origins()
            return next((row for row in rows if row.origin.host == far.name and row.skew_s is not None), None)

        row = eventually(lambda: os.path.exists(os.path.join(here.home, "store.db")) and skew(), 40)
        assert abs(row.skew_s) < 1
        assert row.heard_t > 0


def test_a_job_on_the_hubs_own_host():
    """A job whose VEDETTE_HUB is the hub of its own home is kept as any other, and a reader does not go in circles."""
    with hosts(1) as (here,):
        listen(here)
        code, _, _ = here.run(JOB, "2000", "0", VEDETTE_HUB=connect_string(here))
        assert code == 0

        eventually(lambda: any(is_whole(run, 2000) for run in runs(here)), 30)
        assert "behind" not in here.run([*VEDETTE, "ls"])[2]


def test_a_hub_with_relays_can_be_stopped():
    """`vedette hub --stop` ends a hub that others are connected to; the next one takes up where it was."""
    with hosts(2) as (far, here):
        hub = listen(here)
        job = far.start(JOB, "1000", "0.01", VEDETTE_HUB=connect_string(here))
        eventually(lambda: runs(here), 20)
        code, _, err = here.run([*VEDETTE, "hub", "--stop"])
        assert (code, err) == (0, "")
        assert hub.wait(10) == 0
        assert not os.path.exists(os.path.join(here.home, "hub.connect"))
        listen(here)
        assert job.wait(60) == 0

        eventually(lambda: any(is_whole(run, 1000) for run in runs(here)), 60)


def test_lost_and_found_again():
    """A run on a host that is cut off is lost once its silence is long enough, and found again when it is back."""

    def state():
        return [run.state for run in runs(here, lost_after_s=12)]

    with hosts(2) as (far, here):
        listen(here)
        job = far.start(JOB, "1000000", "0.05", VEDETTE_HUB=connect_string(here))
        job.stdout.readline()
        eventually(lambda: state() == ["running"], 30)
        far.cut()
        eventually(lambda: state() == ["lost"], 60)
        _, out, _ = here.run([*VEDETTE, "ls", "--json", "--set", "lost_after_s=12"])
        assert [run["state"] for run in json.loads(out)] == ["lost"]
        far.heal()
        eventually(lambda: state() == ["running"], 60)


def test_an_address_that_is_none_is_said_at_once(home, hub, finish):
    """A VEDETTE_HUB that cannot be one is complained of in one sentence, and the run is kept here."""
    for address in ("gar bage", "vedette://...", ":17070", "http://foo/"):
        code, _, err = finish("import vedette\nvedette.init()\nvedette.log({'x': 1})", environ={"VEDETTE_HUB": address})
        assert (code, err.count("\n")) == (0, 1), err
        assert "not the address of a hub" in err
    assert len(read_runs(home)) == 4


def test_a_stubborn_process_that_is_stopped_is_cancelled(home, hub, start):
    """A process that ignores SIGTERM is killed after its grace, and its run is cancelled: it was asked for."""
    job = start(
        """
        import signal, time, vedette
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(vedette.init().id, flush=True)
        time.sleep(60)
        """
    )
    run_id = job.stdout.readline().strip()
    eventually(lambda: read_runs(home))
    said = subprocess.run([*VEDETTE, "stop", run_id, "--grace", "0.5"], capture_output=True, text=True, check=True)

    assert "cancelled" in said.stdout
    assert [(run.state, "SIGKILL" in run.cause) for run in read_runs(home)] == [("cancelled", True)]
