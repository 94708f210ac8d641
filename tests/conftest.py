"""Shared by all tests: default signals, cached bytecode, temporary files in memory, and a fresh home for each test.

The hub of such a home ends with the test.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

import hypothesis
import pytest

from tests import warm
from tests.soak import times
from vedette.home import Home

# `nohup` and `&` start pytest with some signals ignored. Processes of tests would inherit that, and Ctrl-C could not
# end them. They do not inherit a handler: with one here, they start with the default.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, lambda *_: None),  # pytest itself goes on, as nohup wants
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# For tests of hypothesis that do not say how many examples they take.
hypothesis.settings.register_profile("suite", max_examples=times(50), deadline=None)
hypothesis.settings.load_profile("suite")

# Settings that start one more program for each run or hub: tests that need it switch it on.
PROGRAMS = ("VEDETTE_CAPTURE_ENABLE", "VEDETTE_USAGE_ENABLE")

# Otherwise each of thousands of processes would compile vedette again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("PYTHONPYCACHEPREFIX", os.path.join(sys.prefix, "pycache"))


def _in_memory(path: str = "/dev/shm") -> str | None:
    """Return a directory in memory, if it has room and allows programs to be executed; else None."""
    try:
        here = os.statvfs(path)
    except OSError:
        return None
    fits = here.f_bavail * here.f_frsize > 2 << 30 and not here.f_flag & os.ST_NOEXEC
    return path if fits and os.access(path, os.W_OK) else None


# Tests that need a disk make one. `TMPDIR=/var/tmp scripts/test` makes the other tests use a real disk, too.
if "TMPDIR" not in os.environ and (_memory := _in_memory()):
    os.environ["TMPDIR"] = tempfile.tempdir = _memory


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that share a fixture of their file in one worker, so that it is made once."""
    for item in items if config.pluginmanager.hasplugin("xdist") else ():
        known = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
        if any(found.scope == "module" for name in item.fixturenames for found in known.get(name, ())):  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("VEDETTE_"):
            monkeypatch.delenv(name)
    for name in PROGRAMS:
        monkeypatch.setenv(name, "false")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A short, fresh home (a Unix socket's path ends at 108 bytes); VEDETTE_HOME points at it."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        monkeypatch.setenv("VEDETTE_HOME", root)
        place = Home(root)
        yield place
        end_hub(place)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have hubs measure the processes of runs, as they do outside tests."""
    monkeypatch.setenv("VEDETTE_USAGE_ENABLE", "true")


@pytest.fixture
def hub(home: Home) -> int:
    """Start a hub before the test begins, as is usual for all but the first run of a day; return its pid."""
    return begin_hub(home)


def begin_hub(home: Home) -> int:
    """Start a hub from a warm Python, at a tenth of the usual cost; return its pid."""
    home.prepare()
    with open(home.waking, "w"):  # says that a hub is starting, so that nobody else starts one
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
