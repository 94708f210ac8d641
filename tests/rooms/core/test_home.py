"""A home: its paths, its lock, its hub on the way, and strangers kept out."""

import fcntl
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import vedette
from tests.conftest import end_hub
from tests.journeys.users import do_as
from tests.rooms.conftest import call, python
from vedette.errors import HubError
from vedette.home import Home
from vedette.settings import Settings
from vedette.store.sqlite import SqliteStore

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can make somebody else's directory")


@pytest.fixture
def public():
    """A fresh path in /tmp, which is everybody's; it is not made."""
    path = tempfile.mktemp(prefix="vdt-", dir="/tmp")
    yield path
    if os.path.islink(path):
        os.unlink(path)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def deep():
    """A home whose own path is too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as root:
        place = Home(os.path.join(root, "x" * 60, "y" * 60))
        yield place
        end_hub(place)


def test_paths_are_worked_out_and_nothing_is_touched(tmp_path, monkeypatch):
    """A home is absolute, knows `~`, and makes nothing until it is asked to."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert Home("~/camp").root == str(tmp_path / "camp")
    assert Home("camp").root == str(tmp_path / "camp")
    assert Home("./a/../camp/").root == str(tmp_path / "camp")
    assert Home.of(Settings(home="~/camp")).root == str(tmp_path / "camp")
    place = Home("camp")
    assert [place.store, place.spool, place.lock, place.log] == [
        str(tmp_path / "camp" / name) for name in ("store.db", "spool", "hub.lock", "hub.log")
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_short_path_keeps_its_socket():
    """Where the path is short, everything lies in the home."""
    place = Home("/tmp/camp")

    assert place.socket == "/tmp/camp/hub.sock"


@pytest.mark.parametrize("name", ["x" * 120, "ä" * 60])
def test_a_long_path_keeps_its_socket(name):
    """However long the path is, the socket lies in the home, where nobody else can put another in its place."""
    assert Home(f"/opt/{name}").socket == f"/opt/{name}/hub.sock"


def test_a_hub_works_in_a_long_path(deep):
    """A home whose path is too long for a socket is as good as any: the hub listens, for its owner alone."""
    done = python(
        "import vedette; vedette.init(name='far').log({'a': 1}); vedette.finish(); print(vedette.runs()[0].name)",
        environ={"VEDETTE_HOME": deep.asked},
    )

    assert (done.stdout, done.stderr) == ("far\n", "")
    assert stat.S_IMODE(os.stat(deep.socket).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(deep.pids).st_mode) == 0o600
    assert call("hub", "--stop", home=deep.asked).stdout.endswith("ended\n")


def test_prepare_makes_directories_for_their_owner(public):
    """What prepare() makes, only its owner may enter, whatever the umask; a second time changes nothing."""
    before = os.umask(0)
    try:
        place = Home(public)
        place.prepare()
        place.prepare()
    finally:
        os.umask(before)

    for path in (place.root, place.spool):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


@pytest.mark.parametrize(("umask", "mode"), [(0, 0o755), (0o002, 0o755), (0o077, 0o700)])
def test_nobody_else_can_write_above_a_home(tmp_path, umask, mode):
    """Directories above a home that are made for it are 0755 at most, whatever the umask, and the home is 0700."""
    place = Home(str(tmp_path / "a" / "b" / "home"))
    before = os.umask(umask)
    try:
        place.prepare()
    finally:
        os.umask(before)

    paths = (tmp_path / "a", tmp_path / "a" / "b", place.root, place.spool)
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in paths] == [mode, mode, 0o700, 0o700]


@pytest.fixture
def logged(home):
    """The modes of all in a home that a process with an open umask made, below a directory open to all."""
    before = os.umask(0)
    os.chmod(home.root, 0o755)
    place = Home(os.path.join(home.root, "camp"))
    code = (
        "import vedette; run = vedette.init(config={'secret': 1}); run.log({'a': 1}); run.save(b'x', 'x')\n"
        "run.progress(3, 'bar').advance(1); vedette.runs()"
    )
    assert python(code, environ={"VEDETTE_HOME": place.asked}).returncode == 0
    modes = {".": os.stat(place.root).st_mode}
    for folder, folders, files in os.walk(place.root):
        paths = [os.path.join(folder, name) for name in (*folders, *files)]
        modes |= {os.path.relpath(path, place.root): os.lstat(path).st_mode for path in paths}
    os.umask(before)
    yield modes
    end_hub(place)


def test_a_home_is_its_owners_alone(logged):
    """Whatever the umask, and whoever makes it, client or hub, nobody else can open anything in a home."""
    assert {".", "spool", "blobs", "hub.lock", "hub.sock", "hub.pids", "hub.log", "hub.id"} <= {*logged}
    assert [name for name, mode in logged.items() if mode & 0o077] == []


def test_the_store_is_its_owners_alone(logged):
    """The database and its write-ahead log, which holds the newest of it, can be read by nobody else."""
    assert "store.db" in logged
    assert [name for name, mode in logged.items() if name.startswith("store") and mode & 0o077] == []


@AS_ROOT
@pytest.mark.parametrize("kind", ["directory", "link", "file"])
def test_a_strangers_directory_is_refused(public, kind, tmp_path):
    """A directory that somebody else has made ready for us is refused in a sentence that says what to do."""
    if kind == "directory":
        os.mkdir(public, 0o777)
        os.chown(public, NOBODY, -1)
    elif kind == "link":
        (tmp_path / "elsewhere").mkdir()
        os.symlink(tmp_path / "elsewhere", public)
        os.lchown(public, NOBODY, -1)
    else:
        open(public, "w").close()

    with pytest.raises((HubError, OSError)) as caught:
        Home(public).prepare()
    if kind != "file":
        assert f"user {NOBODY}" in str(caught.value)
        assert "set VEDETTE_HOME to a directory of your own" in str(caught.value)


@AS_ROOT
def test_a_home_of_another_user_is_used_only_if_that_is_meant(public):
    """Root does nothing in a user's home, unless the setting says that it is meant; its hub and helpers know that."""
    os.mkdir(public, 0o700)
    os.chown(public, NOBODY, -1)
    meant = Home.of(Settings(home=public, foreign_home=True))
    for act in (Home(public).prepare, Home(public).wake_hub, Home(public).check_owner):
        with pytest.raises(HubError, match="VEDETTE_FOREIGN_HOME=1"):
            act()
    assert (os.listdir(public), Home(public).is_foreign, meant.is_foreign) == ([], True, False)
    meant.prepare()

    assert os.listdir(public) == ["spool"]
    assert meant.hub_environ == {"VEDETTE_FOREIGN_HOME": "true"}
    Home(public, foreign=True).prepare()


@AS_ROOT
def test_nothing_is_written_into_a_strangers_directory(public):
    """A process that is told to log there logs nothing there, says so once, and goes on."""
    os.mkdir(public, 0o777)
    os.chown(public, NOBODY, -1)
    done = python(
        "import vedette; run = vedette.init(config={'secret': 1}); run.log({'a': 1}); run.save(b'x', 'x'); run.finish()"
        "; vedette.init(); print('went on')",
        environ={"VEDETTE_HOME": public},
    )

    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert (done.stderr.count("belongs to user"), done.stderr.count("\n")) == (1, 1)
    assert os.listdir(public) == []


@AS_ROOT
@pytest.mark.parametrize("words", [["hub"], ["hub", "--stop"], ["ui", "--no-browser"], ["token", "--new", "x"],
                                   ["stop", "x"], ["sync", "/nowhere"]])  # fmt: skip
def test_commands_change_nothing_in_a_strangers_home(public, words):
    """A command that would write there is refused in one sentence, with exit code 2, and leaves nothing behind."""
    os.mkdir(public, 0o755)
    SqliteStore(os.path.join(public, "store.db")).close()
    for name in ("", *os.listdir(public)):
        os.chown(os.path.join(public, name), NOBODY, -1)
    before = {name: os.stat(os.path.join(public, name)).st_mtime_ns for name in os.listdir(public)}
    done = call(*words, home=public)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert {name: os.stat(os.path.join(public, name)).st_mtime_ns for name in os.listdir(public)} == before


def test_an_open_directory_of_our_own_is_closed(public):
    """A directory in /tmp that is ours, but open to others, is closed."""
    os.mkdir(public, 0o777)
    os.chmod(public, 0o777)
    Home(public).prepare()

    assert stat.S_IMODE(os.stat(public).st_mode) == 0o700


TAKE = """
import sys, time
from vedette.home import Home
fd = Home(sys.argv[1]).take_lock(patience_s=0.2)
print("none" if fd is None else "mine", flush=True)
if fd is not None:
    sys.stdin.readline()
"""


def take(home):
    return subprocess.Popen(
        [sys.executable, "-c", TAKE, home.asked], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_one_of_two_processes_gets_the_lock(home):
    """Of many that want to be the hub at once exactly one is; when it dies, the next can be."""
    home.prepare()
    processes = [take(home) for _ in range(4)]
    said = {process.pid: process.stdout.readline().strip() for process in processes}
    winners = [process for process in processes if said[process.pid] == "mine"]

    assert len(winners) == 1
    assert home.hub_pid() == winners[0].pid
    winners[0].kill()
    for process in processes:
        process.communicate()
    assert home.hub_pid() is None
    after = take(home)
    assert after.stdout.readline() == "mine\n"
    after.communicate("\n")


def test_the_probe_of_a_home_that_is_not_there(tmp_path):
    """Where there is no home there is no hub, and looking makes nothing."""
    assert Home(str(tmp_path / "nowhere")).hub_pid() is None
    assert list(tmp_path.iterdir()) == []


def test_a_probe_does_not_take_the_lock(home):
    """Looking whether a hub lives, by many at once, neither finds one another nor keeps a hub from starting."""
    home.prepare()
    seen, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            seen.append(home.hub_pid())

    threads = [threading.Thread(target=look) for _ in range(3)]
    os.close(home.take_lock())
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    before = set(seen)
    lock = home.take_lock()
    stop.set()
    for thread in threads:
        thread.join()

    assert before == {None}
    assert lock is not None
    assert home.hub_pid() == os.getpid()
    os.close(lock)


@pytest.mark.parametrize("text", [b"", b"junk", b"12x", b"\xff" * 100, "²".encode(), b" ", b"\n\n\n"])
def test_a_lock_that_says_nothing_sensible(home, text):
    """A lock that is held counts as a hub, even when it does not say whose."""
    home.prepare()
    lock = home.take_lock()
    os.ftruncate(lock, 0)
    os.pwrite(lock, text, 0)

    assert home.hub_pid() == 0
    os.close(lock)


def test_a_lock_is_not_handed_to_children(home):
    """What a hub starts does not keep its lock."""
    home.prepare()
    lock = home.take_lock()
    with subprocess.Popen(["sleep", "30"], close_fds=False) as child:
        os.close(lock)
        assert home.hub_pid() is None
        child.kill()


@AS_ROOT
def test_nobody_else_can_hold_a_lock_of_a_home(home):
    """Where others may look into a home, they can open it, and so lock it, but neither of the places that we lock."""

    def opened(path):
        try:
            fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except PermissionError:
            return False
        return True

    home.prepare()
    os.close(home.take_lock())
    os.chmod(home.root, 0o755)
    assert [do_as(NOBODY, opened, path) for path in (home.root, home.spool, home.lock)] == [True, False, False]
    os.chmod(home.lock, 0o644)
    assert do_as(NOBODY, opened, home.lock)
    os.close(home.take_lock())
    assert not do_as(NOBODY, opened, home.lock)


def test_waking_returns_at_once_and_starts_one_hub(home):
    """Many calls start one hub between them, none waits for it, and it listens in the end.

    Who starts one holds a lock meanwhile. One that another user may hold keeps nobody from it.
    """
    home.prepare()
    holds = [os.open(path, os.O_RDONLY) for path in (home.spool, home.root)]
    for fd in holds:
        fcntl.flock(fd, fcntl.LOCK_EX)
    home.wake_hub()
    assert not os.path.exists(home.waking)
    os.chmod(home.spool, 0o755)
    began = time.monotonic()
    for _ in range(20):
        home.wake_hub()
    assert time.monotonic() - began < 2
    for fd in holds:
        os.close(fd)

    deadline = time.monotonic() + 20
    while not os.path.exists(home.socket):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pid = home.hub_pid()
    assert pid
    assert pid != os.getpid()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(home.socket)
    peer.close()


def test_waking_where_nothing_can_be_made(tmp_path):
    """A home that cannot be made is an error of the system, which the client says and goes on."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        Home(str(tmp_path / "file" / "home")).wake_hub()

    done = python(
        "import vedette; run = vedette.init(); run.log({'a': 1}); run.finish(); print('went on')",
        environ={"VEDETTE_HOME": str(tmp_path / "file" / "home")},
    )
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert "vedette:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_path_with_strange_letters(tmp_path):
    """Blanks, quotes, percent signs and question marks in a home's path do no harm."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as root:
        place = Home(os.path.join(root, "a b'c\"$(x)%3f?#ä"))
        code = "import vedette; run = vedette.init(name='odd'); run.finish(); print(vedette.runs()[0].name)"
        done = python(code, environ={"VEDETTE_HOME": place.asked})
        end_hub(place)

        assert (done.stdout, done.stderr) == ("odd\n", "")
        assert os.path.exists(place.store)


def test_a_path_that_is_no_text(monkeypatch):
    """A home whose path is not UTF-8 is used like any other: by programs, their capture, every command, and as JSON."""
    monkeypatch.setenv("VEDETTE_CAPTURE_ENABLE", "true")
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        place = Home(os.fsdecode(os.path.join(os.fsencode(root), b"h\xff")))
        code = "import vedette; run = vedette.init(name='odd'); run.save(b'x', 'x'); run.finish()"
        done = python(code, environ={"VEDETTE_HOME": place.asked})
        assert (done.returncode, done.stderr) == (0, "")
        for words in (["ls"], ["show", "odd"], ["files", "odd"], ["ls", "--home", place.asked],
                      ["ls", f"--home={place.asked}"]):  # fmt: skip
            done = call(*words, home="/nowhere" if "--home" in words[-1] or "--home" in words else place.asked)
            assert (done.returncode, done.stderr) == (0, ""), words
        status = json.loads(call("hub", "--status", "--json", home=place.asked).stdout)
        assert (status["home"], status["pid"]) == (place.root, place.hub_pid())
        assert "h\\udcff" in call("doctor", home=place.asked).stdout
        assert json.loads(call("doctor", "--json", home=place.asked).stdout)
        assert "an argument is not UTF-8 text" in call("show", "o\udcff", home=place.asked).stderr
        assert call("hub", "--stop", home=place.asked).returncode == 0
        assert sorted(os.listdir(os.fsencode(root))) == [b"h\xff"]
        assert vedette.get("odd", home=place.asked).files()[0].name == "x"
