"""The program that records what a run is made of: `python -P -m vedette.capture`, started by `client/capturing.py`.

It is a detached process with a low priority. It records each part as soon as it has it, the code first, since files may
change. A part that fails is named in the run's attribute `capture`; the other parts go on.
"""

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from vedette import detached, manifest, masks
from vedette.blobs import Blobs
from vedette.capture import environment, git, machine, packages
from vedette.capture.cleaning import clean_diff
from vedette.capture.package import pack
from vedette.capture.tree import choose
from vedette.client.capturing import Brief
from vedette.home import Home
from vedette.ids import new_id
from vedette.model import Blob, Span, Value
from vedette.voice import Voice, origin_here

_MOST_S = 600  # after this something hangs: the program ends, and the run's `capture` stays "begun"
_MOST_DIFF = 8 << 20


class Program:
    """The capture of one run."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief
        self._home = Home(brief.home)
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
        self._try("git", self._git)
        self._try("machine", lambda: self._set(machine.describe()))
        self._try("environment", self._environment)
        self._try("packages", self._packages)
        self._try("gpus", self._gpus)
        self._set({"capture": f"in part; {'; '.join(self._failed)}"[:1000] if self._failed else "done"})
        self._voice.close()

    def _set(self, attrs: Mapping[str, Value]) -> None:
        """Set attributes of the run."""
        self._voice.say(Span(self._brief.run, self._voice.now(), attrs=dict(attrs)))

    def _keep(self, name: str, data: bytes, media: str) -> str:
        """Save bytes as a file of the run; return their digest."""
        digest, size = self._blobs.keep(data)
        self._voice.say(Blob(self._brief.run, self._voice.now(), name, digest, size, media))
        return digest

    def _try(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._failed.append(f"{what}: {type(error).__name__}: {masks.text(str(error))}"[:300])

    def _code(self) -> None:
        brief = self._brief
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
        if script:
            about["script"] = _masked(os.path.relpath(script, files.root))
        about["digest"] = self._keep(manifest.NAME, package.manifest, "application/json")
        self._set({"code": about})

    def _git(self) -> None:
        folder = os.path.dirname(self._brief.script) if self._brief.script else self._root or self._brief.cwd
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
        found = packages.installed(path)
        digest = self._keep(manifest.PACKAGES, msgspec.json.encode(found.versions), "application/json")
        if found.direct:
            self._keep(manifest.DIRECT_PACKAGES, msgspec.json.encode(found.direct), "application/json")
        self._set({"packages": {"digest": digest, "count": len(found.versions)}})

    def _gpus(self) -> None:
        if found := machine.gpus():
            self._set(found)


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
    """Read the brief from the inherited descriptor, and capture the run."""
    [fd] = detached.take_handed(1)
    with open(fd, "rb") as file:
        brief: Any = msgspec.msgpack.decode(file.read(), type=Brief)
    os.nice(10)
    signal.alarm(_MOST_S)
    Program(brief).run()


if __name__ == "__main__":
    try:
        main()
    finally:
        os._exit(0)  # do not wait for a thread in which a GPU driver hangs
