"""One origin as another hub passes it on: the counterpart of SpoolReader, without a spool of its own here."""

from collections.abc import Iterator

import numpy as np

from vedette import wire
from vedette.hub.turn.quota import Quota
from vedette.model import LANE_FACTS, LANE_SAMPLES, Origin
from vedette.store import Batch, Block, Mark
from vedette.store.chunks import FULL

_HOLD_NUMBERS = 2 << 20  # of 8 bytes
_QUIET_S = 60.0
_Key = tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]]


class RemoteOrigin:
    """Holds what came in until it is kept. What lies before the mark is here already, and is passed over."""

    def __init__(self, origin: Origin, facts: Mark, samples: Mark, quota: Quota) -> None:
        """Go on from what the store has."""
        self._quota = quota
        self.name = origin.name
        self.origin = origin
        self.upstream = ""  # the hub that it is passed on to from here
        self.ready = True  # may be passed on: how far it is there is known
        self.over = False  # its hub has said that nothing will follow
        self.quiet_since = 0.0  # when something last came of it
        self.offset = {LANE_FACTS: facts.offset, LANE_SAMPLES: samples.offset}
        self._handed = dict(self.offset)
        self._kept = dict(self.offset)
        self._facts: list[Batch] = []
        self._blocks: dict[_Key, list[Block]] = {}
        self._rows: dict[_Key, int] = {}
        self.numbers = 0  # that wait
        self._counts = {LANE_FACTS: (facts.damaged, facts.refused), LANE_SAMPLES: (samples.damaged, samples.refused)}
        self._found = {LANE_FACTS: (0, 0), LANE_SAMPLES: (0, 0)}  # damaged and refused, beyond what its sender counts
        self._oldest: float | None = None
        self.held: dict[tuple[str, str], int] = {}  # by (inbox, lane): the offset in the inbox that must stay

    def take(self, batch: Batch, now: float, inbox: str, at: int, found: tuple[int, int] = (0, 0)) -> bool:
        """Take in what came; `at`: where it begins in its inbox. Tell whether it fits on to what is here.

        `found`: how many of its damaged and refused records were found here; its sender counts only the others.
        """
        lane = batch.lane
        here = self.offset[lane]
        self.quiet_since = now
        if batch.start > here:
            return False
        if batch.end <= here:
            if batch.end > self._kept[lane]:  # it is here, but not safe yet: whoever sent it again must wait, too
                self.held.setdefault((inbox, lane), at)
            return True
        self.offset[lane] = batch.end
        self._count(lane, batch.damaged - found[0], batch.refused - found[1], found)
        self.held.setdefault((inbox, lane), at)
        if lane == LANE_FACTS:
            batch.facts = [(n, fact) for n, fact in batch.facts if n > here]
            self._facts.append(batch)
            return True
        self._oldest = now if self._oldest is None else self._oldest
        for limit, points in batch.refusals.items():
            self._quota.refuse(limit, points)
        for columns in batch.columns:
            block = self._quota.of_block(columns.block().after(here))
            if block is not None:
                key = (block.span, tuple(block.tags.items()), block.names)
                self._blocks.setdefault(key, []).append(block)
                self._rows[key] = self._rows.get(key, 0) + len(block.n)
                self.numbers += len(block.n) * (3 + len(block.names))
        return True

    def _count(self, lane: str, damaged: int, refused: int, found: tuple[int, int]) -> None:
        """Count what a sender counts and what is found here; neither ever falls."""
        here = self._found[lane] = self._found[lane][0] + found[0], self._found[lane][1] + found[1]
        known = self._counts[lane]
        self._counts[lane] = max(known[0], damaged + here[0]), max(known[1], refused + here[1])

    def read_facts(self) -> Batch | None:
        """Return the facts that came, to be kept at once."""
        if not self._facts:
            return None
        facts = [item for batch in self._facts for item in batch.facts]
        self._facts.clear()
        return Batch(
            self.origin, LANE_FACTS, self.offset[LANE_FACTS], *self._counts[LANE_FACTS], facts=facts,
            start=self._handed[LANE_FACTS],
        )  # fmt: skip

    @property
    def spans(self) -> set[str]:
        """The spans that samples are waiting for."""
        return {span for span, _, _ in self._blocks}

    def newest(self, prefix: str) -> Iterator[wire.Newest]:
        """Yield the newest point of each series that waits, of the spans that begin so."""
        for parts in self._blocks.values():
            last = parts[-1]
            if last.span.startswith(prefix) and len(last.t):
                for name, values in zip(last.names, last.values, strict=True):
                    yield wire.Newest(last.span, name, last.tags, int(last.t[-1]), values[-1].item())

    def due(self, now: float, seal_s: float) -> bool:
        """Tell whether samples must be sealed: one group is full, they are old, or they are many."""
        if self._oldest is None:
            return False
        full = self.numbers >= _HOLD_NUMBERS or any(rows >= FULL for rows in self._rows.values())
        return self.over or full or now - self._oldest >= seal_s

    def sealing(self, _now: float, _seal_s: float, *, all_of_it: bool) -> Batch | None:  # noqa: ARG002 - as SpoolReader has it
        """Return all samples that wait."""
        if self._oldest is None:
            return None
        blocks = [_join(parts) for parts in self._blocks.values()]
        return Batch(
            self.origin, LANE_SAMPLES, self.offset[LANE_SAMPLES], *self._counts[LANE_SAMPLES], columns=list(blocks),
            start=self._handed[LANE_SAMPLES], refusals=self._quota.take_refusals(),
        )  # fmt: skip

    def meet(self, facts: int, samples: int) -> None:
        """Go on from what the next hub has; what it has lost and is not here any more is a gap, and counted."""
        for lane, offset in ((LANE_FACTS, facts), (LANE_SAMPLES, samples)):
            if offset < self._handed[lane]:
                self._handed[lane] = offset
                damaged, refused = self._found[lane]
                self._count(lane, self._counts[lane][0] - damaged, self._counts[lane][1] - refused, (1, 0))
        self.ready = True

    def last(self) -> Batch:
        """Return a batch without content that goes as far as all that was handed over."""
        return Batch(self.origin, LANE_FACTS, self._handed[LANE_FACTS], start=self._handed[LANE_FACTS])

    def handed(self, batch: Batch, _now: float) -> None:
        """Take note that a batch is on its way to be kept."""
        self._handed[batch.lane] = batch.end
        if batch.lane == LANE_SAMPLES:
            self._blocks.clear()
            self._rows.clear()
            self.numbers, self._oldest = 0, None

    def kept(self, batch: Batch) -> None:
        """Take note that a batch is kept: by the store, or by the next hub."""
        self._kept[batch.lane] = max(self._kept[batch.lane], batch.end)
        if self._kept[batch.lane] == self.offset[batch.lane]:
            for key in [key for key in self.held if key[1] == batch.lane]:
                del self.held[key]

    def is_done(self, now: float) -> bool:
        """Tell whether all of it is kept, and nothing more is expected; what comes after all finds its marks."""
        return not self.held and (self.over or now - self.quiet_since > _QUIET_S)


def _join(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    n, t, step, *values = (
        np.concatenate(columns)
        for columns in zip(*((part.n, part.t, part.step, *part.values) for part in parts), strict=True)
    )
    return Block(first.span, first.tags, first.names, n, t, step, tuple(values))
