"""What a relay may say (decisions/033): origins belong to the relay that ships them, runs to the one that began them.

Relays of one holder may add to each other's runs, as the ranks of one job on several machines do. Nobody else may, and
nobody but the owner of this home removes something for good. What is not allowed is left out, counted, and named.
"""

import collections
import time
from collections.abc import Callable, Iterable

import msgspec

from vedette.ids import is_host, run_of
from vedette.model import PURGED, Fact, Origin, Span
from vedette.store import UNKNOWN_RELAY, Batch, Block, Columns, RelayRow, SpanQuery, Store
from vedette.tokens import OWNER

_HERE = ""  # in place of a relay: this hub reads it itself
_MOST_CACHED = 100_000
_SILENCE_NS = 60 * 10**9  # a host belongs to the relay that tells of it, until that one has been silent for so long


class Trust:
    """Knows whose is what, and keeps it in the store. It is used in the keeper's thread."""

    def __init__(self, store: Store, read_here: Callable[[], Iterable[Origin]]) -> None:
        """`read_here` returns the origins whose spools this hub reads now."""
        self.trouble: Callable[[str], None] = lambda _text: None  # called with a sentence for `vedette doctor`
        self._store = store
        self._read_here = read_here
        self._relays = {relay.id: relay for relay in store.relays()}
        self._shippers: dict[str, str] = {}
        self._beginners: dict[str, str] = {}
        self._counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)

    # Who relays.

    def connected(self, relay: str, holder: str, host: str) -> None:
        """Note that a relay has come, and whose token it has sent."""
        now_t = time.time_ns()
        seen = self._relays[relay] = RelayRow(relay, holder, host, now_t, now_t)
        self._store.note_relay(seen)

    def heard(self, relay: str) -> None:
        """Note that a relay lives, and how much it has shipped."""
        if (seen := self._relays.get(relay)) is not None:
            counts = self._counts.pop(relay, collections.Counter())
            seen = self._relays[relay] = msgspec.structs.replace(seen, heard_t=time.time_ns())
            self._store.note_relay(msgspec.structs.replace(seen, **counts))

    def save(self) -> None:
        """Note how much has come from all relays."""
        for relay in list(self._counts):
            self.heard(relay)
        self._counts.clear()  # of relays that are not known: of an inbox from before they had a key

    def name_of(self, relay: str) -> str:
        """Return a relay as people are told of it."""
        seen = self._relays.get(relay)
        if seen is None:
            return f"relay {relay[:8]}"
        return f"relay {relay[:8]} on {seen.host}" + (f" of {seen.holder}" if seen.holder else "")

    # Origins.

    def relay_of(self, origin: str) -> str | None:
        """Return the relay that an origin comes from; "" for one that is read here, None if nobody has shipped it."""
        known = self._shippers.get(origin)
        if known is None and (known := self._store.shippers([origin]).get(origin)) is not None:
            _remember(self._shippers, origin, known)
        if known in (None, UNKNOWN_RELAY) and self._is_read_here(origin):
            return _HERE
        if known is None and self._store.origin(origin) is not None:
            return _HERE
        return known

    def of_relay(self, origins: Iterable[str], relay: str) -> set[str]:
        """Return those of these origins that come from a relay."""
        origins = list(origins)
        unknown = [name for name in origins if name not in self._shippers]
        for name, known in self._store.shippers(unknown).items() if unknown else ():
            _remember(self._shippers, name, known)
        return {name for name in origins if self._shippers.get(name) == relay}

    def may_ship(self, origin: str, relay: str) -> bool:
        """Tell whether a relay may go on with an origin, or begin it."""
        return self.relay_of(origin) in (None, UNKNOWN_RELAY, relay)

    def introduced(self, origins: Iterable[str], relay: str) -> None:
        """Note that origins belong to a relay, if it was not known whose they are."""
        unknown = [name for name in origins if self.relay_of(name) == UNKNOWN_RELAY]
        if unknown:
            self._bind(relay, unknown, [])

    def _is_read_here(self, origin: str) -> bool:
        return any(one.name == origin for one in self._read_here())

    # Runs.

    def holder_of(self, run: str) -> str:
        """Return whose a run is: the holder of the relay that has begun it; "" is the owner of this home."""
        relay = self._beginner(run)
        return OWNER if relay is None else self._holder(relay)  # _HERE is no relay, so it is the owner's

    def _may_speak(self, span: str, relay: str, *, claims: bool = True) -> bool:
        """Tell whether a relay may say something of a span. `claims`: a run that nobody knows is its own now."""
        top = run_of(span)
        if (known := self._beginner(top)) is None:
            if claims:
                self._bind(relay, [], [top])
            return True
        if known == relay or self._holder(known) == self._holder(relay):
            return True
        if claims and is_host(top) and known != _HERE and self._is_silent(known):
            self._store.bind(relay, [], [top], anew=True)
            _remember(self._beginners, top, relay)
            return True
        return False

    def _is_silent(self, relay: str) -> bool:
        seen = self._relays.get(relay)
        return seen is None or time.time_ns() - seen.heard_t > _SILENCE_NS

    def _beginner(self, top: str) -> str | None:
        """Return the relay that has begun a run or a host; "" if it was begun here, None if nobody knows it yet."""
        known = self._beginners.get(top)
        if known is None:
            known = self._store.beginner(top)
            if known is None and self._is_known_here(top):
                known = _HERE
            if known is not None:
                _remember(self._beginners, top, known)
        return known

    def _is_known_here(self, top: str) -> bool:
        if any(top in (run_of(origin.span), run_of(origin.process)) for origin in self._read_here()):
            return True
        return bool(self._store.spans(SpanQuery(ids=(top,))))

    def _holder(self, relay: str) -> str:
        seen = self._relays.get(relay)
        return OWNER if seen is None else seen.holder

    def _bind(self, relay: str, origins: list[str], spans: list[str]) -> None:
        self._store.bind(relay, origins, spans)
        for name in origins:
            _remember(self._shippers, name, relay)
        for span in spans:
            _remember(self._beginners, span, relay)

    # What comes.

    def why_not(self, origin: Origin, relay: str) -> str:
        """Return why an origin is not accepted from a relay; empty if it is, and is the relay's from now on."""
        if not self.may_ship(origin.name, relay):
            return self._refuse(
                relay, f"{origin.name} is not its own: another relay ships it, or it is of this machine"
            )
        for span in (origin.span, origin.process):
            if span and not self._may_speak(span, relay):
                return self._refuse(relay, f"{origin.name} speaks of {run_of(span)}, which belongs to somebody else")
        if self.relay_of(origin.name) != relay:
            self._bind(relay, [origin.name], [])
        return ""

    def _refuse(self, relay: str, why: str) -> str:
        self._counts[relay]["refused"] += 1
        self.trouble(f"{self.name_of(relay)} was refused: {why}")
        return why

    def screen(self, batch: Batch, relay: str) -> int:
        """Leave out of a batch what the relay may not say; return how many records that were."""
        strays: collections.Counter[str] = collections.Counter()  # runs and hosts of others, and records about them
        facts = [(n, kept) for n, fact in batch.facts if (kept := self._screened(fact, relay, strays)) is not None]
        columns: list[Columns | Block] = []
        for each in batch.columns:
            if self._may_speak(each.span, relay):
                columns.append(each)
            else:
                strays[run_of(each.span)] += _points(each)
        for host in [span for span in strays if is_host(span)]:
            del strays[host]  # two people relay from one machine, and one tells of it: that is no offence
        if strays:
            self.trouble(f"{self.name_of(relay)} was refused: {', '.join(sorted(strays)[:3])} is not its own")
        self._counts[relay].update(facts=len(facts), points=sum(map(_points, columns)), refused=strays.total())
        batch.facts, batch.columns = facts, columns
        return strays.total()

    def _screened(self, fact: Fact, relay: str, strays: collections.Counter[str]) -> Fact | None:
        about, parent = (fact.id, fact.parent) if isinstance(fact, Span) else (fact.span, "")
        purges = isinstance(fact, Span) and fact.state == PURGED
        if purges or not self._may_speak(about, relay):
            strays[run_of(about)] += 1
            return None
        if parent and not self._may_speak(parent, relay, claims=False):
            strays[run_of(parent)] += 1
            return None
        if not isinstance(fact, Span) or all(self.may_ship(place.origin, relay) for place in fact.after):
            return fact
        after = tuple(place for place in fact.after if self.may_ship(place.origin, relay))
        return msgspec.structs.replace(fact, after=after)


def _points(columns: Columns | Block) -> int:
    return len(columns.n) * len(columns.names)


def _remember(cache: dict[str, str], key: str, value: str) -> None:
    if len(cache) >= _MOST_CACHED:
        cache.clear()
    cache[key] = value
