"""Another store, as it is taken in: what is read from it is checked, since it may come from anybody."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from vedette import wire
from vedette.errors import DamagedError, FormatError
from vedette.ids import above
from vedette.model import Fact, shallow
from vedette.store import Taken
from vedette.store.sqlite_connection import explained

Name = Annotated[str, Meta(min_length=1, max_length=512)]
Text = Annotated[str, Meta(max_length=wire.MAX_PAYLOAD)]
Place = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class ForeignStore:
    """Reads another store in one snapshot, and counts what was new in it."""

    def __init__(
        self, connection: sqlite3.Connection, mask: Callable[[Fact], Fact] | None = None, *, lenient: bool
    ) -> None:
        """Take facts as `mask` returns them.

        `lenient`: rows that are malformed are passed over, and counted; else they raise FormatError.
        """
        self.mask = mask or (lambda fact: fact)
        self.lenient = lenient
        self.taken = Taken(touched=set(), left_out=Counter(), to_come=Counter())
        self.purged: set[str] = set()  # spans of which nothing is taken in
        self._connection = connection

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read all of it as it is at one moment."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.rollback()

    def read(self, query: str, *bound: Any) -> Iterator[tuple[Any, ...]]:
        """Yield rows; raise DamagedError when a page cannot be read, FormatError when something else is wrong."""
        try:
            for row in self._connection.execute(query, bound):  # noqa: UP028 - `yield from` would close a cursor that is gone
                yield row
        except sqlite3.Error as error:
            kind = DamagedError if isinstance(explained(error), DamagedError) else FormatError
            raise kind(f"what is taken in cannot be read: {error}") from None

    @contextmanager
    def over(self, table: str) -> Iterator[None]:
        """Pass over a row of a table that is malformed, if this is lenient."""
        try:
            yield
        except FormatError:
            if not self.lenient:
                raise
            self.taken.left_out[table] += 1

    def is_purged(self, span: str) -> bool:
        """Tell whether a span, or one above it, was purged: later records of it are not kept."""
        return bool(self.purged) and not self.purged.isdisjoint(above(span))


def checked(row: Any, form: Any) -> Any:
    """Return a row; raise FormatError unless its values have these types."""
    try:
        return msgspec.convert(row, form)
    except msgspec.ValidationError as error:
        raise FormatError(f"what is taken in has an invalid row: {error}") from None


def as_object(text: str) -> dict[str, Any]:
    """Return the attributes in a text; raise FormatError when it has none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"what is taken in has attributes that are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FormatError("what is taken in has attributes that are not an object")
    return shallow(value)
