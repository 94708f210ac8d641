"""A monitor whose samples are a run: kept by a real hub, also one that comes late, is stopped, or is far away."""

import json
import os
import signal

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs, spools
from tests.journeys.test_relay import connect_string, listen, runs
from tests.moments import METRICS, moment
from tests.rooms.conftest import call, small_disk
from vedette import kernel
from vedette.errors import SettingError
from vedette.model import Sample
from vedette.sinks import hub
from vedette.store.sqlite_file import open_reader

WATCH = """
    import sys, time
    from vedette.model import Sample
    from vedette.sinks import hub
    sink = hub.open(hub.Config(name="far"), {})
    print(sink.run, flush=True)
    for i in range(int(sys.argv[1])):
        t = time.time_ns()
        sink.put([Sample(t, t // 10**6 + i, {"cpu_percent": float(i)}, "watched")])
        print(i, flush=True)
        time.sleep(float(sys.argv[2]))
    sink.close()
"""


def test_a_run_of_samples(home):
    """Samples of the process are the points of a run, those of the host hang on the host; the commands show them."""
    sink = hub.open(hub.Config(project="p", name="watch", pid=os.getpid()), METRICS)
    for i in range(5):
        sink.put(moment(i))
    sink.close()
    [run] = read_runs(home)

    assert (run.id, run.name, run.project, run.state, run.config["pid"]) == (
        sink.run,
        "watch",
        "p",
        "done",
        os.getpid(),
    )
    assert run.history("cpu_percent").value.tolist() == [10.5 + 10 * i for i in range(5)]
    assert run.history("cpu_percent").step.tolist() == [0, 1, 2, 3, 4]
    assert {row.name for row in run.series()} == set(moment()[0].values)
    store = open_reader(home.store)
    found = {(row.name, tuple(row.tags.items())): row.count for row in store.series([kernel.host_span()])}
    assert found["cpu_percent", (("core", "0"),)] == 5
    listed = json.loads(call("ls", "--json", home=home.asked).stdout)
    assert [(row["name"], row["state"]) for row in listed] == [("watch", "done")]
    assert call("show", "watch", home=home.asked).returncode == 0
    points = call("points", "watch", "cpu_percent", home=home.asked)
    assert (points.returncode, "50.5" in points.stdout) == (0, True)
    assert sink.lost == 0


def test_no_hub_for_a_while(home):
    """What is measured while the hub is stopped, or dead, is kept all the same, each point once."""
    sink = hub.open(hub.Config(), METRICS)
    eventually(home.hub_pid)
    for i in range(300):
        sink.put([Sample(1000 + i, i, {"x": i}, "watched")])
        if i == 100:
            os.kill(eventually(home.hub_pid), signal.SIGSTOP)
        if i == 200:
            end_hub(home)
    sink.close()
    [run] = read_runs(home)

    assert run.history("x").value.tolist() == list(range(300))
    assert (run.state, sink.lost) == ("done", 0)


def test_a_monitor_that_is_killed(home, start):
    """A monitor that is killed has its run end as failed, with the cause, and all that it had put."""
    process = start(WATCH, "100000", "0.01")
    run = process.stdout.readline().strip()
    for _ in range(50):
        told = process.stdout.readline()
    process.kill()
    told = [told, *process.stdout.read().splitlines()][-1]
    found = eventually(lambda: next((r for r in read_runs(home) if r.state == "failed"), None))

    assert found.id == run
    assert "SIGKILL" in found.cause
    assert len(found.history("cpu_percent").value) >= int(told) + 1
    eventually(lambda: not spools(home))


def test_within_a_run_that_is_there(home):
    """Told a run, it takes part in that one, and its end is not the run's."""
    first = hub.open(hub.Config(name="first"), METRICS)
    second = hub.open(hub.Config(run=first.run), METRICS)
    second.put([Sample(5, 5, {"y": 1.0}, "watched")])
    second.close()
    [run] = read_runs(home)
    assert run.state == "running"
    assert run.history("y").value.tolist() == [1.0]
    first.close()
    assert read_runs(home)[0].state == "done"


def test_a_full_disk_is_counted():
    """On a full disk what cannot be kept is counted and said, and nothing raises."""
    with small_disk("2m") as disk:
        sink = hub.open(hub.Config(home=os.path.join(disk, "home")), METRICS)
        from vedette.home import Home

        place = Home(os.path.join(disk, "home"))
        try:
            eventually(place.hub_pid)
            end_hub(place)
            with open(os.path.join(disk, "ballast"), "wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 4096):
                        pass
                except OSError:
                    pass
            for i in range(3000):
                sink.put([Sample(i, i, {"cpu_percent": 0.5, "pad": i}, "watched", {"tag": "t" * 100})])
            assert sink.lost > 0
            assert "has lost samples" in sink.trouble
            os.unlink(os.path.join(disk, "ballast"))
            sink.close()
        finally:
            end_hub(place)


def test_a_home_that_cannot_be(tmp_path):
    """A home that cannot be made is a sentence at once."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(SettingError, match="nothing can be written"):
        hub.open(hub.Config(home=str(tmp_path / "file" / "home")), METRICS)


def test_a_hub_far_away(lan):
    """With VEDETTE_HUB the run is kept by the hub of another machine, also what was measured while the way was cut."""
    far, here = lan(2)
    listen(here)
    job = far.start(WATCH, "200", "0.02", VEDETTE_HUB=connect_string(here))
    name = job.stdout.readline().strip()
    eventually(lambda: [run.id for run in runs(here)] == [name])
    far.cut()
    for _ in range(100):
        job.stdout.readline()
    far.heal()
    job.communicate(timeout=60)
    run = eventually(lambda: next((r for r in runs(here) if r.state == "done"), None))

    assert run.history("cpu_percent").value.tolist() == [float(i) for i in range(200)]
