"""Where questions to the store are answered: a few threads, each with a reader of its own, never the event loop."""

import asyncio
import concurrent.futures
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from vedette.access.home_access import HomeAccess
from vedette.errors import NotFoundError
from vedette.query.unsealed import UnsealedPoints, with_unsealed
from vedette.store import Reader
from vedette.store.sqlite_read import SqliteReader

_THREADS = 4
_MOST_WAITING = 256
_PATIENCE_S = 30.0

Answer = TypeVar("Answer")


class BusyError(Exception):
    """So many questions wait that another would only wait longer."""


class SlowError(Exception):
    """A question was broken off: it took too long, or nobody waits for the answer any more."""


class ReadPool:
    """Answers questions, a few at a time, none for ever: a few that never end would keep all others waiting."""

    def __init__(
        self, home: HomeAccess, patience_s: float = _PATIENCE_S, unsealed: UnsealedPoints | None = None
    ) -> None:
        """`unsealed`: points that wait in the hub, to be read with those of the store."""
        self.home = home
        self._unsealed = unsealed or UnsealedPoints()
        self._patience_s = patience_s
        self._closed = False
        self._pool = concurrent.futures.ThreadPoolExecutor(_THREADS, "vedette-web")
        self._mine = threading.local()
        self._waiting = 0

    async def ask(self, act: Callable[[Reader], Answer]) -> Answer:
        """Have a question answered; raise what it raises, BusyError when too many wait."""
        return await self.call(lambda: self._read(act))

    async def call(self, act: Callable[[], Answer]) -> Answer:
        """Have something done that may take its time, such as asking the hub."""
        if self._waiting >= _MOST_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, act)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Take no more questions, and break off what is being read: the process ends when its threads have."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, act: Callable[[Reader], Answer]) -> Answer:
        self._mine.until = time.monotonic() + self._patience_s
        try:
            return self._look(act)
        except sqlite3.Error:
            if self._enough():
                raise SlowError from None
            # Replaced or brought up to date meanwhile: a fresh look sees it as it is now.
            self._forget()
            return self._look(act)

    def _look(self, act: Callable[[Reader], Answer]) -> Answer:
        waiting = self._unsealed.now()  # before the store is looked at: what is sealed meanwhile is then there
        reader = self._reader()
        if not waiting:
            return act(reader)
        reader.connection.execute("BEGIN")  # it stays as it is until the end
        try:
            return act(with_unsealed(reader, self._unsealed, waiting))
        finally:
            with contextlib.suppress(sqlite3.Error):
                reader.connection.rollback()

    def _reader(self) -> SqliteReader:
        reader: SqliteReader | None = getattr(self._mine, "reader", None)
        if reader is None:
            reader = self._mine.reader = self._open()
            reader.heed(self._enough)
        return reader

    def _enough(self) -> bool:
        return self._closed or time.monotonic() > self._mine.until

    def _open(self) -> SqliteReader:
        try:
            return self.home.reader()
        except NotFoundError:
            raise NotFoundError(
                "nothing has been logged to this home yet: `vedette run -- CMD` or vedette.init() begins a run"
            ) from None

    def _forget(self) -> None:
        with contextlib.suppress(Exception):
            self._mine.reader.close()
        self._mine.reader = None
