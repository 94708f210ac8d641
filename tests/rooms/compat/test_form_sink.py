"""Messages over HTTP: to the letter what heflwr sends, kept while nobody answers, and never in the way."""

import http.server
import os
import re
import socket
import threading
import urllib.parse
from pathlib import Path

import pytest

from tests.journeys.conftest import eventually
from tests.moments import METRICS, moment
from tests.ports import reserve_port
from vedette.compat.heflwr import form
from vedette.compat.heflwr.form import Config
from vedette.model import Sample
from vedette.monitor import Monitor

CASES = Path(__file__).parents[2] / "journeys" / "heflwr_wire"


class Receiver:
    """An HTTP server that notes what it gets; `status` is what it answers."""

    def __init__(self, port=0):
        self.got, self.connections, self.status, self.hold = [], 0, 200, threading.Event()
        self.hold.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                outer.connections += 1

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-length"]))
                outer.hold.wait(20)
                outer.got.append((self.path, self.headers, body))
                status = outer.status(len(outer.got)) if callable(outer.status) else outer.status
                if status is None:  # hang up without an answer
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def messages(self):
        return [urllib.parse.parse_qs(body.decode())["message"][0] for _, _, body in self.got]

    def close(self):
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def time_to_close(monkeypatch):
    """Let a close take its time, as what it sends on a slow machine is no figure of ours."""
    monkeypatch.setattr(form, "_CLOSING_S", 60.0)


def opened(port, **config):
    return form.open(Config(f"127.0.0.1:{port}", **{"identifier": "client A", **config}), METRICS)


def case(name):
    head, _, body = (CASES / f"{name}.http").read_bytes().partition(b"\r\n\r\n")
    line, *headers = head.decode().split("\r\n")
    return line, [header for header in headers if not header.startswith("Host")], body


def numbers(cpu, memory, sent, received, t):
    return [
        Sample(t, 1, {"cpu_percent": cpu, "memory_share_percent": memory}, "x"),
        Sample(t, 1, {"net_sent_bytes": sent, "net_received_bytes": received}, "host-x"),
    ]


@pytest.fixture
def line():
    """A bare socket that notes all bytes, and answers each request."""
    listener = socket.create_server(("127.0.0.1", 0))
    found = []

    def serve():
        peer, _ = listener.accept()
        data = b""
        while piece := peer.recv(1 << 16):
            data += piece
            head, end, body = data.partition(b"\r\n\r\n")
            if end and len(body) == int(re.search(rb"Content-length: (\d+)", head)[1]):
                found.append(data)
                data = b""
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1], found
    listener.close()


def test_simple_to_the_letter(line):
    """What is sent is byte for byte what the original sends, but for one header more."""
    port, found = line
    sink = opened(port)
    sink.put(numbers(0.0, 0.11073470279408627, 0, 0, 1))
    sink.put(numbers(0.0, 0.11073470279408627, 959, 959, 2))
    sink.close()
    head, _, body = found[1].partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")

    assert (first, [h for h in headers if not h.startswith(("Host", "Vedette"))], body) == case("simple")
    assert [h for h in headers if h.startswith("Host")] == [f"Host: 127.0.0.1:{port}"]
    assert re.fullmatch(r"Vedette-Moment: \w{16} 2 2", headers[-1])


def test_two_numbers_alone(line):
    """What is not wanted is not in the message."""
    port, found = line
    sink = opened(port, wanted=("cpu", "memory"))
    sink.put(numbers(0.0, 0.11243631903781219, 5, 5, 1))
    sink.close()

    assert found[0].partition(b"\r\n\r\n")[2] == case("simple_two_numbers")[2]


def test_full_has_every_field(line):
    """The full form has the same fields in the same order, and those that do not tell of the program are the same."""
    port, found = line
    sink = opened(port, simple=False)
    sink.put(numbers(0.0, 0.11094537909092854, 0, 0, 1_794_808_032_468_936_400))
    sink.put(numbers(0.0, 0.11094537909092854, 1566, 1566, 1_794_808_033_468_936_400))
    sink.close()
    ours = urllib.parse.parse_qsl(found[1].partition(b"\r\n\r\n")[2].decode(), keep_blank_values=True)
    theirs = urllib.parse.parse_qsl(case("full")[2].decode(), keep_blank_values=True)
    ours = [pair for pair in ours if pair[0] != "taskName"]  # newer Pythons have it, and the original there, too
    about = (
        "pathname filename module lineno funcName relativeCreated thread threadName process processName asctime".split()
    )

    assert found[1].startswith(b"POST /log HTTP/1.1\r\n")
    assert [key for key, _ in ours] == [key for key, _ in theirs]
    assert [pair for pair in ours if pair[0] not in about] == [pair for pair in theirs if pair[0] not in about]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", dict(ours)["asctime"])


def test_power_by_its_labels(receiver):
    """Power has the original's labels, which are not those of the file."""
    sink = opened(receiver.port, wanted=("power",))
    rails = {"in": 4.98, "cpu_gpu_cv": 1.5, "soc": 0.25}
    sink.put([Sample(1, 1, {"power_w": watts}, "host-x", {"group": group}) for group, watts in rails.items()])
    sink.close()

    assert receiver.messages() == ["VDD In: 4980, VDD cpu_gpu_cv: 1500, VDD soc: 250, "]


def test_one_connection(receiver):
    """Many messages go over one connection, in order, each once."""
    sink = opened(receiver.port)
    for i in range(100):
        sink.put(moment(i))
    sink.close()

    assert (len(receiver.got), receiver.connections, sink.lost) == (100, 1, 0)
    assert [int(headers["Vedette-Moment"].split()[1]) for _, headers, _ in receiver.got] == list(range(1, 101))


def test_nobody_there_yet():
    """What was measured while nobody answered is sent once somebody does, in order."""
    port = reserve_port()
    sink = opened(port)
    for i in range(20):
        sink.put(moment(i))
    eventually(lambda: "cannot be reached" in sink.trouble)
    late = Receiver(port)
    try:
        eventually(lambda: len(late.got) == 20)
        assert [message.split("%")[0] for message in late.messages()] == [
            f"Cpu Usage: {10.5 + 10 * i}" for i in range(20)
        ]
        eventually(lambda: sink.trouble == "")
        sink.close()
        assert sink.lost == 0
    finally:
        late.close()


def test_nobody_comes(capfd):
    """At the close with nobody there, what waits is counted, nothing is printed, and it does not take long."""
    port = reserve_port()
    sink = opened(port)
    for i in range(20):
        sink.put(moment(i))
    sink.close()

    assert sink.lost == 20
    assert capfd.readouterr() == ("", "")


def test_one_that_hangs(monkeypatch, receiver):
    """A receiver that takes a message and never answers holds up neither `put` nor, for more than a second, `close`."""
    monkeypatch.setattr(form, "_CLOSING_S", 1.0)
    receiver.hold.clear()
    sink = opened(receiver.port)
    for i in range(1000):
        sink.put(moment(i))
    sink.close()

    assert sink.lost == 1000  # it hangs for 20 s: had anybody waited so long, they would have been taken


def test_a_monitor_of_one_that_hangs(receiver):
    """A monitor whose receiver hangs tells all that it saw, and how much of it was not taken."""
    receiver.hold.clear()
    monitor = Monitor(f"form:127.0.0.1:{receiver.port}", interval_s=0.02, where="process").start()
    eventually(lambda: len(monitor.stats()["t"]) >= 5)
    monitor.stop()

    [(label, text)] = monitor.trouble.items()
    assert label == f"form:127.0.0.1:{receiver.port}"
    assert re.search(r"lacks \d+ moments", text)


def test_one_that_speaks_to_the_terminal():
    """What a receiver says that is no HTTP comes back without its escape codes, and not at length."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = opened(server.getsockname()[1])
        sink.put(moment(1))
        peer, _ = server.accept()
        peer.recv(1 << 16)
        peer.sendall(b"\x1b[31mred\x07" + b"x" * 1000 + b"\r\n\r\n")
        peer.close()
        eventually(lambda: sink.trouble)
        trouble = sink.trouble
    sink.close()  # nobody is there any more: it is not waited for

    assert trouble.isprintable()
    assert len(trouble) < 300


def test_the_oldest_go(monkeypatch, receiver):
    """When more waits than is kept, the oldest are given up, and counted."""
    monkeypatch.setattr(form, "MAX_WAITING", 10)
    receiver.hold.clear()
    sink = opened(receiver.port)
    for i in range(30):
        sink.put(moment(i))
    receiver.hold.set()
    sink.close()

    assert sink.lost in (19, 20)  # one may have been on its way
    assert receiver.messages()[-1].startswith("Cpu Usage: 300.5%")


def test_refusals(receiver):
    """What a receiver refuses is lost, and counted; one in trouble is asked a few times more."""
    receiver.status = lambda n: 404 if n <= 2 else 500 if n <= 4 else 200
    sink = opened(receiver.port)
    for i in range(4):
        sink.put(moment(i))
    eventually(lambda: len(receiver.got) == 6)
    sink.close()

    assert sink.lost == 2
    found = [int(headers["Vedette-Moment"].split()[1]) for _, headers, _ in receiver.got]
    assert found == [1, 2, 3, 3, 3, 4]


def test_a_server_in_trouble_for_ever(receiver):
    """A message that makes a receiver fail each time does not stop those behind it."""
    receiver.status = lambda n: 500 if n <= 4 else 200
    sink = opened(receiver.port)
    sink.put(moment(1))
    sink.put(moment(2))
    eventually(lambda: len(receiver.got) == 5)
    sink.close()

    assert sink.lost == 1


def test_a_lost_answer(receiver):
    """A message whose answer is lost is sent again under the same name, so that it can count once."""
    receiver.status = lambda n: None if n == 1 else 200
    sink = opened(receiver.port)
    sink.put(moment(1))
    eventually(lambda: len(receiver.got) == 2)
    sink.close()

    assert len({headers["Vedette-Moment"] for _, headers, _ in receiver.got}) == 1


def test_names_that_are_made_up(receiver):
    """Without an identifier there is one of its own, as the original makes them."""
    made = [opened(receiver.port, identifier="") for _ in range(2)]
    for sink in made:
        sink.put(moment())
        sink.close()
    found = [urllib.parse.parse_qs(body.decode())["identifier"][0] for _, _, body in receiver.got]

    assert all(re.fullmatch("remote-monitor-[0-9a-f]{32}", name) for name in found)
    assert len(set(found)) == 2


def test_a_fork_child(receiver):
    """A fork child that closes it waits for nothing, and takes nothing away."""
    sink = opened(receiver.port)
    pid = os.fork()
    if not pid:
        sink.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    sink.put(moment())
    sink.close()

    assert (len(receiver.got), sink.lost) == (1, 0)
