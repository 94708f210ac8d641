"""Archives: what is in them, and that one from anybody can do no harm."""

import os
import sqlite3
import struct
from contextlib import closing

import numpy as np
import pytest

from tests.rooms.conftest import Maker
from vedette.errors import NotFoundError, VedetteError, VersionError
from vedette.hub.turn.takein import SCRATCH, TakeIn
from vedette.model import Event, Span
from vedette.store import EventQuery, SpanQuery, archive, chunks
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_export import write_archive
from vedette.store.sqlite_file import open_reader


@pytest.fixture
def keeper(keeper):
    """The keeper of a home with a run of its own, that no hub keeps."""
    make = Maker(keeper.store)
    make.run("mine", config={"lr": 1})
    make.events("mine", "my event")
    make.points("mine", "loss", [1.0, 2.0, 3.0])
    return keeper


@pytest.fixture
def sent(tmp_path):
    """The path of an archive of a run `theirs`."""
    with closing(SqliteStore(str(tmp_path / "elsewhere.db"))) as store:
        make = Maker(store)
        make.run("theirs", config={"lr": 2}, summary={"best": 1})
        make.events("theirs", "their event", "another")
        make.points("theirs", "loss", np.cumsum(np.ones(500)).tolist())
        make.points("theirs", "wheel", list(range(20_000)), {"side": "left"})
        make.run("other")
        make.events("other", "not to be seen")
    path = str(tmp_path / "theirs.vedette")
    with closing(open_reader(str(tmp_path / "elsewhere.db"))) as reader:
        write_archive(reader, ["theirs"], path, print)
    return path


def take(keeper, path):
    for _ in TakeIn(keeper, path).steps():
        pass


def of_mine(store):
    """All that the store has of the run that was here before."""
    [series] = store.series(["mine"])
    return (
        [row for row in store.spans(SpanQuery()) if row.id == "mine"],
        store.events(EventQuery(span="mine")),
        series,
        store.points([series.id])[series.id].value.tolist(),
        {key: mark for key, mark in store.marks().items() if "mine" in key[0]},
    )


def test_an_archive_holds_a_run_and_nothing_else(keeper, sent):
    """What was exported comes back whole; another run of the same home is not in the file."""
    take(keeper, sent)
    with open(sent, "rb") as file:
        assert b"not to be seen" not in file.read()

    [run] = keeper.store.spans(SpanQuery(kind="run", name="theirs"))
    assert run.attrs == {"config.lr": 2, "summary.best": 1}
    assert [event.text for event in keeper.store.events(EventQuery(span="theirs"))] == ["their event", "another"]
    assert [(row.name, row.count, row.last) for row in keeper.store.series(["theirs"])] == [
        ("loss", 500, 500.0),
        ("wheel", 20_000, 19_999),
    ]
    assert keeper.store.spans(SpanQuery(name="other")) == []
    assert len(keeper.store.events(EventQuery(search="their"))) == 1


def test_what_only_passed_by_is_not_in_an_archive(tmp_path):
    """Of an origin that also spoke of other runs there is what it said of this one, and no mark."""
    path = str(tmp_path / "store.db")
    with closing(SqliteStore(path)) as store:
        make = Maker(store)
        make.run("one")
        make.facts("one", Span("two", 5, state="running", kind="run"), Event("two", 5, "log"))
        write_archive(store, ["one"], str(tmp_path / "a"), print)
        write_archive(store, ["one", "two"], str(tmp_path / "b"), print)
    marks = {}
    for name in "ab":
        assert list(archive.unpack(str(tmp_path / name), str(tmp_path / f"{name}.db")))
        with closing(archive.open_careful(str(tmp_path / f"{name}.db"), name)) as reader:
            marks[name] = {lane for _, lane in reader.marks()}
            assert {row.id for row in reader.spans(SpanQuery())} == {"a": {"one"}, "b": {"one", "two"}}[name]

    assert marks == {"a": set(), "b": {"f"}}


def test_a_run_that_was_purged_cannot_be_exported(keeper, tmp_path):
    """Nothing is left of it, and a sentence says so."""
    Maker(keeper.store).facts("mine", Span("mine", 1 << 61, state="purged", by="user"))

    with pytest.raises(NotFoundError, match="purged"):
        write_archive(keeper.store, ["mine"], str(tmp_path / "a"), print)
    assert os.listdir(tmp_path) == []


def test_what_was_purged_here_does_not_come_back(keeper, sent):
    """Events and points of a run that was purged here are not taken in again."""
    Maker(keeper.store).facts("theirs", Span("theirs", 1 << 61, state="purged", by="user"))
    take(keeper, sent)

    assert [row.state for row in keeper.store.spans(SpanQuery(name="theirs"))] == ["purged"]
    assert keeper.store.events(EventQuery(span="theirs")) == []
    assert keeper.store.series(["theirs"]) == []


def test_what_was_purged_elsewhere_is_not_purged_here(keeper, sent):
    """An archive cannot remove anything: what it calls purged is left out, and what is here stays."""
    inside("SELECT 1")(sent)
    take(keeper, sent)
    before = told(keeper.store, "theirs")
    inside("UPDATE claims SET state = 'purged', t = t + 1")(sent)
    take(keeper, sent)

    assert before[1]
    assert told(keeper.store, "theirs") == before


def told(store, span):
    states = [(row.id, row.state) for row in store.spans(SpanQuery(prefix=span))]
    return states, [row.text for row in store.events(EventQuery(span=span))], len(store.series([span]))


def raw(change):
    """Return a harm that is done to the file itself."""

    def harm(path):
        with open(path, "rb") as file:
            data = bytearray(file.read())
        data = change(data)
        with open(path, "wb") as file:
            file.write(data)

    return harm


def inside(*queries, bound=()):
    """Return a harm that is done to the store inside, under a head that fits it."""

    def harm(path):
        inner = path + ".inner"
        for _ in archive.unpack(path, inner):
            pass
        with closing(sqlite3.connect(inner, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            for query in queries:
                connection.execute(query, bound if "?" in query else ())
        archive.pack(inner, path)
        os.unlink(inner)

    return harm


def flip(place):
    def change(data):
        data[place] ^= 0x40
        return data

    return raw(change)


def put(place, form, value):
    return raw(lambda data: data[:place] + struct.pack(form, value) + data[place + struct.calcsize(form) :])


BOMB = chunks.pack(np.zeros(1 << 24))
HARMS = {
    "empty": raw(lambda data: data[:0]),
    "no archive": raw(lambda data: b"hello" + data),
    "half a head": raw(lambda data: data[:40]),
    "cut short": raw(lambda data: data[:-1000]),
    "longer": raw(lambda data: data + b"more"),
    "a flipped byte in the head": flip(30),
    "a flipped byte in the schema": flip(200),
    "a flipped byte in the middle": flip(60_000),
    "a newer archive": put(16, "<H", 99),
    "a newer store": put(18, "<H", 99),
    "another store than it is": put(18, "<H", 0),
    "a length beyond all": put(20, "<Q", 1 << 63),
    "an extra table": inside("CREATE TABLE more (a)"),
    "a view as a table": inside("DROP TABLE blobs", "CREATE VIEW blobs AS SELECT * FROM writes"),
    "a trigger": inside("CREATE TRIGGER bad AFTER INSERT ON events BEGIN DELETE FROM events; END"),
    "a missing table": inside("DROP TABLE progress"),
    "an extra column": inside("ALTER TABLE events ADD COLUMN more"),
    "a store of another version": inside("PRAGMA user_version = 0"),
    "no pages": inside("UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'events'"),
    "a huge count": inside("UPDATE axes SET count = 1 << 40"),
    "another count": inside("UPDATE axes SET count = count - 1"),
    "no count": inside("UPDATE axes SET count = 0"),
    "a bomb": inside("UPDATE chunks SET value = ?", bound=(BOMB,)),
    "a bomb of times": inside("UPDATE axes SET t = ?", bound=(BOMB,)),
    "no chunk": inside("UPDATE chunks SET value = x'70ffffff'"),
    "a chunk of text": inside("UPDATE chunks SET value = 'text'"),
    "an endless value": inside(
        "UPDATE chunks SET value = zeroblob(40000000) WHERE rowid = (SELECT max(rowid) FROM chunks)"
    ),
    "places that fall": inside("UPDATE axes SET n = ?", bound=(chunks.pack(np.arange(20_000)[::-1].copy()),)),
    "places without end": inside(
        "UPDATE axes SET n = ?", bound=(b"r" + np.array([1, 1, 1 << 62], dtype="<i8").tobytes(),)
    ),
    "places of another length": inside("UPDATE axes SET n = x'72ff'"),
    "a place below zero": inside("UPDATE marks SET place = -5"),
    "a time that is text": inside("UPDATE events SET t = 'now'"),
    "a time below zero": inside("UPDATE claims SET t = -1"),
    "no UTF-8": inside("UPDATE events SET text = CAST(x'ff00fe' AS TEXT)"),
    "an id without end": inside("UPDATE events SET span = replace(hex(zeroblob(5000)), '0', 'a')"),
    "no id": inside("UPDATE spans SET id = ''"),
    "attributes that are no JSON": inside("UPDATE events SET attrs = '{'"),
    "attributes without end": inside("UPDATE events SET attrs = replace(hex(zeroblob(50000)), '0', '[')"),
    "attributes that are no msgpack": inside("UPDATE writes SET attrs = x'c1'"),
    "tags that are a list": inside("UPDATE series SET tags = '[1]'"),
    "an event of nobody": inside("UPDATE events SET origin = 77"),
    "a last value that is text": inside("UPDATE series SET last = 'DROP TABLE runs'"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmful_archive_is_refused(keeper, sent, harm):
    """Whatever is wrong with it, it is refused in a sentence; what was here is as it was, and nothing is left over."""
    before = of_mine(keeper.store)
    HARMS[harm](sent)

    with pytest.raises(VedetteError) as error:
        take(keeper, sent)
    assert len(str(error.value)) > 20
    assert of_mine(keeper.store) == before
    assert not [name for name in os.listdir(keeper.home.root) if name.startswith(SCRATCH)]
    keeper.turn(seal={""})
    if "newer" in harm:
        assert isinstance(error.value, VersionError)
    for reader in (open_reader(keeper.home.store),):  # and all of it can still be read
        reader.events(EventQuery())
        reader.points([row.id for row in reader.series()])
        reader.close()


def test_the_checks_take_what_is_not_harmed(keeper, sent):
    """The positive control: the same archive taken apart and put together again is taken in."""
    inside("SELECT 1")(sent)
    take(keeper, sent)

    assert len(keeper.store.series(["theirs"])) == 2
