"""The tokens and the id of a home: whose each is, whatever else lies beside it, and however many ask at once."""

import contextlib
import os

import pytest

from tests.rooms.at_once import in_processes, in_threads
from vedette import tokens
from vedette.errors import SettingError
from vedette.home import Home

MADE_ONCE = {"hub.token": tokens.hub_token, "ui.token": tokens.page_token, "hub.id": tokens.home_id}


@pytest.mark.parametrize(
    ("name", "together"), [*((name, in_threads) for name in MADE_ONCE), ("hub.token", in_processes)]
)
def test_all_who_ask_at_once_get_the_same(tmp_path, name, together):
    """A new home has one token and one id, whoever asks first; also where a power cut has left zeros, or nothing."""
    for number in range(6):
        home = Home(str(tmp_path / str(number)))
        home.prepare()
        if number % 3:
            (tmp_path / str(number) / name).write_bytes((b"", bytes(33))[number % 3 - 1])
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


ODD = {
    "directory": os.mkdir,
    "link": lambda path: os.symlink("bob", path),
    "pipe": os.mkfifo,
    "not text": lambda path: _write(path, b"\xff\xfe\x00"),
    "zeros": lambda path: _write(path, bytes(33)),
    "empty": lambda path: _write(path, b"\n"),
}


def _write(path, data):
    with open(path, "wb") as file:
        file.write(data)


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_entry_keeps_nobody_out(home, kind):
    """Whatever lies among the tokens: everybody else comes in, nobody does by that, and it is named."""
    home.prepare()
    given = {"": tokens.hub_token(home), "bob": tokens.new_holder(home, "bob")}
    path = os.path.join(home.root, "tokens", "alice")
    ODD[kind](path)

    assert {tokens.holder_of(home, token): token for token in given.values()} == given
    assert [tokens.holder_of(home, token) for token in ("", "\0" * 33, "\n", "guessed")] == [None] * 4
    assert not tokens.is_current(home, "alice", given["bob"])
    assert tokens.odd_entries(home) == [path]


def test_only_files_with_the_name_of_a_holder_are_tokens(home):
    """A file `owner` would be shown as the owner, whom nobody can revoke; a copy that an editor made is nobody's."""
    home.prepare()
    tokens.new_holder(home, "bob")
    planted = [os.path.join(home.root, "tokens", name) for name in (".bob.swp", "bob~", "owner")]
    for path in planted:
        _write(path, b"of an editor")

    assert tokens.holder_of(home, "of an editor") is None
    assert [holder.name for holder in tokens.holders(home)] == ["bob"]
    assert tokens.odd_entries(home) == planted


def test_a_token_that_is_revoked_while_they_are_listed_ends_no_other(home, monkeypatch):
    """Whoever connects at this moment is admitted: the others are still there."""
    home.prepare()
    given = [tokens.new_holder(home, name) for name in ("alice", "bob", "carol")]
    listed = os.scandir

    def listed_before(path):
        entries = list(listed(path))
        tokens.revoke(home, "bob")
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(os, "scandir", listed_before)
    assert tokens.holder_of(home, given[2]) == "carol"
    monkeypatch.undo()
    assert [holder.name for holder in tokens.holders(home)] == ["alice", "carol"]


def test_the_owner_comes_in_where_the_tokens_of_others_cannot_be_listed(home):
    """Of anybody else it cannot be told then whether he has one: he is not told that he has none."""
    home.prepare()
    _write(os.path.join(home.root, "tokens"), b"not a directory")

    assert tokens.holder_of(home, tokens.hub_token(home)) == tokens.OWNER
    with pytest.raises(NotADirectoryError):
        tokens.holder_of(home, "guessed")


def test_a_damaged_token_is_said_and_can_be_replaced(home):
    """It is no token that is shown, and revoking it makes room for another one."""
    home.prepare()
    tokens.new_holder(home, "alice")
    _write(os.path.join(home.root, "tokens", "alice"), b"\xff\xfe")
    with pytest.raises(
        SettingError, match=r"tokens/alice is damaged, so that alice cannot connect: `vedette token --rev"
    ):
        tokens.token_of(home, "alice")
    tokens.revoke(home, "alice")

    assert tokens.holder_of(home, tokens.new_holder(home, "alice")) == "alice"


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
