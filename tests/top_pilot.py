"""`vedette top` in this very process, by its keys: how tests open the screen, press, and see what is on it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from vedette.access.home_access import HomeAccess
from vedette.settings import load
from vedette.views.top.app import Top
from vedette.views.top.feed import Options

Act = Callable[[Pilot[None]], Awaitable[None]]


def drive(act: Act, *, size: tuple[int, int] = (220, 30), interval_s: float = 0.3, **asked: Any) -> Top:
    """Open the screen, let it act, leave."""
    shown = Top(HomeAccess.of(load({})), options=Options(**asked), interval_s=interval_s)

    shown.animation_level = "none"  # else each key waits until the screen has stopped moving

    async def session() -> None:
        async with shown.run_test(size=size) as pilot:
            await until(pilot, lambda: shown.feed.looks > 1)
            await act(pilot)

    asyncio.run(session())
    return shown


async def until(pilot: Pilot[None], check: Callable[[], Any], seconds: float = 20) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, screen(pilot)
        await pilot.pause(0.05)


def screen(pilot: Pilot[None]) -> str:
    """Return what is on the screen, line by line."""
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


async def shows(pilot: Pilot[None], *texts: str) -> None:
    """Wait until all of these are on the screen."""
    await until(pilot, lambda: all(text in screen(pilot) for text in texts))
