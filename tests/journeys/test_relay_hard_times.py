"""What can go wrong between hubs, and what must hold all the same: nothing lost, nobody harmed, and it is said."""

import contextlib
import os
import re
import shutil
import signal
import time

import pytest

from tests.journeys.conftest import eventually
from tests.journeys.hosts import Host
from tests.journeys.test_relay import JOB, VEDETTE, connect_string, is_whole, listen, runs
from vedette import wire
from vedette.query.runs import RunView
from vedette.store.rows import SeriesRow
from vedette.store.sqlite_file import open_reader

SOURCE = os.path.join(os.path.dirname(__file__), "..", "..", "src")
ORDER = """
    import os, sys, time
    from vedette import wire
    from vedette.access.hub_socket import ask
    from vedette.home import Home
    from vedette.ids import new_id
    from vedette.model import Command
    order = wire.Order(Command(new_id(8), sys.argv[1], "stop", time.time_ns() + 60 * 10**9, {}))
    print(ask(Home(os.environ["VEDETTE_HOME"]), order))
"""


def series(host: Host, run_id: str) -> list[SeriesRow]:
    """Return the series that a host keeps of a run, of which it may not even know the name."""
    host.seal()
    with contextlib.closing(open_reader(os.path.join(host.home, "store.db"))) as store:
        return store.series([run_id])


def relays(host: Host) -> str:
    """Return what a host's hub says of the hubs that it relays to, as `doctor` prints it."""
    health = host.ask(wire.AskHealth())
    return str(health.relays) if isinstance(health, wire.Health) else ""


def doctor(host: Host) -> str:
    """Return what doctor says of a host's hub."""
    return host.run([*VEDETTE, "doctor"])[1]


def ended(host: Host, run_id: str, seconds: float = 30) -> RunView:
    """Wait until a run has ended where it is kept; return it."""
    return eventually(lambda: next((run for run in runs(host) if run.id == run_id and run.end_t), None), seconds)


def arrived(host: Host, run_id: str, count: int, seconds: float = 30) -> None:
    """Wait until a run has ended where it is kept, and all of it is there."""
    eventually(lambda: any(run.id == run_id and is_whole(run, count) for run in runs(host)), seconds)


def again(host: Host, *more: str, number: int = signal.SIGKILL, **environ: str) -> None:
    """End the hub of a host, and start it anew."""
    host.end_hub(number)
    if os.path.exists(os.path.join(host.home, "hub.connect")):
        os.unlink(os.path.join(host.home, "hub.connect"))
    listen(host, *more, **environ)


def begin(host: Host, count: int, pause: float, hub: str = "", **environ: str):
    """Start a job; return it, and the id of its run."""
    job = host.start(JOB, str(count), str(pause), **({"VEDETTE_HUB": hub} if hub else {}), **environ)
    return job, job.stdout.readline().strip()


def test_no_room_at_the_hub_that_keeps(lan):
    """While that disk is full what is logged waits where it was logged, and both sides say so; then all arrives."""
    far, here = lan(2)
    inbox = os.path.join(here.home, "inbox")
    here.small_disk(inbox, 2)
    here.fill(inbox)
    listen(here)
    job, run_id = begin(far, 800, 0.002, connect_string(here))
    eventually(lambda: "No space left" in doctor(far), 20)
    assert job.wait(30) == 0
    assert not any(run.series() for run in runs(here))

    here.make_room(inbox)
    arrived(here, run_id, 800)
    eventually(lambda: "No space left" not in doctor(far) + doctor(here), 20)


def test_no_room_where_it_is_logged(lan):
    """A job that is killed on a full disk: its end is named, and no point that was kept is lost, once there is room."""
    far, here = lan(2)
    far.small_disk(far.home, 16)
    listen(here)
    job, run_id = begin(far, 100_000, 0.005, connect_string(here))
    eventually(lambda: runs(here), 20)
    far.fill(far.home)
    time.sleep(1.5)  # the hub there has met with it
    far.kill(job, signal.SIGKILL)
    time.sleep(1.5)
    far.make_room(far.home)

    run = ended(here, run_id)
    assert (run.state, run.cause[:17]) == ("failed", "killed by SIGKILL")
    steps = run.history("x").step.tolist()
    assert steps == list(range(len(steps)))
    spool = far.run(["ls", os.path.join(far.home, "spool")])[1].split()
    assert len(spool) < 10  # what was tried in vain has left nothing behind


def test_hubs_in_a_circle(lan):
    """Two hubs that pass everything on to each other say so, and lose nothing: undone, all is there."""
    far, one, other = lan(3)
    listen(one)
    to_one = connect_string(one)
    listen(other, VEDETTE_HUB_ONWARD=to_one)
    to_other = connect_string(other)
    again(one, VEDETTE_HUB_ONWARD=to_other)
    code, out, err = far.run(JOB, "500", "0", VEDETTE_HUB=to_one)
    assert (code, err) == (0, "")
    eventually(lambda: "in a circle" in relays(one) + relays(other), 30)
    eventually(lambda: "in a circle" in doctor(one) + doctor(other), 30)
    assert not runs(one)
    assert not runs(other)

    again(one)
    arrived(one, out.strip(), 500)
    _, out, _ = far.run(JOB, "100", "0", VEDETTE_HUB=to_other)
    arrived(one, out.strip(), 100, 60)


def test_a_hub_that_passes_on_to_itself(lan):
    """A hub whose hub.onward is its own address keeps what it is sent."""
    far, here = lan(2)
    listen(here)
    again(here, VEDETTE_HUB_ONWARD=connect_string(here))
    _, out, _ = far.run(JOB, "100", "0", VEDETTE_HUB=connect_string(here))
    arrived(here, out.strip(), 100)


def test_stop_reaches_a_host_whose_clock_is_off(lan, tmp_path):
    """A far host two minutes ahead, or behind, obeys `vedette stop` as any other."""
    early, late, here = lan(3)
    listen(here)
    for far, off_s in ((early, 120), (late, -120)):
        folder = tmp_path / far.name
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(
            "import time\nns, s = time.time_ns, time.time\n"
            f"time.time_ns = lambda: ns() + {off_s} * 10**9\ntime.time = lambda: s() + {off_s}\n"
        )
        path = f"{folder}:{SOURCE}"
        job, run_id = begin(far, 100_000, 0.01, connect_string(here), PYTHONPATH=path)
        eventually(lambda run_id=run_id: any(run.id == run_id for run in runs(here)), 20)
        code, out, err = here.run([*VEDETTE, "stop", run_id])
        assert (code, err) == (0, "")
        assert "cancelled" in out
        assert job.wait(10) != 0


def test_who_may_stop_what(lan):
    """Two spellings of one address are one hub that stops the runs of both; what is not meant for it, it cannot."""
    far, here = lan(2)
    listen(here)
    hub = connect_string(here)
    other = hub.replace(here.address, "10.99.2")  # the same number
    assert other != hub
    first, first_id = begin(far, 100_000, 0.01, hub)
    second, second_id = begin(far, 100_000, 0.01, other)
    private, private_id = begin(far, 100_000, 0.01)
    eventually(lambda: len(runs(here)) == 2, 20)
    time.sleep(2)  # in which neither way up should throw the other out
    assert len(os.listdir(os.path.join(here.home, "inbox"))) == 2

    assert here.run(ORDER, private_id)[0] == 0
    code, out, err = here.run([*VEDETTE, "stop", second_id])
    assert (code, err) == (0, "")
    assert "cancelled" in out
    assert second.wait(10) != 0
    assert first.poll() is None
    assert here.run([*VEDETTE, "stop", first_id])[0] == 0
    assert first.wait(10) != 0
    assert private.poll() is None  # though the order was there before the others

    assert far.run(ORDER, private_id)[0] == 0  # the control: its own hub may
    assert private.wait(10) != 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_how_a_far_process_ended_is_not_forgotten(lan, number):
    """A process is killed while its host is cut off, then its hub is ended, too: the cause is named all the same."""
    far, here = lan(2)
    listen(here)
    job, run_id = begin(far, 100_000, 0.01, connect_string(here))
    eventually(lambda: runs(here), 20)
    far.cut()
    far.kill(job, signal.SIGKILL)
    job.wait()
    time.sleep(1)  # its hub has seen it
    far.end_hub(number)
    far.heal()
    doctor(far)  # sees to it that there is a hub

    run = ended(here, run_id)
    assert (run.state, run.cause[:17]) == ("failed", "killed by SIGKILL")


def test_a_port_that_is_taken(lan):
    """A hub that starts by itself keeps what is logged, and says that it cannot listen; one that is asked for ends."""
    [here] = lan(1)
    taker = here.start("import socket, time\ns = socket.create_server(('', 7070))\nprint(flush=True)\ntime.sleep(60)\n")
    taker.stdout.readline()
    code, _, err = here.run([*VEDETTE, "hub", "--address", ":7070"])
    assert code == 2
    assert "cannot be listened on" in err
    assert "Traceback" not in err
    with open(os.path.join(here.home, "vedette.toml"), "w") as file:
        file.write('[hub]\naddress = ":7070"\n')
    code, out, err = here.run(JOB, "100", "0")
    assert (code, err) == (0, "")
    arrived(here, out.strip(), 100)
    assert "cannot be listened on" in doctor(here)

    taker.kill()
    eventually(lambda: os.path.exists(os.path.join(here.home, "hub.connect")), 20)


def test_a_token_is_not_for_everybody_to_read(lan):
    """A connect string in the settings does not show in the command line of the hub that a job starts."""
    [here] = lan(1)
    secret = f"vedette://SECRETTOKEN@10.0.0.1:7070/{'0' * 64}"
    here.run(JOB, "10", "0", VEDETTE_HUB_ONWARD=secret, VEDETTE_HUB=secret)
    eventually(lambda: os.path.exists(os.path.join(here.home, "hub.sock")), 10)
    lines = here.run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"])[1]
    assert "-m vedette hub" in lines
    assert "SECRETTOKEN" not in lines


WIDE = """
    import vedette
    run = vedette.init(project="far")
    print(run.id, flush=True)
    for i in range(3600):
        run.log({f"{i:04800d}": i}, step=1)
"""


def test_series_of_one_point_each(lan):
    """More names than one shipment holds, each with one point, logged while nobody was there: all arrive."""
    far, here = lan(2)
    listen(here, "--set", "limits.name_chars=5000")
    hub = connect_string(here)
    far.cut()
    code, out, err = far.run(WIDE, VEDETTE_HUB=hub, VEDETTE_LIMITS_NAME_CHARS="5000")
    assert (code, err) == (0, "")
    far.heal()
    run = ended(here, out.strip(), 60)
    eventually(lambda: len(run.series()) == 3600, 60)
    assert not re.search(r"refused +\d+ by ", doctor(here))


def test_the_store_of_the_end_is_lost_behind_a_hub_in_the_middle(lan):
    """All that is logged later arrives, of new runs and of the one that goes on, and its gap is counted."""
    far, middle, end = lan(3)
    listen(end)
    listen(middle, VEDETTE_HUB_ONWARD=connect_string(end))
    hub = connect_string(middle)
    job, run_id = begin(far, 9000, 0.001, hub)
    eventually(lambda: any(row.count > 5000 for run in runs(end) for row in run.series()), 30)
    end.end_hub()
    for name in os.listdir(end.home):
        if name.startswith("store.db"):
            os.unlink(os.path.join(end.home, name))
    shutil.rmtree(os.path.join(end.home, "inbox"))  # most of it could be had back from there
    os.unlink(os.path.join(end.home, "hub.connect"))
    listen(end)
    code, out, _ = far.run(JOB, "200", "0", VEDETTE_HUB=hub)
    assert code == 0
    arrived(end, out.strip(), 200, 60)
    assert job.wait(60) == 0

    eventually(lambda: any(row.last_step == 8999 for row in series(end, run_id)), 60)
    assert "damaged    0" not in doctor(end)
