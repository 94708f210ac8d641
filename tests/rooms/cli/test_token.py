"""`vedette token` and `vedette hub --status`: who may relay to a home, and who does."""

import json
import os

import pytest

from vedette import address, tokens
from vedette.cli import main
from vedette.fileio import write_private
from vedette.home import Home
from vedette.store.rows import RelayRow
from vedette.store.sqlite import SqliteStore


@pytest.fixture
def token(home, capsys):
    """Give the command `vedette token`; return its exit code, and what it printed."""

    def give(*words, command="token"):
        with pytest.raises(SystemExit) as ended:
            main([command, *words, "--home", home.root])
        said = capsys.readouterr()
        give.out = said.out
        return ended.value.code, said.out + said.err

    return give


def test_a_token_is_made_shown_and_revoked(home, token):
    """Each holder has a token of his own; it is shown again, and can be revoked alone."""
    assert "nobody but you" in token()[1]
    _, made = token("--new", "alice")
    token("--new", "bob")
    assert tokens.holder_of(home, made.split()[0]) == "alice"
    assert token("alice")[1].split()[0] == made.split()[0]
    assert [row["name"] for row in json.loads(token("--json")[1])] == ["alice", "bob"]
    assert token("--revoke", "alice")[0] == 0
    assert tokens.holder_of(home, made.split()[0]) is None
    assert "alice" not in token()[1]
    assert "bob" in token()[1]


def test_where_a_hub_listens_all_of_the_connect_string_is_printed(home, token):
    """It is what is put into VEDETTE_HUB, with the token of its holder; one's own is replaced there, too."""
    home.prepare()
    there = address.Address("", "login1", 7070, tokens.hub_token(home), "ab" * 32)
    write_private(home.connect, there.connect_string().encode())
    page, old = tokens.page_token(home), tokens.hub_token(home)
    for words, holder in ((["--new", "alice"], "alice"), (["owner"], ""), (["--new"], "")):
        printed = token(*words)[1].strip().removeprefix("export VEDETTE_HUB=")
        told = address.parse(printed)
        assert (told.host, told.port, told.fingerprint) == ("login1", 7070, "ab" * 32)
        assert tokens.holder_of(home, told.token) == holder
    assert tokens.holder_of(home, old) is None
    assert tokens.page_token(home) != page
    with open(home.connect) as file:
        assert address.parse(file.read()).token == tokens.hub_token(home)


@pytest.mark.parametrize("said", [b"vedette://\xff\xfe@login1:7070", b"login1", b"nowhere at all"])
def test_where_it_is_not_known_where_the_hub_listens_the_token_is_printed(home, token, said):
    """A damaged `hub.connect` is said in one sentence, and stops nobody who must replace a token now."""
    home.prepare()
    write_private(home.connect, said)
    for words in (["--new", "alice"], ["alice"], ["--new"]):
        code, text = token(*words)
        assert code == 0
        assert tokens.holder_of(home, token.out.strip()) == ("" if words == ["--new"] else "alice")
        why = "no hub of this home listens" if said == b"login1" else f"{home.connect} is damaged: remove it"
        assert (text.count("\n"), f"\nvedette: this is the token alone: {why}" in text) == (2, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--new", "../x"], "cannot be the name of a holder"),
        (["--new", "owner"], "owner is you"),
        (["--new", "a" * 61], "cannot be the name of a holder"),
        (["--new", "taken"], "has a token already"),
        (["--revoke", "nobody"], "nobody called 'nobody' has a token"),
        (["--revoke", "../hub.token"], "nobody called"),
        (["--revoke", "owner"], "`vedette token --new`"),
        (["nobody"], "nobody called 'nobody' has a token"),
        (["taken", "--new", "x"], "give one name"),
        (["--new", ""], "'' cannot be the name of a holder"),
        (["--revoke", ""], "nobody called '' has a token"),
        ([""], "nobody called '' has a token"),
    ],
)
def test_mistakes_are_said_in_a_sentence(home, token, words, says):
    """And change nothing."""
    home.prepare()
    tokens.new_holder(home, "taken")
    own = tokens.hub_token(home)
    code, text = token(*words)
    assert (code, text.count("\n")) == (2, 1)
    assert says in text
    assert (tokens.hub_token(home), [one.name for one in tokens.holders(home)]) == (own, ["taken"])


def test_what_is_nobodys_token_is_named(home, token):
    """The holders are listed beside it, and whoever asks for it gets a sentence."""
    home.prepare()
    tokens.new_holder(home, "bob")
    damaged = os.path.join(home.root, "tokens", "alice")
    with open(damaged, "wb") as file:
        file.write(b"\xff\xfe")
    os.mkdir(f"{damaged}\n")
    code, text = token()

    assert code == 0
    assert [line.split()[0] for line in text.splitlines()] == ["HOLDER", "alice", "bob", "vedette:", "vedette:"]
    assert f"{damaged} is nobody's token" in text
    code, text = token("alice")
    assert (code, text.count("\n")) == (2, 1)
    assert "is damaged, so that alice cannot connect" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN MAKE FILES OF ANOTHER USER")
def test_nobody_revokes_in_the_home_of_another_user(home, token):
    """Root neither makes nor ends tokens there by mistake; it is said whose home it is."""
    home.prepare()
    tokens.new_holder(home, "alice")
    os.chown(home.root, 65534, 65534)
    for words in (["--revoke", "alice"], ["--new", "bob"], ["--new"]):
        code, text = token(*words)
        assert (code, text.count("\n"), "belongs to user 65534" in text) == (2, 1, True)
    assert os.listdir(os.path.join(home.root, "tokens")) == ["alice"]


@pytest.mark.parametrize("words", [("--listen", "heflwr=:5055", "--json"), ("--address", ":7070", "--status")])
def test_what_only_tells_begins_no_hub(home, token, words):
    """Who asks for a hub that listens, and for its status at once, learns that he has not got the hub."""
    code, text = token(*words, command="hub")
    assert (code, text.count("\n"), "without them" in text) == (2, 1, True)
    assert home.hub_pid() is None


def test_who_relays_is_listed(home, token):
    """Since when, how much, and what was refused; also where no hub runs, and it starts none."""
    assert "no other hub has ever relayed" in token("--status", command="hub")[1]
    home.prepare()
    store = SqliteStore(home.store)
    store.note_relay(RelayRow("ab" * 16, "alice", "node7", 10**18, 10**18, 5, 1234, 3))
    store.note_relay(RelayRow("cd" * 16, "", "node8", 10**18, 2 * 10**18))
    store.close()
    _, text = token("--status", command="hub")
    assert [word in text for word in ("abababab", "alice", "node7", "1234", "owner", "node8")] == [True] * 6
    told = json.loads(token("--status", "--json", command="hub")[1])
    assert told["pid"] is None
    assert [(row["holder"], row["points"], row["refused"]) for row in told["relays"]] == [
        ("owner", 0, 0), ("alice", 1234, 3),
    ]  # fmt: skip
    assert Home(home.root).hub_pid() is None
