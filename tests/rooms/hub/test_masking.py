"""Secrets in what programs say: the hub masks them before they are stored or relayed.

A new case is a line in cases/masks. The lines of `ordinary_lines.txt` hold no secret; those of `secret_lines.txt` have
behind ==> what is kept of them.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.growth import grows_with_length
from tests.rooms.conftest import keeping
from tests.rooms.hubs import serving
from tests.soak import times
from vedette.home import Home
from vedette.hub.own import Own
from vedette.hub.turn.line_masks import mask_line
from vedette.hub.turn.masking import masked, masking
from vedette.hub.turn.takein import TakeIn
from vedette.model import USER, Blob, Event, Span
from vedette.settings import Hub, Settings
from vedette.store import EventQuery, SpanQuery

CASES = Path(__file__).parents[1] / "cases" / "masks"
SECRETS = {f"s3cr3t{n}x" for n in range(1, 10)}
PIECES = (
    "password", "token", "api_key", "=", ": ", "'", '"', "\\", "\n", " ", "Cookie", "Authorization", "Bearer ", "***",
    "hunter2", "abc", "://", "@", "ada:", "-----BEGIN PRIVATE KEY-----", "--", "-u ", "curl ", "<", "</", ">", "{", "}",
    "$X", "$(", "%s", "(", "[", ",", ";", "&", "?", "sig=", "ghp_abcdefghijklmnopqrstuv", "session id", "\u0130",
    "identified by ", "login a password ", "eyJabcdefgh.eyJabcdefgh.abcdefgh", "123456", "\\n", '\\"', "b'", "sk-",
    "('", "['", "', '", "', b'", "')", "\t", "session", "pass", "PWD", "Basic ", "YWRhOmh1bnRlcjI=", "Digest ",
    "response=", "X-Api-Key", "a1b2c3d4", "0a1b2c3d4e5f6a7b8c9d", "eyJhIjoxfQ.ZZZ.abcdefghijk", "x-access-token",
    "ApiKey ", "AWS4-HMAC-SHA256 ", "Credential=", ", Signature=", "/bot123456:", "/webhooks/1234567890/", "Hawk mac=",
)  # fmt: skip
LEAKY = """
import logging, sys, warnings, vedette
from vedette.home import Home
Home.wake_hub = lambda self, origin="": None
run = vedette.init(name="password=typed-by-the-user", notes="api_key=typed-by-the-user")
print("connecting to postgres://ada:s3cr3t1x@db/app, \\x1b[31mtoken=s3cr3t2x\\x1b[0m")
logging.warning("login with %s", {"api_key": "s3cr3t3x"})
warnings.warn("the cookie sessionid=s3cr3t4x is sent")
try:
    raise ValueError("Authorization: Bearer s3cr3t5xs3cr3t5x")
except ValueError:
    logging.exception("it failed")
run.mark("password: s3cr3t6x")
list(vedette.track(range(1), "https://ada:s3cr3t7x@example.org/data"))
def connect(password):
    raise ConnectionError(f"no connection with password={password}")
try:
    connect(password="s3cr3t8x")
finally:
    print("GET /data?signature=s3cr3t9x")
"""


def lines(name):
    """Return the cases of a file."""
    return [line for line in (CASES / name).read_text().splitlines() if line and not line.startswith("# ")]


def leaked(home):
    """Return the secrets that are in a store, whatever else lies in its home."""
    data = b"".join(Path(home.store + end).read_bytes() for end in ("", "-wal") if os.path.exists(home.store + end))
    return {secret for secret in SECRETS if secret.encode() in data}


def test_lines_of_ordinary_programs_stay_as_they_are():
    """Of lines that hold no secret fewer than one in a hundred is changed; none of those that are on record here."""
    ordinary = lines("ordinary_lines.txt")

    assert len(ordinary) > 300
    assert [line for line in ordinary if mask_line(line) is not line] == []


def test_secrets_in_lines_are_masked():
    """What is a secret in a line is masked, the rest of the line stays, and masking it again changes nothing."""
    cases = [line.split(" ==> ") for line in lines("secret_lines.txt")]

    assert [mask_line(given) for given, _ in cases] == [kept for _, kept in cases]
    assert [mask_line(kept) for _, kept in cases] == [kept for _, kept in cases]


@hypothesis.given(st.lists(st.sampled_from(PIECES), min_size=2, max_size=14))
@hypothesis.settings(max_examples=times(300), deadline=None)
def test_masking_twice_is_masking_once(pieces):
    """Whatever a line is made of, what is kept of it stays the same when it is masked again, by another hub."""
    once = mask_line("".join(pieces))

    assert mask_line(once) == once


@pytest.mark.parametrize("tail", ["", " token key pass curl https://@ cookie identified by"])
def test_no_line_takes_long(tail):
    """However a line is made up, it is looked at in time that grows with its length alone."""
    pieces = (
        "a:", "token:", "password:", "a=", "Cookie:", "-a ", "'--token', ", "password ", "login ", "://a:/", "sk-a-",
        "eyJ-", "key='", 'token=\\"', "passw", "<token>", "-", "password=a,", "a b c: ", " -u a:", "Bearer ",
        "('token','", "['key', \"", "(b'cookie',", "('token', 'a1", "api_key ", "api_key 'a1", "password\t",
        "a_key a1a1", "Basic ", "basic YWRh", "Digest response=", "Digest a=", "response=0a", "://token:", "pass: ",
        "session=eyJ", "sig=/bot123456:", "sig=/webhooks/1234567890", "sig=/services/T0000000", "\\u0026sig=a",
        "Authorization: a ", "authorization ", "Authorization: Token a=", "authorization Signature=aaaa",
    )  # fmt: skip

    assert [piece for piece in pieces if not grows_with_length(mask_line, piece, tail)] == []


def test_a_slow_pattern_is_found():
    """The check before is one: of a pattern that looks at all that follows, at each place, it tells that it is slow."""
    assert not grows_with_length(re.compile("a*b").search, "a", shorter=1_000)


def test_which_parts_of_facts_are_masked():
    """Words of a program are masked wherever they stand; what a user typed and what was cleaned before stays."""
    event = Event(
        "r",
        1,
        "log",
        20,
        "api_key=abc123",
        {"ansi": "api_key=\x1b[1mabc123", "exception": "password: a1b2c3", "pid": 7},
    )
    cell = Event("r", 1, "cell", 10, 'api_key = "${KEY}"; token = f("abc123")', {"n": 1})
    span = Span(
        "r/1", 2, "failed", "ValueError: token=abc123", attrs={"exit_text": "secret: abc", "note": "token=abc123"}
    )
    bar = Span("r/p-1", 2, name="https://a:b@c", attrs={"msg": ["https://a:b@c"]})
    edit = Span("r", 3, by=USER, name="token=abc123", attrs={"notes": "password=abc", "tags": ["api_key=abc"]})
    file = Blob("r", 3, "token=abc123", "0" * 64, 1)

    assert masked(event) == Event("r", 1, "log", 20, "api_key=***", {"exception": "password: ***", "pid": 7})
    assert masked(cell) is cell
    assert masked(span) == Span(
        "r/1", 2, "failed", "ValueError: token=***", attrs={"exit_text": "secret: ***", "note": "token=abc123"}
    )
    assert masked(bar) == Span("r/p-1", 2, name="https://a:***@c", attrs={"msg": ["https://a:***@c"]})
    assert masked(edit) is edit
    assert masked(file) is file
    assert masked(masked(event)) == masked(event)
    assert masking(on=False)(event) is event


@pytest.fixture
def far():
    """The home of another hub."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        yield Home(root)


@pytest.mark.parametrize("mask", [True, False])
def test_a_program_that_says_secrets(home, tmp_path, mask):
    """No secret of its lines, warnings, exceptions, marks, bars and cause is in the store; what the user typed is.

    With `hub.mask = false` all of them are: the setting's promise, and the control that the check finds them.
    """
    (tmp_path / "leaky.py").write_text(LEAKY)
    done = subprocess.run([sys.executable, str(tmp_path / "leaky.py")], check=False, capture_output=True, text=True)
    with keeping(home, mask=mask) as keeper:
        for _ in range(5):
            keeper.turn(seal={""})
        [run] = keeper.store.spans(SpanQuery(kind="run"))
        [failed] = keeper.store.events(EventQuery(kinds=("exception",)))

    assert done.returncode == 1, done.stderr
    assert leaked(home) == (set() if mask else SECRETS)
    assert run.name == "password=typed-by-the-user"
    assert run.attrs["notes"] == "api_key=typed-by-the-user"
    assert run.cause == f"ConnectionError: no connection with password={'***' if mask else 's3cr3t8x'}"
    assert f'connect(password="{"***" if mask else "s3cr3t8x"}")' in failed.text


@pytest.mark.parametrize(("relay", "keeper"), [(True, False), (False, True), (False, False)])
def test_either_hub_of_a_relay_masks(home, far, relay, keeper):
    """No secret leaves the machine by a relay that masks; what older relays send is masked by the keeping hub."""

    def settings(mask):
        return Settings(hub=Hub(idle_s=60.0, turn_s=0.01, sync_s=0.05, ship_s=0.05, seal_s=0.05, mask=mask))

    def ended(keeper):
        return [run.cause for run in keeper.store.spans(SpanQuery(kind="run")) if run.cause]

    async def act():
        async with serving(home, settings(keeper)) as here, serving(far, settings(relay)):
            said = [Span("r", 1, "running", kind="run"), Event("r", 2, "log", 20, "token=s3cr3t1x")]
            Own(far).say([*said, Span("r", 3, "failed", "exit code 1: password=s3cr3t2x")], home.socket)
            async with asyncio.timeout(60):
                while not (causes := await here.in_keeper(ended)):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            return causes, await here.in_keeper(lambda keeper: keeper.store.events(EventQuery("r"))[0].text)

    causes, text = asyncio.run(act())
    masks = relay or keeper
    assert causes == [f"exit code 1: password={'***' if masks else 's3cr3t2x'}"]
    assert text == f"token={'***' if masks else 's3cr3t1x'}"
    assert bool(leaked(home)) is not masks


@pytest.mark.parametrize("mask", [True, False])
def test_what_is_taken_in_is_masked(home, far, mask):
    """Of a home that holds secrets, in its store and in a spool, none comes into this one; a second time, too."""
    with keeping(far, mask=False) as theirs:
        theirs.own.say([Span("r", 1, "running", kind="run"), Event("r", 2, "log", 20, "token=s3cr3t1x", {"x": "pw"})])
        theirs.own.say([Span("r", 3, "failed", "password=s3cr3t2x", attrs={"exit_text": "password=s3cr3t2x"})])
        theirs.turn(seal={""})
    Own(far).say([Event("r", 4, "log", 20, "token=s3cr3t3x")])
    with keeping(home, mask=mask) as keeper:
        taken = []
        for _ in range(2):
            taking = TakeIn(keeper, far.root)
            for _ in taking.steps():
                pass
            taken.append(taking.events)
        texts = sorted(event.text for event in keeper.store.events(EventQuery("r")))

    assert leaked(far) == {"s3cr3t1x", "s3cr3t2x"}
    assert leaked(home) == (set() if mask else {"s3cr3t1x", "s3cr3t2x", "s3cr3t3x"})
    assert taken == [2, 0]
    assert [text.partition("=")[0] for text in texts] == ["token", "token"]


def nested(levels):
    """Return a list in lists."""
    value = ["password: a1b2c3"]
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("levels", [64, 65, 600])
def test_deep_attributes_hold_up_nobody(home, mask, levels):
    """However deep a program nests what it says, its other words and those of others are stored; the deepest is cut."""
    with keeping(home, mask=mask) as keeper:
        config = {"config": {"deep": nested(levels - 1), "lr": 0.1}}
        keeper.own.say([Span("r", 1, "running", kind="run", attrs=config), Event("r", 2, "log", 20, "", {"a": 1})])
        keeper.own.say([Event("r", 3, "log", 20, "deep", {"deep": nested(levels)}), Event("r", 4, "log", 20, "last")])
        for _ in range(3):
            keeper.turn(seal={""})
        found = keeper.store.events(EventQuery("r"))
        [run] = keeper.store.spans(SpanQuery(kind="run"))
        assert [event.text for event in found] == ["", "deep", "last"]
        assert run.attrs["config.lr"] == 0.1
        assert keeper.trouble == ""
        kept = str(found[1].attrs["deep"])
        assert kept.count("[") == min(levels, 64)
        assert ("{}" in kept) is (levels > 64)
        assert ("a1b2c3" in kept) is (levels <= 64 and not mask)


def test_a_fact_that_cannot_be_masked_is_counted(home):
    """If a fact cannot be masked, it is not stored, it is counted, and everything else is stored."""

    def fail(fact):
        if isinstance(fact, Event) and fact.text == "bad":
            raise RecursionError("too deep")
        return fact

    with keeping(home) as keeper:
        keeper._commits._mask = fail
        keeper.own.say([Event("r", number, "log", 20, text) for number, text in enumerate(("one", "bad", "two"), 1)])
        keeper.turn(seal={""})
        assert [event.text for event in keeper.store.events(EventQuery("r"))] == ["one", "two"]
        assert "cannot be masked" in keeper.inboxes.trouble
