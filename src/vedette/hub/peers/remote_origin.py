"""One origin of another host, as its hub relays it. It is used like a SpoolReader, but has no spool here."""

import itertools
from collections.abc import Iterator

from vedette import wire
from vedette.hub.turn.quota import Quota
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin
from vedette.store import Batch, Block, Columns, Mark
from vedette.store.parcels import weight_of
from vedette.store.points import FULL, MOST_GROUPS, cut_of

_HOLD_NUMBERS = 2 << 20  # numbers of 8 bytes that may wait to be sealed
_QUIET_S = 60.0
_Key = tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]


class RemoteOrigin:
    """Holds what arrived of an origin until it is committed. What lies before the marks is skipped: it is here already.

    As with SpoolReader, a batch is *sent* to the store or to the next hub, and *committed* when that one has it.
    """

    def __init__(self, origin: Origin, facts: Mark, samples: Mark, quota: Quota) -> None:
        """Begin at the marks of the two lanes."""
        self._quota = quota
        self.name = origin.name
        self.origin = origin
        self.relay = ""  # that ships it
        self.upstream = ""  # the next hub, which it is relayed to; "": it is kept here
        self.ready = True  # batches may be sent: the marks are known, here or at the next hub
        self.over = False  # its hub has said that nothing will follow
        self.quiet_since = 0.0  # when something last arrived
        self.offset = {LANE_FACTS: facts.offset, LANE_SAMPLES: samples.offset}
        self._sent = dict(self.offset)
        self._committed = dict(self.offset)
        self._facts: list[Batch] = []
        self._blocks: dict[_Key, list[Block]] = {}
        self._rows: dict[_Key, int] = {}
        self.numbers = 0  # how many wait to be sealed
        self._counts = {LANE_FACTS: (facts.damaged, facts.refused), LANE_SAMPLES: (samples.damaged, samples.refused)}
        self._found = {LANE_FACTS: (0, 0), LANE_SAMPLES: (0, 0)}  # damaged and refused records that were found here
        self._oldest: float | None = None
        self.is_cut = False  # there were too many groups to seal at once: the rest follows
        self.needs: dict[tuple[str, str], int] = {}  # by (inbox, lane): the inbox is still needed from this offset on

    def take(self, batch: Batch, now: float, inbox: str, at: int, found: tuple[int, int] = (0, 0)) -> bool:
        """Take a batch that begins at the offset `at` of its inbox; return False when there is a gap before it.

        `found`: how many of its damaged and refused records were found here. Its sender counts only the others.
        """
        lane = batch.lane
        here = self.offset[lane]
        self.quiet_since = now
        if batch.start > here:
            return False
        if batch.end <= here:
            if batch.end > self._committed[lane]:  # it arrived twice, and neither may be acknowledged yet
                self.needs.setdefault((inbox, lane), at)
            return True
        self.offset[lane] = batch.end
        self._count(lane, batch.damaged - found[0], batch.refused - found[1], found)
        self.needs.setdefault((inbox, lane), at)
        if lane == LANE_FACTS:
            batch.facts = [(n, fact) for n, fact in batch.facts if n > here]
            self._facts.append(batch)
            return True
        self._oldest = now if self._oldest is None else self._oldest
        for limit, points in batch.refusals.items():
            self._quota.refuse(limit, points)
        for columns in batch.columns:
            block = self._quota.of_block(columns.block().after(here))
            if block is not None and len(block.n):
                key = (block.span, tuple(block.tags.items()), block.names)
                self._blocks.setdefault(key, []).append(block)
                self._rows[key] = self._rows.get(key, 0) + len(block.n)
                self.numbers += len(block.n) * (3 + len(block.names))
        return True

    def _count(self, lane: str, damaged: int, refused: int, found: tuple[int, int]) -> None:
        """Add up what a sender counts and what is found here. The sums never fall."""
        here = self._found[lane] = self._found[lane][0] + found[0], self._found[lane][1] + found[1]
        known = self._counts[lane]
        self._counts[lane] = max(known[0], damaged + here[0]), max(known[1], refused + here[1])

    @property
    def has_facts(self) -> bool:
        """Whether facts have arrived that are to be committed, and can be."""
        return self.ready and bool(self._facts)

    def read_facts(self, most: int = 1 << 62) -> Batch | None:
        """Return facts that arrived, to be committed at once: about as many as weigh `most`, the others follow."""
        if not self._facts:
            return None
        facts = [item for batch in self._facts for item in batch.facts]
        self._facts.clear()
        end, start = self.offset[LANE_FACTS], self._sent[LANE_FACTS]
        for number, weight in enumerate(itertools.accumulate(weight_of(fact) for _, fact in facts), 1):
            if weight >= most and number < len(facts):
                facts, rest = facts[:number], facts[number:]
                self._facts.append(Batch(self.origin, LANE_FACTS, end, facts=rest))
                end = facts[-1][0]
                break
        return Batch(self.origin, LANE_FACTS, end, *self._counts[LANE_FACTS], facts=facts, start=start)

    @property
    def spans(self) -> set[str]:
        """The spans of the samples that wait to be sealed."""
        return {span for span, _, _ in self._blocks}

    def newest(self, prefix: str) -> Iterator[wire.Newest]:
        """Yield the newest point of each series that waits to be sealed, of the spans whose ids begin with `prefix`."""
        for parts in self._blocks.values():
            last = parts[-1]
            if last.span.startswith(prefix) and len(last.t):
                for name, values in zip(last.names, last.values, strict=True):
                    yield wire.Newest(last.span, name, last.tags, int(last.t[-1]), values[-1].item())

    @property
    def sealed(self) -> int:
        """The offset in lane s up to which all samples were sent to the store."""
        return self._sent[LANE_SAMPLES]

    def unsealed(self, prefixes: tuple[str, ...], after: int) -> Batch | None:
        """Return unsealed samples behind an offset, of spans whose ids begin with a prefix; None if there are none."""
        start = max(after, self.sealed)
        waiting = (_join(parts).after(start) for key, parts in self._blocks.items() if key[0].startswith(prefixes))
        found: list[Columns | Block] = [block for block in waiting if len(block.n)]
        if not found:
            return None
        return Batch(self.origin, LANE_SAMPLES, self.offset[LANE_SAMPLES], columns=found, start=start)

    def due(self, now: float, seal_s: float) -> bool:
        """Tell whether samples must be sealed: a group is full, they are old, or they are many."""
        if self._oldest is None:
            return False
        full = self.numbers >= _HOLD_NUMBERS or any(rows >= FULL for rows in self._rows.values())
        return self.over or full or now - self._oldest >= seal_s

    def sealing(
        self,
        _now: float,
        _seal_s: float,
        *,
        all_of_it: bool,  # noqa: ARG002 - as SpoolReader has it
        most: int = MOST_GROUPS,
    ) -> Batch | None:
        """Return the samples to seal, as a batch of about `most` groups, `is_cut` if there are more; None if none."""
        self.is_cut = False
        if self._oldest is None:
            return None
        end = self.offset[LANE_SAMPLES]
        groups = [(int(parts[0].n[0]), int(parts[-1].n[-1])) for parts in self._blocks.values()]
        if (cut := cut_of(groups, most)) is not None:
            self.is_cut, end = True, cut
        blocks = [block for parts in self._blocks.values() if len((block := _join(parts).until(end)).n)]
        return Batch(
            self.origin, LANE_SAMPLES, end, *self._counts[LANE_SAMPLES], columns=list(blocks),
            start=self._sent[LANE_SAMPLES], refusals=self._quota.take_refusals(),
        )  # fmt: skip

    def resume(self, facts: int, samples: int) -> None:
        """Go on from the offsets of the next hub. If it has lost something that is no longer here, count a gap."""
        for lane, offset in ((LANE_FACTS, facts), (LANE_SAMPLES, samples)):
            if offset < self._sent[lane]:
                self._sent[lane] = offset
                damaged, refused = self._found[lane]
                self._count(lane, self._counts[lane][0] - damaged, self._counts[lane][1] - refused, (1, 0))
        self.ready = True

    def last(self) -> Batch:
        """Return an empty batch at the end of all that was sent."""
        return Batch(self.origin, LANE_FACTS, self._sent[LANE_FACTS], start=self._sent[LANE_FACTS])

    def sent(self, batch: Batch, _now: float) -> None:
        """Note that a batch was sent to the store or to the next hub."""
        self._sent[batch.lane] = batch.end
        if batch.lane == LANE_FACTS:
            return
        rest = {key: _join(parts).after(batch.end) for key, parts in self._blocks.items()} if self.is_cut else {}
        self._blocks = {key: [block] for key, block in rest.items() if len(block.n)}
        self._rows = {key: len(block.n) for key, [block] in self._blocks.items()}
        self.numbers = sum(len(block.n) * (3 + len(block.names)) for [block] in self._blocks.values())
        if not self._blocks:
            self._oldest = None

    def committed(self, batch: Batch) -> None:
        """Note that a batch is committed: by the store, or by the next hub."""
        self._committed[batch.lane] = max(self._committed[batch.lane], batch.end)
        if self._committed[batch.lane] == self.offset[batch.lane]:
            for key in [key for key in self.needs if key[1] == batch.lane]:
                del self.needs[key]

    def is_done(self, now: float) -> bool:
        """Tell whether all of it is committed and nothing more is expected. What arrives later begins at the marks."""
        return not self.needs and (self.over or now - self.quiet_since > _QUIET_S)


def _join(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    import numpy as np  # noqa: PLC0415 - it comes with the first points

    first = parts[0]
    n, t, step, *values = (
        np.concatenate(columns)
        for columns in zip(*((part.n, part.t, part.step, *part.values) for part in parts), strict=True)
    )
    return Block(first.span, first.tags, first.names, n, t, step, tuple(values))
