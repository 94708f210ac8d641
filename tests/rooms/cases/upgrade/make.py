"""Makes a home with the version of vedette that runs it, for later versions to open: `python make.py HOME`.

`home-0.1.0.tar.xz` was made by 0.1.0 with a store of version 2, on a machine called lab, as a user without a name:
it has the home, and what that version itself said of it (`said.json`).
"""

import json
import logging
import os
import subprocess
import sys
import time

HOME = sys.argv[1]
os.environ |= {"VEDETTE_HOME": HOME, "VEDETTE_CAPTURE_ENABLE": "false", "VEDETTE_USAGE_ENABLE": "false"}

import numpy as np

import vedette
from vedette import wire
from vedette.hub.peers.inbox import Inbox
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
from vedette.store import Batch, Block, parcels


def command(*words):
    subprocess.run([sys.executable, "-m", "vedette", *words], check=True, stdout=subprocess.DEVNULL)


def python(code, **environ):
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **environ}, check=False, capture_output=True)


def make_runs():
    measured = {"VEDETTE_USAGE_ENABLE": "true", "VEDETTE_USAGE_INTERVAL_S": "0.5"}
    python("import vedette, time; run = vedette.init(name='used'); time.sleep(2.5); run.finish()", **measured)
    run = vedette.init(project="cifar", name="metrics", config={"lr": 0.1, "model": {"depth": 18}}, tags=["best"])
    for step in range(5000):
        run.log({"loss": 1 / (step + 1), "acc": step / 5000}, step=step)
        if step % 100 == 0:
            run.metric("grad", float(step), tags={"layer": "1"}, step=step)
    run.log({"loss": float("nan")}, step=5000)
    run.mark("half", "time")
    run.summary["best"] = 0.97
    run.save(b"weights", "weights.bin")
    logging.getLogger("lab").warning("a warning of the lab")
    sys.stdout.write("a printed line\n")
    run.finish()
    python("import vedette; vedette.init(name='failed', project='cifar').log({'x': 1}, step=1); raise ValueError('no')")
    first = "import vedette, os; r = vedette.init(name='resumed'); r.log({'x': 1}, step=1); print(r.id, flush=True)"
    resumed = python(f"{first}; os._exit(3)").stdout.decode().strip()
    python(f"import vedette; vedette.init(resume={resumed!r}).log({{'x': 2}}, step=1); vedette.finish()")
    run = vedette.init(name="bars")
    bar = run.progress(100, "epoch")
    for _ in range(40):
        bar.advance(1)
    run.finish()
    for name in ("starred", "removed", "purged"):
        vedette.init(name=name).finish()
    command("edit", "starred", "--star", "--notes", "look at this one")
    command("rm", "removed", "-y")
    command("rm", "purged", "--now", "-y")
    time.sleep(1)


def make_unread():
    """Leave a spool that no hub has read, and an inbox of another hub."""
    command("hub", "--stop")
    python(
        "import vedette, os; from vedette.home import Home; Home.wake_hub = lambda self, origin='': None\n"
        "run = vedette.init(name='unread', config={'seed': 7})\n"
        "for step in range(1000): run.log({'x': step}, step=step)\n"
        "run.mark('said before it died'); os.kill(os.getpid(), 9)"
    )
    far = Origin(
        "far-origin", host="node7", boot="elsewhere", pid=7, started=1, span="far0run", process="far0run/1/far"
    )
    begun = Span("far0run", 10**18, state="created", kind="run", name="relayed")
    facts = [(10, begun), (20, Span("far0run", 2 * 10**18, state="done"))]
    n = np.arange(1, 101, dtype=np.int64)
    block = Block("far0run", {}, ("x",), n, n * 10**9, n, (n.astype(float),))
    batches = [Batch(far, LANE_FACTS, 20, facts=facts), Batch(far, LANE_SAMPLES, 100, columns=[block])]
    inbox = Inbox(os.path.join(HOME, "inbox"), "000000000001", 1 << 30)
    shipped = [parcel for batch in batches for parcel in parcels.pack(batch, over=True)]
    inbox.append(wire.encode(wire.Shipment(1, shipped)))
    inbox.close()


def say():
    """Return what this version says of each run."""
    said = {}
    for run in vedette.runs():
        series = {one.label: run.history(one.name, one.tags) for one in run.series()}
        said[run.name] = {
            "id": run.id, "state": run.state, "cause": run.cause, "config": run.config,
            "points": {label: [len(points), repr(float(points.value[-1]))] for label, points in series.items()},
            "lines": [[line.kind, line.text] for line in run.logs()],
            "tries": len(run.tries()), "bars": [[bar.name, bar.done] for bar in run.progress()],
            "used": len(run.usage()), "summary": run.summary, "tags": run.tags,
            "files": [[file.name, file.digest] for file in run.files()],
        }  # fmt: skip
    return said


if __name__ == "__main__":
    make_runs()
    told = say()
    make_unread()
    with open(os.path.join(HOME, "..", "said.json"), "w") as file:
        json.dump(told, file, indent=1)
