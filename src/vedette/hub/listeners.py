"""The listeners of a hub, each a helper process: started by name, told when to begin, and asked how they are.

The hub imports no listener, and does not read their addresses: what a client of another program sends never reaches
its process but through a spool.
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from msgspec import Struct

from vedette import detached
from vedette.errors import HubError, SettingError
from vedette.home import Home
from vedette.hub.helper_process import Helper
from vedette.hub.log import Log

_MODULE = "vedette.listeners"
_TEND_S = 0.25
_START_S = 0.02  # between two looks, while a user waits
_PATIENCE_S = 30.0  # of a user who waits for it to listen
_LEAVE_S = 4.0
_SILENT_S = 20.0  # a listener that has not reported for so long is hung


class Begin(Struct, frozen=True, tag="begin"):
    """From the hub: what an earlier process of this listener had kept is in the store now. Answer your clients."""


class Report(Struct, frozen=True):
    """To the hub: the whole state of a listener, when it changes, and every other second."""

    where: str = ""  # the address that clients send to, once it has the port
    trouble: str = ""  # why it has not, in a sentence
    refused: dict[str, int] = {}  # what this process has refused, by kind


_decode_report = msgspec.json.Decoder(Report).decode


def check(wanted: Mapping[str, str]) -> None:
    """Raise SettingError if a name or an address is wrong. Another process checks, as the hub imports no listener."""
    words = [word for pair in wanted.items() for word in pair]
    command = [sys.executable, "-P", "-m", _MODULE, "check", *words]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=detached.environment(), stdin=subprocess.DEVNULL
    )
    if done.returncode:
        said = (done.stdout.strip() or done.stderr.strip()).splitlines()
        raise SettingError(said[-1] if said else f"the listeners failed with exit code {done.returncode}")


class _Listener:
    """One of them, as it was last heard from."""

    def __init__(self, home: Home, name: str, address: str) -> None:
        self.name = name
        self.helper = Helper(f"listener {name}", _MODULE, (home.asked, name, address), reports=True)
        self.report = Report()
        self.begun: int | None = None  # the process that was told to begin
        self.refused_before: Counter[str] = Counter()  # by processes that are gone
        self.logged = ""  # the trouble that stands in the log
        self._pid: int | None = None
        self._heard = 0.0  # when it reported last

    def tend(self) -> None:
        """Start it when there is none, and read what it says."""
        self.helper.tend()
        if self.helper.pid not in (None, self._pid):
            self._pid, self._heard = self.helper.pid, time.monotonic()
            self.refused_before += Counter(self.report.refused)
            self.report = Report(trouble=self.report.trouble)
        for line in self.helper.read():
            self._heard = time.monotonic()
            with contextlib.suppress(msgspec.MsgspecError):
                self.report = _decode_report(line)
        if time.monotonic() - self._heard > _SILENT_S:
            self.helper.kill("did not report any more, and was killed")
            self._heard = time.monotonic()

    @property
    def trouble(self) -> str:
        return self.report.trouble or self.helper.trouble


class Listeners:
    """All listeners of a hub. Use it in the event loop."""

    def __init__(
        self, home: Home, wanted: Mapping[str, str], caught_up: Callable[[], Awaitable[None]], log: Log
    ) -> None:
        """Start nothing yet. `wanted`: addresses by name; `caught_up` returns when the store has all."""
        self._all = [_Listener(home, name, address) for name, address in wanted.items()]
        self._caught_up = caught_up
        self._log = log

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._all)

    @property
    def trouble(self) -> str:
        """What is wrong with one of them, in a sentence."""
        return next((one.trouble for one in self._all if one.trouble), "")

    @property
    def refused(self) -> Counter[str]:
        """What they have refused, by kind."""
        return sum((one.refused_before + Counter(one.report.refused) for one in self._all), Counter())

    async def open(self) -> list[tuple[str, str]]:
        """Start them for a user who waits; return names, and where clients send to. Raise HubError when one cannot."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            for one in self._all:
                one.tend()
            if self.trouble:
                raise HubError(self.trouble)
            if all(one.report.where for one in self._all):
                return [(one.name, one.report.where) for one in self._all]
            if time.monotonic() > deadline:
                raise HubError("a listener does not start")
            await asyncio.sleep(_START_S)

    async def tend(self) -> None:
        """Keep them going until the hub leaves."""
        while self._all:
            for one in self._all:
                one.tend()
                if one.trouble and one.trouble != one.logged:
                    self._log.complain(one.trouble)
                one.logged = one.trouble
                if one.report.where and one.helper.pid not in (None, one.begun):
                    one.begun = one.helper.pid
                    try:
                        await self._caught_up()
                    except HubError:
                        return
                    one.helper.tell(Begin())
            await asyncio.sleep(_TEND_S)

    def close(self) -> None:
        """End them; requests in progress are finished."""
        for one in self._all:
            one.helper.leave()
        for one in self._all:
            one.helper.close(_LEAVE_S)
