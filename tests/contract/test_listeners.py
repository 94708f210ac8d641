"""What every listener promises: nobody gets past the one guard, and what was answered is kept whatever is killed.

A new HTTP listener is a row of GUARDED; one that the hub starts has its words in the three tables below that, too.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests import hostile_requests
from tests.hostile_requests import Good
from tests.journeys.conftest import eventually, read_runs
from tests.listening import answering
from tests.moments import METRICS, moment
from tests.ports import reserve_port
from tests.rooms import web
from tests.rooms.conftest import call
from tests.soak import times
from vedette import gate as gates
from vedette import guard, listeners
from vedette.access.home_access import HomeAccess
from vedette.errors import SettingError
from vedette.home import Home
from vedette.sinks import prometheus
from vedette.store.sqlite import SqliteStore

TOKEN = "the-token-of-this-page"
FORM = (("Content-Type", "application/x-www-form-urlencoded"),)
JSON = (("Content-Type", "application/json"),)


class Listener(NamedTuple):
    """How to open one, and requests that it answers."""

    opened: Callable[[Home], contextlib.AbstractContextManager[int]]
    good: tuple[Good, ...]


@contextlib.contextmanager
def _page(home: Home, token: str = "") -> Iterator[int]:
    sink = prometheus.open(prometheus.Config(token=token), METRICS)
    try:
        sink.put(moment())
        yield sink.port
    finally:
        sink.close()


@contextlib.contextmanager
def _web(home: Home) -> Iterator[int]:
    home.prepare()
    SqliteStore(home.store).close()
    with web.site(HomeAccess(home)) as site:
        yield site.port


GUARDED = {
    "web": Listener(_web, (
        Good("GET", "/api/about", token=web.TOKEN), Good("POST", "/api/share", JSON, b"{}", web.TOKEN),
    )),
    "prometheus": Listener(_page, (Good("GET", "/metrics"),)),
    "prometheus with a token": Listener(lambda home: _page(home, TOKEN), (Good("GET", "/metrics", token=TOKEN),)),
    "heflwr": Listener(lambda home: answering(home, "heflwr"), (
        Good("POST", "/simple_log", FORM, b"identifier=a&message=b"),
    )),
}  # fmt: skip
BAD = {"heflwr": ["", "x", "/tmp/x", ":70000", ":x", "a:b:c", "127.0.0.1"]}
WIDE = {"heflwr": ["0.0.0.0:{port}", "[::]:{port}", "192.0.2.1:{port}", "example.org:{port}", "x.localhost:{port}"]}
KEPT = {"heflwr": lambda run: len(run.logs())}  # how often its good request stands in a run


@pytest.mark.parametrize("name", GUARDED)
def test_no_attack_is_answered(name, home):
    """Every attack of the corpus is refused by every listener, which answers good requests before and after."""
    listener = GUARDED[name]
    with listener.opened(home) as port:
        assert [hostile_requests.send(port, good)[0] for good in listener.good] == [200] * len(listener.good)
        assert hostile_requests.answered(port, listener.good) == []
        assert [hostile_requests.send(port, good)[0] for good in listener.good] == [200] * len(listener.good)


@pytest.mark.parametrize("name", GUARDED)
def test_the_corpus_finds_a_listener_without_a_guard(name, home, monkeypatch):
    """The corpus is not blind: where the guard lets everybody in, attacks of each of its kinds are answered."""
    monkeypatch.setattr(guard, "judge", lambda *_: guard.Decision(who="owner"))
    listener = GUARDED[name]
    with listener.opened(home) as port:
        found = {kind for kind, _, status in hostile_requests.answered(port, listener.good) if status < 400}
    assert found >= {"host", "origin", "site", *(["token"] if listener.good[0].token else [])}


def test_a_tunnel_and_names_of_this_machine_are_let_in(home):
    """Another port in Host, as behind an ssh tunnel, and every name of loopback are answered by all of them."""
    for listener in GUARDED.values():
        with listener.opened(home) as port:
            for host in (
                "localhost:9",
                "LOCALHOST",
                "[::1]:{port}",
                "127.0.0.2",
                "x.localhost:9",
                "[::ffff:127.0.0.1]",
            ):
                attack = hostile_requests.Attack(host, "host", (), host)
                assert hostile_requests.send(port, listener.good[0], attack)[0] == 200, host


@pytest.mark.parametrize("name", GUARDED)
def test_a_crowd_with_half_requests(name, home, monkeypatch):
    """While a crowd hangs on the line with half a request each, good requests are answered by every listener."""
    monkeypatch.setattr(gates, "_MOST", 8)
    monkeypatch.setattr(gates, "_LEAST", 8)
    listener = GUARDED[name]
    with listener.opened(home) as port, contextlib.ExitStack() as stack:
        for _ in range(105):
            idle = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            with contextlib.suppress(OSError):  # it had to go already
                idle.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nX-")
        assert [hostile_requests.send(port, good)[0] for good in listener.good] == [200] * len(listener.good)


def test_a_port_that_is_open_says_nothing_first(home):
    """Nobody hears anything before he has asked."""
    for listener in GUARDED.values():
        with listener.opened(home) as port, socket.create_connection(("127.0.0.1", port)) as peer:
            peer.settimeout(0.05)
            with pytest.raises(TimeoutError):
                peer.recv(1)


def test_every_listener_is_held_to_it():
    """No listener that the hub starts goes without these tests."""
    assert set(listeners.LISTENERS) == set(BAD) == set(WIDE) == set(KEPT)
    assert set(listeners.LISTENERS) <= set(GUARDED)


@pytest.mark.parametrize(("name", "address"), [(name, address) for name in BAD for address in BAD[name]])
def test_a_bad_address(name, address):
    """What is no address is refused in a sentence."""
    with pytest.raises(SettingError) as said:
        listeners.parse(name, address)
    assert 20 < len(str(said.value)) < 300


@pytest.mark.parametrize(("name", "address"), [(name, address) for name in WIDE for address in WIDE[name]])
def test_a_wide_address(name, address):
    """Where other machines could connect it is refused without a token and TLS, with what to do instead."""
    with pytest.raises(SettingError, match=r"can be reached from other machines, which takes a token and TLS: \w"):
        listeners.parse(name, address.format(port=5000))


@pytest.fixture
def begin(home, tmp_path):
    """Start a hub with listeners; hand out its process and their ports."""
    running = []

    def start(*listen, **environ):
        argv = [sys.executable, "-m", "vedette", "hub", *(word for pair in listen for word in ("--listen", pair))]
        surroundings = {**os.environ, "PYTHONUNBUFFERED": "1", **environ}
        log = tmp_path / f"hub{len(running)}.log"
        with log.open("w") as file:
            hub = subprocess.Popen(argv, env=surroundings, stdout=subprocess.PIPE, stderr=file, text=True)
        running.append(hub)
        ports = []
        while len(ports) < len(listen):
            line = hub.stdout.readline()
            assert line, log.read_text()
            ports += [int(port) for port in re.findall(r"clients send to 127\.0\.0\.1:(\d+)", line)]
        return hub, ports

    yield start
    for hub in running:
        hub.terminate()
        hub.communicate()


def helpers_of(hub):
    """Return the processes of a hub's listeners."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as line:
            state, parent = stat.read().rpartition(")")[2].split()[:2]
            if int(parent) == hub.pid and state != "Z" and "vedette.listeners" in line.read():
                found.append(int(pid))
    return found


@pytest.mark.parametrize("name", listeners.LISTENERS)
def test_kill_9_loses_nothing_that_was_answered(name, home, begin):
    """A listener that is killed is started again, at the same port, and goes on with the same run; all is there."""
    port = reserve_port()
    hub, _ = begin(f"{name}=:{port}")
    good, told = GUARDED[name].good[0], 0

    def answers():
        with contextlib.suppress(OSError):
            return hostile_requests.send(port, good)[0] == 200

    for _ in range(times(1)):  # it is started again after five seconds
        told += sum(hostile_requests.send(port, good)[0] == 200 for _ in range(50))
        [helper] = helpers_of(hub)
        os.kill(helper, signal.SIGKILL)
        eventually(answers)
        told += 1
    [run] = read_runs(home)

    assert told == 51 * times(1)
    assert KEPT[name](run) == told
    assert hub.poll() is None


@pytest.mark.parametrize("name", listeners.LISTENERS)
def test_a_hub_that_ends_keeps_all_that_was_answered(name, home, begin):
    """While clients send, the hub is told to end; what was answered is all there."""
    good, told = GUARDED[name].good[0], 0
    for _ in range(times(3)):
        hub, [port] = begin(f"{name}=:0")
        stopped = threading.Event()
        answered: list[int] = []

        def send(port: int = port, answered: list[int] = answered, stopped: threading.Event = stopped) -> None:
            with contextlib.suppress(OSError):
                while not stopped.is_set() and hostile_requests.send(port, good)[0] == 200:
                    answered.append(1)

        clients = [threading.Thread(target=send) for _ in range(3)]
        for client in clients:
            client.start()
        eventually(lambda answered=answered: len(answered) > 50)
        hub.terminate()
        assert hub.wait(60) == 0
        stopped.set()
        for client in clients:
            client.join()
        told += len(answered)
    counts = [KEPT[name](run) for run in read_runs(home)]

    assert told <= sum(counts) <= told + 3 * times(3)  # a client may not have heard its last answer


@pytest.mark.parametrize("name", listeners.LISTENERS)
def test_the_check_of_that_finds_a_loss(name, home, begin, tmp_path):
    """A listener that answers before it has kept anything is found out."""
    lossy = "import vedette.listeners.intake as intake\nintake.Intake.keep = lambda *_: None\n"
    (tmp_path / "sitecustomize.py").write_text(lossy)
    _, [port] = begin(f"{name}=:0", PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert hostile_requests.send(port, GUARDED[name].good[0])[0] == 200
    assert read_runs(home) == []


def test_the_hub_imports_none(home, begin, tmp_path):
    """Neither a listener nor a web server is ever loaded into the hub's process; both are in the helper's."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, sys\n"
        f"atexit.register(lambda: open(f'{tmp_path}/{{os.getpid()}}.loaded', 'w').write('\\n'.join(sys.modules)))\n"
    )
    hub, [port] = begin("heflwr=:0", PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert hostile_requests.send(port, GUARDED["heflwr"].good[0])[0] == 200
    [helper] = helpers_of(hub)
    hub.terminate()
    hub.wait()
    loaded = {pid: (tmp_path / f"{pid}.loaded").read_text().splitlines() for pid in (hub.pid, helper)}

    assert {"vedette.hub.service"} <= set(loaded[hub.pid])
    for word in ("vedette.compat", "uvicorn", "starlette"):
        assert word not in loaded[hub.pid]
        assert word in loaded[helper]


ECHO = '''
"""A listener of somebody else's: whatever is posted becomes a line of one run."""
import time
from vedette import guard, http_port
from vedette.listeners import http
from vedette.ids import new_id
from vedette.model import HUB, Event, Span

parse = guard.bind

class Listener:
    def __init__(self, taken, intake):
        self.where = http_port.where(taken)
        self._server = http.HttpServer(taken, self._app, guard.Rules())
        self._intake, self._run = intake, new_id()
        self.close = self._server.close

    async def serve(self):
        self._intake.keep([Span(self._run, time.time_ns(), "running", "", HUB, "run", "echo")])
        await self._server.serve()

    async def _app(self, scope, receive, send):
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse
        body = await http.read_body(Request(scope, receive), 1000)
        self._intake.keep([Event(self._run, time.time_ns(), "log", 20, body.decode())])
        await PlainTextResponse("kept")(scope, receive, send)

def open(config, intake):
    return Listener(http_port.take(*config), intake)
'''


@pytest.fixture
def echo(tmp_path):
    """Install a package with a listener; return the environment in which it is there."""
    (tmp_path / "echoing.py").write_text(ECHO)
    folder = tmp_path / "echoing-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: echoing\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[vedette.listeners]\necho = echoing\n")
    return {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}


def test_a_listener_of_somebody_elses(home, begin, echo):
    """A package adds a listener by an entry point; it is behind the guard, beside ours, each in its own process."""
    hub, [port, _] = begin("echo=:0", "heflwr=:0", **echo)
    good = Good("POST", "/", body=b"hello")
    assert hostile_requests.send(port, good)[0] == 200
    assert [miss for miss in hostile_requests.answered(port, [good]) if miss[0] != "method"] == []
    assert len(helpers_of(hub)) == 2
    [run] = read_runs(home)
    assert [line.text for line in run.logs()] == ["hello"]


@pytest.mark.parametrize(
    ("listen", "said"),
    [("hefler=:1", "did you mean 'heflwr'"), ("fish", "takes NAME=ADDRESS"), ("=:1", "takes NAME=ADDRESS"),
     ("heflwr=", "takes NAME=ADDRESS"), ("heflwr=:1,heflwr=:2", "a name twice"), ("heflwr=x", "nowhere to listen")],
)  # fmt: skip
def test_what_a_hub_refuses(home, listen, said):
    """An unknown name is answered with the nearest known one and the list, a bad form with the right one."""
    done = call("hub", *(word for pair in listen.split(",") for word in ("--listen", pair)), home=home.asked)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
    assert home.hub_pid() is None


def test_a_wrong_setting_ends_no_hub(home):
    """A hub that starts by itself goes on without a listener whose name or address is wrong; `doctor` says why."""
    environ = {"VEDETTE_HUB_LISTEN": "hefler=:1"}
    code = "import vedette; vedette.init(name='job').finish()"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **environ}, check=True)
    eventually(home.hub_pid)

    def told():
        found = json.loads(call("doctor", "--json", home=home.asked, environ=environ).stdout)
        return "did you mean 'heflwr'" in json.dumps(found)

    eventually(told)
    assert [run.name for run in read_runs(home)] == ["job"]


def test_a_hub_is_not_replaced_by_one_that_cannot_listen(home, begin):
    """What is wrong with an address is said before the hub that runs is ended."""
    hub, _ = begin("heflwr=:0")
    done = call("hub", "--listen", "heflwr=0.0.0.0:1", home=home.asked)
    assert done.returncode == 2
    assert hub.poll() is None
