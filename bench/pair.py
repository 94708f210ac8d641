"""Two hubs, one of which relays to the other over TLS, and what each of them costs."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.place import end_hub, fresh_home
from vedette.home import Home

_START_S = 20.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Receiver:
    """The hub that others ship to, in a home of its own; it can be killed and come back at the same address."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and return when it can be connected to."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.home.connect)
        argv = [sys.executable, "-m", "vedette", "hub", "--home", self.home.root]
        argv += ["--address", f"0.0.0.0:{self._port}", "--advertise", "127.0.0.1"]
        with open(os.path.join(self.home.root, "receiver.log"), "ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_S
        while not os.path.exists(self.home.connect):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the receiving hub does not start: see {self.home.root}")
            time.sleep(0.01)
        self._port = int(self.connect.partition("@")[2].partition("/")[0].rpartition(":")[2])

    @property
    def connect(self) -> str:
        """What VEDETTE_HUB must be, so that its home's hub ships here."""
        with open(self.home.connect) as file:
            return file.read().strip()

    @property
    def pid(self) -> int:
        """The process, while it lives."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill it by -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def pair(*, hub: bool) -> Iterator[tuple[Home, Receiver]]:
    """Make a far home, that clients of this process write to, and the hub that it is meant for.

    `hub`: whether the far home's hub may start by itself; else its lock is held here.
    """
    with fresh_home(hub=True) as near:
        receiver = Receiver(near)
        try:
            with fresh_home(hub=hub) as far:
                os.environ["VEDETTE_HUB"] = receiver.connect
                yield far, receiver
        finally:
            os.environ.pop("VEDETTE_HUB", None)
            receiver.kill()


@contextlib.contextmanager
def hub_of(home: Home) -> Iterator[int]:
    """Be the parent of a home's hub; hand out its pid."""
    argv = [sys.executable, "-m", "vedette", "hub", "--home", home.root]
    environ = {key: value for key, value in os.environ.items() if key != "VEDETTE_HUB"}
    with open(home.log, "ab") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, env=environ)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
        end_hub(home)


def cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process has taken, all its threads together."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def most_memory_mb(pid: int) -> float:
    """Return the most memory that a process has held, in MB."""
    with open(f"/proc/{pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["VmHWM"].split()[0]) * 1024 / 1e6
