"""What the web server asks of a home; whoever starts the server hands it in."""

from collections.abc import Iterator
from typing import Protocol

from vedette.store import Reader
from vedette.wire import Change, Newest


class HomeAccess(Protocol):
    """A home, as the web server sees it. Each call may take its time; those that ask the hub may raise HubError."""

    home: str  # where it lies, as people know it
    lost_after_s: float

    def reader(self) -> Reader:
        """Open the store for one thread; raise NotFoundError when there is none yet."""

    def has_hub(self) -> bool:
        """Tell whether a hub lives."""

    def seal(self, run: str) -> None:
        """Have all that a run (or every run) has logged until now be in the store."""

    def newest(self, prefix: str) -> list[Newest]:
        """Return the points that wait in the hub, of spans whose ids begin so."""

    def follow(self) -> Iterator[Change]:
        """Yield what changes until the hub goes away."""

    def edit(self, spans: list[str], attrs: dict[str, object]) -> None:
        """Keep a user's word on runs."""

    def stop(self, run: str) -> None:
        """Have a run stopped."""

    def blob(self, digest: str) -> str | None:
        """Return where the bytes of a digest lie; None when they are not here."""
