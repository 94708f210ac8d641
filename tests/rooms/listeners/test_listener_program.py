"""The process of a listener: what it tells the hub, when it answers, and how it leaves."""

import runpy
import socket
import time

import pytest

from tests import hostile_requests
from tests.hostile_requests import Good
from tests.listening import answering, started
from vedette import gate as gates
from vedette import listeners
from vedette.listeners import http, program
from vedette.listeners.intake import Intake
from vedette.model import Event, Sample

GOOD = Good("POST", "/simple_log", body=b"identifier=a&message=b")


def test_it_tells_where_it_listens_and_waits_for_the_hub(home):
    """The port is taken at once; who comes waits until the hub has read all that was kept before."""
    with started(home, "heflwr") as hub:
        report = hub.hear()
        assert (report.where, report.trouble) == (f"127.0.0.1:{hub.port}", "")
        with socket.create_connection(("127.0.0.1", hub.port)) as early:
            early.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            early.settimeout(0.3)
            with pytest.raises(TimeoutError):
                early.recv(1)
            hub.begin()
            early.settimeout(60)
            assert early.recv(100).startswith(b"HTTP/1.1 404")


def test_a_port_that_is_taken(home, monkeypatch):
    """It says so in a sentence, tries again, and says where it listens once it does."""
    monkeypatch.setattr(program, "_PORT_BUSY_S", 0.0)
    monkeypatch.setattr(program, "_RETRY_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f":{taken.getsockname()[1]}"
        with started(home, "heflwr", address) as hub:
            report = hub.hear()
            assert report.where == ""
            assert report.trouble == f"{address} cannot be listened on: another program listens there already"
            taken.close()
            report = hub.hear()
            assert (report.where, report.trouble) == (f"127.0.0.1{address}", "")


@pytest.mark.parametrize(("name", "address"), [("hefler", ":0"), ("heflwr", "x"), ("heflwr", "0.0.0.0:0")])
def test_a_wrong_setting(home, name, address):
    """It says what is wrong, does nothing, and leaves with the hub."""
    with started(home, name, address) as hub:
        report = hub.hear()
        assert report.where == ""
        assert len(report.trouble) > 20


def test_what_was_refused_is_reported(home):
    """The hub hears how much was refused, by kind, soon after."""
    with started(home, "heflwr") as hub:
        hub.hear()
        hub.begin()
        for _ in range(3):
            assert hostile_requests.send(hub.port, Good("POST", "/log", body=b"x"))[0] == 400
        foreign = hostile_requests.Attack("a name", "host", (421,), "evil.example")
        assert hostile_requests.send(hub.port, GOOD, foreign)[0] == 421
        while hub.report.refused != {"malformed": 3, "guard: host name": 1}:
            hub.hear()


def test_it_leaves_with_the_hub(home):
    """When the hub is gone the port is free at once, and nothing more is answered as kept."""
    with started(home, "heflwr") as hub:
        hub.hear()
        hub.begin()
        assert hostile_requests.send(hub.port, GOOD)[0] == 200
        slow = socket.create_connection(("127.0.0.1", hub.port))
        slow.sendall(b"POST /simple_log HTTP/1.1\r\nHost: localhost\r\nContent-Length: 22\r\n\r\nidentifier=")
        time.sleep(0.2)
        hub.leave()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_server(("127.0.0.1", hub.port)).close()
                break
            except OSError:
                time.sleep(0.01)
        slow.sendall(b"a&message=b")
        slow.settimeout(60)
        assert not slow.recv(100).startswith(b"HTTP/1.1 200")
        slow.close()


def test_a_body_that_does_not_come(home, monkeypatch):
    """One that is announced and does not come, or is too long, is refused, and holds up nobody."""
    monkeypatch.setattr(http, "_BODY_S", 0.2)
    with answering(home, "heflwr") as port:
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(b"POST /log HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
            assert hostile_requests.send(port, GOOD)[0] == 200
            slow.settimeout(60)
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        assert hostile_requests.send(port, Good("POST", "/log", body=b"x" * 70_000))[0] == 413


def test_a_connection_that_says_nothing_is_closed(home, monkeypatch):
    """Who comes to stay has to go."""
    monkeypatch.setattr(gates, "HEADERS_S", 0.2)
    with answering(home, "heflwr") as port, socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(b"POST /log HT")
        silent.settimeout(60)
        assert silent.recv(100) == b""


def test_the_check(capsys):
    """Names and addresses are checked without a port being taken; what is wrong is one sentence."""
    assert program.main(["check", "heflwr", ":5000"]) == 0
    assert capsys.readouterr().out == ""
    assert program.main(["check", "heflwr", ":5000", "hefler", ":1"]) == 2
    known = ", ".join(sorted(listeners.LISTENERS))
    said = f"there is no listener 'hefler'; did you mean 'heflwr'? There are {known}\n"
    assert capsys.readouterr().out == said


def test_the_program_by_its_name(monkeypatch):
    """`python -m vedette.listeners` is that program."""
    monkeypatch.setattr("sys.argv", ["listeners", "check", "heflwr", ":5000"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("vedette.listeners", run_name="__main__")
    assert left.value.code == 0


def test_a_listener_that_breaks_at_its_address(monkeypatch):
    """An error of somebody else's listener is a sentence that names it."""
    monkeypatch.setattr(listeners.find("heflwr"), "parse", lambda _: {}["x"])
    with pytest.raises(listeners.SettingError, match="the listener heflwr cannot take 'a': KeyError"):
        listeners.parse("heflwr", "a")


def test_an_intake_without_room(home, tmp_path):
    """What cannot be kept is an error: nobody is told that it was."""
    home.prepare()
    intake = Intake(home)
    intake.keep([Event("r", 1, "log", 20, "x")], [Sample(1, 1, {"a": 1.0}, "r")])
    intake._own._home.spool = "/proc/none"
    fresh = Intake(intake._home)
    with pytest.raises(OSError):
        fresh.keep([Event("r", 1, "log", 20, "x")])
    with pytest.raises(OSError):
        fresh.keep([], [Sample(1, 1, {"a": 1.0}, "r")])
    fresh.close()
    intake.close()


def test_what_is_refused_is_counted_in_few_kinds(home):
    """However many kinds there are, a report stays short."""
    intake = Intake(home)
    for n in range(1000):
        intake.refuse(f"{n} " + "x" * 1000)
    assert len(intake.refused) == 32
    assert max(map(len, intake.refused)) == 60
    intake.close()
