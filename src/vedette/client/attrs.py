"""`run.config` and `run.summary`: dicts whose changes are also written to the run's record."""

from collections.abc import Mapping
from typing import Any, Self

from vedette import masks
from vedette.client.faults import swallow
from vedette.client.journal import Journal
from vedette.client.values import plain


class Attrs(dict[str, Any]):
    """Holds the user's own values; each change is written as an attribute of the run under `prefix`."""

    def __init__(self, journal: Journal | None, prefix: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._journal = journal
        self._prefix = prefix

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._write({key: value})

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set many at once, in one record."""
        changes = dict(*args, **kwargs)
        super().update(changes)
        self._write(changes)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Set a key that is not there yet."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc,override]
        self.update(other)
        return self

    def _write(self, changes: Mapping[str, Any]) -> None:
        try:
            if self._journal is not None and changes:
                self._journal.set(self._journal.run, {self._prefix: masks.values(plain(changes))})
        except Exception as error:
            swallow(error, f"run.{self._prefix}")
