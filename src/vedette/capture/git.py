"""The state of a git working tree; reading it changes and locks nothing."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence

from msgspec import Struct

_PATIENCE_S = 30.0
_MOST_OUTPUT = 64 << 20  # bytes of the output of one command
_DEEPEST = 8  # levels of nested repositories


class State(Struct, frozen=True):
    """A working tree at one moment."""

    root: str
    commit: str = ""
    branch: str = ""
    remote: str = ""
    dirty: bool = False
    diff: bytes = b""


def find(folder: str) -> str:
    """Return the root of the working tree around a directory; empty if there is none, or git is not installed."""
    output = _run(folder, "rev-parse", "--show-toplevel")
    return os.fsdecode(output[:-1]) if output and output.endswith(b"\n") else ""


def state(root: str, most_diff: int = _MOST_OUTPUT) -> State:
    """Return the commit, and the diff of the working tree to it, cut at `most_diff` bytes."""
    commit = _line(root, "rev-parse", "--verify", "--quiet", "HEAD")
    branch = _line(root, "symbolic-ref", "--short", "--quiet", "HEAD")
    remotes = _line(root, "remote").split("\n")
    wanted = "origin" if "origin" in remotes else remotes[0]
    remote = _line(root, "config", "--get", f"remote.{wanted}.url") if wanted else ""
    ours = (":(top)", ":(top,exclude,glob)**/__pycache__/**")  # Python creates these when the program starts
    dirty = bool(_run(root, "status", "--porcelain", "-z", "--ignore-submodules=none", "--", *ours, most=1))
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
        diff = _run(root, "diff", *shown, "HEAD", most=most_diff) or b""
    return State(root, commit, branch, remote, dirty, diff)


def listed(root: str, depth: int = 0) -> tuple[list[str], list[str]] | None:
    """Return the tracked and the untracked files of a tree, without ignored ones; None when git fails.

    The files of submodules and of other repositories inside the tree are included.
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
    output = _run(root, *args)
    return None if output is None else [os.fsdecode(name) for name in output.split(b"\0")[:-1]]


def _line(root: str, *args: str) -> str:
    return (_run(root, *args) or b"").decode(errors="replace").strip()


def _run(folder: str, *args: str, most: int = _MOST_OUTPUT) -> bytes | None:
    """Run a git command and return its output, cut at `most` bytes; None when it fails or takes too long."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # as a git hook has
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
            output = _read(git, most, until)
            if len(output) >= most:
                return output
            git.wait(max(0.0, until - time.monotonic()))
        except (subprocess.TimeoutExpired, OSError):
            return None
        finally:
            if git.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(git.pid, signal.SIGKILL)  # with its child processes
    return output if git.returncode == 0 else None


def _read(git: "subprocess.Popen[bytes]", most: int, until: float) -> bytes:
    """Read a process's output to its end, or `most` bytes; raise TimeoutExpired when that takes too long."""
    if git.stdout is None:
        return b""
    output = bytearray()
    poll = select.poll()
    poll.register(git.stdout, select.POLLIN)
    while len(output) < most:
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise subprocess.TimeoutExpired(git.args, _PATIENCE_S)
        more = os.read(git.stdout.fileno(), min(1 << 16, most - len(output)))
        if not more:
            break
        output += more
    return bytes(output)
