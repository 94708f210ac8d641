"""What every test may need: signals as a terminal leaves them, bytecode that is kept, files in memory, and a home of
its own, whose hub ends with the test.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

import pytest

from tests import warm
from vedette.home import Home

# `nohup` and `&` start pytest with signals that are ignored. Each process that a test starts would inherit that, and no
# Ctrl-C could end it. A handler is not inherited by another program: whoever has one starts others with the default.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, lambda *_: None),  # the reason for nohup: pytest itself goes on
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# Each of thousands of processes would compile vedette anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PYTHONPYCACHEPREFIX", os.path.join(sys.prefix, "pycache"))


def _in_memory(path: str = "/dev/shm") -> str | None:
    """Return where temporary files need not wait for a disk, if there is room, and programs may be started there."""
    try:
        here = os.statvfs(path)
    except OSError:
        return None
    fits = here.f_bavail * here.f_frsize > 2 << 30 and not here.f_flag & os.ST_NOEXEC
    return path if fits and os.access(path, os.W_OK) else None


# Tests of what a disk does make one of their own. `TMPDIR=/var/tmp scripts/test` has all the others wait for one, too.
if "TMPDIR" not in os.environ and (_memory := _in_memory()):
    os.environ["TMPDIR"] = tempfile.tempdir = _memory


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("VEDETTE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("VEDETTE_CAPTURE_ENABLE", "false")  # a program for each run: those who want it say so


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A short, fresh home (a Unix socket's path ends at 108 bytes); VEDETTE_HOME points at it."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        monkeypatch.setenv("VEDETTE_HOME", root)
        place = Home(root)
        yield place
        end_hub(place)


@pytest.fixture
def hub(home: Home, monkeypatch: pytest.MonkeyPatch) -> int:
    """A hub that keeps the home before anybody speaks, as one does for all but the first run of a day; its pid.

    Who is started meanwhile does not wish to be measured: that takes one process more.
    """
    monkeypatch.setenv("VEDETTE_USAGE_ENABLE", "false")
    return begin_hub(home)


def begin_hub(home: Home) -> int:
    """Start a hub from a warm Python, for a tenth of what one costs that starts by itself; return its pid."""
    home.prepare()
    with open(home.waking, "w"):  # one is on its way: nobody else need start one
        pass
    warm.start(["hub", "--quiet", "--home", home.asked], env={**os.environ}, log=home.log)
    deadline = time.monotonic() + 20
    while not (pid := home.hub_pid()):
        assert time.monotonic() < deadline, "the hub does not begin"
        time.sleep(0.002)
    return pid


def end_hub(home: Home, number: int = signal.SIGKILL) -> None:
    """End the hub of a home, and wait until it is gone."""
    deadline = time.monotonic() + 20
    while (pid := home.hub_pid()) is not None:
        if pid:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        assert time.monotonic() < deadline, "the hub does not end"
        time.sleep(0.01)
