"""Honest requests to every port of ours, while thousands of others hang on the line with half a request each."""

import contextlib
import http.client
import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.place import fresh_home
from bench.report import Part
from vedette import address, wire

_CROWD = 2000
_GOAL_S = 1.0
_DESCRIPTORS = 1024  # what most systems allow a program that does not ask for more
_HALF = b"POST /api/series HTTP/1.1\r\nHost: localhost\r\nContent-Type: app"
# Hang on the line, so many at once; `again`: whoever is sent away comes back at once.
_HANG = """
import selectors, socket, sys
port, count, again, half = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "again", sys.argv[4].encode()
ready, said = selectors.DefaultSelector(), 0
def come():
    line = socket.socket()
    line.setblocking(False)
    line.connect_ex(("127.0.0.1", port))
    ready.register(line, selectors.EVENT_READ | selectors.EVENT_WRITE)
for _ in range(count):
    come()
while True:
    for key, events in ready.select():
        line = key.fileobj
        try:
            if events & selectors.EVENT_WRITE:
                line.send(half)
                said += 1
                if said == count:
                    print("all are here", flush=True)
                ready.modify(line, selectors.EVENT_READ)
            elif not line.recv(1000):
                raise OSError
        except OSError:
            ready.unregister(line)
            line.close()
            if again:
                come()
"""
_PAGE = """
import time
from vedette.sinks import prometheus
from vedette.model import Sample
sink = prometheus.open(prometheus.Config(), {})
sink.put([Sample(1, 1, {f"number_{n}": float(n) for n in range(200)}, "x")])
print(sink.port, flush=True)
time.sleep(600)
"""


def measure(*, quick: bool, times: int | None) -> Part:
    """Ask each port while a crowd hangs on it, once a crowd that stays away and once one that comes back."""
    part = Part(f"{_CROWD:,} connections with half a request each, at every port; {_DESCRIPTORS} descriptors")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, _CROWD + 100)), hard))
    rounds = times or (10 if quick else 50)
    for name, begin in (
        ("`vedette ui`", _ui),
        ("the listener heflwr", _listener),
        ("the page of the sink prometheus", _page),
        ("the hub's own port", _hub),
    ):
        for again, what in (("", "that hang"), ("again", "that come back at once")):
            count = rounds // 5 if again else rounds
            with begin() as (port, half, ask), _crowd(port, half, again):
                worst, wrong = _ask(ask, count)
            figure = f"{worst * 1000:.0f} ms" + (f", {wrong} not answered" if wrong else "")
            asked = f"{name}: slowest of {count} requests, {_CROWD:,} {what}"
            if again:
                part.know(asked, figure)
            else:
                part.judge(asked, figure, "< 1 s, all answered", worst < _GOAL_S and not wrong)
    part.note(
        f"Each honest request is on a connection of its own. The servers may open {_DESCRIPTORS} descriptors;"
        " the crowd is a process beside them, which takes the other core where it comes back."
    )
    return part


@contextlib.contextmanager
def _started(*argv: str):
    limited = ["sh", "-c", f'ulimit -n {_DESCRIPTORS}; exec "$0" "$@"', sys.executable, *argv]
    process = subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def _ui():
    with fresh_home(hub=False), _started("-m", "vedette", "ui", "--no-browser", "--port", "0", "--json") as process:
        url = urlsplit(json.loads(process.stdout.readline())["url"])
        token = parse_qs(url.query)["token"][0]
        yield url.port, _HALF, _http(url.port, "GET", "/api/about", None, {"Authorization": f"Bearer {token}"})


@contextlib.contextmanager
def _listener():
    with fresh_home(hub=True), _started("-u", "-m", "vedette", "hub", "--listen", "heflwr=:0") as process:
        port = ""
        while not port:
            port = "".join(re.findall(r"clients send to 127\.0\.0\.1:(\d+)", process.stdout.readline()))
        yield int(port), _HALF, _http(int(port), "POST", "/simple_log", b"identifier=a&message=b", {})


@contextlib.contextmanager
def _page():
    with _started("-c", _PAGE) as process:
        port = int(process.stdout.readline())
        yield port, _HALF, _http(port, "GET", "/metrics", None, {})


@contextlib.contextmanager
def _hub():
    with fresh_home(hub=True) as home, _started("-m", "vedette", "hub", "--quiet", "--address", "127.0.0.1:0"):
        while not os.path.exists(home.connect):
            time.sleep(0.05)
        with open(home.connect) as file:
            there = address.parse(file.read())
        yield there.port, b"\x10", lambda: _greeted(there)


@contextlib.contextmanager
def _crowd(port: int, half: bytes, again: str):
    argv = [sys.executable, "-c", _HANG, str(port), str(_CROWD), again, half.decode()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as crowd:
        try:
            crowd.stdout.readline()
            yield
        finally:
            crowd.kill()


def _ask(ask: Callable[[], bool], rounds: int) -> tuple[float, int]:
    """Return how long the slowest answer took, and how many requests were not answered."""
    worst, wrong = 0.0, 0
    for _ in range(rounds):
        begun = time.monotonic()
        try:
            wrong += not ask()
        except (OSError, http.client.HTTPException):
            wrong += 1
        worst = max(worst, time.monotonic() - begun)
        time.sleep(0.02)
    return worst, wrong


def _http(port: int, *request: Any) -> Callable[[], bool]:
    """Return what asks over HTTP, and tells whether it was answered."""

    def ask() -> bool:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as client:
            client.request(*request)
            answer = client.getresponse()
            answer.read()
            return answer.status == 200

    return ask


def _greeted(there: address.Address) -> bool:
    """Greet a hub with its token; tell whether it has greeted back."""
    unframer = wire.Unframer()
    with socket.create_connection((there.host, there.port), timeout=30) as line:
        line.sendall(wire.pack_message(wire.Hello(name="bench", token=there.token)))
        while data := line.recv(1 << 16):
            for payload in unframer.feed(data):
                return isinstance(wire.unpack_message(payload), wire.Hello)
    return False
