"""Watching what runs on other hosts: the link is cut and healed, and the console's final account is whole."""

import json
import re

from tests.journeys.conftest import eventually
from tests.journeys.test_relay import VEDETTE, connect_string, listen

JOB = """
    import logging, multiprocessing, os, sys, time, vedette

    def work(number, count):
        for n in range(count):
            logging.info("line %d of worker %d", n, number)
            bar.advance(1)
            time.sleep(0.02)

    run = vedette.init(name="far")
    print(run.id, flush=True)
    count = int(sys.argv[1])
    bar = vedette.Progress.new(total=2 * count, msg="lines")
    workers = [multiprocessing.get_context("fork").Process(target=work, args=(n, count)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    bar.complete()
    raise ValueError("the end")
"""


def test_the_console_has_it_all_after_an_outage(lan):
    """Two processes on one host log while the link to the one that watches is cut: each line comes once."""
    far, here = lan(2)
    listen(here)
    job = far.start(JOB, "300", VEDETTE_HUB=connect_string(here))
    run = job.stdout.readline().strip()
    eventually(lambda: run in here.run([*VEDETTE, "ls", "--json"])[1], 30)
    watching = here.start([*VEDETTE, "watch", run, "-n", "100000"])
    far.cut()
    eventually(lambda: job.poll() is not None, 60)
    far.heal()
    out, err = watching.communicate(timeout=60)

    said = re.findall(r"line (\d+) of worker (\d+)", out)
    assert len(said) == 600, (out[-2000:], err)
    for worker in "01":
        assert [int(n) for n, by in said if by == worker] == list(range(300))
    assert "ValueError: the end" in out.strip().splitlines()[-1]
    assert "\x1b" not in out
    [shown] = json.loads(here.run([*VEDETTE, "ls", "--json"])[1])
    assert (shown["state"], shown["cause"]) == ("failed", "ValueError: the end")


def test_what_is_far_can_be_watched_and_stopped(lan):
    """`top` shows the runs of other hosts, with their host, and `stop` ends them there."""
    far, here = lan(2)
    listen(here)
    job = far.start(JOB, "100000", VEDETTE_HUB=connect_string(here))
    run = job.stdout.readline().strip()

    def row():
        rows = json.loads(here.run([*VEDETTE, "top", "--json"])[1] or "[]")
        rows = rows["runs"] if isinstance(rows, dict) else rows
        return next((row for row in rows if row["id"] == run), None)

    shown = eventually(row, 30)
    assert far.name in json.dumps(shown)
    code, _, err = here.run([*VEDETTE, "stop", run])
    assert code == 0, err
    eventually(lambda: job.poll() is not None, 30)
    eventually(lambda: (found := row()) is None or found["state"] == "cancelled", 30)
