"""What `vedette ui` answers how fast over a large store, and what a hundred viewers of a living run cost."""

import asyncio
import contextlib
import http.client
import json
import struct
import subprocess
import sys
import time
from urllib.parse import parse_qs, urlsplit

import numpy as np

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles
from bench.top import _cpu_s, _fill
from vedette.home import Home
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin, Span
from vedette.store import Batch, Block
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import open_reader

_POINTS = 10_000_000
_VIEWERS = 100
_RATE = 1000
_T = 1_780_000_000 * 10**9
_BLOCK = 500_000
_JOB = """
import sys, time, vedette
run = vedette.init(name="busy", usage=False)
print(run.id, flush=True)
begun, step = time.monotonic(), 0
while time.monotonic() - begun < float(sys.argv[1]):
    for _ in range(10):
        run.log({"loss": 1 / (1 + step)}, step=step)
        step += 1
    time.sleep(max(0.0, begun + step / 1000 - time.monotonic()))
vedette.finish()
print(step, flush=True)
"""


def measure(*, quick: bool, times: int | None) -> Part:
    """Ask the real command over a real port, its CPU taken from the kernel."""
    part = Part("`vedette ui`: 10,000 runs, 10 M points, 100 viewers")
    rounds = times or (5 if quick else 20)
    with fresh_home(hub=True) as home:
        _fill(home)
        _fill_long(home)
        _ask(part, rounds)
    _watch(part, 10 if quick else 30)
    part.note(
        f"{rounds} rounds of each question, over HTTP on loopback, beginning with a server that has just been started."
        f" A viewer listens by server-sent events, and fetches the points that are new each time it is told of some, as"
        f" the page does; {_VIEWERS} of them in one process, which takes the other core."
    )
    return part


def _fill_long(home: Home) -> None:
    store = SqliteStore(home.store)
    origin = Origin("origin-long", host="camp", span="long", process="long/1/p")
    facts = [
        Span("long", _T, "created", kind="run", name="long-one", attrs={"project": "bench"}),
        Span("long", _T + 10**15, "done"),
        Span("long/1", _T, "done", kind="try", parent="long", attrs={"n": 1}),
    ]
    store.keep([Batch(origin, LANE_FACTS, len(facts), facts=list(enumerate(facts, 1)))])
    chance = np.random.default_rng(1)
    for first in range(0, _POINTS, _BLOCK):
        step = np.arange(first, first + _BLOCK, dtype=np.int64)
        t = _T + step * 10**8 + chance.integers(0, 1000, _BLOCK) * 1000
        value = 1 / (1 + step / 1e5) + chance.normal(0, 0.01, _BLOCK)
        block = Block("long", {}, ("loss",), (step + 1) * 40, t, step, (value,))
        store.keep([Batch(origin, LANE_SAMPLES, int(block.n[-1]), columns=[block])])
    store.tidy("origin-long")
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()


@contextlib.contextmanager
def served():
    """Run the command; hand out its process, port and token."""
    process = subprocess.Popen(
        [sys.executable, "-m", "vedette", "ui", "--no-browser", "--port", "0", "--json"], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = urlsplit(json.loads(process.stdout.readline())["url"])
        yield process, url.port, parse_qs(url.query)["token"][0]
    finally:
        process.terminate()
        process.wait(30)


def _ask(part: Part, rounds: int) -> None:
    wish = {"of": [{"run": "long", "name": "loss"}], "x": "step"}
    zoom = {**wish, "width": 1200, "from": 5_000_000, "to": 5_004_000}
    smooth = {"buckets": 1024, "smooth": {"kind": "ema", "by": 0.99}}
    questions = [
        ("10,000 runs, first page of 200", "GET", "/api/runs", None, (500, 100)),
        ("10,000 runs, sorted by a config key", "GET", "/api/runs?sort=-config.lr", None, (500, 100)),
        ("10,000 runs, filtered", "GET", "/api/runs?where=config.lr+%3E+0.01+and+state+%3D+done", None, (500, 100)),
        ("10 M points on 1200 pixels", "POST", "/api/series", {**wish, "width": 1200}, (1000, 200)),
        ("10 M points, smoothed", "POST", "/api/series", {**wish, "width": 1200, **smooth}, (1500, 200)),
        ("10 M points, by time", "POST", "/api/series", {**wish, "x": "time", "width": 1200}, (1000, 200)),
        ("10 M points, 4000 of them, exact", "POST", "/api/series", zoom, (500, 200)),
    ]
    with served() as (process, port, token):
        link = http.client.HTTPConnection("127.0.0.1", port)
        for what, method, path, body, (first_ms, limit_ms) in questions:
            took, cpu = [], []
            for number in range(rounds + 1):
                asked = None
                if body is not None:  # another width each time: what is asked for twice is only copied
                    asked = json.dumps({**body, "width": body["width"] + number})
                before, at = _cpu_s(process.pid), time.perf_counter()
                link.request(
                    method, path, asked, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
                )
                answer = link.getresponse()
                data = answer.read()
                assert answer.status == 200, data[:200]
                took.append((time.perf_counter() - at) * 1e3)
                cpu.append((_cpu_s(process.pid) - before) * 1e3)
            spread = quartiles(took[1:])
            part.judge(f"{what}: the first time", f"{took[0]:.0f} ms", f"< {first_ms} ms", took[0] < first_ms)
            part.judge(f"{what}: again", spread.show(".1f", " ms"), f"< {limit_ms} ms", spread.median < limit_ms)
            figure = f"{cpu[0]:.0f} ms, then {np.mean(cpu[1:]):.0f} ms, for {len(data) / 1e3:.0f} kB"
            part.know(f"{what}: CPU of the server", figure)


def _watch(part: Part, seconds: int) -> None:
    """Have a job log, watched by nobody and then by many; compare what the hub does for it."""
    shares, seals = {}, {}
    for viewers in (0, _VIEWERS):
        with fresh_home(hub=True) as home, served() as (process, port, token):
            job = subprocess.Popen([sys.executable, "-c", _JOB, str(seconds + 12)], stdout=subprocess.PIPE, text=True)
            assert job.stdout is not None
            run = job.stdout.readline().strip()
            time.sleep(3)
            crowd = subprocess.Popen(
                [sys.executable, "-m", "bench.web", str(port), token, run, str(viewers), str(seconds + 4)],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            time.sleep(4)
            hub = home.hub_pid()
            assert hub
            pids, at = (process.pid, hub), time.monotonic()
            before = [_cpu_s(pid) for pid in pids]
            seals[viewers] = _count_seals(home, seconds - 2) / (seconds - 2)
            took = time.monotonic() - at
            shares[viewers] = [100 * (_cpu_s(pid) - cpu) / took for pid, cpu in zip(pids, before, strict=True)]
            told, fetched, _ = json.loads(crowd.communicate()[0])
            logged = int(job.communicate()[0])
            kept = _kept(port, token, run)
            if viewers:
                part.judge(
                    f"{viewers} viewers, {_RATE} points/s: CPU of the server", f"{shares[viewers][0]:.1f} % of a core",
                    "< 20 %", shares[viewers][0] < 20,
                )  # fmt: skip
                part.know(
                    "each viewer was told, and has fetched",
                    f"{told / viewers / (seconds + 4):.1f} times a second, {fetched / viewers:.0f} points",
                )
            part.judge(f"{viewers} viewers: points logged, and kept", f"{logged}, {kept}", "all", logged == kept)
    part.know(
        "CPU of the hub, watched by nobody and by 100", f"{shares[0][1]:.1f} %, {shares[_VIEWERS][1]:.1f} % of a core"
    )
    part.know("seals a second, watched by nobody and by 100", f"{seals[0]:.2f}, {seals[_VIEWERS]:.2f}")


def _count_seals(home: Home, seconds: float) -> int:
    """Wait so long; return how often points were sealed meanwhile: each time the mark of a lane of samples moves."""
    count, until = 0, time.monotonic() + seconds
    with contextlib.closing(open_reader(home.store)) as store:
        offsets = {key: mark.offset for key, mark in store.marks().items() if key[1] == LANE_SAMPLES}
        while time.monotonic() < until:
            time.sleep(0.05)
            now = {key: mark.offset for key, mark in store.marks().items() if key[1] == LANE_SAMPLES}
            count += now != offsets
            offsets = now
    return count


def _kept(port: int, token: str, run: str) -> int:
    link = http.client.HTTPConnection("127.0.0.1", port)
    count, deadline = -1, time.monotonic() + 30
    while time.monotonic() < deadline:
        link.request("GET", f"/api/runs/{run}", headers={"Authorization": f"Bearer {token}"})
        told = json.loads(link.getresponse().read())
        found = sum(one["count"] for one in told["series"])
        if not told["alive"] and found == count:
            return found
        count = found
        time.sleep(0.5)
    return count


async def _crowd(port: int, token: str, run: str, viewers: int, seconds: float) -> list[int]:
    counts = [0, 0, 0]
    until = time.monotonic() + seconds
    with_token = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"

    async def view() -> None:
        ear, mouth = await asyncio.open_connection("127.0.0.1", port)
        mouth.write(f"GET /api/live?run={run} HTTP/1.1\r\n{with_token}\r\n".encode())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        cursor = None
        while time.monotonic() < until:
            try:
                line = await asyncio.wait_for(ear.readline(), max(0.1, until - time.monotonic()))
            except TimeoutError:
                break
            if not line.startswith(b"data: "):
                continue
            news = json.loads(line[6:])
            counts[0] += 1
            if news["points"] or news["missed"]:
                wish = {"of": [{"run": run, "name": "loss"}], "width": 1200, "since": cursor}
                body = json.dumps(wish).encode()
                sized = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                head = f"POST /api/series HTTP/1.1\r\n{with_token}{sized}"
                writer.write(head.encode() + body)
                said = await reader.readuntil(b"\r\n\r\n")
                assert said.startswith(b"HTTP/1.1 200"), said
                size = int(next(row for row in said.split(b"\r\n") if row.lower().startswith(b"content-length"))[16:])
                data = await reader.readexactly(size)
                told = json.loads(data[4 : 4 + struct.unpack_from("<I", data)[0]])
                cursor = told["cursor"]
                counts[1] += sum(one["x"][1] for one in told["series"])
                counts[2] += 1
        mouth.close()
        writer.close()

    await asyncio.gather(*(view() for _ in range(viewers)))
    return counts


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_crowd(int(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4]), float(sys.argv[5])))))
