"""What another user puts where our processes look: names in public places, sockets, links and files in an open home.

Each is also tried against a build that was opened on purpose, where it does harm.
"""

import contextlib
import os
import shutil
import socket
import sqlite3
import stat
import tempfile
import threading
import time
from pathlib import Path

import pytest

import vedette
from tests import warm
from tests.journeys.users import ALICE, MALLORY, answers, as_root, do_as, open_the_build, process_as, write
from vedette import address, fileio, home, kernel, own_directory, pidfds, tokens, unix_socket, wire
from vedette.errors import VedetteError
from vedette.home import Home
from vedette.hub import program
from vedette.settings import Settings

pytestmark = as_root
SECRET = "s3cr3t-t0ken"
SAYS = "MALLORY SAYS yes"


@pytest.fixture
def public(monkeypatch):
    """A directory that stands for /tmp and /var/tmp."""
    warm._import_everything()
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as place:
        os.chmod(place, 0o1777)
        monkeypatch.setattr(home, "_LOCAL", place)
        monkeypatch.setattr(address, "_names", lambda: (place, f"vedette-{os.geteuid()}"))
        yield place


def _moved_home(asked):
    kernel.NETWORK_FILE_SYSTEMS = {kernel.file_system(asked)}
    place = Home.of(Settings(home=asked))
    place.prepare()
    status = os.stat(place.root)
    return [place.root, status.st_uid, stat.S_IMODE(status.st_mode)]


def _plant(path):
    """Make a directory that is open to all."""
    os.mkdir(path)
    os.chmod(path, 0o777)


@pytest.mark.parametrize("opened", [False, True])
def test_a_home_in_var_tmp_is_never_mallorys(public, opened):
    """Whoever takes the name of a moved home first, before or between her processes, alice's all use one of her own."""
    asked = os.path.join(public, "asked")

    def alice():
        if opened:
            open_the_build()
        return _moved_home(asked)

    first = do_as(ALICE, alice)[0]
    os.rmdir(os.path.join(first, "spool"))
    os.rmdir(first)
    do_as(MALLORY, _plant, first)
    found = [do_as(ALICE, alice)]
    if not opened:
        do_as(MALLORY, lambda: [_plant(name) for name in own_directory.names(*os.path.split(first))[2:]])
        found.append(do_as(ALICE, alice))
        do_as(MALLORY, os.rmdir, first)
        found.append(do_as(ALICE, alice))
        assert found == [[f"{first}.1", ALICE, 0o700]] * 3
    else:
        assert found[0][:2] == [first, MALLORY]


def test_a_race_for_names(public):
    """While mallory takes and leaves all the names as fast as can be, alice gets one of her own, each time."""
    asked = os.path.join(public, "asked")
    first = do_as(ALICE, lambda: Home(asked).asked and _moved_home(asked)[0])
    shutil.rmtree(first)

    def flap(ready):
        ready(None)
        names = own_directory.names(*os.path.split(first))[:3]
        while True:
            for name in names:
                with contextlib.suppress(OSError):
                    os.mkdir(name)
            for name in names:
                with contextlib.suppress(OSError):
                    os.rmdir(name)

    def alice():
        found = []
        for _ in range(100):
            found.append(_moved_home(asked)[1:])
            shutil.rmtree(Home.of(Settings(home=asked)).root)
        return found

    with process_as(MALLORY, flap):
        assert do_as(ALICE, alice) == [[ALICE, 0o700]] * 100


@pytest.mark.parametrize("opened", [False, True])
def test_the_name_of_a_hub(public, opened):
    """A hub with a name has it in a directory of alice's, and her other programs look for it there alone."""

    def name():
        if opened:
            open_the_build()
        path = address.parse("lab").path
        if not opened:
            address.name_socket(path, "/nowhere/hub.sock")
        return path

    first = os.path.join(public, f"vedette-{ALICE}")
    do_as(MALLORY, _plant, first)
    path = do_as(ALICE, name)

    assert path == os.path.join(first if opened else f"{first}.1", "lab")
    assert os.stat(os.path.dirname(path)).st_uid == (MALLORY if opened else ALICE)
    assert do_as(ALICE, name) == path


def _fake_hub(path, seen):
    """Answer everything, at a path: the hub that mallory would like to be."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    os.chmod(path, 0o777)
    server.listen()

    def answer(peer):
        with peer, contextlib.suppress(ConnectionError):  # it has only looked whether somebody is here
            peer.sendall(wire.pack_message(wire.Hello(name="hub")))
            for message in answers(peer, 2):
                with open(seen, "a") as file:
                    file.write(f"{type(message).__name__}\n")
                if isinstance(message, wire.Await):
                    peer.sendall(wire.pack_message(wire.Answer(message.ask, SAYS)))
                    peer.recv(1)  # until it leaves

    def serve():
        while True:  # one that hangs keeps no other waiting
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    return serve


@pytest.mark.parametrize("opened", [False, True])
def test_mallory_answers_no_question(public, opened):
    """A socket that mallory has put wherever alice's program might look answers nothing; no record of hers is lost."""
    alice, mallory = os.path.join(public, "alice"), os.path.join(public, "mallory")
    for path, uid in ((alice, ALICE), (mallory, MALLORY)):
        os.mkdir(path, 0o755)
        os.chown(path, uid, uid)
    root = os.path.join(alice, "x" * 60, "y" * 60)  # too long for a socket: it was in /tmp once
    seen = os.path.join(mallory, "seen")

    def listen(ready):
        serve = _fake_hub(os.path.join(mallory, "hub.sock"), seen)
        ready(None)
        serve()

    def ask():
        os.environ.update(VEDETTE_HOME=root, XDG_RUNTIME_DIR=mallory, TMPDIR=mallory)
        os.environ.update(VEDETTE_CAPTURE_ENABLE="false", VEDETTE_USAGE_ENABLE="false")
        if opened:
            open_the_build()
            Home.socket = property(lambda _self: os.path.join(mallory, "hub.sock"), lambda *_: None)
        place = Home(root)
        place.prepare()
        with open(place.waking, "w"):  # a hub is starting, so that none is started
            pass
        run = vedette.init(console=False)
        run.log({"loss": 0.5})
        answer = vedette.ask("go on?", timeout_s=60 if opened else 0.3)
        sizes = [len(files) for _, _, files in os.walk(place.spool)]
        return [answer, run._journal.spool.lost, sum(sizes) > 0]

    begun = time.monotonic()
    with process_as(MALLORY, listen) as [pid, _]:
        answered, lost, kept = do_as(ALICE, ask)
        how = f"{time.monotonic() - begun:.1f} s, mallory lives: {os.path.exists(f'/proc/{pid}/fd')}"
    heard = Path(seen).read_text().split() if os.path.exists(seen) else []
    assert (answered, lost, kept) == (SAYS if opened else None, 0, True), f"{how}, and heard {heard}"
    assert heard == (["Hello", "Await"] if opened else [])


def test_a_socket_of_mallorys_in_the_home_itself(public):
    """Even in the hub's own place, in a home that alice left open to all, mallory's socket is told nothing."""
    root, seen = os.path.join(public, "home"), os.path.join(public, "seen")
    do_as(ALICE, _plant, root)

    def listen(ready):
        servers = [_fake_hub(os.path.join(root, name), seen) for name in ("hub.sock", "hub.pids")]
        threading.Thread(target=servers[1], daemon=True).start()
        ready(None)
        servers[0]()

    def alice():
        place = Home(root)
        with open(place.waking, "w"):
            pass
        said = []
        try:
            with socket.socket(socket.AF_UNIX) as peer:
                unix_socket.connect(peer, place.socket)
        except VedetteError as error:
            said.append(f"user {MALLORY}" in str(error))
        return [*said, pidfds.send(place.pids, "origin")]

    with process_as(MALLORY, listen):
        assert do_as(ALICE, alice) == [True, False]
    assert not os.path.exists(seen)


PLANTED = ["hub.lock", "hub.log", "hub.id", "hub.token", "store.db", "store.db-wal", "spool", "tokens"]


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("kind", ["link", "hard link", "own"])
def test_what_mallory_plants_in_an_open_home(public, kind, opened):
    """In a home that alice left open to all, her hub neither writes to what mallory has put there, nor believes it."""
    precious = os.path.join(public, "precious")
    do_as(ALICE, write, precious, "precious")
    done = {}
    for name in PLANTED:
        root = os.path.join(public, f"{kind} {name}")
        if kind == "hard link" and name in ("spool", "tokens"):
            continue
        do_as(ALICE, _plant, root)
        os.chmod(precious, 0o666)  # so that the kernel lets mallory make hard links to it
        do_as(MALLORY, _put, kind, precious, os.path.join(root, name))
        done[name] = do_as(ALICE, _use, root, opened)
    with open(precious) as file:
        written = file.read() != "precious"

    assert (written or any(done.values())) is opened, done


def _put(kind, precious, path):
    if kind == "link":
        os.symlink(precious, path)
    elif kind == "hard link":
        os.link(precious, path)
    elif os.path.basename(path) in ("spool", "tokens"):
        os.mkdir(path)
        os.chmod(path, 0o777)
    else:
        write(path, SECRET)
        os.chmod(path, 0o666)


def _use(root, opened):
    """Do all that a hub does when it begins; tell whether something of mallory's was used."""
    if opened:
        open_the_build()
    place = Home(root)
    try:
        place.prepare()
        known = [tokens.hub_token(place), tokens.home_id(place), tokens.new_holder(place, "bob")]
        with open(fileio.open_private(place.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "w") as file:
            file.write("log")
        program.SqliteStore(place.store).close()
        os.close(place.take_lock())
    except (OSError, VedetteError, sqlite3.Error):
        return False
    return SECRET in known
