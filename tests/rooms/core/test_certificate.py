"""The certificate and the token of a home: made once, private, and whose certificate is believed."""

import hashlib
import os
import ssl

import pytest

from tests.rooms.at_once import in_threads
from vedette import certificate, tokens
from vedette.errors import SettingError
from vedette.home import Home


def test_token_and_certificate_are_made_once_and_private(tmp_path):
    """Token and certificate are made when first asked for, stay the same, and are their owner's alone."""
    home = Home(str(tmp_path))
    token = tokens.hub_token(home)
    context, fingerprint = certificate.serving(home)

    assert len(token) >= 32
    assert (tokens.hub_token(home), certificate.serving(home)[1]) == (token, fingerprint)
    assert isinstance(context, ssl.SSLContext)
    assert {os.stat(tmp_path / name).st_mode & 0o777 for name in ("hub.token", "hub.pem")} == {0o600}


def test_all_who_serve_at_once_have_the_same_certificate(tmp_path):
    """Hub and page of a new home may begin at the same moment: relays trust one fingerprint."""
    for number in range(4):
        home = Home(str(tmp_path / str(number)))
        home.prepare()
        said = in_threads(lambda home=home: certificate.serving(home)[1], 3)
        assert set(said) == {certificate.serving(home)[1]}


def test_a_damaged_certificate_is_named(tmp_path):
    """A certificate that cannot be read is named, with what to do."""
    (tmp_path / "hub.pem").write_text("nonsense")

    with pytest.raises(SettingError, match="remove it, and a new one is made; whoever connects here then needs"):
        certificate.serving(Home(str(tmp_path)))


def test_only_the_right_certificate_is_believed():
    """Another certificate, or none, is not the one of the connect string."""
    fingerprint = hashlib.sha256(b"the one").hexdigest()

    assert certificate.is_the_one(b"the one", fingerprint)
    assert not certificate.is_the_one(b"another", fingerprint)
    assert not certificate.is_the_one(None, fingerprint)
