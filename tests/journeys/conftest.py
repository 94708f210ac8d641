"""Real processes in a real home: how journeys start scripts and read the results."""

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.journeys.hosts import hosts, why_not
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.home import Home
from vedette.query.runs import RunView, select
from vedette.store.sqlite_file import open_reader

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(home: Home, tmp_path: Any) -> Any:
    """Start Python scripts in the home; those that still run at the end of the test are killed."""
    running: list[subprocess.Popen[str]] = []

    def begin(code: str, *args: str, **kwargs: Any) -> "subprocess.Popen[str]":
        path = tmp_path / f"script{len(running)}.py"
        path.write_text(textwrap.dedent(code))
        environ = {**os.environ, "VEDETTE_HOME": home.asked, **kwargs.pop("environ", {})}
        process = subprocess.Popen(
            [sys.executable, str(path), *args],
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **kwargs,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def finish(start: Start) -> Any:
    """Run a script to its end; return (exit code, stdout, stderr)."""

    def run(code: str, *args: str, timeout: float = 60, **kwargs: Any) -> tuple[int, str, str]:
        process = start(code, *args, **kwargs)
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err

    return run


@pytest.fixture(scope="session")
def no_hosts() -> str:
    """Why no hosts can be made here; checked once."""
    return why_not()


@pytest.fixture
def lan(no_hosts: str) -> Any:
    """Make as many hosts as the test asks for; they end with the test."""
    if no_hosts:
        pytest.skip(f"NO HOSTS WERE MADE: {no_hosts}")
    with contextlib.ExitStack() as stack:
        yield lambda count, **options: stack.enter_context(hosts(count, **options))


def read_runs(home: Home, *, fresh: bool = True) -> list[RunView]:
    """Return all runs of a home, the oldest first, with all that was logged so far."""
    if fresh:
        ask(home, wire.Seal(""))
    return select(open_reader(home.store))[::-1]


def eventually(check: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until a check returns something true, and return it. The time is long, because success ends the wait.

    The pause between two checks is at least three times as long as a check, so that waiting costs little.
    """
    begun = time.monotonic()
    while True:
        before = time.monotonic()
        if value := check():
            return value
        now = time.monotonic()
        assert now < begun + seconds, "it did not come to hold in time"
        time.sleep(min(0.5, max(0.02, 3 * (now - before))))


def spools(home: Home) -> list[str]:
    """Return the spools of processes, without the hub's own."""
    return [name for name in os.listdir(home.spool) if not name.startswith("hub-")]
