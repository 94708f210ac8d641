"""The tokens and the id of a home: whose each is, whatever else lies beside it, and however many ask at once."""

import os

from vedette import tokens


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
