"""HOST:PORT: what is read comes back as it was written, and this machine has names."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vedette import host_port, kernel


@pytest.mark.parametrize(
    ("text", "expected"),
    [("node1:7070", ("node1", 7070)), ("[::1]:65535", ("::1", 65535)), ("::1:80", ("::1", 80)), (":0", ("", 0)),
     ("5000", ("", 5000)), ("node1:0000080", ("node1", 80)), ("node1:" + "0" * 5000, ("node1", 0))],
)  # fmt: skip
def test_what_is_read(text, expected):
    """The host may be missing, and that of IPv6 may stand in brackets."""
    assert host_port.split(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", ":", "node1", "node1:", "node1:x", ":-1", ":+1", ":1_0", ": 1", ":65536", ":99999", ":000000000070000",
     ":\u0663", ":\u00b2", "1" * 5000],
)  # fmt: skip
def test_what_has_no_port(text):
    """A port is a number up to 65535 in plain digits, however many zeros stand before it."""
    assert host_port.split(text) is None


@given(st.one_of(st.ip_addresses().map(str), st.from_regex(r"[a-z0-9.-]*", fullmatch=True)), st.integers(0, 65535))
def test_there_and_back(host, port):
    """What is written is read as the same host and port."""
    assert host_port.split(host_port.join(host, port)) == (host, port)


def test_the_names_of_this_machine():
    """The likeliest name comes first, and none twice; the name of the machine and all its addresses are there."""
    names = host_port.own_names()

    assert names[0] == host_port.guess_host()
    assert {socket.gethostname(), *kernel.addresses()} <= set(names)
    assert len(set(names)) == len(names)


def test_a_machine_without_a_network(monkeypatch):
    """Without a way to other machines, its own name is what is left."""

    def refuse(*_):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(kernel, "addresses", list)
    monkeypatch.setattr(socket, "socket", refuse)

    assert host_port.own_names() == [kernel.host()]
