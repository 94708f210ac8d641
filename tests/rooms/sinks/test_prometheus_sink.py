"""The page for Prometheus: right names and types, nothing stale, closed to strangers, and really gone when closed."""

import contextlib
import http.client
import os
import select
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.journeys.conftest import eventually
from tests.moments import METRICS, moment
from vedette import gate as gates
from vedette import sinks
from vedette.certificate import _make_certificate
from vedette.errors import SettingError
from vedette.model import Sample
from vedette.sinks import prometheus
from vedette.sinks.prometheus import Config, page


@pytest.fixture
def opened():
    made = []

    def begin(**config):
        made.append(prometheus.open(Config(**config), METRICS))
        return made[-1]

    yield begin
    for sink in made:
        sink.close()


def fetch(port, path="/metrics", method="GET", **headers):
    """Return status, body and headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    found = response.status, response.read().decode(), response.headers
    connection.close()
    return found


def values(text):
    """Return the value of each series on a page."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_names_types_and_units(opened):
    """Own names say whose it is and spell out the unit; counters are counters, tags are labels, values are as put."""
    sink = opened(pid=77)
    sink.put(moment(3))
    text = fetch(sink.port)[1]
    found = values(text)

    assert found["vedette_process_cpu_seconds_total", (("pid", "77"),)] == 1.5
    assert found["vedette_process_cpu_percent", (("pid", "77"),)] == 40.5
    assert found["vedette_host_cpu_percent", ()] == 80.0
    assert found["vedette_host_cpu_percent", (("core", "0"),)] == 43.0
    assert found["vedette_host_power_watts", (("group", "in"),)] == 4.98
    assert found["vedette_host_energy_joules_total", (("group", "in"),)] == 10.5
    assert "# TYPE vedette_process_cpu_seconds_total counter" in text
    assert "# HELP vedette_host_power_watts Power\n# TYPE vedette_host_power_watts gauge" in text
    assert len(found) == sum(len(sample.values) for sample in moment())
    assert not any(name.startswith(("python_", "process_")) for name, _ in found)


def test_the_plain_names(opened):
    """By names=plain it has the gauges that are known, without labels, with their help."""
    sink = opened(names="plain")
    sink.put(moment(0))
    sink.put(moment(1))
    text = fetch(sink.port)[1]

    assert values(text) == {
        ("cpu_usage", ()): 20.5, ("memory_usage", ()): 0.125, ("bytes_sent", ()): 100, ("bytes_recv", ()): 50,
        ("vdd_in", ()): 4980,
    }  # fmt: skip
    assert "# HELP cpu_usage CPU usage percentage\n# TYPE cpu_usage gauge" in text


def test_hostile_labels(opened):
    """Whatever stands in a tag comes back as it was, and adds no line."""
    evil = 'a"} 1\nevil_total 2 \\ é'
    sink = opened()
    sink.put([Sample(1, 1, {"cpu_percent": 1.0}, "x", {"who": evil, "9-x": "b", "__name__": "c"})])
    found = values(fetch(sink.port)[1])

    assert list(found) == [("vedette_process_cpu_percent", (("name__", "c"), ("tag_9_x", "b"), ("who", evil)))]


def test_openmetrics(opened):
    """A reader that asks for OpenMetrics gets it; one that asks nonsense gets the plain text."""
    sink = opened()
    sink.put(moment())
    assert fetch(sink.port, Accept="application/openmetrics-text; version=1.0.0")[1].endswith("# EOF\n")
    for odd in ("application/openmetrics-text; version=x", "text/plain; version=..;", "," * 1000):
        assert fetch(sink.port, Accept=odd)[0] == 200


def test_what_is_stale(opened, monkeypatch):
    """A number that is read rarely stays, one that has not come for long goes, and all go when nothing comes."""
    now = [1000.0]
    monkeypatch.setattr(prometheus.time, "monotonic", lambda: now[0])
    sink = opened()
    sink.put(moment(0, memory_pss_bytes=5))
    key = "vedette_process_memory_pss_bytes", ()
    for _ in range(59):
        now[0] += 1
        sink.put(moment(0))
    assert values(fetch(sink.port)[1])[key] == 5
    now[0] += 2
    sink.put(moment(0))
    found = values(fetch(sink.port)[1])
    assert key not in found
    assert found
    now[0] += 61
    assert values(fetch(sink.port)[1]) == {}


def test_moments_far_apart_stay(opened, monkeypatch):
    """Where moments are minutes apart, a value lives for three of them."""
    now = [1000.0]
    monkeypatch.setattr(prometheus.time, "monotonic", lambda: now[0])
    sink = opened()
    sink.put(moment(0))
    now[0] += 600
    assert values(fetch(sink.port)[1])
    sink.put(moment(1, rare=1))
    now[0] += 1700
    assert values(fetch(sink.port)[1])


def test_several_and_again(opened):
    """Several are open at once; a closed one refuses connections, and its port can be had again at once, often."""
    first, second = opened(), opened()
    first.put(moment(1))
    second.put(moment(2))
    key = "vedette_process_cpu_percent", ()
    assert [values(fetch(sink.port)[1])[key] for sink in (first, second)] == [20.5, 30.5]
    for _ in range(5):
        first.close()
        with pytest.raises(ConnectionRefusedError):
            fetch(first.port)
        first = opened(port=first.port)
        assert fetch(first.port)[0] == 200
    assert fetch(second.port)[0] == 200


def test_a_fork_child_does_not_hold_the_port(opened):
    """A child that was forked meanwhile neither answers nor keeps the port."""
    sink = opened()
    child = subprocess.Popen(["sleep", "300"], close_fds=False)
    pid = os.fork()
    if not pid:
        time.sleep(300)
        os._exit(0)
    try:
        sink.close()
        with pytest.raises(ConnectionRefusedError):
            fetch(sink.port)
        assert fetch(opened(port=sink.port).port)[0] == 200
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        child.kill()
        child.wait()


def test_an_open_connection_ends(opened):
    """Who hangs on the line without a word is cut off when it closes, and holds up nobody before."""
    sink = opened()
    with socket.create_connection(("127.0.0.1", sink.port)) as idle:
        assert fetch(sink.port)[0] == 200
        sink.close()
        idle.settimeout(60)
        assert idle.recv(1) == b""


def test_those_who_come_to_stay(opened):
    """Connections that say a little and stay keep nobody from reading, and cost no thread: the oldest has to go."""
    sink = opened()
    before = len(os.listdir("/proc/self/fd"))
    crowd = [socket.create_connection(("127.0.0.1", sink.port)) for _ in range(100)]
    for idle in crowd:
        idle.sendall(b"GET /")
    try:
        assert fetch(sink.port)[0] == 200
        eventually(lambda: len(os.listdir("/proc/self/fd")) - before <= 100 + page._MAX_READERS + 1)
        eventually(lambda: not any("process_request" in thread.name for thread in threading.enumerate()))
    finally:
        for idle in crowd:
            idle.close()


@pytest.mark.parametrize("tls", [False, True])
def test_those_who_take_their_time(tls, opened, pem, monkeypatch):
    """A line that says a little now and then ends all the same when its time is over."""
    monkeypatch.setattr(gates, "HEADERS_S", 0.3)
    sink = opened(cert=pem) if tls else opened()
    with socket.create_connection(("127.0.0.1", sink.port), timeout=60) as slow, contextlib.suppress(OSError):
        slow.sendall(bytes.fromhex("1603010200010001fc0303") if tls else b"GET / HTTP/1.0\r\n")  # a Hello begins so
        while not select.select([slow], [], [], 0.02)[0]:
            slow.sendall(b"\0" if tls else b"X: y\r\n")
        assert slow.recv(1) == b""


def test_a_long_head(opened):
    """Headers without an end are refused, not cut: what follows could tell the guard something."""
    sink = opened()
    with socket.create_connection(("127.0.0.1", sink.port), timeout=60) as long, contextlib.suppress(OSError):
        long.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n" + 2 * (b"X: " + b"y" * 60_000 + b"\r\n"))
        long.sendall(b"Origin: http://evil.example\r\n\r\n")
        assert long.recv(1000).startswith(b"HTTP/1.0 431")


USED_UP = """
import os, resource, socket, time
from vedette.sinks import prometheus
from vedette.sinks.prometheus import page
tries, handle = [], page._Server.get_request
page._Server.get_request = lambda self: (tries.append(1), handle(self))[1]
sink = prometheus.open(prometheus.Config(), {})
peer = socket.socket()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
peer.connect(("127.0.0.1", sink.port))
time.sleep(1)
enough = len(tries)
for fd in held: os.close(fd)
peer.sendall(b"GET / HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n")
print(peer.recv(100)[:15], 1 <= enough < 50)
"""


def test_a_program_without_descriptors():
    """Who comes when no descriptor is left is answered once there is one; meanwhile nothing turns round and round."""
    done = subprocess.run([sys.executable, "-c", USED_UP], check=False, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "b'HTTP/1.0 200 OK' True\n", "")


def answers(port):
    try:
        return fetch(port)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_a_port_that_is_taken(opened):
    """A port in use is said in one sentence."""
    with pytest.raises(SettingError, match="another program listens there already"):
        opened(port=opened().port)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"path": "/"}, 200), ({"path": "/metrics?x=1"}, 200), ({"method": "HEAD"}, 200), ({"path": "/x"}, 404),
        ({"method": "POST"}, 405), ({"method": "DELETE"}, 405), ({"method": "FISH"}, 405),
        ({"Host": "localhost:1"}, 200), ({"Host": "[::1]:9"}, 200), ({"Host": "127.0.0.2"}, 200),
        ({"Host": "evil.example"}, 421), ({"Host": "127.0.0.1.evil.example:80"}, 421), ({"Host": "192.0.2.7:80"}, 421),
        ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
    ],
)  # fmt: skip
def test_who_is_answered(opened, asked, status):
    """Only reading is answered, only for this machine's names, and not for other pages."""
    sink = opened()
    sink.put(moment())
    found, body, _ = fetch(sink.port, **asked)

    assert found == status
    assert body.count("\n") == (0 if asked.get("method") == "HEAD" else 1) or "metrics" in asked.get("path", "/metrics")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.org"])
@pytest.mark.parametrize("more", [{}, {"token": "t"}, {"cert": "{pem}"}])
def test_a_wider_address(host, more, opened, pem):
    """Beyond this machine it does not listen without token and TLS, and says what to do."""
    with pytest.raises(SettingError, match=r"token, cert and key, or listen on 127\.0\.0\.1"):
        opened(host=host, **{key: value.format(pem=pem) for key, value in more.items()})


@pytest.fixture
def pem(tmp_path):
    path = tmp_path / "both.pem"
    path.write_bytes(_make_certificate())
    return str(path)


def test_token_and_tls(opened, pem):
    """With token and TLS it listens everywhere, and answers who has the token alone."""
    sink = opened(host="0.0.0.0", token="s3cret", cert=pem, hostnames=("any.example",))
    sink.put(moment())
    context = ssl._create_unverified_context()

    def ask(**headers):
        request = urllib.request.Request(f"https://127.0.0.1:{sink.port}/metrics", headers=headers)
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    assert ask() == 401
    assert ask(Authorization="Bearer s3cre") == 401
    assert ask(Authorization="Bearer é") == 401
    assert ask(Authorization="Bearer s3cret") == 200
    with socket.create_connection(("127.0.0.1", sink.port)) as silent:  # a handshake that never comes
        assert ask(Authorization="Bearer s3cret", Host="any.example") == 200
        assert ask(Authorization="Bearer s3cret", Host=f"{socket.gethostname()}:1") == 200
        assert ask(Authorization="Bearer s3cret", Host="other.example") == 421
        assert silent.fileno() > 0
    with pytest.raises((OSError, http.client.HTTPException)):
        fetch(sink.port)


def test_a_token_from_a_file(tmp_path):
    """On a command line the token is named by its file, for arguments can be seen by everybody."""
    (tmp_path / "token").write_text("s3cret\n")

    assert sinks.parse(f"prometheus:0?token_file={tmp_path}/token")[1].token == "s3cret"


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="PROMETHEUS IS NOT HERE: apt-get install prometheus")
@pytest.mark.parametrize("names", ["own", "plain"])
def test_promtool_finds_no_fault(opened, names):
    """Prometheus's own checker finds nothing to say against the page."""
    sink = opened(names=names)
    sink.put(moment(0))
    sink.put(moment(1))
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=fetch(sink.port)[1], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
