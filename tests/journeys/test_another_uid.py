"""Another user of the same machine: what mallory tries against the home, the hub and the programs of alice.

Each try is a function that tells whether it has succeeded. All of them fail against vedette as it is. Against a build
and a home that were opened on purpose all of them succeed: so they are real tries.
"""

import contextlib
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

import pytest

import vedette
from tests import warm
from tests.journeys.users import ALICE, MALLORY, answers, as_root, do_as, open_the_build, process_as, write
from vedette import address, tokens, wire
from vedette.errors import VedetteError
from vedette.home import Home
from vedette.hub import program
from vedette.ids import of_process
from vedette.model import Command
from vedette.settings import Hub, Settings

pytestmark = as_root
SECRET = "s3cr3t-t0ken"


def the_hub(root, *, opened):
    """Return the hub of alice, which listens at a port, too."""

    def run(ready):
        if opened:
            open_the_build()
        place = Home(root)
        place.prepare()
        tokens.new_holder(place, "bob")
        tokens.page_token(place)
        threading.Thread(target=_when_ready, args=(place, ready, opened), daemon=True).start()
        settings = Settings(home=root, hub=Hub(address="127.0.0.1:0", turn_s=0.01, idle_s=600))
        program.run(place, settings, quiet=True, awaited=True)

    return run


def _when_ready(place, ready, opened):
    while not os.path.exists(place.connect):
        time.sleep(0.01)
    if opened:
        _open_files(os.path.dirname(place.root))
    ready(None)


def the_job(root, *, opened):
    """Return a program of alice that logs, saves a file, and asks a question."""

    def run(ready):
        os.environ.update(VEDETTE_HOME=root, VEDETTE_CAPTURE_ENABLE="false", VEDETTE_USAGE_ENABLE="false")
        run = vedette.init(name="job", config={"secret": SECRET}, console=False)
        run.log({"loss": 0.5})
        run.save(SECRET.encode(), "weights")
        journal = run._journal
        if opened:
            _open_files(os.path.dirname(root))
        ready([journal.spool.origin.name, run.id])
        vedette.ask("go on?", timeout_s=600)

    return run


def _open_files(root):
    for folder, folders, files in os.walk(root):
        for name in ("", *folders, *files):
            path = os.path.join(folder, name)
            if not os.path.islink(path) and os.stat(path).st_uid == os.geteuid():
                os.chmod(path, 0o777)


@contextlib.contextmanager
def camp(*, opened):
    """Alice's hub and her program, in a home that nobody else can enter."""
    warm._import_everything()
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as base:
        os.chmod(base, 0o755)
        alice = os.path.join(base, "alice")
        os.mkdir(alice, 0o755)
        os.chown(alice, ALICE, ALICE)
        root = os.path.join(alice, ".vedette")
        with (
            process_as(ALICE, the_hub(root, opened=opened)) as [hub, _],
            process_as(ALICE, the_job(root, opened=opened)) as [job, (origin, run)],
        ):
            with open(os.path.join(root, "hub.connect")) as file:
                told = address.parse(file.read())
            yield SimpleNamespace(
                base=base, root=root, home=Home(root), hub=hub, job=job, origin=origin, run=run, port=told.port,
                opened=opened,
            )  # fmt: skip


def _reads(*parts):
    """Return a try to read a file, or any that is below a directory."""

    def attempt(found):
        path = os.path.join(found.root, *parts)
        inside = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
        for one in inside or [path]:
            with contextlib.suppress(OSError), open(one, "rb") as file:
                if file.read():
                    return True
        return False

    return attempt


def _says(found, *messages):
    """Say something to the hub by its socket; return what it answers after its Hello."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(found.home.socket)
        peer.sendall(b"".join(map(wire.pack_message, (wire.Hello(name="mallory"), *messages))))
        return answers(peer, 1 + len(messages))[1:]


def asks_the_hub(found):
    """Ask the hub something by its socket."""
    return isinstance(_says(found, wire.AskHealth())[0], wire.Health)


def answers_a_question(found):
    """Answer, instead of alice, what her program asks."""
    process = of_process(f"{found.run}/1", found.origin)
    answer = Command("x", process, "answer", time.time_ns() + 10**10, {"ask": "?", "text": "MALLORY SAYS yes"})
    return isinstance(_says(found, wire.Order(answer))[0], wire.Done)


def relays_over_the_port(found):
    """Connect to the port with a token that was guessed."""
    with socket.create_connection(("127.0.0.1", found.port), 10) as peer:
        peer.sendall(wire.pack_message(wire.Hello(name="mallory", token="guessed")))
        return isinstance(answers(peer, 1)[0], wire.Hello)


def plants_a_link(found):
    """Put a link into the home, in place of a file that is written later."""
    os.symlink("/etc/passwd", os.path.join(found.root, "hub.connect.new"))
    return True


def links_to_the_store(found):
    """Keep the store by a second name, for the time when it can be read."""
    os.link(found.home.store, os.path.join(found.base, "mallory", "kept"))
    return True


def takes_the_socket_away(found):
    """Put a socket of one's own in place of the hub's."""
    os.rename(found.home.pids, os.path.join(found.root, "taken"))
    return True


def lists_the_home(found):
    """See which programs and files there are."""
    return bool(os.listdir(found.root))


def stops_the_hub(found):
    """End the hub by its own message."""
    return isinstance(_says(found, wire.Leave())[0], wire.Done)


TRIES = {
    "reads the token": _reads("hub.token"),
    "reads the token of a holder": _reads("tokens", "bob"),
    "reads the token of the page": _reads("ui.token"),
    "reads the connect string": _reads("hub.connect"),
    "reads the store": _reads("store.db"),
    "reads the spool": _reads("spool"),
    "reads a saved file": _reads("blobs"),
    "lists the home": lists_the_home,
    "asks the hub": asks_the_hub,
    "answers a question": answers_a_question,
    "relays over the port": relays_over_the_port,
    "plants a link": plants_a_link,
    "links to the store": links_to_the_store,
    "takes the socket away": takes_the_socket_away,
    "stops the hub": stops_the_hub,
}


def _sends_a_pidfd(found):
    """Have the hub take a process of mallory for a program of alice."""

    def run(ready):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
            peer.connect(found.home.pids)
            socket.send_fds(peer, [b"a program to come"], [os.pidfd_open(os.getpid())])
            peer.recv(1)  # the hub closes it when it has looked
        ready(None)
        signal.pause()

    return run


def _has_pidfd(hub, pid):
    for fd in os.listdir(f"/proc/{hub}/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/{hub}/fdinfo/{fd}") as file:
            if f"\nPid:\t{pid}\n" in file.read():
                return True
    return False


def _tried(found):
    """Try everything as mallory; return what has succeeded."""
    succeeded = []
    for name, attempt in TRIES.items():
        with contextlib.suppress(OSError, VedetteError):
            if attempt(found):
                succeeded.append(name)
    return succeeded


@pytest.mark.parametrize("opened", [False, True])
def test_what_mallory_tries(opened):
    """None of the tries succeeds; against a build and a home that were opened on purpose, all of them do."""
    with camp(opened=opened) as found:
        os.mkdir(os.path.join(found.base, "mallory"), 0o700)
        os.chown(os.path.join(found.base, "mallory"), MALLORY, MALLORY)

        with process_as(MALLORY, _sends_a_pidfd(found)) as [pid, _]:
            assert _has_pidfd(found.hub, pid) is opened
        assert do_as(MALLORY, _tried, found) == (list(TRIES) if opened else [])


# What every user can see of a process.

KEEPS_ITS_ARGUMENTS = "#!/bin/sh\necho $$ > $0.pid\nwhile :; do sleep 1; done\n"


@pytest.mark.parametrize("opened", [False, True])
def test_no_token_is_seen_in_a_process(opened):
    """Of the hub that a program starts, mallory sees the command line, where no token is, and not the environment."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as public:
        os.chmod(public, 0o1777)
        assert _seen(public, opened=opened) == (["cmdline"] if opened else [])


def _seen(public, *, opened):
    script = os.path.join(public, "python")
    write(script, KEEPS_ITS_ARGUMENTS)
    os.chmod(script, 0o755)
    secret = os.urandom(8).hex()
    connect = f"vedette://{secret}@127.0.0.1:9"

    def alice(ready):
        sys.executable = script
        place = Home.of(Settings(home=os.path.join(public, "home"), hub=Hub(reroute=connect)))
        if opened:
            place.hub_settings += ("--set", f"hub.reroute={connect}")
        place.wake_hub()
        ready(None)
        signal.pause()

    def mallory():
        seen, hubs = [], 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for name in ("cmdline", "environ"):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", errors="replace") as file:
                    text = file.read()
                    hubs += script in text and name == "cmdline"
                    seen += [name] if secret in text else []
        return [hubs > 0, sorted({*seen})]

    with process_as(ALICE, alice):
        try:
            deadline = time.monotonic() + 20
            while not (found := do_as(MALLORY, mallory))[0]:
                assert time.monotonic() < deadline
            return found[1]
        finally:
            with open(f"{script}.pid") as file:
                os.kill(int(file.read()), signal.SIGKILL)
