"""The process of one listener: it opens its port, reports to the hub, answers clients, and ends with the hub.

It reports its state to the hub by a pipe (`Report`) whenever it changes. It begins to answer when the hub says `Begin`:
then the hub has read all that an earlier process of this listener wrote, and its open runs are in the store.
"""

import asyncio
import contextlib
import errno
import os
import sys
import time
from typing import Any

import msgspec

from vedette import host_port, listeners
from vedette.errors import SettingError
from vedette.home import Home
from vedette.hub.helper_process import Inlet
from vedette.hub.listeners import Begin, Report
from vedette.listeners import Listener
from vedette.listeners.intake import Intake

_RETRY_S = 5.0  # the pause between two tries to take the port
_PORT_BUSY_S = 1.0  # an earlier process of this listener may be about to close the port
_PAUSE_S = 0.05
_REPORT_S = 0.25
_ALIVE_S = 2.0  # the hub hears from a listener at least this often
_MAX_CHARS = 1000


class Program:
    """Runs one listener until the hub is gone."""

    def __init__(self, home: Home, name: str, address: str, *, from_hub: int = 0, to_hub: int = 1) -> None:
        """`from_hub` and `to_hub` are descriptors of the pipes."""
        self._home = home
        self._name = name
        self._address = address
        self._inlet = Inlet(msgspec.json.Decoder(Begin).decode, from_hub)
        self._to_hub = to_hub
        os.set_blocking(to_hub, False)
        self._intake = Intake(home)
        self._where = self._trouble = ""
        self._reported: Report | None = None
        self._reported_at = 0.0
        self._begin = asyncio.Event()
        self._leave = asyncio.Event()

    async def run(self) -> None:
        """Serve until the hub is gone."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._inlet.fd, self._receive)
        work = [asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._keep_reporting())]
        leaving = asyncio.ensure_future(self._leave.wait())
        try:
            await asyncio.wait([*work, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(self._inlet.fd)
            for task in (*work, leaving):
                task.cancel()
            ends = await asyncio.gather(*work, return_exceptions=True)
            self._intake.close()
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _receive(self) -> None:
        messages = self._inlet.read()
        if messages is None:
            self._leave.set()
        elif messages:
            self._begin.set()

    async def _listen(self) -> None:
        listener = await self._open()
        self._report()
        serving: asyncio.Future[Any] | None = None
        try:
            await self._begin.wait()
            serving = asyncio.ensure_future(listener.serve())
            await asyncio.shield(serving)
            raise RuntimeError("the listener stopped by itself")
        finally:
            self._intake.close()  # accept nothing more, before another process can take the port
            await listener.close()
            if serving is not None and not serving.done():
                serving.cancel()

    async def _open(self) -> Listener:
        """Open the port; while that fails, report why, and try again."""
        try:
            module, config = listeners.parse(self._name, self._address)
        except SettingError as error:
            self._trouble = str(error)
            self._report()
            await asyncio.Event().wait()  # it cannot work until the setting is changed
            raise
        busy_until = time.monotonic() + _PORT_BUSY_S
        while True:
            try:
                listener: Listener = module.open(config, self._intake)
            except OSError as error:
                if error.errno == errno.EADDRINUSE and time.monotonic() < busy_until:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                self._trouble = host_port.cannot_listen(self._address, error)
                self._report()
                await asyncio.sleep(_RETRY_S)
            else:
                self._where, self._trouble = listener.where, ""
                return listener

    async def _keep_reporting(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            self._report()

    def _report(self) -> None:
        """Report to the hub if something changed, or if it was long ago; if the pipe is full, try again later."""
        report = Report(self._where, self._trouble[:_MAX_CHARS], dict(self._intake.refused))
        if report == self._reported and time.monotonic() - self._reported_at < _ALIVE_S:
            return
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._to_hub, msgspec.json.encode(report) + b"\n")  # short: written whole or not at all
            self._reported, self._reported_at = report, time.monotonic()


def main(words: list[str]) -> int:
    """Run a listener: HOME NAME ADDRESS; or check settings: `check`, then pairs of NAME ADDRESS."""
    if words[0] == "check":
        try:
            listeners.check(zip(words[1::2], words[2::2], strict=True))
        except SettingError as error:
            sys.stdout.write(f"{error}\n")
            return 2
        return 0
    os.umask(0o077)
    home, name, address = words
    to_hub = os.dup(1)
    os.dup2(2, 1)  # stdout carries reports: send what a library prints to stderr
    asyncio.run(Program(Home(home, foreign=True), name, address, to_hub=to_hub).run())
    return 0
