"""What a moment costs in each sink, and how long closing one takes; and how fast a hub hears heflwr's messages."""

import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles
from vedette import sinks
from vedette.kernel import host_span
from vedette.model import Sample
from vedette.sensing.sensor import Metric

_PUTS = 200
_NAMES = [f"number_{i}" for i in range(15)]
_METRICS = {name: Metric("gauge", name) for name in _NAMES}


def measure(*, quick: bool, times: int | None) -> Part:
    """Measure `put` and `close` of every sink by turns, then the port for heflwr's clients."""
    part = Part("a moment of 45 numbers in each sink, CPU of the calling thread; the port for heflwr's clients")
    put: dict[str, list[float]] = {}
    closed: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, fresh_home(hub=False), _hub() as port:
        texts = {
            "text": f"{folder}/a.txt", "jsonl": f"{folder}/a.jsonl", "csv": f"{folder}/a.csv", "prometheus": "0",
            "hub": "?name=bench", "form": f"127.0.0.1:{port}?identifier=bench",
        }  # fmt: skip
        for _ in range(times or (5 if quick else 25)):
            for name, text in texts.items():
                sink = sinks.find(name).open(sinks.find(name).parse(text), _METRICS)
                moments = [_moment(i) for i in range(_PUTS)]
                begun = time.thread_time_ns()
                for moment in moments:
                    sink.put(moment)
                put.setdefault(name, []).append((time.thread_time_ns() - begun) / _PUTS / 1000)
                begun = time.perf_counter_ns()
                sink.close()
                closed.setdefault(name, []).append((time.perf_counter_ns() - begun) / 1e6)
        for name in texts:
            part.know(f"`{name}`: put", f"{quartiles(put[name]).show('.0f', ' us')}")
            if name != "form":
                spread = quartiles(closed[name])
                part.most(f"`{name}`: close", spread.median, 50, spread.show(".2f", " ms"), " ms")
        rates = [_rate(port, 200) for _ in range(3 if quick else 10)]
        part.know(
            "messages a second that one heflwr client is answered, over one connection",
            quartiles(rates).show(".0f", ""),
        )
    part.note("`form` has up to 200 messages to send when it is closed, for which it takes a second at most.")
    return part


def _moment(i: int) -> list[Sample]:
    t = time.time_ns() + i
    own = {**dict.fromkeys(_NAMES, i / 3), "cpu_percent": 37.2, "memory_share_percent": 0.1}
    tagged = [Sample(t, t // 10**6, dict.fromkeys(_NAMES[:7], i / 7), host_span(), {"core": str(n)}) for n in range(4)]
    return [Sample(t, t // 10**6, own, "watched"), *tagged]


class _hub:  # noqa: N801 - a context
    def __enter__(self) -> int:
        self._folder = tempfile.TemporaryDirectory(prefix="vdb-")
        environ = {**os.environ, "VEDETTE_HOME": self._folder.name, "PYTHONUNBUFFERED": "1"}
        argv = [sys.executable, "-m", "vedette", "hub", "--heflwr", ":0"]
        self._process = subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True)
        return next(int(found[1]) for line in self._process.stdout if (found := re.search(r":(\d+)$", line)))

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()
        self._folder.cleanup()


def _rate(port: int, count: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = urllib.parse.urlencode({"identifier": "bench", "message": "Cpu Usage: 1.0%, Memory Usage: 0.1%, "})
    begun = time.perf_counter()
    for _ in range(count):
        connection.request("POST", "/simple_log", body, {"Content-type": "application/x-www-form-urlencoded"})
        assert connection.getresponse().read() == b"kept\n"
    connection.close()
    return count / (time.perf_counter() - begun)
