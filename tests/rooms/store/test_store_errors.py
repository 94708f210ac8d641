"""What goes wrong with the file of a store is one of our errors, for readers and for the writer."""

import os
import shutil
import sqlite3
import tempfile

import pytest

from tests.rooms.store.damage import HOLES, RUINS, RUNS, make_store, overwrite, pages_of
from tests.rooms.users import as_nobody
from vedette.errors import DamagedError, NotFoundError, StoreError, VersionError
from vedette.model import LANE_FACTS, Event, Origin
from vedette.store import Batch, EventQuery, SpanQuery, sqlite_connection
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import open_reader


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The path of a store that nothing is wrong with."""
    return make_store(tmp_path_factory.mktemp("sound") / "store.db")


@pytest.fixture
def path(sound, tmp_path):
    """The path of a store that a test may damage."""
    return shutil.copy(sound, str(tmp_path / "store.db"))


def read_all(path):
    """Read all that there is to read."""
    reader = open_reader(path, 0.1)
    try:
        reader.spans(SpanQuery())
        reader.events(EventQuery())
        reader.events(EventQuery(search="line", span=RUNS[0]))
        rows = reader.series()
        reader.points([row.id for row in rows])
        for row in rows:
            list(reader.stretches(row.id))
        reader.blobs()
        reader.origins()
        reader.marks()
        reader.last_values()
    finally:
        reader.close()


def write_some(path):
    store = SqliteStore(path)
    try:
        read_all(path)
        store.keep([Batch(Origin("new"), LANE_FACTS, 9, facts=[(9, Event(RUNS[0], 1, "log", text="one more line"))])])
    finally:
        store.close()


KINDS = {"directory": StoreError, "newer": VersionError}


@pytest.mark.parametrize("use", [read_all, write_some])
@pytest.mark.parametrize("harm", [*RUINS, *HOLES])
def test_a_damaged_store_is_one_of_our_errors(path, harm, use):
    """Whatever was overwritten, cut off or put in its place, it is said in a sentence that says what to do."""
    {**RUINS, **HOLES}[harm](path)
    with pytest.raises(KINDS.get(harm, DamagedError)) as error:
        use(path)
    assert "vedette" in str(error.value)
    assert path not in str(error.value)  # who only has a link to the page is not told paths
    assert isinstance(error.value.__cause__, sqlite3.Error | OSError | None)


def test_without_the_translation_it_is_an_error_of_sqlite(path, monkeypatch):
    """The positive control: where SQLite's errors are not explained, they come through."""
    RUINS["spans"](path)
    monkeypatch.setattr(sqlite_connection, "explained", lambda _: None)
    with pytest.raises(sqlite3.DatabaseError):
        read_all(path)


@pytest.mark.parametrize("text", ["UPDATE spans SET attrs = 'no JSON'", "UPDATE events SET text = CAST(x'ff' AS TEXT)"])
def test_values_that_no_store_has(path, text):
    """Attributes that are not JSON and text that is not UTF-8 are damage, too."""
    store = sqlite3.connect(path)
    store.execute(text)
    store.commit()
    store.close()
    with pytest.raises(DamagedError):
        read_all(path)


def test_nothing_is_taken_for_an_empty_store(path):
    """A file of no bytes is a store that is about to be made, as it is when a hub begins."""
    os.truncate(path, 0)
    with pytest.raises(NotFoundError):
        read_all(path)


def test_a_path_that_is_too_long(tmp_path):
    """It is said that the name is too long, and not that nothing was logged."""
    for opening in (open_reader, SqliteStore):
        with pytest.raises(StoreError, match="file name too long"):
            opening(str(tmp_path / ("x" * 300)))


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to become another user")
def test_a_store_of_another_user(sound):
    """Who may not read or write it is told so; it is not called damaged."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as folder:
        os.chmod(folder, 0o755)
        path = shutil.copy(sound, f"{folder}/store.db")
        os.chmod(path, 0)

        def say():
            said = []
            for opening in (open_reader, SqliteStore):
                with pytest.raises(StoreError) as error:
                    opening(path)
                said.append(str(error.value))
            return "\n".join(said)

        said = as_nobody(say).splitlines()
    assert said == ["the store cannot be opened (permission denied): `vedette doctor` says what to do"] * 2


def test_a_query_that_is_wrong_is_not_the_store(path):
    """A value that does not fit is an error of sqlite3: the hub sets aside who said it, and not the store."""
    store = SqliteStore(path)
    with pytest.raises(sqlite3.IntegrityError):
        store.connection.execute("INSERT INTO spans (id) VALUES (NULL)")
    store.close()


def test_a_sound_page_beside_a_damaged_one(path):
    """What does not need the damaged page is read."""
    overwrite(path, *pages_of(path, "events_span"))
    reader = open_reader(path)
    assert len(reader.spans(SpanQuery(kind="run"))) == len(RUNS)
    reader.close()
