"""The key by which a home shows other hubs who it is."""

import os

import pytest

from tests.rooms.at_once import in_processes, in_threads
from vedette.errors import SettingError
from vedette.home import Home
from vedette.hub.peers.identity import identify


@pytest.mark.parametrize("together", [in_threads, in_processes])
def test_a_home_has_one_key_however_many_hubs_it_meets_at_once(tmp_path, together):
    """Two upstreams are met at once by two threads: what is begun with a key that is then gone is refused for ever."""
    for number in range(5):
        home = Home(str(tmp_path / str(number)))
        home.prepare()
        said = together(lambda home=home: identify(home, b"challenge", "", "").key.hex())
        assert set(said) == {identify(home, b"challenge", "", "").key.hex()}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty, as a power cut"),
        (bytes(32), "is empty, as a power cut"),
        (b"short", "is not the key of a relay"),
    ],
)
def test_a_key_that_is_lost_is_said(home, data, says):
    """A new one would be another relay, and one of zeros is known to everybody: the user decides."""
    home.prepare()
    with open(os.path.join(home.root, "relay.key"), "wb") as file:
        file.write(data)
    with pytest.raises(SettingError, match=rf"relay\.key {says}.*: bring it back from a backup; or remove it"):
        identify(home, b"challenge", "", "")
