"""A Python that has imported vedette already, and forks for each command that a test calls.

To start an interpreter and import everything costs ten times what most commands then do. What is forked is a process
like any other: it has its own pid, descriptors, environment, signals and exit code; only its imports were done before.

    done = warm.run(["ls", "--json"], env=environ)      # as subprocess.run with capture_output, text
    warm.start(["hub", "--quiet"], env=environ)         # goes on by itself; its parent reaps it

This file is also the program that forks: `python -m tests.warm FD`. It reads requests from a socket, and ends with it.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from typing import Any, NoReturn

import vedette
from vedette.cli import main

_ROOMS = ("cli", "query", "store", "hub", "views", "sources", "launch", "monitor", "capture")
_LATER = ("vedette.views.top", "vedette.views.web", "vedette.cli.top")  # textual and starlette: few commands want them
_BESIDES = ("argcomplete", "numpy", "pcodec", "rich.console", "rich.table", "rich.text", "concurrent.futures.thread")


def run(
    words: list[str],
    *,
    env: dict[str, str],
    cwd: Any = None,
    timeout: float = 60,
    text: bool = True,
    stdin: Any = None,
) -> "subprocess.CompletedProcess[Any]":
    """Run `vedette WORDS` to its end; raise TimeoutExpired, and kill it, when it takes longer."""
    said: dict[int, bytes] = {}
    with contextlib.ExitStack() as stack:
        ends = [os.pipe() for _ in ("stdout", "stderr", "status")]
        readers = [stack.enter_context(open(near, "rb", buffering=0)) for near, _ in ends]
        source = stack.enter_context(open(os.devnull, "rb")) if stdin in (None, subprocess.DEVNULL) else stdin
        _request(words, env, cwd, [source.fileno(), *(far for _, far in ends)])
        for _, far in ends:
            os.close(far)
        deadline = time.monotonic() + timeout
        left = {reader.fileno(): reader for reader in readers}
        while left:
            ready = select.select([*left], [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(json.loads(said[readers[2].fileno()].split(b"\n")[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, timeout)
            for fd in ready:
                data = left[fd].read(1 << 16)
                said[fd] = said.get(fd, b"") + (data or b"")
                if not data:
                    del left[fd]
        out, err, status = (said[reader.fileno()] for reader in readers)
    code = int(status.split(b"\n")[1])
    argv = [sys.executable, "-m", "vedette", *words]
    if not text:
        return subprocess.CompletedProcess(argv, code, out, err)
    return subprocess.CompletedProcess(argv, code, _text(out), _text(err))


def start(words: list[str], *, env: dict[str, str], log: str = os.devnull) -> int:
    """Start `vedette WORDS`, which goes on by itself; return its pid."""
    near, far = os.pipe()
    with open(os.devnull, "rb") as nothing, open(log, "ab") as file, open(near, "rb") as status:
        _request(words, env, "/", [nothing.fileno(), file.fileno(), file.fileno(), far])
        os.close(far)
        return int(status.readline())


def _text(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


_asking: dict[int, socket.socket] = {}  # by pid: a fork of the tests has its own


def _request(words: list[str], env: dict[str, str], cwd: str | None, fds: list[int]) -> None:
    peer = _asking.get(os.getpid())
    if peer is None:
        peer, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-m", "tests.warm", str(theirs.fileno())]
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        subprocess.Popen(argv, cwd=root, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True)
        theirs.close()
        _asking[os.getpid()] = peer
    told = json.dumps([words, env, str(cwd or os.getcwd())]).encode(errors="surrogateescape")
    socket.send_fds(peer, [told], fds)


def fits(env: dict[str, str]) -> bool:
    """Tell whether this environment says nothing that only a fresh interpreter would hear."""
    heard = ("PYTHON", "LC_", "LANG", "OPENBLAS", "MALLOC")
    return all(env.get(name) == os.environ.get(name) for name in {*env, *os.environ} if name.startswith(heard))


def _import_everything() -> None:
    for room in _ROOMS:
        package = importlib.import_module(f"vedette.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"vedette.{room}."):
            if not found.name.startswith(_LATER) and not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    for name in _BESIDES:
        importlib.import_module(name)


def _serve(peer: socket.socket) -> None:
    """Fork for each request; tell how each one ended."""
    living: dict[int, tuple[int, int]] = {}  # by pidfd: the pid, and where its exit code is told
    while True:
        for fd in select.select([peer, *living], [], [])[0]:
            if fd is not peer:
                pid, status = living.pop(fd)
                _tell(status, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                os.close(status)
                os.close(fd)
                continue
            told, fds, _, _ = socket.recv_fds(peer, 1 << 20, 4)
            if not told:
                return
            pid = os.fork()
            if pid == 0:
                peer.close()
                _become(*json.loads(told.decode(errors="surrogateescape")), fds)
            _tell(fds[3], pid)
            for fd_of_child in fds[:3]:
                os.close(fd_of_child)
            living[os.pidfd_open(pid)] = pid, fds[3]


def _tell(status: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(status, b"%d\n" % number)


def _become(words: list[str], env: dict[str, str], cwd: str, fds: list[int]) -> NoReturn:
    """Be the process that was asked for: `python -m vedette WORDS`."""
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    os.closerange(3, max(fds) + 64)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    time.tzset()
    sys.path[0] = cwd
    sys.argv = [os.path.join(os.path.dirname(vedette.__file__), "__main__.py"), *words]
    sys.orig_argv = [sys.executable, "-m", "vedette", *words]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - they stay
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    code: Any = 0
    try:
        main(words)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined] - waits for threads, as an interpreter does at its end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)  # to take apart what was never used would cost most of all


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _import_everything()
    gc.collect()
    gc.freeze()  # what the collector does not touch, forks share
    _serve(socket.socket(fileno=int(sys.argv[1])))
