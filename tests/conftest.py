"""What every test may need: signals as a terminal leaves them, and a home of its own, whose hub ends with the test."""

import os
import signal
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
def hub(home: Home) -> int:
    """A hub that keeps the home before anybody speaks, as it does for all but the first run of a day; its pid.

    It comes from a warm Python, and so costs a tenth of one that starts by itself.
    """
    home.prepare()
    pid = warm.start(["hub", "--quiet", "--home", home.asked], env={**os.environ}, log=home.log)
    deadline = time.monotonic() + 20
    while home.hub_pid() != pid:
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
