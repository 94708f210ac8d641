"""`run.config` and `run.summary`: dicts whose changes are also written to the run's record."""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any, Self

from vedette import masks
from vedette.client.faults import swallow
from vedette.client.journal import Journal
from vedette.client.values import plain
from vedette.interrupts import let_through


class Attrs(dict[str, Any]):
    """Holds the user's own values; each change is written as an attribute of the run under `prefix`."""

    _unread: frozenset[str] = frozenset()  # offered keys that the program has not read

    def __init__(self, journal: Journal | None, prefix: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._journal = journal
        self._prefix = prefix

    def offer(self, values: Mapping[str, Any]) -> None:
        """Let the program read these values; each is written to the record once it is read: only then it is used."""
        self._unread = self._unread.union(values)
        super().update(values)

    def _note(self, keys: Any) -> None:
        """Write offered values that the program reads now."""
        read = {key: dict.__getitem__(self, key) for key in keys if key in self._unread and key in self}
        self._unread = self._unread.difference(read)
        self._write(read)

    def __getitem__(self, key: str) -> Any:
        if key in self._unread:
            self._note([key])
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        return self[key] if key in self else default  # noqa: SIM401 - that is this method

    def pop(self, key: str, *default: Any) -> Any:
        """Take a key out of this dict, and return its value, or the default; what was written stays in the record."""
        self._note([key])
        return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        """Take out the last key, and return it with its value; what was written stays in the record."""
        self._note(list(self)[-1:])
        return super().popitem()

    def __iter__(self) -> Iterator[str]:  # with this, dict(config) and f(**config) read by __getitem__
        return super().__iter__()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Return all keys and values."""
        self._note(self._unread)
        return super().items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return all values."""
        self._note(self._unread)
        return super().values()

    def copy(self) -> dict[str, Any]:
        """Return a plain dict."""
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __setitem__(self, key: str, value: Any) -> None:
        self._unread = self._unread.difference([key])
        super().__setitem__(key, value)
        self._write({key: value})

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set many at once, in one record."""
        changes = dict(*args, **kwargs)
        self._unread = self._unread.difference(changes)
        super().update(changes)
        self._write(changes)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Set a key that is not there yet."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> Self:  # type: ignore[override]
        self.update(other)
        return self

    def _write(self, changes: Mapping[str, Any]) -> None:
        try:
            if self._journal is not None and changes:
                self._journal.set(self._journal.run, {self._prefix: masks.values(plain(changes))})
        except Exception as error:
            let_through(error)
            swallow(error, f"run.{self._prefix}")
