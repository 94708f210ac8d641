"""A connection to the file of a store. What goes wrong with the file is one of our errors, and a sentence.

Here alone SQLite's errors become ours, for readers and for the writer. Those that are about a query or a value, and not
about the file, stay as they are.
"""

import functools
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

from vedette.errors import DamagedError, LockedError, StoreError, VedetteError, WhereError

_ROWS = 16  # rows that are fetched at once: a row may hold a chunk
_DOCTOR = "`vedette doctor` says what to do"
_DAMAGED = "the store is damaged ({}): `vedette doctor` says how to save what can be saved"
_CLOSED = "the store cannot be opened ({}): " + _DOCTOR
_LOCKED = "the store is locked by another program ({}): end that one, or try again"

# What a filter may exceed, in words of SQLite. Where each of them is depends on how it was built.
_LIMITS = ("parser stack overflow", "Expression tree is too large", "too many SQL variables")

P = ParamSpec("P")
T = TypeVar("T")

# By how the name of SQLite's error begins.
_MEANINGS: dict[str, tuple[type[StoreError], str]] = {
    "SQLITE_CORRUPT": (DamagedError, _DAMAGED),
    "SQLITE_NOTADB": (DamagedError, _DAMAGED),
    "SQLITE_BUSY": (LockedError, _LOCKED),
    "SQLITE_LOCKED": (LockedError, _LOCKED),
    "SQLITE_PROTOCOL": (LockedError, _LOCKED),
    "SQLITE_FULL": (StoreError, "the store cannot be written to: its disk is full ({})"),
    "SQLITE_READONLY_DBMOVED": (StoreError, "the store cannot be written to: its file was moved away ({})"),
    "SQLITE_READONLY": (StoreError, "the store cannot be written to ({}): " + _DOCTOR),
    "SQLITE_CANTOPEN": (StoreError, _CLOSED),
    "SQLITE_PERM": (StoreError, _CLOSED),
    "SQLITE_IOERR": (StoreError, "the disk of the store fails ({}): see what the kernel says of it"),
    "SQLITE_INTERRUPT": (StoreError, "reading the store was interrupted ({})"),
}


def explained(error: sqlite3.Error) -> VedetteError | None:
    """Return what an error of SQLite means for the store, or for a filter; None if it is about a query or a value."""
    name = getattr(error, "sqlite_errorname", "")
    for begin, (kind, sentence) in _MEANINGS.items():
        if name.startswith(begin):
            return kind(sentence.format(error))
    if "malformed JSON" in str(error) or (not name and "UTF-8" in str(error)):  # the latter is an error of Python's
        return DamagedError(damaged("it has text that is not UTF-8, or not JSON"))
    if any(limit in str(error) for limit in _LIMITS):
        return WhereError(f"the filter is too much for SQLite ({error}): write it flatter, or ask in several parts")
    if isinstance(error, sqlite3.OperationalError):
        return StoreError(f"the store cannot be used ({error}): {_DOCTOR}")
    return None


def damaged(how: str) -> str:
    """Return the sentence for a store with bytes that no store has."""
    return _DAMAGED.format(how)


def unopened(error: OSError) -> StoreError:
    """Return what it means for the store that its file cannot be opened."""
    return StoreError(_CLOSED.format(os.strerror(error.errno or 0).lower() if error.errno else error))


def _ours(call: Callable[P, T]) -> Callable[P, T]:
    """Have a function of SQLite raise our errors."""

    @functools.wraps(call)
    def calling(*args: P.args, **named: P.kwargs) -> T:
        try:
            return call(*args, **named)
        except sqlite3.Error as error:
            if (ours := explained(error)) is None:
                raise
            raise ours from error

    return calling


class Cursor(sqlite3.Cursor):
    """Hands out the rows of a query."""

    execute = _ours(sqlite3.Cursor.execute)
    executemany = _ours(sqlite3.Cursor.executemany)
    executescript = _ours(sqlite3.Cursor.executescript)
    fetchone = _ours(sqlite3.Cursor.fetchone)
    fetchmany = _ours(sqlite3.Cursor.fetchmany)
    fetchall = _ours(sqlite3.Cursor.fetchall)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # to ask for each row would take longer
        """Yield the rows that are left."""
        while rows := self.fetchmany(_ROWS):
            yield from rows


class Connection(sqlite3.Connection):
    """A connection to a store."""

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        """Run a statement."""
        return self.cursor(Cursor).execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor:
        """Run a statement for each row."""
        return self.cursor(Cursor).executemany(sql, parameters)

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        """Run several statements."""
        return self.cursor(Cursor).executescript(sql_script)

    backup = _ours(sqlite3.Connection.backup)


@_ours
def connect(database: str, **how: Any) -> Connection:
    """Open a file, as sqlite3.connect does."""
    return sqlite3.connect(database, factory=Connection, **how)
