"""The SQLite store's own business: its versions."""

import contextlib
import sqlite3

import pytest

from vedette.errors import LockedError, NotFoundError, StoreError, VersionError
from vedette.model import LANE_FACTS, Blob, Event, Origin
from vedette.store import Batch, EventQuery, RelayRow
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import STEPS, VERSION, open_reader


@pytest.fixture
def old(tmp_path):
    """The path of a store of today's version, with an event in it."""
    path = str(tmp_path / "store.db")
    store = SqliteStore(path)
    store.keep([Batch(Origin("a"), LANE_FACTS, 9, facts=[(9, Event("run", 1, "log", text="kept"))])])
    store.close()
    return path


def test_a_store_is_brought_forward_step_by_step(old, tmp_path):
    """A store of an older version is migrated when it is opened, once, and keeps what it had."""
    steps = list(STEPS)
    for number in (1, 2):
        step = tmp_path / f"step{number}.sql"
        step.write_text(f"CREATE TABLE new{number} (id INTEGER); INSERT INTO new{number} VALUES ({number});")
        steps.append(str(step))
    for _ in range(2):
        store = SqliteStore(old, steps)
        rows = store.connection.execute("SELECT id FROM new1 UNION ALL SELECT id FROM new2").fetchall()
        texts = [event.text for event in store.events(EventQuery())]
        version = store.connection.execute("PRAGMA user_version").fetchone()[0]
        store.close()

        assert rows == [(1,), (2,)]
        assert texts == ["kept"]
        assert version == VERSION + 2


def test_a_store_of_the_future_is_left_alone(old, tmp_path):
    """A store that a newer vedette has migrated is refused, for reading and writing, with what to do."""
    step = tmp_path / "step.sql"
    step.write_text("CREATE TABLE future (id INTEGER);")
    SqliteStore(old, [*STEPS, str(step)]).close()

    for opening in (SqliteStore, open_reader):
        with pytest.raises(VersionError, match="upgrade vedette"):
            opening(old)


def test_a_step_that_fails_changes_nothing(old, tmp_path):
    """A migration that fails in the middle leaves the store at its version, and readable."""
    step = tmp_path / "step.sql"
    step.write_text("CREATE TABLE half (id INTEGER); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(StoreError, match="no such table"):
        SqliteStore(old, [*STEPS, str(step)])

    reader = open_reader(old)
    assert reader.connection.execute("SELECT name FROM sqlite_schema WHERE name = 'half'").fetchall() == []
    assert [event.text for event in reader.events(EventQuery())] == ["kept"]
    SqliteStore(old).close()


def test_a_store_from_before_it_was_noted_who_has_sent_a_file(old):
    """What runs of one holder alone named is his, what others named, too, is nobody's; the next time all stays."""
    names = {"run": "owned", "r1": "hers", "r1/1": "theirs", "r2": "theirs", "r3": "shared", "run/1": "shared"}
    with contextlib.closing(SqliteStore(old)) as store:
        for holder, runs in (("alice", ["r1"]), ("bob", ["r2", "r3"])):
            store.note_relay(RelayRow(f"relay-{holder}", holder, "", 1, 1))
            store.bind(f"relay-{holder}", [], runs)
        facts = [(n, Blob(span, 1, "file", digest, 10 + n)) for n, (span, digest) in enumerate(names.items(), 1)]
        store.keep([Batch(Origin("b"), LANE_FACTS, 9, facts=facts)])
        store.connection.execute("DROP TABLE delivered")
    with contextlib.closing(open_reader(old)) as reader:
        assert reader.delivered(list(names.values()), "alice") == set()
    for _ in range(2):
        with contextlib.closing(SqliteStore(old)) as store:
            found = {holder: store.delivered(list(names.values()), holder) for holder in ("", "alice", "bob")}
            assert found == {"": set(), "alice": {"hers"}, "bob": set()}
            assert store.holders(["run", "r1", "r2"]) == {"r1": "alice", "r2": "bob"}
            assert (store.delivered_bytes("alice"), store.delivered_bytes("bob")) == (12, 0)


def test_a_store_that_is_locked_is_not_read_past_its_writer(old):
    """A reader that cannot have its lock says so: read without one, a file that is written to is anything."""
    writer = sqlite3.connect(old, isolation_level=None)
    writer.execute("PRAGMA locking_mode = EXCLUSIVE")
    writer.execute("BEGIN EXCLUSIVE")

    with pytest.raises(LockedError, match="locked by another program"):
        open_reader(old, 0.1)
    writer.execute("ROLLBACK")
    writer.close()
    assert [event.text for event in open_reader(old).events(EventQuery())] == ["kept"]


def test_a_store_that_is_being_made_is_not_there_yet(tmp_path):
    """A file that has no tables yet, as a hub makes it first, reads as no store, not as a damaged one."""
    path = str(tmp_path / "store.db")
    with contextlib.closing(sqlite3.connect(path)) as making:
        making.execute("PRAGMA journal_mode = WAL")
        with pytest.raises(NotFoundError, match="there is no store"):
            open_reader(path)
