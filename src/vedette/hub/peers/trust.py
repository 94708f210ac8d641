"""What a relay may say (decisions/033): origins belong to the relay that ships them, runs to the one that began them.

Relays of one holder may add to each other's runs, as the ranks of one job on several machines do. Nobody else may, and
nobody but the owner of this home removes something for good. What is not allowed is left out, counted, and named.
"""

import collections
import time
from collections.abc import Callable, Container, Iterable

import msgspec

from vedette.ids import is_host, run_of
from vedette.model import PURGED, Fact, Origin, Span
from vedette.recent import Recent
from vedette.store import UNKNOWN_RELAY, Batch, Block, Columns, RelayRow, Store
from vedette.tokens import OWNER

_HERE = ""  # in place of a relay: this hub reads it itself
_MOST_CACHED = 20_000  # origins and runs of which it is remembered whose they are: some 250 bytes each
_MOST_PLACES = 4096  # that an end waits for; those behind them are not waited for
_TOP_KINDS = ("", "run", "host")  # of spans that have an id of their own, and not one below that of a run
_SILENCE_NS = 60 * 10**9  # a host belongs to the relay that tells of it, until that one has been silent for so long


class Trust:
    """Knows whose is what, and keeps it in the store. It is used in the keeper's thread."""

    def __init__(self, store: Store, read_here: Callable[[], Iterable[Origin]]) -> None:
        """`read_here` returns the origins whose spools this hub reads now."""
        self.trouble: Callable[[str], None] = lambda _text: None  # called with a sentence for `vedette doctor`
        self._store = store
        self._read_here = read_here
        self._relays = {relay.id: relay for relay in store.relays()}
        self._shippers: Recent[str, str] = Recent(_MOST_CACHED)
        self._beginners: Recent[str, str] = Recent(_MOST_CACHED)
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
        return self._relays_of([origin]).get(origin)

    def of_relay(self, origins: Iterable[str], relay: str) -> set[str]:
        """Return those of these origins that come from a relay."""
        return {name for name, known in self._relays_of(origins).items() if known == relay}

    def _relays_of(self, origins: Iterable[str]) -> dict[str, str]:
        """Return the relay of each of these origins that is known; "" for those that are read here."""
        origins = set(origins)
        found = {name: known for name in origins if (known := self._shippers.get(name)) is not None}
        if unknown := origins - found.keys():
            found |= self._shippers.learn(self._store.shippers(sorted(unknown)))
        unsure = {name for name in origins if found.get(name) in (None, UNKNOWN_RELAY)}
        return found | dict.fromkeys(unsure & {one.name for one in self._read_here()} if unsure else (), _HERE)

    def may_ship(self, origin: str, relay: str) -> bool:
        """Tell whether a relay may go on with an origin, or begin it."""
        return not self.others([origin], relay)

    def others(self, origins: Iterable[str], relay: str) -> set[str]:
        """Return those of these origins that a relay may not go on with: they are another's, or of this machine."""
        return {name for name, known in self._relays_of(origins).items() if known not in (UNKNOWN_RELAY, relay)}

    def introduced(self, origins: Iterable[str], relay: str) -> None:
        """Note that origins belong to a relay, if it was not known whose they are."""
        unknown = [name for name, known in self._relays_of(origins).items() if known == UNKNOWN_RELAY]
        if unknown:
            self._bind(relay, unknown, [])

    # Runs.

    def holder_of(self, run: str) -> str:
        """Return whose a run is: the holder of the relay that has begun it; "" is the owner of this home."""
        relay = self._beginner(run)
        return OWNER if relay is None else self.holder_of_relay(relay)  # _HERE is no relay, so it is the owner's

    def _may_speak(self, span: str, relay: str, known: dict[str, str], *, claims: bool = True) -> bool:
        """Tell whether a relay may say something of a span; `known`: who has begun it, from `_beginners_of`.

        `claims`: a run that nobody knows is its own now.
        """
        top = run_of(span)
        if (beginner := known.get(top)) is None:
            if claims and top:
                self._bind(relay, [], [top])
                known[top] = relay
            return True
        if beginner == relay or self.holder_of_relay(beginner) == self.holder_of_relay(relay):
            return True
        if claims and is_host(top) and beginner != _HERE and self._is_silent(beginner):
            self._store.bind(relay, [], [top], anew=True)
            self._beginners[top] = known[top] = relay
            return True
        return False

    def _is_silent(self, relay: str) -> bool:
        seen = self._relays.get(relay)
        return seen is None or time.time_ns() - seen.heard_t > _SILENCE_NS

    def _beginner(self, top: str) -> str | None:
        """Return the relay that has begun a run or a host; "" if it was begun here, None if nobody knows it yet."""
        return self._beginners_of([top]).get(top)

    def _beginners_of(self, tops: Iterable[str]) -> dict[str, str]:
        """Return who has begun each of these runs and hosts that is known; looked up all at once."""
        tops = set(tops)
        found = {top: relay for top in tops if (relay := self._beginners.get(top)) is not None}
        if unknown := tops - found.keys():
            known = self._store.beginners(sorted(unknown))
            for origin in self._read_here():
                for top in (run_of(origin.span), run_of(origin.process)):
                    if top in unknown:
                        known.setdefault(top, _HERE)
            found |= self._beginners.learn(known)
        return found

    def holder_of_relay(self, relay: str) -> str:
        """Return whose token a relay uses; that of the owner if nothing is known of it."""
        seen = self._relays.get(relay)
        return OWNER if seen is None else seen.holder

    def _bind(self, relay: str, origins: list[str], spans: list[str]) -> None:
        self._store.bind(relay, origins, spans)
        self._shippers.learn(dict.fromkeys(origins, relay))
        self._beginners.learn(dict.fromkeys(spans, relay))

    # What comes.

    def why_not(self, origin: Origin, relay: str) -> str:
        """Return why an origin is not accepted from a relay; empty if it is, and is the relay's from now on."""
        if not self.may_ship(origin.name, relay):
            return self._refuse(
                relay, f"{origin.name} is not its own: another relay ships it, or it is of this machine"
            )
        for span in (origin.span, origin.process):
            if span and not self._may_speak(span, relay, self._beginners_of([run_of(span)])):
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
        said = [fact for _, fact in batch.facts if not _purges(fact)]
        about = [fact.id if isinstance(fact, Span) else fact.span for fact in said]
        tops = dict.fromkeys(run_of(span) for span in (*about, *(each.span for each in batch.columns)))
        outer = {run_of(fact.parent) for fact in said if isinstance(fact, Span) and fact.parent}
        known = self._beginners_of(tops.keys() | outer)
        if new := [top for top in tops if top and top not in known]:
            self._bind(relay, [], new)
            known |= dict.fromkeys(new, relay)
        named = {place.origin for _, fact in batch.facts if isinstance(fact, Span) for place in fact.after}
        others = self.others(named, relay) if named else set()
        facts = []
        for n, fact in batch.facts:
            if (kept := self._screened(fact, relay, known, others, strays)) is not None:
                facts.append((n, kept))
        columns: list[Columns | Block] = []
        for each in batch.columns:
            if self._may_speak(each.span, relay, known):
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

    def _screened(
        self, fact: Fact, relay: str, known: dict[str, str], others: Container[str],
        strays: collections.Counter[str],
    ) -> Fact | None:  # fmt: skip
        """Return a fact as the relay may say it; None if it may not. `others`: origins that it may not speak of."""
        about = fact.id if isinstance(fact, Span) else fact.span
        if _purges(fact) or not self._may_speak(about, relay, known) or not self._may_be(fact, relay, known):
            strays[run_of(about)] += 1
            return None
        if not isinstance(fact, Span):
            return fact
        if fact.parent and run_of(fact.parent) not in known:  # it will be somebody else's, perhaps
            fact = msgspec.structs.replace(fact, parent="")
        after = tuple(place for place in fact.after if place.origin not in others)[:_MOST_PLACES]
        return fact if len(after) == len(fact.after) else msgspec.structs.replace(fact, after=after)

    def _may_be(self, span: Fact, relay: str, known: dict[str, str]) -> bool:
        """Tell whether a relay may say this of a span of its own; all else it may.

        What is part of a run has an id below that of its run; only a run may be below another one.
        """
        if not isinstance(span, Span):
            return True
        top = run_of(span.id)
        if top == span.id and span.kind not in _TOP_KINDS:
            return False
        if not span.parent or run_of(span.parent) == top:
            return True
        return top == span.id and self._may_speak(span.parent, relay, known, claims=False)


def _purges(fact: Fact) -> bool:
    return isinstance(fact, Span) and fact.state == PURGED


def _points(columns: Columns | Block) -> int:
    return len(columns.n) * len(columns.names)
