"""Whatever is sent to the hub's socket: it lives, it stays small, and others are served."""

import functools
import operator
import socket
import threading

import pytest

from tests.journeys.conftest import eventually
from tests.journeys.fuzz import descriptors, fuzz, has_flushed, memory_kib, slow_loris
from tests.journeys.malformed import Malformer, structs_of, valid_payloads, wrong_payloads
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.errors import FormatError

_STAYING = functools.reduce(operator.or_, [kind for kind in structs_of(wire.Message) if kind is not wire.Leave])
_MOST_GROWTH_KIB = 64 << 10  # a few frames of 1 MiB under way, each read, joined and decoded


def _connector(path):
    def connect():
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.connect(path)
        return peer

    return connect


class _WellBehaved:
    """Asks for the hub's health without end, from a thread of its own; what fails ends it."""

    def __init__(self, home):
        self.asked = 0
        self.pids = set()
        self.trouble = None
        self._home = home
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _ask(self):
        try:
            while not self._over.wait(0.01):
                self.pids.add(ask(self._home, wire.AskHealth()).pid)
                self.asked += 1
        except Exception as error:
            self.trouble = error


def test_a_seed_gives_the_same_streams_again():
    """What was found with a seed can be found again."""
    first, again, other = (Malformer(seed) for seed in (5, 5, 6))
    streams = [first.stream() for _ in range(50)]

    assert streams == [again.stream() for _ in range(50)]
    assert streams != [other.stream() for _ in range(50)]
    assert {kind for kind, _ in Malformer(1).frames(20_000)} == set(first.kinds)


def test_every_message_and_field_of_the_wire_is_malformed():
    """Sound payloads are accepted, one of each message; with each field made wrong, each message is refused."""
    names = {wire.unpack_message(payload).__class__ for payload in valid_payloads()}
    assert names == set(structs_of(wire.Message))
    for kind in structs_of(wire.Message):
        refused = set()
        for payload in wrong_payloads(kind):
            try:
                wire.unpack_message(payload)
            except FormatError as error:
                refused |= {name for name in kind.__struct_encode_fields__ if f"$.{name}" in str(error)}

        assert refused == set(kind.__struct_encode_fields__), kind


def test_the_hub_survives_whatever_is_sent(home):
    """30,000 malformed frames: the hub lives, holds no more memory or descriptors, and answers others meanwhile."""
    ask(home, wire.Edit(["nobody"], {"note": "so that the hub has a spool of its own"}))
    before = ask(home, wire.AskHealth())
    eventually(lambda: has_flushed(before.pid))
    small, open_before = memory_kib(before.pid)[0], descriptors(before.pid)
    with _WellBehaved(home) as other:
        report = fuzz(_connector(home.socket), frames=30_000, seed=3, messages=_STAYING)
        eventually(lambda: other.trouble or other.asked > 20)

    assert other.trouble is None
    assert other.pids == {before.pid}
    assert report.garbled == report.unreachable == report.ends["stuck"] == 0, report
    assert report.answers["Refused"] > 100
    assert sum(report.answers[sound] for sound in ("Health", "Latest", "Done")) > 3, report  # what is sound is answered
    assert memory_kib(before.pid)[1] - small < _MOST_GROWTH_KIB
    eventually(lambda: descriptors(before.pid) <= open_before)
    with open(home.log) as file:
        assert file.read() == ""  # no traceback, no complaint


def test_slow_connections_hold_up_nobody(home):
    """300 connections that send a byte at a time: others are answered, and all is given back when they go."""
    pid = ask(home, wire.AskHealth()).pid
    eventually(lambda: has_flushed(pid))
    small, open_before = memory_kib(pid)[0], descriptors(pid)
    with slow_loris(_connector(home.socket), 300, 0.005) as loris, _WellBehaved(home) as other:
        eventually(lambda: other.trouble or (other.asked > 50 and loris.sent > 30_000), 60)

    assert other.trouble is None
    assert memory_kib(pid)[1] - small < _MOST_GROWTH_KIB
    eventually(lambda: descriptors(pid) <= open_before)


# Takes what it is sent at its word.
_NAIVE = """
import os, socket, sys, msgspec
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.bind(sys.argv[1])
server.listen(100)
print("ready", flush=True)
while True:
    peer = server.accept()[0]
    with peer, peer.makefile("rb") as file:
        while head := file.read(8):
            msgspec.msgpack.decode(file.read(int.from_bytes(head[:4], "little")))
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_naive_port_is_caught(start, tmp_path, seed):
    """The check fails for a server that trusts lengths and payloads: it is gone within a few connections."""
    path = str(tmp_path / "naive.sock")
    server = start(_NAIVE, path)
    assert server.stdout.readline() == "ready\n"
    report = fuzz(_connector(path), frames=30_000, seed=seed)

    assert report.unreachable
    assert server.wait(20) == 1
    assert "Error" in server.stderr.read()


def test_what_comes_in_one_packet_with_a_hello(home):
    """A greeting may be followed at once, in one packet, by a request that is larger than a greeting may be."""
    ask(home, wire.AskHealth())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(20)
        peer.connect(home.socket)
        large = wire.Edit(["nobody"], {"note": "x" * 3 * wire.MAX_HELLO})
        peer.sendall(wire.pack_message(wire.Hello()) + wire.pack_message(large) + wire.pack_message(wire.AskHealth()))
        unframer, heard = wire.Unframer(), []
        while len(heard) < 3:
            heard += [type(wire.unpack_message(payload)) for payload in unframer.feed(peer.recv(1 << 16))]

    assert heard == [wire.Hello, wire.Done, wire.Health]
