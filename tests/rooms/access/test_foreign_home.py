"""The home of another user: root reads it without a trace, and writes through none of the links that lie there."""

import os
import shutil
import sqlite3

import pytest

from tests.rooms.conftest import Maker, call
from vedette import hub_lock
from vedette.access.home_access import HomeAccess
from vedette.errors import FormatError
from vedette.home import Home
from vedette.store.sqlite import SqliteStore

USER = 12345
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT HAS A HOME OF ANOTHER USER")
FOREIGN = {"VEDETTE_FOREIGN_HOME": "1"}


def give(root):
    """Give a directory, and all in it, to the user."""
    for folder, folders, files in os.walk(root):
        for name in ("", *folders, *files):
            os.lchown(os.path.join(folder, name), USER, USER)


def traces(root):
    """Return all that is in a home, and what could have changed of it; SQLite's index is memory that readers share."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in ("", *folders, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            changed = 0 if name.endswith("-shm") else status.st_mtime_ns
            found[path] = status.st_uid, status.st_mode, status.st_size, changed
    return found


@pytest.fixture(params=["left", "killed", "living"])
def theirs(tmp_path, request):
    """The home of a user, whose hub has left, was killed, or lives: it keeps the store open."""
    place = tmp_path / "theirs"
    place.mkdir(0o700)
    (place / "spool").mkdir(0o700)
    store = SqliteStore(str(tmp_path / "store.db" if request.param == "killed" else place / "store.db"))
    Maker(store).run("r1", "alpha", lr=0.1)
    if request.param == "killed":
        for name in os.listdir(tmp_path):
            if name.startswith("store"):
                shutil.copy(tmp_path / name, place / name)
    if request.param == "left":
        store.close()
    give(place)
    yield str(place)
    if request.param != "left":
        store.close()


def test_root_reads_it_without_a_trace(theirs):
    """What its store has is seen, nothing is made, changed or started there, and SQLite leaves no files."""
    before = traces(theirs)
    for words in (["ls"], ["show", "alpha"], ["ls", "--json"], ["doctor"]):
        done = call(*words, home=theirs)
        assert done.returncode == (words == ["doctor"])
        assert "alpha" in done.stdout or words == ["doctor"], done.stderr
    assert "so it is only read" in done.stdout

    assert traces(theirs) == before


def test_reading_as_usual_would_leave_files(theirs):
    """The test above is not blind: SQLite makes files to read a store whose hub has left."""
    before = traces(theirs)
    with sqlite3.connect(f"file:{theirs}/store.db?mode=ro", uri=True) as reader:
        reader.execute("SELECT count(*) FROM spans")

    assert (traces(theirs) == before) is any(name.endswith("-wal") for name in before)


def test_what_waits_there_is_said(theirs):
    """Where a spool waits unread, the reader hears that it may be behind; no hub is started for it."""
    os.makedirs(os.path.join(theirs, "spool", "o1"))
    give(theirs)
    done = call("ls", home=theirs)

    assert "is another user's: only its store is read; what you see may be behind" in done.stderr
    assert not os.path.exists(os.path.join(theirs, "hub.log"))


@pytest.mark.parametrize("beside", ["", "-wal", "-shm", "-journal"])
def test_a_link_in_place_of_a_file_of_the_store(tmp_path, beside):
    """SQLite would make what a planted link points to, and give it to the user: it is not even opened."""
    place = tmp_path / "theirs"
    place.mkdir()
    if beside:
        SqliteStore(str(place / "store.db")).close()
    os.symlink(tmp_path / "made", place / f"store.db{beside}")
    (tmp_path / "made").touch() if not beside else None
    give(place)
    with pytest.raises(FormatError, match="is not read"):
        HomeAccess(Home(str(place))).reader()

    assert beside == "" or not (tmp_path / "made").exists()


PLANTED = [
    "hub.lock", "hub.log", "hub.id", "store.db", "store.db-wal", "store.db-shm", "store.db-journal",
    "spool", "blobs",
]  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_hub_that_works_there_on_purpose_follows_no_link(tmp_path, name):
    """A hub of root, told to work in a user's home, writes to nothing that a link of the user's points to."""
    place, precious = tmp_path / "theirs", tmp_path / "precious"
    place.mkdir()
    inside = precious / "inside"
    if name in ("spool", "blobs"):
        inside.mkdir(parents=True)
    else:
        precious.mkdir()
        inside.write_text("x" * (2 << 20))  # a log that is too long is emptied
    os.symlink(inside, place / name)
    give(place)
    before = traces(precious)
    done = call("hub", home=str(place), environ={**FOREIGN, "VEDETTE_HUB_IDLE_S": "0", "VEDETTE_HUB_TURN_S": "0.01"})

    assert traces(precious) == before
    assert "Traceback" not in done.stderr
    if name not in ("hub.log", "blobs"):  # it is started by hand, and prints; and there is nothing to save
        assert done.returncode in (1, 2)
        assert "look at it, and remove it" in done.stderr or "is a symbolic link" in done.stderr


def test_a_build_that_follows_links_would_write_there(tmp_path, monkeypatch):
    """The test above is not blind: without `open_private` the lock is written to what its link points to."""
    (tmp_path / "precious").write_text("precious")
    os.symlink(tmp_path / "precious", tmp_path / "hub.lock")
    with pytest.raises(PermissionError):
        hub_lock.take(str(tmp_path / "hub.lock"), 0)
    monkeypatch.setattr(hub_lock, "open_private", lambda path, flags: os.open(path, flags, 0o600))
    os.close(hub_lock.take(str(tmp_path / "hub.lock"), 0))

    assert str(os.getpid()) in (tmp_path / "precious").read_text()


def test_a_client_of_root_that_is_told_to(tmp_path):
    """With the setting, root's program records into the home of the user, as any other."""
    place = tmp_path / "theirs"
    place.mkdir(0o700)
    give(place)
    done = call("run", "--quiet", "--name", "alpha", "--", "true", home=str(place), environ=FOREIGN)
    listed = call("ls", home=str(place), environ=FOREIGN)
    call("hub", "--stop", home=str(place), environ=FOREIGN)

    assert (done.returncode, done.stderr) == (0, "")
    assert "alpha" in listed.stdout
