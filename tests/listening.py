"""A listener without a hub: its process as a thread, and a test at the other end of its pipes."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from vedette.home import Home
from vedette.hub.listeners import Begin, Report
from vedette.listeners.program import Program
from vedette.store.sqlite import SqliteStore


class Hub:
    """The hub's ends of the pipes."""

    def __init__(self, to_listener: BinaryIO, from_listener: BinaryIO) -> None:
        self._to_listener = to_listener
        self._from_listener = from_listener
        self.report = Report()

    def begin(self) -> None:
        """Have it answer its clients."""
        self._to_listener.write(msgspec.json.encode(Begin()) + b"\n")

    def hear(self) -> Report:
        """Wait for the next report."""
        self.report = msgspec.json.decode(self._from_listener.readline(), type=Report)
        return self.report

    @property
    def port(self) -> int:
        return int(self.report.where.rpartition(":")[2])

    def leave(self) -> None:
        """Be gone."""
        self._to_listener.close()


@contextlib.contextmanager
def started(home: Home, name: str, address: str = ":0") -> Iterator[Hub]:
    """Run a listener of a home that no hub keeps, until the end of the block."""
    home.prepare()
    SqliteStore(home.store).close()
    from_hub, to_listener = os.pipe()
    from_listener, to_hub = os.pipe()
    with (
        open(from_hub, "rb", 0), open(to_listener, "wb", 0) as tells,
        open(from_listener, "rb", 0) as hears, open(to_hub, "wb", 0),
    ):  # fmt: skip
        hub = Hub(tells, hears)
        program = Program(home, name, address, from_hub=from_hub, to_hub=to_hub)
        thread = threading.Thread(target=lambda: asyncio.run(program.run()))
        thread.start()
        try:
            yield hub
        finally:
            hub.leave()
            thread.join(60)
            assert not thread.is_alive()


@contextlib.contextmanager
def answering(home: Home, name: str) -> Iterator[int]:
    """Run a listener that answers; hand out its port."""
    with started(home, name) as hub:
        hub.hear()
        hub.begin()
        yield hub.port
