"""A real browser on a real `vedette ui`. Console errors, foreign requests and dialogs are noted; there must be none.

A load of the page costs a third of a second of CPU, a browser or a server one or two loads. So one browser serves a
file of tests, and one server all tests that only look. All windows share one renderer; each window is closed at the end
of its test, and what the page has stored in the browser is removed.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests import warm
from tests.conftest import PROGRAMS, begin_hub, end_hub
from tests.journeys.conftest import eventually, read_runs
from vedette.home import Home

# Chromium's headless shell draws no window, and costs less than half.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), "")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --in-process-gpu --renderer-process-limit=1 --disable-quic --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync"
    " --proxy-server=127.0.0.1:9"  # nothing listens there: requests to other machines fail
).split()
_PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "src", "vedette", "views", "web", "page", "index.html")
PATIENCE_MS = 60_000
HOSTILE = (  # texts that would set `hit` if the page took them for markup
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    '"><svg onload=window.hit=1>',
    "'-window.hit=1-'",
    "javascript:window.hit=1",
    "</textarea><iframe srcdoc='<script>parent.hit=1</script>'>",
)


def why_not() -> str:
    """Return why no browser can be used here; empty if one can."""
    if not CHROMIUM:
        return "there is no chromium: apt-get install chromium-headless-shell"
    if not os.path.exists(_PAGE):
        return "the page is not built: scripts/install builds it"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "there is no playwright: pip install playwright"
    return ""


class Site:
    """A home that is served, and the browser that shows it."""

    def __init__(self, url: str, browser: Any) -> None:
        parts = urlsplit(url)
        self.url = url
        self.base = f"{parts.scheme}://{parts.netloc}"
        self._token = parse_qs(parts.query)["token"][0]
        self._browser = browser
        self.wrong: list[str] = []  # errors on the console, exceptions, requests to another host, dialogs

    def open(self, path: str = "/", *, width: int = 1280, height: int = 800, scheme: str = "light") -> Any:
        """Open a path in a new window, signed in."""
        page = self._browser.contexts[0].new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", self._asked)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.wrong.append(f"exception: {error}"))
        page.goto(self.url if path == "/" else f"{self.base}{path}{'&' if '?' in path else '?'}token={self._token}")
        page.wait_for_selector("main")
        return page

    def _asked(self, request: Any) -> None:
        if urlsplit(request.url).scheme in ("http", "https") and not request.url.startswith(f"{self.base}/"):
            self.wrong.append(f"request to elsewhere: {request.url}")

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.wrong.append(f"console: {message.text}")

    @contextlib.contextmanager
    def looked_at(self) -> Iterator["Site"]:
        """Use the site for one test: clear the noted errors, and close the windows at the end."""
        self.wrong.clear()
        try:
            yield self
        finally:
            shared, *others = self._browser.contexts
            for page in shared.pages[1:]:
                if page.url.startswith(self.base):
                    page.evaluate("localStorage.clear(); sessionStorage.clear()")
                page.close()
            shared.clear_cookies()
            for context in others:
                context.close()


@contextlib.contextmanager
def launched() -> Iterator[Any]:
    """Start a browser; it ends with the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        browser.new_context().new_page()  # stays empty, and keeps the renderer alive between tests
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def made_by(*programs: str) -> Iterator[Home]:
    """Run programs in a new home; yield it when its hub has ended, so that it can be copied."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        home = Home(root)
        begin_hub(home)
        environ = {**clean_environment(), "VEDETTE_HOME": home.asked}
        for program in programs:
            subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environ, check=False, cwd=root)
        eventually(lambda: all(run.state in ("done", "failed") for run in read_runs(home)))
        end_hub(home, signal.SIGTERM)
        yield home


@contextlib.contextmanager
def copied(made: Home) -> Iterator[Home]:
    """Yield a copy of a home; it is removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        shutil.copytree(made.asked, root, dirs_exist_ok=True)
        home = Home(root)
        try:
            yield home
        finally:
            end_hub(home)


@contextlib.contextmanager
def shown(home: Home, browser: Any, *options: str) -> Iterator[Site]:
    """Serve a home with `vedette ui`; it ends with the block."""
    with tempfile.NamedTemporaryFile("r") as said:
        environ = {**clean_environment(), "VEDETTE_HOME": home.asked}
        pid = warm.start(["ui", "--no-browser", "--port", "0", "--json", *options], env=environ, log=said.name)
        try:
            line = eventually(lambda: said.readline() or not _lives(pid))
            assert line is not True, "vedette ui did not begin"
            with Site(json.loads(line)["url"], browser).looked_at() as site:
                yield site
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            eventually(lambda: not _lives(pid), 30)


def clean_environment() -> dict[str, str]:
    """Return our environment without VEDETTE_ variables, and without the programs that they start."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VEDETTE_")}
    return {**kept, **dict.fromkeys(PROGRAMS, "false")}


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
