"""The pages of others: a hundred runs by their own writers, served by their own servers, and when they show them.

Started by `page` as `python bench/page_peers.py <name> <folder>` in the environment of the peers, it writes the runs.
"""

import contextlib
import math
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import NamedTuple

_BIN = os.path.join(".peers", "bin")
_RUNS, _POINTS = 100, 300
_PATIENCE_S = 240


class Peer(NamedTuple):
    """Another page: how it is served, and what shows that it has drawn its list of runs, and a chart."""

    name: str
    command: str  # {folder}, {port}
    ready: tuple[str, int]  # a question, and how often `run-` is in the answer when all runs have been read
    looks: tuple[tuple[str, dict[str, str]], ...]
    chart: str


# TensorBoard draws in a canvas that nobody can read: its table below comes with the line.
PEERS = (
    Peer(
        "TensorBoard",
        "tensorboard --logdir {folder} --host 127.0.0.1 --port {port}",
        ("/data/runs", _RUNS),
        (
            (
                "/#timeseries",
                {
                    "runs": "document.querySelectorAll('runs-data-table tb-data-table-content-row').length >= 10",
                    "chart": "document.querySelector('scalar-card line-chart canvas')"
                    " && document.querySelector('scalar-card-data-table tb-data-table-content-row')",
                },
            ),
        ),
        "chart of a metric of 100 runs",
    ),
    Peer(
        "MLflow",
        "mlflow server --workers 1 --backend-store-uri sqlite:///{folder}/mlflow.db"
        " --default-artifact-root {folder}/artifacts --host 127.0.0.1 --port {port}",
        ("/api/2.0/mlflow/experiments/get?experiment_id=1", 0),
        (
            (
                "/#/experiments/1/runs",
                {"runs": "document.querySelectorAll('[role=row] a[href*=\"/runs/\"]').length >= 10"},
            ),
            (
                "/#/experiments/1/runs?compareRunsMode=CHART",
                {"chart": "document.querySelectorAll('.js-plotly-plot .scatterlayer path.js-line').length >= 5"},
            ),
        ),
        "chart of a metric of 10 of 100 runs",
    ),
)


class Writing(NamedTuple):
    """A peer's runs while they are being written."""

    peer: Peer
    folder: str
    process: "subprocess.Popen[bytes] | None"


def write_runs(peer: Peer, folder: str) -> Writing:
    """Begin to write its runs."""
    place = os.path.join(folder, peer.name)
    os.makedirs(place)
    if not os.path.exists(os.path.join(_BIN, peer.command.split()[0])):
        return Writing(peer, place, None)
    with open(os.path.join(folder, peer.name + ".log"), "wb") as log:
        command = [os.path.join(_BIN, "python"), os.path.abspath(__file__), peer.name, place]
        return Writing(peer, place, subprocess.Popen(command, env=_environ(), stdout=log, stderr=log))


def wait_written(writing: list[Writing]) -> None:
    """Wait until all are written, so that nothing else takes time meanwhile; who cannot be is ended."""
    for one in writing:
        if one.process is not None:
            try:
                one.process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()


@contextlib.contextmanager
def served_peer(writing: Writing) -> Iterator[str]:
    """Serve its runs, which have been written; hand out the address, or a sentence why there is none."""
    peer, folder, writer = writing
    if writer is None:
        yield "it is not in .peers."
        return
    if writer.returncode != 0:
        yield "its runs could not be written."
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program, *options = peer.command.format(folder=folder, port=port).split()
    with open(folder + ".log", "ab") as log:
        process = subprocess.Popen(
            [os.path.join(_BIN, program), *options], env=_environ(), stdout=log, stderr=log, start_new_session=True
        )
    try:
        url = f"http://127.0.0.1:{port}"
        yield url if _ready(process, url, peer) else "its server did not begin."
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # MLflow has workers that it does not wait for
        process.wait()


def _environ() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return ours | {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


def _ready(process: "subprocess.Popen[bytes]", url: str, peer: Peer) -> bool:
    path, count = peer.ready
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url + path, timeout=30) as answer:
            if answer.read().count(b'"run-') >= count:
                return True
        time.sleep(0.2)
    return False


def _losses(number: int) -> list[float]:
    chance = random.Random(number)
    return [math.exp(-step / 200) + chance.gauss(0, 0.02) for step in range(_POINTS)]


def _write_tensorboard(folder: str) -> None:
    from tensorboard.summary import Writer

    for number in range(_RUNS):
        writer = Writer(os.path.join(folder, f"run-{number:03d}"))
        for step, loss in enumerate(_losses(number)):
            writer.add_scalar("loss", loss, step)
        writer.close()


def _write_mlflow(folder: str) -> None:
    import mlflow
    from mlflow.entities import Metric

    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("bench", artifact_location=f"{folder}/artifacts")
    mlflow.set_experiment("bench")
    client = mlflow.MlflowClient()
    for number in range(_RUNS):
        with mlflow.start_run(run_name=f"run-{number:03d}") as run:
            mlflow.log_param("lr", 0.1 / (1 + number))
            t = int(time.time() * 1000)
            points = [Metric("loss", loss, t + step, step) for step, loss in enumerate(_losses(number))]
            client.log_batch(run.info.run_id, metrics=points)


if __name__ == "__main__":
    {"TensorBoard": _write_tensorboard, "MLflow": _write_mlflow}[sys.argv[1]](sys.argv[2])
