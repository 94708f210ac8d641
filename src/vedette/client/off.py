"""The run of `VEDETTE_MODE=off`: it has every method of Run, and none does anything."""

from typing import Any, Self

from vedette.client.attrs import Attrs
from vedette.client.values import as_config


class OffProgress:
    """A progress bar that does nothing."""

    id = ""
    total: float | None = None
    estimate: float | None = None
    is_finished = False

    def advance(self, step: Any = 1, msg: Any = None, distributed: Any = False) -> None:
        """Do nothing."""

    def update(self, completed: Any, msg: Any = None) -> None:
        """Do nothing."""

    def complete(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class OffRun:
    """A run that does nothing."""

    id = ""
    name = "off"
    url: str | None = None
    finished = False
    _measured = False
    _outer: Any = None  # as Run has it

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

    def save(self, path: Any, name: Any = None) -> None:
        """Do nothing."""

    def use(self, path: Any, name: Any = None) -> None:
        """Do nothing."""

    def progress(self, total: Any = None, msg: Any = "") -> OffProgress:  # noqa: ARG002 - as Run has it
        """Return a bar that does nothing."""
        return OffProgress()

    def finish(self, state: Any = None) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""
