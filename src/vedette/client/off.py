"""The run of `VEDETTE_MODE=off`: it has every verb of a Run, and none does anything."""

from typing import Any, Self

from vedette.client.attrs import Attrs
from vedette.client.values import as_config


class OffRun:
    """Does nothing, quickly."""

    id = ""
    name = "off"
    url: str | None = None
    finished = False

    def __init__(self, config: Any = None) -> None:
        self.config = Attrs(None, "config", as_config(config))
        self.summary = Attrs(None, "summary", {})

    def log(self, values: Any, step: Any = None) -> None:
        """Do nothing."""

    def metric(self, name: Any, value: Any, tags: Any = None, step: Any = None) -> None:
        """Do nothing."""

    def series(self, name: Any, tags: Any = None) -> Any:  # noqa: ARG002 - as Run has it
        """Return a handle that does nothing."""

        def log(value: Any, step: Any = None) -> None:
            """Do nothing."""

        return log

    def mark(self, *labels: Any) -> None:
        """Do nothing."""

    def finish(self, state: Any = None) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""
