"""The threads that read the store for routes, each with a reader of its own, so that the event loop never waits."""

import asyncio
import concurrent.futures
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from vedette.access.home_access import HomeAccess, nothing_yet
from vedette.errors import NotFoundError, StoreError
from vedette.query.unsealed import UnsealedPoints, with_unsealed
from vedette.store import Reader
from vedette.store.sqlite_read import SqliteReader

_MOST_WAITING = 256
_TIMEOUT_S = 30.0
_CACHE_KB = 500  # of pages, by each thread: SQLite's own 2000 make lists some 4 % quicker, and fill as the store grows

Answer = TypeVar("Answer")


class BusyError(Exception):
    """Too many reads are waiting already."""


class SlowError(Exception):
    """A read was interrupted: it took too long, or the server is closing."""


class ReadPool:
    """Runs reads, a few at a time, each with a timeout: a few endless ones would block all others."""

    def __init__(
        self, home: HomeAccess, timeout_s: float = _TIMEOUT_S, unsealed: UnsealedPoints | None = None, threads: int = 4
    ) -> None:
        """`unsealed`: points that are not in the store yet; they are read together with it."""
        self.home = home
        self._unsealed = unsealed or UnsealedPoints()
        self._timeout_s = timeout_s
        self._closed = False
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, "vedette-web")
        self._local = threading.local()
        self._waiting = 0

    async def ask(self, act: Callable[[Reader], Answer]) -> Answer:
        """Run a read in a thread; raise what it raises, or BusyError when too many wait."""
        return await self.call(lambda: self._read(act))

    async def call(self, act: Callable[[], Answer]) -> Answer:
        """Run something in a thread that may block, such as a request to the hub."""
        if self._waiting >= _MOST_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, act)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Accept no more reads, and interrupt those that run: the process ends when its threads have ended."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, act: Callable[[Reader], Answer]) -> Answer:
        self._local.until = time.monotonic() + self._timeout_s
        try:
            return self._look(act)
        except StoreError:
            if self._enough():
                raise SlowError from None
            # The store was replaced or migrated meanwhile: open it again.
            self._forget()
            return self._look(act)

    def _look(self, act: Callable[[Reader], Answer]) -> Answer:
        waiting = self._unsealed.now()  # before the store is read: what is sealed in between is then in the store
        reader = self._reader()
        if not waiting:
            return act(reader)
        reader.connection.execute("BEGIN")  # one snapshot for the whole read
        try:
            return act(with_unsealed(reader, self._unsealed, waiting))
        finally:
            with contextlib.suppress(sqlite3.Error, StoreError):
                reader.connection.rollback()

    def _reader(self) -> SqliteReader:
        reader: SqliteReader | None = getattr(self._local, "reader", None)
        if reader is not None and not self.home.is_current(reader):
            self._forget()
            reader = None
        if reader is None:
            reader = self._local.reader = self._open()
            reader.heed(self._enough)
        return reader

    def _enough(self) -> bool:
        return self._closed or time.monotonic() > self._local.until

    def _open(self) -> SqliteReader:
        try:
            reader = self.home.reader()
        except NotFoundError:
            raise NotFoundError(nothing_yet()) from None
        reader.connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        return reader

    def _forget(self) -> None:
        with contextlib.suppress(Exception):
            self._local.reader.close()
        self._local.reader = None
