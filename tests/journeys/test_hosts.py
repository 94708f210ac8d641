"""The hosts of the other journeys are what they seem: apart, joined by a cable that can fail in every way."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.journeys.conftest import eventually, read_runs
from vedette.home import Home

_ECHO = """
import socket, threading

def talk(peer):
    while data := peer.recv(1 << 16):
        peer.sendall(data)

server = socket.create_server(("0.0.0.0", 7000))
print("ready", flush=True)
while True:
    threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()
"""

# Each line on stdin is sent, and what came back within a while is printed.
_CLIENT = """
import socket, sys

try:
    peer = socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[2]))
    print("connected", flush=True)
    for line in sys.stdin:
        peer.sendall(line.encode())
        try:
            print(peer.recv(1 << 16).decode().strip() or "closed", flush=True)
        except TimeoutError:
            print("silence", flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
"""


def _echo(host):
    server = host.start(_ECHO)
    assert server.stdout.readline() == "ready\n"
    return server


def _say(client, word):
    client.stdin.write(word + "\n")
    client.stdin.flush()
    return client.stdout.readline().strip()


def _client(host, server, patience="20"):
    client = host.start(_CLIENT, server.address, patience)
    return client, client.stdout.readline().strip()


@pytest.mark.parametrize("own_pids", [True, False])
def test_hosts_are_apart_and_reach_each_other(lan, own_pids):
    """Each host has its own name and address, and its own boot and pids if so asked; TCP goes between them."""
    a, b = lan(2, own_pids=own_pids)
    script = "import os; from vedette import kernel; print(kernel.host(), kernel.boot())"
    (host_a, boot_a), (host_b, boot_b) = (host.run(script)[1].split() for host in (a, b))
    _echo(a)
    client, said = _client(b, a)

    assert (host_a, host_b) == (a.name, b.name)
    assert (boot_a != boot_b) == own_pids
    assert said == "connected"
    assert _say(client, "hello") == "hello"
    assert os.uname().nodename not in (a.name, b.name)


def test_a_cut_cable_carries_nothing_until_it_is_healed(lan):
    """Nobody connects over a cut cable; a connection that is older goes on when it is healed, with all its bytes."""
    a, b, c = lan(3)
    _echo(a)
    client, _ = _client(b, a)
    assert _say(client, "before") == "before"
    b.cut()
    _, said = _client(b, a, "0.5")
    _, others = _client(c, a)
    client.stdin.write("during\n")
    client.stdin.flush()
    b.heal()

    assert said in ("TimeoutError", "OSError")
    assert others == "connected"
    assert client.stdout.readline() == "during\n"


@pytest.mark.parametrize("silent", [True, False])
def test_half_open_means_that_nobody_is_told(lan, silent):
    """A peer that dies behind a silent cable leaves its connections open; without the silence they are closed."""
    a, b = lan(2)
    server = _echo(a)
    client, _ = _client(b, a, "2")
    assert _say(client, "before") == "before"
    if silent:
        a.half_open()
    a.kill(server, signal.SIGKILL)
    server.wait()

    assert (_say(client, "after") == "silence") == silent
    link = b.run(["cat", "/sys/class/net/eth0/operstate"])[1]
    assert link == "up\n"


def test_a_bad_cable_delays_reorders_and_loses(lan):
    """Packets come late, some overtake, some are lost; TCP over it gives every byte, and healing ends it."""
    a, b = lan(2)
    listener = a.start(
        """
        import socket
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.bind(("0.0.0.0", 7001))
        print("ready", flush=True)
        found = []
        while (word := end.recv(100)) != b"end":
            found.append(int(word))
        print(*found, flush=True)
        """
    )
    assert listener.stdout.readline() == "ready\n"
    _echo(a)
    b.delay(30, jitter_ms=5, reorder_percent=10, loss_percent=5)
    b.run(
        """
        import socket, sys, time
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for number in range(500):
            end.sendto(str(number).encode(), (sys.argv[1], 7001))
            time.sleep(0.001)
        for _ in range(20):  # one of them will come
            time.sleep(0.1)
            end.sendto(b"end", (sys.argv[1], 7001))
        """,
        a.address,
    )
    came = [int(word) for word in listener.stdout.readline().split()]
    client, _ = _client(b, a)
    begun = time.monotonic()
    answer = _say(client, "x" * 1000)
    took_s = time.monotonic() - begun
    stream = b.run(
        """
        import hashlib, os, socket, sys, threading
        peer = socket.create_connection((sys.argv[1], 7000), timeout=30)
        data, back = os.urandom(1 << 20), b""
        threading.Thread(target=peer.sendall, args=(data,)).start()
        while len(back) < len(data) and (part := peer.recv(1 << 16)):
            back += part
        print(back == data)
        """,
        a.address,
    )

    assert 100 < len(came) < 500
    assert came != sorted(came)
    assert len(set(came)) == len(came)
    assert answer == "x" * 1000
    assert took_s > 0.02  # lower bounds hold on any machine
    assert stream[1] == "True\n"
    b.heal()
    assert _say(client, "again") == "again"


def test_a_host_has_its_own_hub(lan):
    """A job wakes the hub of its host, inside; what it kept can be read from outside, and the hub ended by the host."""
    for host in lan(2):
        code, _, err = host.run("import vedette; vedette.log({'x': 1.0})")
        assert code == 0, err
        home = Home(host.home)
        [run] = eventually(lambda home=home: (found := read_runs(home)) and found[0].end_t and found)
        assert run.state == "done"
        assert home.hub_pid() is not None
        host.end_hub()
        assert home.hub_pid() is None


@pytest.mark.parametrize("own_pids", [True, False])
def test_nothing_is_left_of_hosts_whose_test_was_killed(no_hosts, own_pids):
    """The test is killed with -9: its hosts and all that ran there end by themselves."""
    if no_hosts:
        pytest.skip(f"NO HOSTS WERE MADE: {no_hosts}")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = f"""
from tests.journeys.hosts import hosts
with hosts(2, own_pids={own_pids}) as (a, b):
    a.delay(1)
    job = a.start(["cat"]) if {own_pids} else None
    print(a._inside.pid, b._inside.pid, a._wire.pid, flush=True)
    input()
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    doomed = subprocess.Popen([sys.executable, "-c", code], env=environ, stdin=-1, stdout=-1, text=True)
    pids = [int(word) for word in doomed.stdout.readline().split()]
    assert len(pids) == 3
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    doomed.kill()
    doomed.communicate()

    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
