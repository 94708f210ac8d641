"""How batches are committed: in the store here, all in one transaction, or by the hub that they are meant for."""

from collections.abc import Callable

from vedette import wire
from vedette.errors import StoreError
from vedette.hub.peers.inbox_reader import InboxReader
from vedette.hub.peers.remote_origin import RemoteOrigin
from vedette.hub.peers.upstreams import OriginReader, Upstreams
from vedette.hub.turn.blob_collector import BlobCollector
from vedette.hub.turn.masking import Masking
from vedette.hub.turn.rank_tries import RankTries
from vedette.model import LANE_SAMPLES, Event, Fact, Span
from vedette.store import Batch, Store

_SHORT_CHUNKS = 64  # seals of one origin, after which the store joins its short chunks

Batches = list[tuple[OriginReader, Batch]]


class Commits:
    """Commits what readers hand over, and tells them."""

    def __init__(
        self,
        store: Store,
        upstreams: Upstreams,
        inboxes: InboxReader,
        blob_collector: BlobCollector,
        rank_tries: RankTries,
        mask: Masking,
        tidy: Callable[[str], None],
    ) -> None:
        """`mask` masks secrets in facts; `tidy` has the short chunks of an origin merged."""
        self._store = store
        self._upstreams = upstreams
        self._inboxes = inboxes
        self._blob_collector = blob_collector
        self._rank_tries = rank_tries
        self._mask = mask
        self._tidy = tidy
        self._seals: dict[str, int] = {}

    def commit(self, batches: Batches, now: float, change: wire.Change) -> dict[str, str]:
        """Commit batches, and add them to `change`; return the spools that the store cannot take, and why.

        Raise StoreError or OSError when the store fails as a whole: nothing of it is committed then.
        """
        for _, batch in batches:
            batch.facts = [(n, masked) for n, fact in batch.facts if (masked := self._masked(fact, batch)) is not None]
        for upstream in {reader.upstream for reader, _ in batches} - {""}:
            group = [(reader, batch) for reader, batch in batches if reader.upstream == upstream]
            self._upstreams.ship(upstream, group)
            for reader, batch in group:
                reader.sent(batch, now)
                _note(change, batch)
        kept, refused = self._keep([item for item in batches if not item[0].upstream])
        for reader, batch in kept:
            reader.sent(batch, now)
            reader.committed(batch)
            self._blob_collector.note(batch.facts)
            self._rank_tries.note(fact for _, fact in batch.facts)
            _note(change, batch)
        for reader, batch in kept:
            if batch.lane == LANE_SAMPLES:
                self._seals[reader.name] = self._seals.get(reader.name, 0) + 1
                if self._seals[reader.name] % _SHORT_CHUNKS == 0:
                    self._tidy(reader.name)
        return refused

    def _masked(self, fact: Fact, batch: Batch) -> Fact | None:
        """Mask a fact; None if that fails: it is counted, and holds up nobody."""
        try:
            return self._mask(fact)
        except Exception as error:
            batch.refused += 1
            self._inboxes.trouble = f"{batch.origin.name}: a record cannot be masked: {error}"[:500]
            return None

    def _keep(self, batches: Batches) -> tuple[Batches, dict[str, str]]:
        """Keep batches in the store, all in one transaction; return those that were kept, and the readers refused.

        One bad batch must not hold up the others: when the transaction fails, each is tried alone.
        """
        if not batches:
            return [], {}
        try:
            self._store.keep([batch for _, batch in batches])
        except (StoreError, OSError):
            raise  # disk or lock: to be tried again
        except Exception as error:
            if len(batches) > 1:
                tried = [self._keep([item]) for item in batches]
                refused = {name: why for _, one in tried for name, why in one.items()}
                return [item for kept, _ in tried for item in kept], refused
            reader, batch = batches[0]
            why = f"it cannot be kept: {type(error).__name__}: {error}"
            if not isinstance(reader, RemoteOrigin):
                return [], {reader.name: why}
            # Nobody could look into an inbox that is set aside: this batch is counted as damaged, and passed over.
            self._inboxes.trouble = f"{reader.name}: {why}"[:500]
            self._store.keep([Batch(batch.origin, batch.lane, batch.end, batch.damaged + 1, batch.refused)])
        return batches, {}

    def forget(self, name: str) -> None:
        """Forget an origin."""
        self._seals.pop(name, None)


def _note(change: wire.Change, batch: Batch) -> None:
    for _, fact in batch.facts:
        if isinstance(fact, Span):
            change.spans.append(fact.id)
        elif isinstance(fact, Event):
            change.events.append(fact.span)
    change.points.extend(columns.span for columns in batch.columns)
