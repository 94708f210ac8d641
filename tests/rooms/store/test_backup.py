"""A home in one file: all that makes it this home is in it, and nothing else comes out of one."""

import contextlib
import errno
import hashlib
import io
import os
import shutil
import signal
import sqlite3
import tarfile
import tempfile

import msgspec
import pytest

from tests.rooms.conftest import small_disk
from tests.rooms.hub.test_inbox import RELAY, ROOMY, samples, ship
from tests.rooms.store.damage import RUNS, make_store, overwrite, pages_of
from vedette import certificate, kernel, tokens
from vedette.blobs import Blobs
from vedette.errors import DamagedError, FormatError, HubError, StoreError, VedetteError, VersionError
from vedette.home import Home
from vedette.hub import program
from vedette.hub.own import Own
from vedette.hub.peers.blob_queue import BlobQueue
from vedette.hub.peers.identity import identify
from vedette.hub.peers.inbox import Inbox
from vedette.model import Blob, Event
from vedette.settings import Hub, Settings
from vedette.store import SpanQuery, backup, backup_file
from vedette.store.backup import back_up
from vedette.store.backup_file import is_name
from vedette.store.restore import restore
from vedette.store.sqlite_file import open_reader

NOBODY = 65534
# What a home has that is not part of a backup: what only says how it is at this moment, or can be made again.
LEFT_OUT = {"hub.lock", "hub.log", "hub.sock", "hub.pids", "hub.waking", "hub.connect", "ui.address", "blobs/total"}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A home that has everything: runs, files, tokens, keys, spools, inboxes, files on their way."""
    home = Home(str(tmp_path_factory.mktemp("sound") / "home"))
    home.prepare()
    assert program.run(home, Settings(hub=Hub(idle_s=0.0, turn_s=0.01)), quiet=True) == 0
    os.unlink(home.store)
    make_store(home.store)
    tokens.hub_token(home)
    tokens.page_token(home)
    tokens.new_holder(home, "ada@lab-7.org")
    certificate.serving(home)
    identify(home, b"challenge", "", "")
    blobs = Blobs(home)
    digest, size = blobs.keep(b"weights")
    blobs.count(size)
    blobs.spare()
    BlobQueue(blobs).note("vedette://token@host:1", [(1, Blob("r", 1, "weights", digest, size))])
    own = Own(home)
    own.say([Event("r", 1, "log", 20, "waits in a spool")])
    own.close()
    inbox = Inbox(home.inbox, "000000000001", RELAY, ROOMY)
    inbox.append(ship(1, samples("far", 0, 100)))
    inbox.close()
    with open(os.path.join(home.root, "vedette.toml"), "w") as file:
        file.write("[keep]\nruns = 100\n")
    return home


def files(root):
    """Return the files below a directory that are part of a backup: their bytes, modes and times."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            status = os.stat(path)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read(), status.st_mode & 0o777, int(status.st_mtime)
    return {name: what for name, what in found.items() if is_name(name) and name != "store.db"}


def save(home, path, **how):
    """Back up a home; return what the backup says of itself, and what was left out."""
    return back_up(home, str(path), **{"force": False, "settle": lambda: None, "shown": lambda _: None, **how})


def runs_of(store_path):
    with contextlib.closing(open_reader(store_path)) as reader:
        return sorted(row.id for row in reader.spans(SpanQuery(kind="run")))


@pytest.fixture
def saved(sound, tmp_path):
    """The path of a backup."""
    save(sound, tmp_path / "home.tar")
    return tmp_path / "home.tar"


def test_a_restored_home_is_the_same_home(sound, saved, tmp_path):
    """Every file is there with its bytes, mode and time, the store with all that it said; and nothing else."""
    new = Home(str(tmp_path / "a" / "new"))
    about = restore(str(saved), new)
    assert (about.runs, about.files, about.spools) == (len(RUNS), 1, 1)
    assert files(new.root) == files(sound.root)
    assert runs_of(new.store) == RUNS
    assert os.stat(new.root).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(new.root)) == sorted(
        {name.partition("/")[0] for name in files(sound.root)}
        | {"store.db", "hub.lock", "store.db-wal", "store.db-shm"}
    )
    assert (tokens.hub_token(new), tokens.home_id(new)) == (tokens.hub_token(sound), tokens.home_id(sound))
    assert certificate.serving(new)[1] == certificate.serving(sound)[1]


def test_no_file_of_a_home_is_forgotten(sound):
    """Each file that a home has is part of a backup, or is left out on purpose."""
    found = [
        os.path.relpath(os.path.join(folder, name), sound.root)
        for folder, _, names in os.walk(sound.root)
        for name in names
    ]
    assert len(found) > 12
    assert [
        name for name in found if not is_name(name) and name not in LEFT_OUT and not name.startswith("store.db-")
    ] == []


@pytest.fixture
def moved(sound, tmp_path, monkeypatch):
    """The same home as on a network file system: all but its settings lies in a directory of this machine."""
    monkeypatch.setattr(kernel, "NETWORK_FILE_SYSTEMS", {kernel.file_system(str(tmp_path))})
    monkeypatch.setattr("vedette.home._LOCAL", str(tmp_path))
    home = Home(str(tmp_path / "home"))
    shutil.copytree(sound.root, home.root)
    os.mkdir(home.asked)
    os.rename(os.path.join(home.root, "vedette.toml"), os.path.join(home.asked, "vedette.toml"))
    return home


def test_a_home_on_a_network_file_system(sound, moved, tmp_path):
    """Its settings lie apart from the rest: they are in the backup, and come to such a place again."""
    save(moved, tmp_path / "home.tar")
    new = Home(str(tmp_path / "new"))
    restore(str(tmp_path / "home.tar"), new)
    settings = {"vedette.toml": files(sound.root)["vedette.toml"]}
    assert files(new.asked) == settings
    assert {**files(new.root), **settings} == files(sound.root)


def test_a_directory_that_lies_on_another_disk(sound, tmp_path):
    """Files of runs behind a link of ours are saved, too; a link that leads round and round ends somewhere."""
    home = Home(shutil.copytree(sound.root, tmp_path / "home"))
    [found] = Blobs(home).all()
    folder = os.path.dirname(Blobs(home).path(found.digest))
    os.rename(folder, tmp_path / "disk")
    os.symlink(tmp_path / "disk", folder)
    os.symlink(home.spool, os.path.join(home.spool, "round"))
    assert save(home, tmp_path / "home.tar")[0].files == 1
    new = Home(str(tmp_path / "new"))
    restore(str(tmp_path / "home.tar"), new)
    assert files(new.root) == files(sound.root)


def test_any_tar_can_read_it(sound, saved, tmp_path):
    """Ten years from now nobody needs vedette to take a file out of it."""
    with tarfile.open(saved) as tar:
        names = tar.getnames()
        assert names[-1] == "vedette-backup.json"
        assert tar.extractfile("hub.token").read().decode().strip() == tokens.hub_token(sound)
    assert set(names[:-1]) == {*files(sound.root), "store.db"}
    assert os.stat(saved).st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["home.tar"]


@pytest.mark.parametrize("where", ["home.tar", "folder", "nowhere/home.tar"])
def test_what_is_there_is_not_overwritten(sound, tmp_path, where):
    """A file that exists, a directory and a missing one are refused in a sentence, and nothing is left."""
    (tmp_path / "home.tar").write_text("the last one")
    (tmp_path / "folder").mkdir()
    with pytest.raises(VedetteError, match=r"exists already|is a directory|there is no directory"):
        save(sound, tmp_path / where)
    assert sorted(os.listdir(tmp_path)) == ["folder", "home.tar"]
    assert (tmp_path / "home.tar").read_text() == "the last one"
    save(sound, tmp_path / "home.tar", force=True)
    assert tarfile.is_tarfile(tmp_path / "home.tar")


def test_it_ends_while_the_store_is_written_to(sound, tmp_path, monkeypatch):
    """A hub that commits between all steps of the copy does not make it begin again; the copy is of one moment."""
    home = Home(shutil.copytree(sound.root, tmp_path / "home"))
    monkeypatch.setattr(backup, "_PAGES", 4)
    writer = sqlite3.connect(home.store, isolation_level=None)
    steps = []

    def write(what):
        if what.endswith(" %"):
            steps.append(what)
            assert len(steps) < 1000, "it never ends"
            writer.execute("INSERT INTO purges VALUES (?, 0)", (f"step {len(steps)}",))

    save(home, tmp_path / "home.tar", shown=write)
    writer.close()
    new = Home(str(tmp_path / "new"))
    restore(str(tmp_path / "home.tar"), new)
    with contextlib.closing(sqlite3.connect(new.store)) as store:
        assert store.execute("SELECT count(*) FROM purges").fetchone() == (0,)
    assert len(steps) > 10


def test_a_damaged_store_is_not_copied(sound, tmp_path):
    """A copy of it would be as damaged, and seem to be a backup."""
    home = Home(shutil.copytree(sound.root, tmp_path / "home"))
    overwrite(home.store, pages_of(home.store, "events")[2])
    with pytest.raises(DamagedError, match="vedette doctor"):
        save(home, tmp_path / "home.tar")
    assert os.listdir(tmp_path) == ["home"]


def test_a_damaged_file_of_a_run_is_left_out(sound, tmp_path):
    """One file whose bytes changed does not keep the rest from being saved; it is named."""
    home = Home(shutil.copytree(sound.root, tmp_path / "home"))
    [found] = Blobs(home).all()
    with open(Blobs(home).path(found.digest), "r+b") as file:
        file.write(b"W")
    about, left_out = save(home, tmp_path / "home.tar")
    assert (about.files, left_out) == (0, [f"blobs/{found.digest[:2]}/{found.digest[2:]}"])
    restore(str(tmp_path / "home.tar"), Home(str(tmp_path / "new")))


@pytest.mark.parametrize("t", [-5, 1 << 34])
def test_a_file_whose_time_is_wrong(sound, tmp_path, t):
    """A clock that was wrong when a file was written does not keep the home from being saved."""
    home = Home(shutil.copytree(sound.root, tmp_path / "home"))
    os.utime(os.path.join(home.root, "hub.id"), (t, t))
    save(home, tmp_path / "home.tar")
    restore(str(tmp_path / "home.tar"), Home(str(tmp_path / "new")))
    assert os.stat(tmp_path / "new" / "hub.id").st_mtime in (0, 8**11 - 1)


class Broken(io.FileIO):
    """A file on a disk that fails."""

    def read(self, _size=-1):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_file_that_cannot_be_read(saved, tmp_path):
    """The sentence names the file on the bad disk, and not the one that was to be written, or a home."""
    (tmp_path / "hub.id").write_text("0123456789")
    for use in (
        lambda source: backup_file.Writer(io.FileIO(tmp_path / "e.tar", "w"), 0).add("hub.id", source, source.name),
        lambda source: backup_file.read(source, source.name, lambda _name, _t: io.BytesIO()),
    ):
        with Broken(tmp_path / "hub.id") as source, pytest.raises(StoreError, match=r"/hub\.id cannot be read: input"):
            use(source)


def test_a_file_that_cannot_be_opened(sound, tmp_path):
    """It is named, and nothing is left; what a home has in its place by a link is not read, but for settings."""
    home = Home(shutil.copytree(sound.root, tmp_path / "home"))
    for name in ("vedette.toml", "hub.id"):
        os.rename(os.path.join(home.root, name), tmp_path / name)
        os.symlink(tmp_path / name, os.path.join(home.root, name))
    with pytest.raises(StoreError, match=r"home/hub\.id cannot be read: too many levels of symbolic links"):
        save(home, tmp_path / "home.tar")
    os.unlink(os.path.join(home.root, "hub.id"))
    assert "vedette.toml" in save(home, tmp_path / "home.tar")[0].digests


@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN BECOME SOMEBODY WHO MAY NOT READ A DIRECTORY")
def test_a_directory_that_cannot_be_read(sound):
    """What is in it would be missing, and nobody would know: there is no backup."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as folder:
        home = Home(shutil.copytree(sound.root, f"{folder}/home"))
        [spool] = os.listdir(home.spool)
        for at, inner, names in os.walk(folder):
            for name in (".", *inner, *names):
                os.chown(os.path.join(at, name), NOBODY, NOBODY)
        os.chmod(os.path.join(home.spool, spool), 0)
        os.seteuid(NOBODY)
        try:
            with pytest.raises(StoreError, match=f"spool/{spool} cannot be read: permission denied"):
                save(home, f"{folder}/home.tar")
        finally:
            os.seteuid(0)
        assert os.listdir(folder) == ["home"]


def test_a_full_disk(sound, monkeypatch):
    """Where there is no room it is said, before and in the middle of it, and nothing is left."""
    with small_disk("600k") as disk:
        for spare, why in ((backup._SPARE_BYTES, "MiB free"), (-(1 << 40), "full|no space left")):
            monkeypatch.setattr(backup, "_SPARE_BYTES", spare)
            with pytest.raises(StoreError, match=why):
                save(sound, f"{disk}/home.tar")
            assert os.listdir(disk) == []


def test_a_disk_without_room_for_what_waits(sound, tmp_path, monkeypatch):
    """It is refused before anything is written: spools and inboxes are counted, too."""
    home = Home(shutil.copytree(sound.root, tmp_path / "home"))
    monkeypatch.setattr(backup, "_SPARE_BYTES", 0)
    [origin] = os.listdir(home.inbox)
    waiting = os.path.join(home.inbox, origin, "f.9999999999999999")
    steps = []
    with small_disk("8m") as disk:
        with open(waiting, "wb") as file:
            file.truncate(9 << 20)
        with pytest.raises(StoreError, match="MiB free"):
            save(home, f"{disk}/home.tar", shown=steps.append)
        assert steps == []
        os.truncate(waiting, 1 << 20)
        save(home, f"{disk}/home.tar")


def test_a_kill_in_the_middle(sound, tmp_path):
    """There is no backup then; the next one cleans up, also what one with another name has left, and nothing else."""
    if not (child := os.fork()):
        with contextlib.suppress(BaseException):
            save(sound, tmp_path / "home.tar", settle=lambda: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    [left] = tmp_path.iterdir()
    assert sorted(os.listdir(left)) == ["backup.new"]
    store = shutil.copytree(left, tmp_path / ".old.tar.0123456789abcdef") / "backup.store"
    store.write_text("of a backup with another name")
    (tmp_path / ".note.0123456789abcdef").mkdir()
    (tmp_path / ".note.0123456789abcdef" / "backup.store").write_text("mine")
    for other in (".home.tar.x", ".home.tar.0123456789abcdeg", ".homestar.0123456789abcdef"):
        (tmp_path / other).mkdir()
    (left / "chair.txt").write_text("precious")
    save(sound, tmp_path / "home.tar")
    assert os.listdir(left) == ["chair.txt"]
    (left / "chair.txt").unlink()
    save(sound, tmp_path / "home.tar", force=True)
    assert sorted(os.listdir(tmp_path)) == [
        ".home.tar.0123456789abcdeg", ".home.tar.x", ".homestar.0123456789abcdef", ".note.0123456789abcdef", "home.tar",
    ]  # fmt: skip


def test_files_beside_it_are_not_touched(sound, tmp_path):
    """Whatever lies beside it, of the user or of another one, stays as it is; the backup is its owner's alone."""
    ends = (".new", ".new.store", ".new.store-journal", ".new.store-wal", ".new.store-shm")
    for end in ends:
        (tmp_path / f"home.tar{end}").write_text("mine")
    (tmp_path / ".home.tar.0123456789abcdef").mkdir()
    (tmp_path / ".home.tar.0123456789abcdef" / "backup.new").write_text("mine")
    if os.geteuid() == 0:
        for path in tmp_path.rglob("*"):
            os.chown(path, NOBODY, NOBODY)
    save(sound, tmp_path / "home.tar")
    assert {(tmp_path / f"home.tar{end}").read_text() for end in ends} == {"mine"}
    assert os.path.exists(tmp_path / ".home.tar.0123456789abcdef" / "backup.new") == (os.geteuid() == 0)
    assert os.stat(tmp_path / "home.tar").st_mode & 0o777 == 0o600
    restore(str(tmp_path / "home.tar"), Home(str(tmp_path / "new")))


def test_nobody_else_sees_it_being_written(sound, tmp_path):
    """Until it is complete, all of it is in a directory that only its owner can enter."""
    modes = {}

    def look(_what):
        [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
        modes.update({path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()})
        modes[""] = folder.stat().st_mode & 0o777

    before = os.umask(0)
    try:
        save(sound, tmp_path / "home.tar", shown=look)
    finally:
        os.umask(before)
    assert modes == {"": 0o700, "backup.new": 0o600, "backup.store": 0o600}


@pytest.mark.parametrize("way", ["store.db", "blobs/x", "spool/../vedette.toml", "link", "linked/x", "second"])
def test_no_file_of_the_home_is_written_over(sound, tmp_path, way):
    """A backup into the home that it is of is refused, by whatever name, also with --force."""
    home = Home(shutil.copytree(sound.root, tmp_path / "home"))
    os.symlink(home.store, tmp_path / "link")
    os.symlink(home.root, tmp_path / "linked")
    os.link(home.store, tmp_path / "second")
    before = [(path, path.stat().st_ino) for path in sorted(tmp_path.rglob("*"))]
    path = tmp_path / way if way in ("link", "linked/x", "second") else os.path.join(home.root, way)
    with pytest.raises(VedetteError, match="is in the home that is to be saved"):
        save(home, path, force=True)
    assert [(path, path.stat().st_ino) for path in sorted(tmp_path.rglob("*"))] == before
    save(home, tmp_path / "home.tar", force=True)


def test_what_is_no_file_is_not_replaced(sound, tmp_path):
    """A pipe, or a link to nothing, stays, also with --force."""
    os.mkfifo(tmp_path / "pipe")
    os.symlink(tmp_path / "nothing", tmp_path / "link")
    for name in ("pipe", "link"):
        with pytest.raises(VedetteError, match="is not a file"):
            save(sound, tmp_path / name, force=True)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


@pytest.mark.parametrize("hidden", [False, True], ids=["its folder", "its store"])
def test_somebody_puts_his_own_in_its_place(sound, tmp_path, hidden):
    """Who may write beside it can move its directory away while it is written: what was checked is what it becomes."""

    def swap(what):
        if what != ("store: checking the copy" if hidden else "keys: 1 files") or (tmp_path / "moved").exists():
            return
        [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
        folder.rename(tmp_path / "moved")
        folder.mkdir()
        for name in ("backup.new", "backup.store"):
            (folder / name).write_text("theirs")

    save(sound, tmp_path / "home.tar", shown=swap)
    restore(str(tmp_path / "home.tar"), Home(str(tmp_path / "new")))
    assert list((tmp_path / "moved").iterdir()) == []
    assert sorted(path.read_text() for path in tmp_path.glob(".home.tar.*/*")) == ["theirs", "theirs"]


def test_sqlite_has_opened_another_file(tmp_path):
    """It goes by names: a store is not copied into a file that somebody has put in place of ours."""
    path = tmp_path / backup._COPY
    with backup._opened(str(tmp_path)) as folder, open(path, "xb") as copy:
        backup._connected(folder, copy.fileno()).close()
        path.rename(tmp_path / "ours")
        path.touch()
        with pytest.raises(StoreError, match="somebody has put other files in place of ours"):
            backup._connected(folder, copy.fileno())


@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN MAKE FILES OF TWO USERS")
def test_a_directory_of_somebody_else_is_not_ours(tmp_path):
    """Nothing is written into one that is another's; one of ours is closed to others."""
    tmp_path.chmod(0o777)
    with backup._opened(str(tmp_path)) as folder, open(tmp_path / "new", "xb") as new:
        backup._check_own(folder, new.fileno())
        assert tmp_path.stat().st_mode & 0o777 == 0o700
        os.chown(tmp_path, NOBODY, NOBODY)
        with pytest.raises(PermissionError, match="somebody else"):
            backup._check_own(folder, new.fileno())


def test_a_path_that_leads_through_a_link_and_up(sound, tmp_path, monkeypatch):
    """`link/..` is the parent of where the link leads, as for any other program."""
    with tempfile.TemporaryDirectory(prefix="vdt-", dir="/dev/shm") as disk:
        os.mkdir(f"{disk}/inner")
        os.symlink(f"{disk}/inner", tmp_path / "link")
        save(sound, tmp_path / "link" / ".." / "home.tar")
        assert sorted(os.listdir(disk)) == ["home.tar", "inner"]
    assert os.listdir(tmp_path) == ["link"]
    monkeypatch.chdir(tmp_path)
    save(sound, "home.tar")
    with pytest.raises(VedetteError, match="is a directory"):
        save(sound, "")
    assert sorted(os.listdir(tmp_path)) == ["home.tar", "link"]


def test_two_begin_at_the_same_moment(sound, tmp_path, monkeypatch):
    """Each may see the other one and end: they begin once more, after pauses that differ, and one of them wins."""
    other = contextlib.ExitStack()
    with backup._opened(str(tmp_path)) as beside:
        other.enter_context(backup._begun(beside, "home.tar"))
        pauses = []
        monkeypatch.setattr("time.sleep", lambda pause: (pauses.append(pause), other.close()))
        save(sound, tmp_path / "home.tar")
        assert len(pauses) == 1
    assert os.listdir(tmp_path) == ["home.tar"]


def test_two_at_once(sound, tmp_path, monkeypatch):
    """The second one is refused, and does no harm to the first; one to another path beside it is not."""
    monkeypatch.setattr("time.sleep", lambda _: None)

    def second():
        with pytest.raises(VedetteError, match="another backup is being written"):
            save(sound, tmp_path / "home.tar")
        save(sound, tmp_path / "other.tar")

    save(sound, tmp_path / "home.tar", settle=second)
    assert sorted(os.listdir(tmp_path)) == ["home.tar", "other.tar"]
    restore(str(tmp_path / "home.tar"), Home(str(tmp_path / "new")))


def test_a_home_that_is_there_stays(sound, saved, tmp_path):
    """It is restored to a directory that does not exist or is empty, or was left by a restore that was killed."""
    new = Home(str(tmp_path / "new"))
    os.makedirs(f"{new.root}/spool")
    with pytest.raises(VedetteError, match="has something in it already"):
        restore(str(saved), new)
    os.rmdir(f"{new.root}/spool")
    os.makedirs(f"{new.root}/restoring/spool")
    lock = new.take_lock()
    with pytest.raises(HubError, match="a hub keeps"):
        restore(str(saved), new)
    os.close(lock)
    restore(str(saved), new)
    assert files(new.root) == files(sound.root)


def job(home, text="logged meanwhile"):
    """Log to a home as a program does; return the files that this has made."""
    before = set(files(home.root))
    own = Own(home)
    own.say([Event("r", 1, "log", 20, text)])
    own.close()
    return {name: what for name, what in files(home.root).items() if name not in before}


def at(step, act):
    """Return what acts once, when a restore comes to a step."""

    def shown(what):
        nonlocal act
        if what.startswith(step) and act:
            act, once = None, act
            once()

    return shown


@pytest.mark.parametrize("step", ["unpacking", "checking", "moving hub.id", "moving store.db"])
def test_a_job_that_logs_while_a_home_is_restored(sound, saved, tmp_path, step):
    """It is restored, and what the job has logged is in it."""
    new, logged = Home(str(tmp_path / "new")), {}
    restore(str(saved), new, shown=at(step, lambda: logged.update(job(new))))
    assert logged
    assert files(new.root) == {**files(sound.root), **logged}
    assert "restoring" not in os.listdir(new.root)


@pytest.mark.parametrize("step", ["unpacking", "checking"])
def test_a_job_that_logs_while_a_restore_fails(saved, tmp_path, step):
    """What it has logged stays, and nothing else does."""
    changed(saved, HARMS["another store"])
    new, logged = Home(str(tmp_path / "new")), {}
    with pytest.raises(FormatError):
        restore(str(saved), new, shown=at(step, lambda: logged.update(job(new))))
    assert logged
    assert files(new.root) == logged
    assert os.listdir(new.root) == ["spool"]
    with pytest.raises(VedetteError, match=f"vedette sync {new.root}` then brings there what was logged here"):
        restore(str(saved), new)
    assert files(new.root) == logged


@pytest.mark.parametrize("there", [True, False])
def test_a_restore_that_fails_leaves_nothing(saved, tmp_path, there):
    """A directory that was there and empty is so again; one that was not there is gone, with those above it."""
    changed(saved, HARMS["another store"])
    new = Home(str(tmp_path / "a" / "new"))
    if there:
        os.makedirs(new.root)
    with pytest.raises(FormatError):
        restore(str(saved), new)
    assert [at for at, _, _ in os.walk(tmp_path / "a")] == ([str(tmp_path / "a"), new.root] if there else [])
    assert not there or os.listdir(new.root) == []


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("name", ["hub.token", "store.db", "tokens/ada@lab-7.org"])
def test_a_place_that_is_taken_meanwhile(saved, tmp_path, monkeypatch, name, links):
    """What somebody has put there stays as it is, also where a file has one name only; a sentence tells what to do."""
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    new = Home(str(tmp_path / "new"))

    def take():
        os.makedirs(os.path.dirname(os.path.join(new.root, name)), 0o700, exist_ok=True)
        with open(os.path.join(new.root, name), "w") as file:
            file.write("another one")

    with pytest.raises(VedetteError, match=f"{name} was made while .* give another directory .*vedette sync"):
        restore(str(saved), new, shown=at(f"moving {name}", take))
    found = [os.path.relpath(os.path.join(at, each), new.root) for at, _, here in os.walk(new.root) for each in here]
    assert found == [name]
    with open(os.path.join(new.root, name)) as file:
        assert file.read() == "another one"


def no_links(*_args):
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def test_what_a_job_has_beside_its_segments(sound, saved, tmp_path):
    """The job of a spool in the backup may go on: its bars are newer than those in the backup, and stay."""
    spool = next(name for name in files(sound.root) if name.startswith("spool/"))
    bars = os.path.join(os.path.dirname(spool), "progress")
    changed(saved, with_file(bars, b"older"))
    new = Home(str(tmp_path / "new"))

    def go_on():
        os.makedirs(os.path.dirname(os.path.join(new.root, bars)), 0o700)
        with open(os.path.join(new.root, bars), "w") as file:
            file.write("newer")

    restore(str(saved), new, shown=at("checking", go_on))
    assert files(new.root)[bars][0] == b"newer"
    assert {name: files(new.root)[name] for name in files(sound.root)} == files(sound.root)


@pytest.mark.parametrize("links", [True, False])
def test_a_restore_that_is_killed(sound, saved, tmp_path, monkeypatch, links):
    """Whenever that is, and though a job has begun to log there, the next one makes the same home."""
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    steps = []
    monkeypatch.setattr(os, "sync", lambda: None)
    restore(str(saved), Home(str(tmp_path / "whole")), shown=steps.append)
    first = next(at for at, step in enumerate(steps) if step.startswith("moving"))
    for step, half in ((2, False), (first, False), (first + 5, False), (first + 5, True), (len(steps), False)):
        new = Home(str(tmp_path / f"killed at {step} {half}"))
        killed_at(saved, new, step, half=half)
        assert "restoring" in os.listdir(new.root)
        logged = job(new)
        restore(str(saved), new)
        assert files(new.root) == {**files(sound.root), **logged}
        assert sorted(os.listdir(new.root)) == sorted(os.listdir(tmp_path / "whole"))
    assert runs_of(new.store) == RUNS


def killed_at(saved, home, step, *, half=False):
    """Restore in a process that is killed at a step, or half way through it, or before it removes its directory."""
    if not (child := os.fork()):
        steps = iter(range(1 << 20))
        with contextlib.suppress(BaseException):
            os.sync = lambda: None
            shutil.rmtree = lambda _, **how: die() if how else None

            def shown(_):
                if next(steps) == step:
                    if half:
                        os.unlink = die
                    else:
                        die()

            restore(str(saved), home, shown=shown)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def die(*_args):
    os.kill(os.getpid(), signal.SIGKILL)


def test_another_backup_after_a_restore_that_was_killed(sound, saved, tmp_path):
    """Two homes are never mixed: it is refused where some of the first is in its place, and the first can go on."""
    save(sound, tmp_path / "other.tar")
    new = Home(str(tmp_path / "new"))
    steps = []
    restore(str(saved), Home(str(tmp_path / "whole")), shown=steps.append)
    killed_at(saved, new, len(steps) - 1)
    before = files(new.root)
    with pytest.raises(VedetteError, match="a part of another backup, whose restore was killed: restore that one"):
        restore(str(tmp_path / "other.tar"), new)
    assert files(new.root) == before
    make_store(new.store)  # a hub has begun one, as nobody held the lock
    with pytest.raises(VedetteError, match=r"store\.db was made while"):
        restore(str(saved), new)
    assert files(new.root) == before
    os.unlink(new.store)
    restore(str(saved), new)
    assert files(new.root) == files(sound.root)


def test_two_restores_at_once(sound, saved, tmp_path):
    """The second one is refused, and does no harm to the first."""
    new = Home(str(tmp_path / "new"))

    def second():
        with pytest.raises(HubError, match="or another restore"):
            restore(str(saved), new)

    restore(str(saved), new, shown=at("checking", second))
    assert files(new.root) == files(sound.root)


def test_a_directory_of_somebody_that_is_called_restoring(saved, tmp_path):
    """It is not ours to remove."""
    (tmp_path / "new" / "restoring").mkdir(parents=True)
    (tmp_path / "new" / "restoring" / "chair.txt").write_text("precious")
    with pytest.raises(VedetteError, match=r"something in it already \(restoring\)"):
        restore(str(saved), Home(str(tmp_path / "new")))
    assert (tmp_path / "new" / "restoring" / "chair.txt").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN MAKE FILES OF ANOTHER USER")
@pytest.mark.parametrize("planted", ["", "restoring", "spool"])
def test_a_directory_that_another_user_has_made(saved, tmp_path, planted):
    """Nothing is written there, neither into a home of his nor into a directory that he has put into ours."""
    new = Home(str(tmp_path / "new"))

    def plant():
        os.makedirs(os.path.join(new.root, planted), exist_ok=True)
        os.chown(os.path.join(new.root, planted), NOBODY, NOBODY)

    if planted != "spool":
        plant()
    with pytest.raises(VedetteError, match=f"(belongs to|not what it should be).* {NOBODY}"):
        restore(str(saved), new, shown=at("checking", plant))
    assert [(at, here) for at, _, here in os.walk(os.path.join(new.root, planted))] == [
        (os.path.join(new.root, planted), [])
    ]


def test_settings_that_are_there_already(saved, moved, sound, tmp_path):
    """On a network file system they lie apart, and may be left of the home that is lost: they are not overwritten."""
    new = Home(str(tmp_path / "new"))
    os.mkdir(new.asked)
    settings = os.path.join(new.asked, "vedette.toml")
    with open(settings, "w") as file:
        file.write("[keep]\nruns = 7\n")
    with pytest.raises(VedetteError, match=r"vedette\.toml is there already.*move it away"):
        restore(str(saved), new)
    assert (os.listdir(new.asked), os.path.exists(new.root)) == (["vedette.toml"], False)
    shutil.copy(os.path.join(moved.asked, "vedette.toml"), settings)
    restore(str(saved), new)
    assert os.listdir(new.asked) == ["vedette.toml"]
    assert len(files(new.root)) == len(files(sound.root)) - 1


def test_a_disk_without_room_for_what_is_restored(saved):
    """It is refused before anything is unpacked."""
    steps = []
    with small_disk("64k") as disk, pytest.raises(StoreError, match="MiB free"):
        restore(str(saved), Home(f"{disk}/home"), shown=steps.append)
    assert steps == []


def changed(saved, change):
    """Write a backup again, with a change of its members; each is (TarInfo, bytes)."""
    with tarfile.open(saved) as tar:
        members = [(info, tar.extractfile(info).read()) for info in tar.getmembers()]
    members = change(members)
    long = any(len(info.name) > 150 for info, _ in members)
    with tarfile.open(saved, "w", format=tarfile.GNU_FORMAT if long else tarfile.USTAR_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))


def member(name, data=b"x", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def about_with(**fields):
    def change(members):
        data = msgspec.json.encode({**msgspec.json.decode(members[-1][1]), **fields})
        return [*members[:-1], member("vedette-backup.json", data)]

    return change


def other_store(members):
    """Put something else in the place of the store, with the right digest."""
    data = b"no store" * 1000
    digests = {**msgspec.json.decode(members[-1][1])["digests"], "store.db": hashlib.sha256(data).hexdigest()}
    *others, about = about_with(digests=digests)(members)
    return [*(each for each in others if each[0].name != "store.db"), member("store.db", data), about]


def with_file(name, data):
    """Put another file into a backup, with its digest."""

    def change(members):
        digests = msgspec.json.decode(members[-1][1])["digests"]
        *others, about = about_with(digests={**digests, name: hashlib.sha256(data).hexdigest()})(members)
        return [*others, member(name, data), about]

    return change


HARMS = {
    "another store": other_store,
    "up": lambda members: [member("../x"), *members],
    "up inside": lambda members: [member("spool/../../x"), *members],
    "root": lambda members: [member("/etc/x"), *members],
    "no file of a home": lambda members: [member("x.py"), *members],
    "a socket's name": lambda members: [member("hub.sock"), *members],
    "no digest": lambda members: [member("blobs/ab/../../x"), *members],
    "link": lambda members: [member("hub.id", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"), *members],
    "hard link": lambda members: [member("hub.id", b"", type=tarfile.LNKTYPE, linkname="store.db"), *members],
    "device": lambda members: [member("hub.id", b"", type=tarfile.CHRTYPE), *members],
    "directory": lambda members: [member("spool", b"", type=tarfile.DIRTYPE), *members],
    "long name": lambda members: [member("x" * 200), *members],
    "twice": lambda members: [members[0], *members],
    "other bytes": lambda members: [(members[0][0], bytes(members[0][0].size)), *members[1:]],
    "a token that it does not list": lambda members: [member("tokens/eve"), *members],
    "a blob of other bytes": lambda members: [member(f"blobs/ab/{'c' * 62}"), *members],
    "one file less": lambda members: members[1:],
    "no end": lambda members: members[:-1],
    "fewer blobs": lambda members: [each for each in members if not each[0].name.startswith("blobs/")],
    "another count of runs": about_with(runs=3),
    "another count of files": about_with(files=7),
    "a time that no clock has": about_with(made_t=10**24),
    "a time before all clocks": about_with(made_t=-1),
    "nonsense about itself": lambda members: [*members[:-1], member("vedette-backup.json", b"{}")],
    "no store": lambda members: [
        (info, bytes(len(data)) if info.name == "store.db" else data) for info, data in members
    ],
}  # fmt: skip


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmful_backup_is_refused(saved, tmp_path, harm):
    """Nothing leads out of the home, nothing comes that it does not list, and nothing is left."""
    changed(saved, HARMS[harm])
    with pytest.raises(FormatError, match=r"home\.tar"):
        restore(str(saved), Home(str(tmp_path / "new")))
    assert os.listdir(tmp_path) == ["home.tar"]


def test_the_checks_take_what_is_not_harmed(saved, tmp_path):
    """The positive control: written again without a change, it is restored."""
    changed(saved, lambda members: members)
    restore(str(saved), Home(str(tmp_path / "new")))


@pytest.mark.parametrize("size", [0, 100, 512, 5000, -1, -600, -3000])
def test_a_backup_that_was_cut_short(saved, tmp_path, size):
    """It is said to be so, wherever it was cut."""
    os.truncate(saved, size if size >= 0 else os.stat(saved).st_size - 2048 + size)
    with pytest.raises(FormatError, match=r"cut short|cannot be read|damaged"):
        restore(str(saved), Home(str(tmp_path / "new")))
    assert os.listdir(tmp_path) == ["home.tar"]


@pytest.mark.parametrize(
    ("claim", "why"),
    [({"size": 1 << 50}, "not a whole file"), ({"mtime": 1 << 70}, "a time"), ({"mtime": -1}, "a time")],
)
def test_a_header_that_cannot_be(saved, tmp_path, claim, why):
    """A header that claims more than the file has, or a time that no file has, is refused."""
    data = bytearray(saved.read_bytes())
    info = tarfile.TarInfo.frombuf(bytes(data[:512]), "utf-8", "strict")
    for key, value in claim.items():
        setattr(info, key, value)
    data[:512] = info.tobuf(tarfile.GNU_FORMAT)
    saved.write_bytes(data)
    with pytest.raises(FormatError, match=why):
        restore(str(saved), Home(str(tmp_path / "new")))
    assert os.listdir(tmp_path) == ["home.tar"]


def test_a_backup_of_a_newer_vedette(saved, tmp_path):
    """It is refused with what to do."""
    changed(saved, about_with(version=2, something=[]))
    with pytest.raises(VersionError, match="upgrade vedette"):
        restore(str(saved), Home(str(tmp_path / "new")))


def test_what_is_no_file(tmp_path):
    """A pipe, a directory and nothing are said to be what they are."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "nothing"):
        with pytest.raises(VedetteError, match=r"is not a file|is a directory|no such file"):
            restore(str(path), Home(str(tmp_path / "new")))
    assert os.listdir(tmp_path) == ["pipe"]
