"""The process of one listener: takes its port, tells the hub, waits for its word, answers clients, leaves with the hub.

It tells the hub by a pipe how it is (`Report`), whenever that changes. It begins to answer when the hub has read all
that an earlier process of this listener had kept (`Begin`), so that it finds its open runs in the store.
"""

import asyncio
import contextlib
import errno
import os
import sys
import time
from typing import Any

import msgspec

from vedette import listeners
from vedette.errors import SettingError
from vedette.home import Home
from vedette.hub.helper import Inlet
from vedette.hub.listeners import Begin, Report
from vedette.listeners import Listener
from vedette.listeners.intake import Intake

_AGAIN_S = 5.0  # between two tries to take the port
_PATIENCE_S = 1.0  # an earlier process of this listener may be about to let go of the port
_PAUSE_S = 0.05
_REPORT_S = 0.25
_MOST_CHARS = 1000


class Program:
    """One listener, from its start until the hub is gone."""

    def __init__(self, home: Home, name: str, address: str, *, ear: int = 0, mouth: int = 1) -> None:
        """`ear` and `mouth` are the pipes from and to the hub."""
        self._home = home
        self._name = name
        self._address = address
        self._inlet = Inlet(msgspec.json.Decoder(Begin).decode, ear)
        self._mouth = mouth
        os.set_blocking(mouth, False)
        self._intake = Intake(home)
        self._where = self._trouble = ""
        self._told: Report | None = None
        self._begin = asyncio.Event()
        self._leave = asyncio.Event()

    async def run(self) -> None:
        """Serve until the hub is gone."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._inlet.fd, self._hear)
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

    def _hear(self) -> None:
        messages = self._inlet.read()
        if messages is None:
            self._leave.set()
        elif messages:
            self._begin.set()

    async def _listen(self) -> None:
        listener = await self._opened()
        self._report()
        serving: asyncio.Future[Any] | None = None
        try:
            await self._begin.wait()
            serving = asyncio.ensure_future(listener.serve())
            await asyncio.shield(serving)
            raise RuntimeError("the listener stopped by itself")
        finally:
            self._intake.close()  # nothing is kept any more before others can take the port
            await listener.close()
            if serving is not None and not serving.done():
                serving.cancel()

    async def _opened(self) -> Listener:
        """Take the port; as long as that fails, say why, and try again."""
        try:
            module, config = listeners.parse(self._name, self._address)
        except SettingError as error:
            self._trouble = str(error)
            self._report()
            await asyncio.Event().wait()  # nothing but another setting helps
            raise
        patient_until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                listener: Listener = module.open(config, self._intake)
            except OSError as error:
                if error.errno == errno.EADDRINUSE and time.monotonic() < patient_until:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
                self._trouble = f"{self._address} cannot be listened on: {why}"
                self._report()
                await asyncio.sleep(_AGAIN_S)
            else:
                self._where, self._trouble = listener.where, ""
                return listener

    async def _keep_reporting(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            self._report()

    def _report(self) -> None:
        """Tell the hub how it is, if that is news; a hub that does not read now is told later."""
        report = Report(self._where, self._trouble[:_MOST_CHARS], dict(self._intake.refused))
        if report == self._told:
            return
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._mouth, msgspec.json.encode(report) + b"\n")  # short: whole or not at all
            self._told = report


def main(words: list[str]) -> int:
    """Be the listener that the hub asks for: HOME NAME ADDRESS; or check, in which NAME ADDRESS pairs follow."""
    if words[0] == "check":
        try:
            listeners.check(zip(words[1::2], words[2::2], strict=True))
        except SettingError as error:
            sys.stdout.write(f"{error}\n")
            return 2
        return 0
    os.umask(0o077)
    home, name, address = words
    mouth = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no report
    asyncio.run(Program(Home(home), name, address, mouth=mouth).run())
    return 0
