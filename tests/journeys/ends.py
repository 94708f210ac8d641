"""Processes that end right after `init`, in every way, with a hub in every state; and what the store then says of them.

Used by the tests and by `scripts/bench ends`.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vedette import wire
from vedette.access.hub_socket import ask
from vedette.home import Home
from vedette.query.runs import select
from vedette.store.sqlite_file import open_reader

BEGIN = "import os, signal, sys, vedette\nrun = vedette.init(name=sys.argv[1], console=False)\nrun.log({'x': 1.0})\n"
KILL = "os.kill(os.getpid(), signal.{})"

# how it ends: the code, the state, and how the cause begins
WAYS = {
    "its last line": ("", "done", ""),
    "raise SystemExit(0)": ("raise SystemExit(0)", "done", ""),
    "raise SystemExit(3)": ("raise SystemExit(3)", "failed", "exit code 3"),
    "sys.exit(4)": ("sys.exit(4)", "failed", "exit code 4"),
    "sys.exit(5), caught": ("try: sys.exit(5)\nexcept SystemExit: pass", "done", ""),
    "os._exit(0)": ("os._exit(0)", "done", ""),
    "os._exit(6)": ("os._exit(6)", "failed", "exit code 6"),
    "an exception": ("raise ValueError('bad')", "failed", "ValueError: bad"),
    "SIGKILL": (KILL.format("SIGKILL"), "failed", "killed by SIGKILL"),
    "SIGTERM": (KILL.format("SIGTERM"), "cancelled", "killed by SIGTERM"),
}
STATES = ("warm", "cold", "starting", "stopped", "killed")
SEEN_BY_ALL = ("warm", "starting")  # with a hub in these states every end is seen


class Found(NamedTuple):
    """One end: how it was, and what the store says of it."""

    hub: str
    way: str
    state: str
    cause: str
    points: int

    @property
    def is_right(self) -> bool:
        """Whether the store says how it ended."""
        _, state, cause = WAYS[self.way]
        return self.state == state and (self.cause.startswith(cause) if cause else not self.cause) and self.points == 1

    @property
    def is_unseen(self) -> bool:
        """Whether the store says that nobody saw it, and has all that the process said."""
        return self.state == "ended" and self.points == 1


def end_many(home: Home, hub: str, ways: Sequence[str]) -> Iterator[Found]:
    """Have processes end in these ways, while the hub is in this state; yield what is found of each."""
    if hub == "cold":  # each of them starts a hub
        for way in ways:
            yield from _end_some(home, hub, [way])
    else:
        yield from _end_some(home, hub, ways)


def _end_some(home: Home, hub: str, ways: Sequence[str]) -> list[Found]:
    held = hub == "killed"  # they wait until the hub is dead
    if hub in ("warm", "stopped", "killed"):
        ask(home, wire.AskHealth())
        pid = home.hub_pid() or 0
    else:
        _end_hub(home)
    if hub == "starting":
        home.wake_hub()
    if hub == "stopped":
        os.kill(pid, signal.SIGSTOP)
    wait = "print(flush=True); sys.stdin.read()\n" if held else ""
    started = [_start(f"end-{number}", BEGIN + wait + WAYS[way][0]) for number, way in enumerate(ways)]
    if held:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        _end_hub(home)
    for process in started:
        process.communicate(timeout=60)
    if hub == "stopped":
        os.kill(pid, signal.SIGCONT)
    return [_look(home, hub, way, f"end-{number}") for number, way in enumerate(ways)]


def _start(name: str, code: str) -> "subprocess.Popen[bytes]":
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-c", code, name], **pipes)  # type: ignore[call-overload, no-any-return]


def _look(home: Home, hub: str, way: str, name: str) -> Found:
    """Wait until the store says that the newest run of this name has ended."""
    deadline = time.monotonic() + 60
    while True:
        ask(home, wire.Seal(""))
        store = open_reader(home.store)
        try:
            run = next((run for run in select(store) if run.name == name), None)
            if run is not None and run.end_t is not None:
                points = next((row.count for row in run.series() if row.name == "x"), 0)
                return Found(hub, way, run.state, run.cause, points)
        finally:
            store.close()
        assert time.monotonic() < deadline, f"{way} does not end where the hub is {hub}"
        time.sleep(0.05)


def _end_hub(home: Home) -> None:
    while pid := home.hub_pid():
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
