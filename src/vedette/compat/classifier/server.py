"""The monitor server that a user starts by hand: a hub that listens, kept going, with a view of all that comes in."""

import os
import signal
import subprocess
import sys
import threading
import time

from vedette import address as addresses
from vedette import cli, detached, settings
from vedette.compat.classifier import report
from vedette.errors import SettingError
from vedette.home import Home
from vedette.kernel import signal_name

HUB = [sys.executable, "-P", "-m", "vedette", "hub"]
_START_TIMEOUT_S = 20.0
_STOPPED = (
    "the hub of this server was stopped, by `vedette hub --stop` or by another hub that took its place: this server"
    " leaves, because nobody could send to it any more"
)
_FAILED = "the hub could not begin again, so nobody listens any more: start this server again"
_PAUSE_S = 1.0  # between two hubs, so that one that is killed again and again does not take the machine


def serve(address: str, folder: str) -> int:
    """Receive what others send, and show it, until Ctrl-C; then draw the usage of all of it, if there is a `folder`."""
    begun_t = time.time_ns()
    home = Home.of(settings.load())
    hub = _Hub(home, address)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that the hub and its open port end with us
    try:
        if (failed := hub.start()) is not None:
            return failed
        cli.main(["watch", "--all"])
    except (SystemExit, KeyboardInterrupt):
        pass
    finally:
        try:
            if folder and not hub.left:
                report.usage_since(begun_t, folder)
        finally:
            hub.close()
    if hub.left:
        sys.stderr.write(f"vedette: {hub.left}\n")
        return 1
    return 0


class _Hub:
    """The hub of a server. If it is killed, another one is started; if somebody stops it, the server leaves."""

    def __init__(self, home: Home, address: str) -> None:
        self.left = ""  # why there is no hub any more, in a sentence
        self._home = home
        self._address = address
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> int | None:
        """Start it, and wait until it listens; return its exit code if it does not."""
        before, home = self._home.hub_pid(), self._home
        process = self._process = self._spawn()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not os.path.exists(home.connect) or home.hub_pid() in (None, 0, before):
            if process.poll() is not None or time.monotonic() > deadline:
                return process.poll() or 2
            time.sleep(0.05)
        self._address = _with_port(self._address, home.connect)
        threading.Thread(target=self._tend, name="server", daemon=True).start()
        return None

    def _spawn(self, *options: str) -> "subprocess.Popen[bytes]":
        # In a session of its own: Ctrl-C ends only the view; then we stop the hub.
        return subprocess.Popen(
            [*HUB, "--address", self._address, *options],
            env=detached.environment(), start_new_session=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def _tend(self) -> None:
        """Start the hub again whenever it was killed."""
        while True:
            process = self._process
            assert process is not None
            code = process.wait()
            if self._closing.is_set():
                return
            if code >= 0:
                self.left = _STOPPED if code == 0 else _FAILED
                os.kill(os.getpid(), signal.SIGTERM)
                return
            sys.stderr.write(
                f"vedette: the hub was killed by {signal_name(-code)}; another one is started, and nothing is lost\n"
            )
            self._closing.wait(_PAUSE_S)
            with self._lock:
                if self._closing.is_set():
                    return
                # A job may have started a hub meanwhile, which does not listen: this one takes its place.
                self._process = self._spawn("--quiet")

    def close(self) -> None:
        """End the hub."""
        with self._lock:
            self._closing.set()
        process = self._process
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait()


def _with_port(address: str, connect: str) -> str:
    """Return an address whose port was to be chosen with the port that it got: the next hub must have the same."""
    try:
        with open(connect) as file:
            asked, told = addresses.parse(address, listening=True), addresses.parse(file.read())
    except (SettingError, OSError):
        return address
    return f"{address.rpartition(':')[0]}:{told.port}" if not asked.path and not asked.port else address
