"""A real browser on a real `vedette ui`: what it says, asks for and runs is noted, and must be nothing wrong."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from vedette.home import Home

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
_ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()
_PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "src", "vedette", "views", "web", "page", "index.html")
PATIENCE_MS = 60_000
HOSTILE = (  # texts that a page must not take for markup, by which `hit` would be set
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    '"><svg onload=window.hit=1>',
    "'-window.hit=1-'",
    "javascript:window.hit=1",
    "</textarea><iframe srcdoc='<script>parent.hit=1</script>'>",
)


def why_not() -> str:
    """Return why no browser can be driven here; empty when one can."""
    if not CHROMIUM:
        return "there is no chromium: apt-get install chromium"
    if not os.path.exists(_PAGE):
        return "the page is not built: scripts/install builds it"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "there is no playwright: pip install playwright"
    return ""


class Site:
    """A home on show, and the browser that looks at it."""

    def __init__(self, url: str, browser: Any) -> None:
        parts = urlsplit(url)
        self.url = url
        self.base = f"{parts.scheme}://{parts.netloc}"
        self._browser = browser
        self.wrong: list[str] = []  # errors on the console, exceptions, requests to another host, dialogs

    def open(self, path: str = "/", *, width: int = 1280, height: int = 800, scheme: str = "light") -> Any:
        """Open a path in a new window, signed in."""
        context = self._browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.route("**/*", self._pass)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.wrong.append(f"exception: {error}"))
        page.goto(self.url)
        page.wait_for_selector("main")
        if path != "/":
            page.goto(self.base + path)
        return page

    def _pass(self, route: Any) -> None:
        if urlsplit(route.request.url).netloc == urlsplit(self.base).netloc:
            route.continue_()
        else:
            self.wrong.append(f"request to elsewhere: {route.request.url}")
            route.abort()

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.wrong.append(f"console: {message.text}")


@contextlib.contextmanager
def shown(home: Home, *options: str) -> Iterator[Site]:
    """Serve a home with `vedette ui`, and open a browser; both end with this."""
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "vedette", "ui", "--no-browser", "--port", "0", "--json", *options]
    server = subprocess.Popen(
        command,
        env={**os.environ, "VEDETTE_HOME": home.asked},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            assert server.stderr is not None
            raise AssertionError(f"vedette ui did not begin: {server.stderr.read()}")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
            try:
                yield Site(json.loads(line)["url"], browser)
            finally:
                browser.close()
    finally:
        server.terminate()
        try:
            server.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.communicate()
