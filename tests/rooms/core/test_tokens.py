"""The tokens and the id of a home: whose each is, whatever else lies beside it, and however many ask at once."""

import os

import pytest

from tests.rooms.at_once import in_processes, in_threads
from vedette import tokens
from vedette.home import Home

MADE_ONCE = {"hub.token": tokens.hub_token, "ui.token": tokens.page_token, "hub.id": tokens.home_id}


@pytest.mark.parametrize(
    ("name", "together"), [*((name, in_threads) for name in MADE_ONCE), ("hub.token", in_processes)]
)
def test_all_who_ask_at_once_get_the_same(tmp_path, name, together):
    """A new home has one token and one id, whoever asks first; also where a power cut has left the file empty."""
    for number in range(6):
        home = Home(str(tmp_path / str(number)))
        home.prepare()
        if number % 2:
            (tmp_path / str(number) / name).touch()
        said = together(lambda home=home: MADE_ONCE[name](home))
        assert set(said) == {MADE_ONCE[name](home)}
        assert len(said) >= 4
        assert (tmp_path / str(number) / name).read_text().strip() == said[0]
        assert sorted(os.listdir(home.root)) == sorted([name, "spool"])


def test_one_of_two_who_make_a_token_for_one_name_gets_it(home):
    """The other one hears that the name is taken: he would give away a token that the first one revokes."""
    home.prepare()
    for name in "abcdefgh":
        said = in_threads(lambda name=name: tokens.new_holder(home, name), 4)
        assert [word for word in said if "has a token already" not in word] == [tokens.token_of(home, name)]


def test_a_holder_may_be_called_as_the_file_of_another_one(home):
    """No name of a holder is that of a file that is being written for another one."""
    home.prepare()
    given = {name: tokens.new_holder(home, name) for name in ("alice.new", "alice", "alice.new.new")}

    assert {name: tokens.token_of(home, name) for name in given} == given
    assert [holder.name for holder in tokens.holders(home)] == sorted(given)


def test_who_dies_while_a_token_is_written_leaves_no_holder(home):
    """Somebody has a token or has none: what a killed command leaves behind is nobody's."""
    home.prepare()
    tokens.new_holder(home, "bob")
    if not (pid := os.fork()):
        os.rename = os.link = lambda *_, **__: os._exit(0)
        tokens.new_holder(home, "alice")
    os.waitpid(pid, 0)

    assert [holder.name for holder in tokens.holders(home)] == ["bob"]
    assert tokens.new_holder(home, "alice") == tokens.token_of(home, "alice")
