"""heflwr's clients speak to a real hub: what the original sends is replayed to the byte; what is answered is kept."""

import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from tests.moments import METRICS, moment
from tests.rooms.conftest import call
from vedette.compat.heflwr import form
from vedette.home import Home

CASES = Path(__file__).parent / "heflwr_wire"
TYPE = "application/x-www-form-urlencoded"


def listening(home, port=0, *more, **environ):
    """Start a hub that listens for clients; return it and the port."""
    argv = [sys.executable, "-m", "vedette", "hub", "--listen", f"heflwr=:{port}", *more]
    surroundings = {**os.environ, "VEDETTE_HOME": home.asked, "PYTHONUNBUFFERED": "1", **environ}
    hub = subprocess.Popen(argv, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in hub.stdout:
        if found := re.search(r"send to 127\.0\.0\.1:(\d+)", line):
            return hub, int(found[1])
    raise AssertionError(hub.communicate()[1])


@pytest.fixture
def begin(home):
    """Start hubs that listen for clients, each once the last is gone; hand out the port."""
    running = []

    def start(port=0, *more, **environ):
        hub, port = listening(home, port, *more, **environ)
        running.append(hub)
        return hub, port

    yield start
    for hub in running:
        hub.kill()
        hub.communicate()


@pytest.fixture(scope="module")
def shared():
    """The port of one hub that listens, for tests that need no runs of their own."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        hub, port = listening(Home(root))
        yield port
        hub.kill()
        hub.communicate()


def replay(port, raw):
    """Send bytes as they are; return the status and text of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(raw)
        response = http.client.HTTPResponse(peer)
        response.begin()
        return response.status, response.read().decode()


def case(name):
    return (CASES / f"{name}.http").read_bytes()


def post(port, path="/simple_log", method="POST", headers=None, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, urllib.parse.urlencode(fields), {"Content-type": TYPE, **(headers or {})})
    response = connection.getresponse()
    found = response.status, response.read().decode()
    connection.close()
    return found


def test_the_original_is_heard(home, begin):
    """What an unmodified client sends becomes a run of its identifier: numbers are points, other lines are its log."""
    _, port = begin()
    for name in ("simple", "simple_two_numbers", "full", "line"):
        assert replay(port, case(name)) == (200, "kept\n")
    one, two = sorted(read_runs(home), key=lambda run: run.name)

    assert [(run.name, run.project, run.state) for run in (one, two)] == [
        ("client A", "heflwr", "running"), ("client B", "heflwr", "running"),
    ]  # fmt: skip
    assert sorted(one.history("network_bytes_sent").value.tolist()) == [959, 1566]
    assert one.history("cpu_percent").value.tolist() == one.history("cpu_usage").value.tolist() == [0.0] * 3
    assert len(one.history("memory_share_percent").value) == 3
    [line] = two.logs()
    assert (line.kind, line.level, line.text) == ("log", 30, "accuracy 0.50, größer & <b>")
    assert (line.attrs["file"], line.attrs["line"]) == ("train.py", 14)
    shown = call("points", "client A", "cpu_usage", home=home.asked)
    assert shown.returncode == 0, shown.stderr


def test_our_own_sink_is_heard(home, begin):
    """What the form sink sends arrives whole and once, at the times that it was measured, also over a restart."""
    hub, port = begin()
    sink = form.open(form.Config(f"127.0.0.1:{port}", "ours"), METRICS)
    for i in range(300):
        sink.put(moment(i, t=10**18 + i * 10**9))
        if i == 100:
            hub.kill()
            hub.communicate()
        if i == 200:
            begin(port)
    eventually(lambda: not sink._waiting)
    sink.close()
    [run] = read_runs(home)

    assert sink.lost == 0
    assert sorted(set(run.history("cpu_usage").value.tolist())) == [10.5 + 10 * i for i in range(300)]
    assert sorted(set(run.history("cpu_usage").t.tolist())) == [10**18 + i * 10**9 for i in range(300)]


def test_twice_is_once(home, begin):
    """A message that is sent again, because its answer was lost, counts once; without a name it cannot be told."""
    _, port = begin()
    for n in (1, 1, 2, 1, 2):
        post(port, identifier="a", message="Cpu Usage: 1.0%, ", headers={"Vedette-Moment": f"me {n} {10**18 + n}"})
    for _ in range(2):
        post(port, identifier="b", message="Cpu Usage: 1.0%, ")
    counts = {run.name: len(run.history("cpu_usage").value) for run in read_runs(home)}

    assert counts == {"a": 2, "b": 2}


def test_answered_is_kept(home, begin):
    """What was answered by 200 is kept, though the hub is killed by -9 at once; and the run goes on in the next."""
    told, port = 0, 0
    for _ in range(3):
        hub, port = begin(port)
        for _ in range(40):
            assert post(port, identifier="a", message=f"Bytes Sent: {told}, ")[0] == 200
            assert post(port, identifier="a", message=f"line {told}")[0] == 200
            told += 1
        hub.send_signal(signal.SIGKILL)
        hub.communicate()
    begin(port)
    [run] = read_runs(home)

    assert run.history("network_bytes_sent").value.tolist() == list(range(told))
    assert sorted(int(line.text.split()[1]) for line in run.logs()) == list(range(told))


def test_the_check_of_that_finds_a_loss(home, begin, tmp_path):
    """A hub that answers before it has put anything on record is found out by a kill."""
    lossy = tmp_path / "sitecustomize.py"
    lossy.write_text("import vedette.hub.own as own\nown.Own.sample = own.Own.say = lambda *_: None\n")
    hub, port = begin(PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert post(port, identifier="a", message="Bytes Sent: 1, ")[0] == 200
    hub.kill()
    hub.communicate()

    begin()
    assert read_runs(home) == []


def test_it_ends_in_good_order(home, begin):
    """SIGTERM ends the hub as ever, with a client on the line; another on the same port takes the run up again."""
    hub, port = begin()
    post(port, identifier="a", message="Bytes Sent: 1, ")
    with socket.create_connection(("127.0.0.1", port)):
        hub.send_signal(signal.SIGTERM)
        assert hub.wait(20) == 0
    assert hub.communicate()[1] == ""
    begin(port)
    post(port, identifier="a", message="Bytes Sent: 2, ")

    [run] = read_runs(home)
    assert run.history("network_bytes_sent").value.tolist() == [1, 2]


def test_a_run_that_was_removed(home, begin):
    """Once its run was removed for good, an identifier gets a new one."""
    _, port = begin()
    post(port, identifier="a", message="Bytes Sent: 1, ")
    [before] = read_runs(home)
    assert call("rm", before.id, "--now", "--force", "-y", home=home.asked).returncode == 0

    def again():
        post(port, identifier="a", message="Bytes Sent: 2, ")
        return [run for run in read_runs(home) if run.id != before.id]

    [after] = eventually(again)
    assert set(after.history("network_bytes_sent").value.tolist()) == {2}


def test_a_run_that_goes_quiet(home, begin, tmp_path):
    """A run whose client has been silent for long is done, at its last word; the next word begins another."""
    quick = tmp_path / "sitecustomize.py"
    quick.write_text("from vedette.compat.heflwr import listener, receiver\nreceiver.IDLE_S = listener._TEND_S = 0.3\n")
    _, port = begin(PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    post(port, identifier="a", message="Bytes Sent: 1, ")
    ended = eventually(lambda: next((run for run in read_runs(home) if run.state == "done"), None))
    assert ended.end_t >= ended.start_t
    post(port, identifier="a", message="Bytes Sent: 2, ")

    assert [run.history("network_bytes_sent").value.tolist() for run in read_runs(home)] == [[1], [2]]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"method": "GET"}, 405), ({"method": "PUT"}, 405), ({"method": "GET", "path": "/"}, 404),
        ({"path": "/x"}, 404),
        ({"headers": {"Origin": "http://127.0.0.1"}}, 403), ({"headers": {"Origin": "null"}}, 403),
        ({"headers": {"Host": "evil.example"}}, 421), ({"headers": {"Host": "localhost:9"}}, 200),
        ({"headers": {"Host": "[::1]:9"}}, 200), ({"headers": {"Vedette-Moment": "what"}}, 200),
        ({"message": "x" * 100_000}, 413), ({"message": "x" * 40_000}, 400), ({"identifier": ""}, 400),
        ({"identifier": "x" * 300}, 400), ({"identifier": "a\nb"}, 400),
    ],
)  # fmt: skip
def test_who_is_heard(shared, asked, status):
    """Browsers, other names, other methods, and what is too large or no form are refused in one sentence."""
    found, text = post(shared, **{"identifier": "a", "message": "b", **asked})

    assert (found, text.count("\n")) == (status, 1)


def test_without_end(shared):
    """A body without a length that does not end is cut off, not gathered."""
    with socket.create_connection(("127.0.0.1", shared), timeout=60) as peer:
        peer.sendall(b"POST /log HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        with pytest.raises(OSError):
            peer.sendall(piece * 10_000)


def test_garbage(home, begin):
    """Whatever bytes come, the hub stays, and goes on to hear who speaks properly."""
    hub, port = begin()
    chance = random.Random(5)
    good = [case(name) for name in ("simple", "full", "line")]
    for i in range(200):
        raw = bytearray(chance.choice(good))
        if i % 3 == 0:
            raw = bytearray(chance.randbytes(chance.randrange(1, 3000)))
        else:
            for _ in range(chance.randrange(1, 20)):
                raw[chance.randrange(len(raw))] = chance.randrange(256)
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=0.05) as peer:
                peer.sendall(raw[: chance.randrange(1, len(raw) + 1)] if i % 2 else raw)
                peer.recv(100)
        except OSError:
            pass
    assert post(port, identifier="good", message="Bytes Sent: 1, ") == (200, "kept\n")
    assert hub.poll() is None
    assert [run.history("network_bytes_sent").value.tolist() for run in read_runs(home) if run.name == "good"] == [[1]]
    hub.send_signal(signal.SIGTERM)
    assert hub.communicate()[1] == ""


def test_those_who_come_to_stay(begin, tmp_path):
    """Connections that never finish a request are let go of, and then others are heard; one that is used may stay."""
    quick = tmp_path / "sitecustomize.py"
    quick.write_text("import vedette.listeners.http as http\nhttp._IDLE_S, http._MAX_CONNECTIONS = 0.5, 20\n")
    _, port = begin(PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    used = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
    for peer in crowd:
        peer.sendall(case("simple") + b"POST /log HT" if peer is crowd[0] else b"POST /log HT")
    eventually(lambda: post(port, identifier="a", message="b")[0] == 200)
    used.request("POST", "/simple_log", "identifier=a&message=b", {"Content-type": TYPE})
    assert used.getresponse().read() == b"kept\n"
    for peer in crowd:
        peer.settimeout(20)
        while peer.recv(1000):
            pass
        peer.close()
    used.close()


def test_many_identifiers(home, begin, tmp_path):
    """Beyond so many identifiers at once new ones are turned away, and counted; those that are known are heard."""
    few = tmp_path / "sitecustomize.py"
    few.write_text("import vedette.compat.heflwr.receiver as receiver\nreceiver._MAX_RUNS = 3\n")
    _, port = begin(PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")

    assert [post(port, identifier=f"i{n}", message="x")[0] for n in range(5)] == [200, 200, 200, 429, 429]
    assert post(port, identifier="i1", message="y")[0] == 200
    assert len(read_runs(home)) == 3
    eventually(lambda: "2 by heflwr identifiers" in call("doctor", home=home.asked).stdout)


@pytest.mark.parametrize("where", ["0.0.0.0:5000", "192.0.2.1:5000", "example.org:5000", "[::]:5000"])
def test_a_wider_address(home, where):
    """Beyond this machine it does not listen, and says the ways out; by its own option or as any listener."""
    for said in (["--heflwr", where], ["--listen", f"heflwr={where}"]):
        done = call("hub", *said, home=home.asked)

        assert done.returncode == 2
        assert "ssh -L" in done.stderr
        assert "VEDETTE_HUB" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("where", ["x", "/tmp/x", ":70000", ":x"])
def test_nowhere(home, where):
    """What is no port is said."""
    done = call("hub", "--heflwr", where, home=home.asked)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_port_that_is_taken(home):
    """A port in use is one sentence, and leaves no hub behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = call("hub", "--heflwr", f":{taken.getsockname()[1]}", home=home.asked)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be listened on: another program listens there already" in done.stderr
    assert home.hub_pid() is None


@pytest.mark.parametrize("form", [("VEDETTE_HUB_HEFLWR", ":{}"), ("VEDETTE_HUB_LISTEN", "heflwr=:{}")])
def test_a_hub_that_starts_by_itself(home, form):
    """As a setting it holds for a hub that starts by itself; where the port is taken it goes on without, and tries."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environ = {form[0]: form[1].format(port)}
        code = "import vedette; vedette.init(name='job').finish()"
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "VEDETTE_HOME": home.asked, **environ}, check=True
        )
        eventually(home.hub_pid)

        def told():
            found = json.loads(call("doctor", "--json", home=home.asked, environ=environ).stdout)
            return "cannot be listened on" in json.dumps(found)

        eventually(told)
    eventually(lambda: heard(port))
    end_hub(home)


def heard(port):
    try:
        return post(port, identifier="a", message="x")[0] == 200
    except OSError:
        return False


def test_it_does_not_leave(home, begin):
    """A hub that listens for clients stays though nobody else is there."""
    hub, port = begin(0, "--set", "hub.idle_s=0.2")
    time.sleep(1.5)

    assert hub.poll() is None
    assert post(port, identifier="a", message="x")[0] == 200
