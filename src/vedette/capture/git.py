"""What git knows of a working tree, asked without changing or locking anything in it."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence

from msgspec import Struct

_PATIENCE_S = 30.0
_MOST_SAID = 64 << 20  # bytes of one answer
_DEEPEST = 8  # repositories inside of each other


class State(Struct, frozen=True):
    """A working tree at one moment."""

    root: str
    commit: str = ""
    branch: str = ""
    remote: str = ""
    dirty: bool = False
    diff: bytes = b""


def find(folder: str) -> str:
    """Return the top of the working tree that a directory lies in; empty where there is none, or no git."""
    said = _ask(folder, "rev-parse", "--show-toplevel")
    return os.fsdecode(said[:-1]) if said and said.endswith(b"\n") else ""


def state(root: str, most_diff: int = _MOST_SAID) -> State:
    """Return what is checked out there, and how it differs from that, in at most so many bytes."""
    commit = _line(root, "rev-parse", "--verify", "--quiet", "HEAD")
    branch = _line(root, "symbolic-ref", "--short", "--quiet", "HEAD")
    remotes = _line(root, "remote").split("\n")
    wanted = "origin" if "origin" in remotes else remotes[0]
    remote = _line(root, "config", "--get", f"remote.{wanted}.url") if wanted else ""
    ours = (":(top)", ":(top,exclude,glob)**/__pycache__/**")  # Python makes these while the program begins
    dirty = bool(_ask(root, "status", "--porcelain", "-z", "--ignore-submodules=none", "--", *ours, most=1))
    diff = b""
    if commit and dirty:
        shown = (
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--submodule=short",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        )
        diff = _ask(root, "diff", *shown, "HEAD", most=most_diff) or b""
    return State(root, commit, branch, remote, dirty, diff)


def listed(root: str, depth: int = 0) -> tuple[list[str], list[str]] | None:
    """Return the tracked and the untracked files of a tree, ignored ones left out; None when git does not tell.

    Those of submodules, and of other repositories in it, belong to it.
    """
    tracked = _names(root, "ls-files", "--cached", "-z")
    untracked = _names(root, "ls-files", "--others", "--exclude-standard", "-z")
    if tracked is None or untracked is None:
        return None
    both: tuple[list[str], list[str]] = [], []
    for names, found in ((tracked, both[0]), (untracked, both[1])):
        for name in dict.fromkeys(names):
            inner = os.path.join(root, name.rstrip("/"))
            if not name.endswith("/") and (os.path.islink(inner) or not os.path.isdir(inner)):
                found.append(name)
            elif depth < _DEEPEST and os.path.lexists(os.path.join(inner, ".git")):
                below = listed(inner, depth + 1)
                for ours, theirs in zip(both, below or ([], []), strict=True):
                    ours.extend(os.path.join(name.rstrip("/"), path) for path in theirs)
    return both


def _names(root: str, *args: str) -> list[str] | None:
    said = _ask(root, *args)
    return None if said is None else [os.fsdecode(name) for name in said.split(b"\0")[:-1]]


def _line(root: str, *args: str) -> str:
    return (_ask(root, *args) or b"").decode(errors="replace").strip()


def _ask(folder: str, *args: str, most: int = _MOST_SAID) -> bytes | None:
    """Return what a git command says, at most so many bytes of it; None when it fails or takes too long."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # of a hook's, say
    environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    command: Sequence[str] = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", *args)
    try:
        git = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError):
        return None
    until = time.monotonic() + _PATIENCE_S
    with git:
        try:
            said = _read(git, most, until)
            if len(said) >= most:
                return said
            git.wait(max(0.0, until - time.monotonic()))
        except (subprocess.TimeoutExpired, OSError):
            return None
        finally:
            if git.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(git.pid, signal.SIGKILL)  # with whatever it waits for: nothing is left running
    return said if git.returncode == 0 else None


def _read(git: "subprocess.Popen[bytes]", most: int, until: float) -> bytes:
    """Read what a process says to its end, or as much as is wanted; raise TimeoutExpired when that takes too long."""
    if git.stdout is None:
        return b""
    said = bytearray()
    poll = select.poll()
    poll.register(git.stdout, select.POLLIN)
    while len(said) < most:
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise subprocess.TimeoutExpired(git.args, _PATIENCE_S)
        more = os.read(git.stdout.fileno(), min(1 << 16, most - len(said)))
        if not more:
            break
        said += more
    return bytes(said)
