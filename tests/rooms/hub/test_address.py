"""Addresses of hubs: what can be said, what is refused, and whose certificate is believed."""

import os
import socket
import ssl

import pytest

from vedette.errors import SettingError
from vedette.home import Home
from vedette.hub.peers import address
from vedette.hub.peers.address import Address, parse

FINGERPRINT = "ab" * 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node1:7070", Address("", "node1", 7070)),
        ("[::1]:7070", Address("", "::1", 7070)),
        ("/run/hub.sock", Address("/run/hub.sock")),
        ("unix:/run/hub.sock", Address("/run/hub.sock")),
        (f"vedette://to-ken_1@node1:7070/{FINGERPRINT}", Address("", "node1", 7070, "to-ken_1", FINGERPRINT)),
        (f"vedette://t@[fe80::1]:1/{FINGERPRINT}", Address("", "fe80::1", 1, "t", FINGERPRINT)),
        ("vedette://t@127.0.0.1:1", Address("", "127.0.0.1", 1, "t")),
        (" node1:1 ", Address("", "node1", 1)),
    ],
)
def test_addresses(text, expected):
    """Every form of an address is understood, and a connect string comes back as it was."""
    assert parse(text) == expected
    assert parse(expected.connect_string()) == expected


@pytest.mark.parametrize(
    "text",
    ["", "node 1", "node1:", "node1:x", "node1:70000", ":7070", "7070", "vedette://", "vedette://t@x", "http://x"],
)
def test_what_is_no_address(text):
    """What is no address is refused with a sentence."""
    with pytest.raises(SettingError):
        parse(text)


def test_all_interfaces_can_be_listened_on():
    """`:PORT` means every interface to one who listens."""
    assert parse(":7070", listening=True) == Address("", "", 7070)


@pytest.mark.parametrize(("listening", "said"), [(True, "written :7070"), (False, "written localhost:7070")])
def test_a_port_without_its_colon_is_no_name(listening, said):
    """Digits alone are a port whose colon was forgotten, and not the name of a socket that nobody asked for."""
    with pytest.raises(SettingError, match=said):
        parse("7070", listening=listening)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False),
     ("10.0.0.1", False), ("127.0.0.1.evil.example", False), ("node1", False)],
)  # fmt: skip
def test_what_is_local(host, local):
    """Only loopback addresses are taken for this machine; all interfaces are not."""
    assert Address("", host, 1).is_local is local


def test_people_do_not_see_the_token():
    """As text an address shows no token."""
    assert str(parse(f"vedette://secret@node1:7070/{FINGERPRINT}")) == "node1:7070"


def test_a_directory_is_a_home(home):
    """A directory stands for the socket of the home that it is."""
    assert parse(home.root).path == home.socket


def test_token_and_certificate_are_made_once_and_private(tmp_path):
    """Token and certificate are made when first asked for, stay the same, and are their owner's alone."""
    home = Home(str(tmp_path))
    token = address.token_of(home)
    context, fingerprint = address.serving(home)

    assert len(token) >= 32
    assert (address.token_of(home), address.serving(home)[1]) == (token, fingerprint)
    assert isinstance(context, ssl.SSLContext)
    assert {os.stat(tmp_path / name).st_mode & 0o777 for name in ("hub.token", "hub.pem")} == {0o600}


def test_a_damaged_certificate_is_named(tmp_path):
    """A certificate that cannot be read is named, with what to do."""
    (tmp_path / "hub.pem").write_text("nonsense")

    with pytest.raises(SettingError, match="remove it"):
        address.serving(Home(str(tmp_path)))


def test_only_the_right_certificate_is_believed():
    """Another certificate, or none, is not the one of the connect string."""
    there = Address("", "x", 1, "t", FINGERPRINT)

    assert not address.is_the_one(b"another", there)
    assert not address.is_the_one(None, there)


def test_a_name_is_taken_from_nobody(tmp_path):
    """A hub takes over a name that nobody answers at, and neither a living hub's nor what is no hub's."""
    old, new, name, other = (str(tmp_path / word) for word in ("old.sock", "new.sock", "name", "other"))
    (tmp_path / "file").touch()
    os.symlink(tmp_path / "file", other)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(old)
        server.listen()
        address.name_socket(name, old)
        address.name_socket(name, old)
        with pytest.raises(SettingError, match="that is running"):
            address.name_socket(name, new)
    with pytest.raises(SettingError, match="not the name of a hub"):
        address.name_socket(other, new)
    address.name_socket(name, new)

    assert os.readlink(name) == new
