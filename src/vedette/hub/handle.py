"""The hub as its sockets see it: what `Server` and `Downstreams` may ask of it."""

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

from vedette import wire
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.takein import TakeIn

T = TypeVar("T")


class HubHandle(Protocol):
    """What the sockets need. All of it is called in the event loop; `Service` is the implementation."""

    keeper: Keeper

    async def seal(self, run: str, within_s: float = math.inf) -> bool:
        """Have all that a run has logged put into the store; tell whether that was done in time.

        Raise HubError if it failed. For NO_RUN all spools are looked at, and what the hub itself has said is committed.
        """

    async def in_keeper(self, act: Callable[[Keeper], T], relay: str = "") -> T:
        """Do something in the keeper's thread, between two turns. `relay`: who asks for it, if it is one."""

    def take_in(self, path: str, tell: Callable[[], object]) -> TakeIn:
        """Have a path taken in; `tell` is called, in the loop, when that is over."""

    def purged(self) -> None:
        """Note that a span was purged, and its data is to be deleted."""

    def leave(self) -> None:
        """End soon, when all that was said is stored."""

    def health(self) -> wire.Health:
        """Return how the hub is."""
