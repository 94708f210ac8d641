"""The key by which a home shows other hubs who it is."""

import pytest

from tests.rooms.at_once import in_processes, in_threads
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
