"""Addresses of hubs: what can be said, what is refused, and which names are free."""

import os
import socket

import pytest

from vedette import address, settings
from vedette.address import Address, parse
from vedette.errors import SettingError

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


TOKEN = "AHdjCjGks7S913G7zNDG9Yq61XoBMGTx"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"export VEDETTE_HUB=vedette://{TOKEN}@node1:7070", "is not the address"),
        (f"vedette//{TOKEN}@node1:7070", "has no port|is not the address"),
        (f"https://{TOKEN}@node1:7070/x", "is not the address|has no port"),
        (f"'vedette://{TOKEN}@node1:7070'", "is not the address|has no port"),
        (f"vedette://{TOKEN}@node1", "copy it whole"),
        (f"vedette://{TOKEN}@node1:x/{FINGERPRINT}", "has no port"),
        (f"vedette://{TOKEN}@node1:7070/ccc9ca", "64 characters of its certificate's fingerprint, and this one with"),
        (f"vedette://{TOKEN}", "copy it whole"),
        (f"export VEDETTE_HUB=vedette://{TOKEN[:31]}", "has no port"),
        (TOKEN, "a token alone"),
    ],
)
def test_a_token_is_never_said(text, said):
    """Of what is no address a sentence says what is wrong, and nothing that may be a part of a token."""
    with pytest.raises(SettingError, match=said) as refused:
        parse(text)
    told = str(refused.value)
    try:
        settings.load(environ={"VEDETTE_HUB": text})
    except SettingError as error:
        told += str(error)

    assert not any(TOKEN[i : i + 8] in told for i in range(len(TOKEN) - 7)), told


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node 1",
        "node1:",
        "node1:x",
        "node1:70000",
        ":7070",
        "7070",
        "127.0.0.1",
        "vedette://",
        "vedette://t@x",
        "http://x",
    ],
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
