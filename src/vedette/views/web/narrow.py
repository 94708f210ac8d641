"""What somebody with a link sees of a home: its routes get these instead of the whole state (`routes.Shares`).

Each part has what routes need of it, and no more; what is not named here is refused by Python itself. `narrow_reader`
is the store.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, BinaryIO, TypeVar, cast

from vedette import manifest
from vedette.access.home_access import HomeAccess
from vedette.errors import NotFoundError
from vedette.ids import run_of
from vedette.query.finding import Family
from vedette.query.listing import Listed, Listing
from vedette.query.where import check_length
from vedette.store import Reader, SpanQuery
from vedette.tokens import OWNER
from vedette.views.web.links import Link
from vedette.views.web.manifests import Manifests
from vedette.views.web.narrow_reader import NarrowReader
from vedette.views.web.state import AppState
from vedette.wire import Newest

Answer = TypeVar("Answer")


def runs_of(store: Reader, listing: Listing, links: Iterable[Link]) -> frozenset[str]:
    """Return the runs that links show now; runs that were removed are not among them."""
    found: set[str] = set()
    for link in links:
        scope = link.scope
        if scope.runs is not None:
            family = Family(store)
            rows = store.spans(SpanQuery(kind="run", ids=scope.runs, only=("removed",)))
            found |= {row.id for row in rows if not family.hides(row)}
        else:
            found |= set(listing.matching(store, scope.where, scope.project, scope.zone))
    return frozenset(found)


class Sight:
    """What some links show; `look` and `ask` give it to a function of a route."""

    def __init__(self, state: AppState, links: tuple[Link, ...], *, hosts: bool = False) -> None:
        """`hosts`: a route's question is about the machines of its run, too."""
        self._state = state
        self._links = links
        self._hosts = hosts

    async def runs(self) -> frozenset[str]:
        """Return the runs that may be seen now."""
        try:
            return await self._state.link_pool.ask(lambda store: runs_of(store, self._state.link_listing, self._links))
        except NotFoundError:  # nothing was ever logged here
            return frozenset()

    async def ask(self, act: Callable[[AppState, Reader], Answer]) -> Answer:
        """Run a read of what may be seen in a thread."""

        def narrowed(store: Reader) -> Answer:
            reader = NarrowReader(store, runs_of(store, self._state.link_listing, self._links), hosts=self._hosts)
            return act(cast("AppState", NarrowState(self._state, self, self._links, reader)), cast("Reader", reader))

        return await self._state.link_pool.ask(narrowed)

    def state(self) -> AppState:
        """Return the state for a route that reads nothing itself."""
        return cast("AppState", NarrowState(self._state, self, self._links, None))


class NarrowState:
    """The state of the server, for routes."""

    read_only = True
    project = ""

    def __init__(self, whole: AppState, sight: Sight, links: tuple[Link, ...], reader: NarrowReader | None) -> None:
        self.home = _Home(whole.home, whole.manifests, reader)
        self.pool = _Pool(whole, sight)
        self.listing = _Listing(whole.link_listing, "~".join(link.token for link in links), reader)
        self.curves, self.means, self.cache = whole.curves, whole.means, whole.cache
        self.described = whole.described


class _Pool:
    """Threads that read what may be seen."""

    def __init__(self, whole: AppState, sight: Sight) -> None:
        self._sight = sight
        self.call = whole.link_pool.call

    async def ask(self, act: Callable[[Reader], Answer]) -> Answer:
        return await self._sight.ask(lambda _, store: act(store))


class _Home:
    """A home of which only those blobs can be read that the runs name, themselves or in the manifest of their code.

    Anybody can name any digest. So a run of somebody else than the owner shows only the bytes that its holder has sent.
    """

    root = ""

    def __init__(self, whole: HomeAccess, manifests: Manifests, reader: NarrowReader | None) -> None:
        self._whole = whole
        self._manifests = manifests
        self._reader = reader
        self._named: dict[str, set[str]] | None = None  # by digest: whose runs name it
        self._listed: dict[tuple[str, str], None] = {}  # manifests that were not read yet, and whose run each is of
        self.has_hub = whole.has_hub
        self.lost_after_s = whole.lost_after_s

    def open_blob(self, digest: str) -> BinaryIO:
        if not self._names(digest):
            raise NotFoundError("no file that was shared has this digest")
        return self._whole.open_blob(digest)

    def read_blob(self, digest: str) -> bytes | None:
        return self._whole.read_blob(digest) if self._names(digest) else None

    def _names(self, digest: str) -> bool:
        if self._reader is None:
            return False
        if self._named is None:
            self._named = defaultdict(set)
            others = self._reader.holders()
            for row in self._reader.blobs():
                holder = others.get(run_of(row.span), OWNER)
                self._named[row.digest].add(holder)
                if row.name == manifest.NAME:
                    self._listed[row.digest, holder] = None
        while not (shown := self._shows(digest, self._named.get(digest, ()))) and self._listed:
            (listing, holder), _ = self._listed.popitem()
            if self._shows(listing, (holder,)):
                for listed in self._manifests.digests(self._whole, listing):
                    self._named[listed].add(holder)
        return shown

    def _shows(self, digest: str, holders: Collection[str]) -> bool:
        """Tell whether one of these holders, whose runs name a blob, has sent its bytes; the owner's are all here."""
        assert self._reader is not None
        return OWNER in holders or any(self._reader.delivered([digest], holder) for holder in holders)


class _Listing:
    """The list of the runs that may be seen. Its cursor is always empty: one would tell how much happens elsewhere."""

    def __init__(self, whole: Listing, among: str, reader: NarrowReader | None) -> None:
        self._whole = whole
        self._among = among
        self._runs = reader.runs if reader is not None else frozenset()
        self.look_at = whole.look_at  # of the reader that a route gives it

    @property
    def fresh(self) -> list[Newest]:
        return [point for point in self._whole.fresh if run_of(point.span) in self._runs]

    def cursor(self) -> str:
        return ""

    def changed(self, cursor: str) -> None:  # noqa: ARG002 - as `Listing` has it
        return None

    def page(self, store: Reader, where: str, *args: Any, **kwargs: Any) -> Listed:
        check_length(where, by_link=True)
        return self._whole.page(store, where, *args, **kwargs, among=self._among)

    def columns(self, store: Reader, project: str = "") -> list[tuple[str, int]]:
        return self._whole.columns(store, project, self._among)
