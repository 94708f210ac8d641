"""The program that records what a run is made of: `python -P -m vedette.capture`, started by `client/capturing.py`.

It is a detached process with a low priority. It records each part as soon as it has it, the code first, since files may
change. A part that fails is named in the run's attribute `capture`; the other parts go on.
"""

import contextlib
import fcntl
import functools
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from vedette import detached, manifest, masks
from vedette.blobs import Blobs
from vedette.capture import environment, git, machine, packages
from vedette.capture.cleaning import clean_diff
from vedette.capture.package import pack
from vedette.capture.tree import choose, choose_modules
from vedette.client.capturing import Brief
from vedette.fileio import open_private
from vedette.home import Home
from vedette.ids import new_id
from vedette.model import Blob, Span, Value
from vedette.voice import Voice, origin_here

CAPTURE_LOCK = "capture.lock"  # files of a home, with a number behind
_MOST_S = 600  # after this something hangs: the program ends, and the run's `capture` stays "begun"
_MOST_DIFF = 8 << 20
_WAIT_S = 2.0  # for another run of the same program


class Program:
    """The capture of one run."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief
        self._home = Home(os.fsdecode(brief.home), foreign=True)  # who began the run has looked whose it is
        self._blobs = Blobs(self._home, brief.settings.limits)
        # This origin has no process span: the end of this program must not count as the end of a process of the run.
        origin = origin_here(new_id(10), span=brief.run, upstream=brief.settings.upstream)
        self._voice = Voice(self._home, lambda: origin, brief.settings.spool)
        self._voice.clock.be_later_than(brief.t)  # so that our `capture` attribute wins over the run's own
        self._secrets = masks.known(os.environ)
        self._caps = brief.settings.capture
        self._root = ""
        self._failed: list[str] = []

    def run(self) -> None:
        """Record each part, and then whether all succeeded."""
        if self._caps.code:
            self._try("code", self._code)
        if self._brief.only_code:
            self._voice.close()
            return
        self._try("git", self._git)
        self._try("machine", lambda: self._set(_machine()))
        self._try("environment", self._environment)
        self._try("packages", self._packages)
        self._try("gpus", self._gpus)
        self._set({"capture": f"in part; {'; '.join(self._failed)}"[:1000] if self._failed else "done"})
        self._voice.close()

    def _set(self, attrs: Mapping[str, Value], t: int = 0) -> None:
        """Set attributes of the run, as of now or of another time."""
        self._voice.say(Span(self._brief.run, t or self._voice.now(), attrs=dict(attrs)))

    def _keep(self, name: str, data: bytes, media: str, t: int = 0) -> str:
        """Save bytes as a file of the run, as of now or of another time; return their digest."""
        digest, size = self._blobs.keep(data)
        self._voice.say(Blob(self._brief.run, t or self._voice.now(), name, digest, size, media))
        return digest

    def _try(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._failed.append(f"{what}: {type(error).__name__}: {masks.text(str(error))}"[:300])

    def _code(self) -> None:
        brief = self._brief
        if brief.notebook:
            script = ""  # the cells, which the kernel records as it runs them
            files = choose_modules(brief.modules, _folder(brief.notebook), (self._home.root, self._home.asked))
        else:
            script = brief.script or _script(brief.argv, brief.cwd)
            files = choose(script, brief.cwd, (self._home.root, self._home.asked))
        self._root = files.root
        package = pack(files, script, self._blobs, self._caps, self._secrets, brief.t)
        about: dict[str, Value] = {
            "root": _masked(files.root), "files": len(package.entries), "bytes": package.bytes,
            "left_out": sum(files.left_out.values()),
        }  # fmt: skip
        if files.left_out:
            about |= {"left_out_by": files.left_out, "left_out_names": files.some}
        if package.masked:
            about |= {"masked": sum(package.masked.values()), "masked_names": list(package.masked)[:20]}
        if package.changed:
            about |= {"changed": len(package.changed), "changed_names": package.changed[:20]}
        if brief.notebook:
            below = os.path.relpath(_folder(brief.notebook), files.root)
            known = {entry.path for entry in package.entries}
            about["script"] = _masked(manifest.free_name(os.path.normpath(os.path.join(below, manifest.CELLS)), known))
        elif script:
            about["script"] = _masked(os.path.relpath(script, files.root))
        # Two programs may capture a notebook at once, after two cells: the list that was made later counts.
        t = brief.t if brief.notebook else 0
        about["digest"] = self._keep(manifest.NAME, package.manifest, "application/json", t)
        self._set({"code": about}, t)

    def _git(self) -> None:
        brief = self._brief
        folder = os.path.dirname(brief.script) if brief.script else self._root or brief.cwd
        folder = _folder(brief.notebook) if brief.notebook else folder
        root = git.find(folder)
        if not root:
            return
        found = git.state(root, _MOST_DIFF + 1)
        about: dict[str, Value] = {"root": _masked(root), "dirty": found.dirty}
        about |= {"commit": found.commit} if found.commit else {}
        about |= {"branch": masks.text(found.branch)} if found.branch else {}
        about |= {"remote": masks.text(found.remote)} if found.remote else {}
        if found.diff:
            cut = len(found.diff) > _MOST_DIFF
            diff, masked = clean_diff(found.diff[:_MOST_DIFF].decode("utf-8", "surrogateescape"), self._secrets)
            self._keep(manifest.DIFF, diff.encode("utf-8", "surrogateescape"), "text/plain")
            about |= {"diff_cut": True} if cut else {}
            about |= {"diff_masked": masked} if masked else {}
        self._set({"git": about})

    def _environment(self) -> None:
        found = environment.allowed(more=self._caps.env)
        if found:
            self._set({"env": found})

    def _packages(self) -> None:
        brief = self._brief
        version, path = brief.python, brief.sys_path
        if brief.launched:
            python = packages.python_of(brief.argv, brief.cwd)
            version, path = packages.ask(python, brief.cwd) if python else ("", [])
            if version:
                self._set({"python": version})
        if not path:
            return
        found = _installed(tuple(path))
        digest = self._keep(manifest.PACKAGES, msgspec.json.encode(found.versions), "application/json")
        if found.direct:
            self._keep(manifest.DIRECT_PACKAGES, msgspec.json.encode(found.direct), "application/json")
        self._set({"packages": {"digest": digest, "count": len(found.versions)}})

    def _gpus(self) -> None:
        if found := _gpus():
            self._set(found)


# Of the runs of one program, these are the same.
_machine, _gpus = functools.cache(machine.describe), functools.cache(machine.gpus)


@functools.lru_cache(1)
def _installed(path: tuple[str, ...]) -> Any:
    return packages.installed(list(path))


def _folder(notebook: str) -> str:
    """Return the directory of a notebook, whose path may be only that directory."""
    return os.path.dirname(notebook) if notebook.endswith(".ipynb") else notebook


def _script(argv: list[str], cwd: str) -> str:
    """Return the first file in a command that is the user's own: no system program, no Python, nothing installed."""
    for word in argv if argv and "/" in argv[0] else argv[1:]:
        path = os.path.normpath(os.path.join(cwd, word))
        if not word.startswith("-") and os.path.isfile(path) and not path.startswith(("/usr/", "/bin/", "/opt/")):
            if os.path.basename(path).startswith("python") or "/site-packages/" in path or _in_environment(path):
                continue
            return path
    return ""


def _in_environment(path: str) -> bool:
    return os.path.exists(os.path.join(os.path.dirname(os.path.dirname(path)), "pyvenv.cfg"))


def _masked(text: str) -> str:
    return masks.text(text.encode(errors="replace").decode())


def main() -> None:
    """Capture the run of the brief in the first inherited descriptor, then those that come by the second one."""
    fd, way = detached.take_handed(2)
    _give_way()
    with socket.socket(fileno=way) as more:
        _capture(fd)
        more.settimeout(_WAIT_S)
        while (fd := _next(more)) >= 0:
            _capture(fd)
        more.shutdown(socket.SHUT_RD)  # from now on nobody hands us anything; what is on its way is taken
        more.settimeout(0)
        while (fd := _next(more)) >= 0:
            _capture(fd)


def _give_way() -> None:
    """Let all other programs go first: with autogroups, niceness counts only within a session, and we have our own."""
    os.nice(10)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:
        file.write("10")


def _capture(fd: int) -> None:
    with open(fd, "rb") as file:
        brief: Any = msgspec.msgpack.decode(file.read(), type=Brief)
    if brief.environ:
        os.environ.clear()
        os.environ.update({name: os.fsdecode(value) for name, value in brief.environ.items()})
    with _one_of_few(Home(os.fsdecode(brief.home), foreign=True).root):
        signal.alarm(_MOST_S)
        Program(brief).run()
        signal.alarm(0)


@contextlib.contextmanager
def _one_of_few(home: str) -> Iterator[None]:
    """Wait until one of the captures of a home may work; as many as there are cores do so at once.

    Hundreds that begin together would each get a little of the machine, and so would everybody else.
    """
    path = os.path.join(home, f"{CAPTURE_LOCK}{os.getpid() % len(os.sched_getaffinity(0))}")
    try:
        fd = open_private(path, os.O_RDWR | os.O_CREAT)
    except OSError:  # a full disk, for example: the captures take their chance
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _next(more: socket.socket) -> int:
    """Return the descriptor of the next brief; -1 if none came in time, or none can come any more."""
    try:
        _, fds, _, _ = socket.recv_fds(more, 1, 1)
    except OSError:
        return -1
    return fds[0] if fds else -1


if __name__ == "__main__":
    try:
        main()
    finally:
        os._exit(0)  # do not wait for a thread in which a GPU driver hangs
