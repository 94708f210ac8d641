"""Interfaces, made up and real."""

import os
import socket
import subprocess
import time

import pytest

from vedette.sensing.sensor import Absent, Target
from vedette.sources import network

HEAD = "Inter-|   Receive  |  Transmit\n face |bytes packets |bytes packets\n"


def line(name, sent, received):
    return f"{name}:{received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n"


def say(root, *lines, pid=""):
    folder = root / pid / "net"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dev").write_text(HEAD + "".join(lines))


def watch(root, pid=7):
    return network.sensor(Target(pid, str(root)))


def told(watching):
    return {one.tags.get("interface", ""): one.values for one in watching.look()}


def totals(watching):
    return [(values["net_sent_bytes"], values["net_received_bytes"]) for values in told(watching).values()]


def test_all_and_each(tmp_path, monkeypatch):
    """The sum has the loopback in it; rates are by the time between two looks."""
    say(tmp_path, line("lo", 10, 10), line("  eth0", 100, 2000), line("eth0:1", 1, 1))
    watching = watch(tmp_path)
    assert told(watching) == {
        "": {"net_sent_bytes": 111, "net_received_bytes": 2011},
        "lo": {"net_sent_bytes": 10, "net_received_bytes": 10},
        "eth0": {"net_sent_bytes": 100, "net_received_bytes": 2000},
        "eth0:1": {"net_sent_bytes": 1, "net_received_bytes": 1},
    }
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 10)
    say(tmp_path, line("lo", 10, 10), line("  eth0", 1100, 2000), line("eth0:1", 1, 1))
    assert told(watching)[""]["net_sent_bytes_per_s"] == pytest.approx(100, rel=0.02)
    assert told(watching)["eth0"]["net_received_bytes_per_s"] == 0
    watching.close()


def test_an_interface_that_goes_and_comes_back(tmp_path):
    """The sum keeps what went through it, its counters go on, and no rate is negative."""
    say(tmp_path, line("lo", 5, 5), line("tun0", 1000, 1000))
    watching = watch(tmp_path)
    assert totals(watching)[0] == (1005, 1005)
    say(tmp_path, line("lo", 6, 6))
    assert totals(watching) == [(1006, 1006), (6, 6)]
    say(tmp_path, line("lo", 6, 6), line("tun0", 3, 4), line("new0", 50, 50))
    found = told(watching)
    assert (found[""]["net_sent_bytes"], found[""]["net_received_bytes"]) == (1059, 1060)
    assert found["tun0"]["net_sent_bytes"] == 1003
    assert all(value >= 0 for values in found.values() for value in values.values())


def test_a_namespace_of_its_own(tmp_path):
    """A process that lives in another namespace has that one's bytes told besides, as what they are."""
    for pid, name in (("self", "net:[1]"), ("7", "net:[2]"), ("8", "net:[1]")):
        (tmp_path / pid / "ns").mkdir(parents=True)
        os.symlink(name, tmp_path / pid / "ns" / "net")
    say(tmp_path, line("lo", 1, 1))
    say(tmp_path, line("veth0", 5, 6), pid="7")
    found = watch(tmp_path).look()
    assert [(one.scope, one.tags, one.values["net_sent_bytes"]) for one in found] == [
        ("host", {}, 1), ("host", {"interface": "lo"}, 1),
        ("process", {"namespace": "own"}, 5), ("process", {"namespace": "own", "interface": "veth0"}, 5),
    ]  # fmt: skip
    assert {one.scope for one in watch(tmp_path, 8).look()} == {"host"}


def test_absent(tmp_path):
    """A /proc without it says so."""
    assert "net/dev" in watch(tmp_path).why


@pytest.mark.parametrize(
    "text", ["", "eth0: 1 2 3\n", "eth0:" + " x" * 16 + "\n", "eth0:" + " -1" * 16 + "\n", "\0" * 50]
)
def test_files_that_make_no_sense(tmp_path, text):
    """They are left out."""
    say(tmp_path, line("lo", 1, 1))
    watching = watch(tmp_path)
    (tmp_path / "net" / "dev").write_text(text)
    assert watching.look() == []


@pytest.mark.parametrize("proc", ["/proc", "/nowhere"], ids=["by /proc", "by psutil"])
def test_real_bytes(proc):
    """What goes through the loopback is counted, at least as much as was sent."""
    watching = network.sensor(Target(os.getpid(), proc))
    before = told(watching)
    if "lo" not in before:
        pytest.skip("there is no loopback here")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as near,
        server.accept()[0] as far,
    ):
        near.sendall(bytes(50_000))
        left = 50_000
        while left:
            left -= len(far.recv(left))
        after = told(watching)
    watching.close()
    for name in ("", "lo"):
        assert after[name]["net_sent_bytes"] - before[name]["net_sent_bytes"] >= 50_000


def test_a_real_namespace():
    """A process in a namespace of its own is found to be in one."""
    try:
        child = subprocess.Popen(["unshare", "--net", "--", "sh", "-c", "echo; sleep 60"], stdout=-1, stderr=-1)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    with child:
        if not child.stdout.readline():
            pytest.skip("no namespace may be made here")
        watching = network.sensor(Target(child.pid))
        assert not isinstance(watching, Absent)
        assert {one.tags.get("namespace", "") for one in watching.look()} == {"", "own"}
        child.kill()
