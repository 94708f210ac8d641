"""One origin as the hub hears it: its two lanes, and the samples that wait to be sealed."""

import itertools
import os

import msgspec

from vedette import wire
from vedette.model import LANE_FACTS, LANE_SAMPLES, OWNER, Fact, Origin, Span
from vedette.segment import list_segments, segment_name, unlink
from vedette.store import Batch, Columns, Mark
from vedette.store.chunks import FULL
from vedette.tail import Tail

_HOLD_BYTES = 16 << 20


class Speaker:
    """Reads one spool. What it hands over as a Batch counts as kept only when the store has it."""

    def __init__(self, directory: str, marks: dict[tuple[str, str], Mark]) -> None:
        self.name = os.path.basename(directory)
        self.directory = directory
        self.gone = False  # its process is dead: nothing more will come
        self.was_read = False
        self.origin: Origin | None = None
        self.heard_t = 0  # the newest time that it spoke of
        none = Mark()
        facts, samples = marks.get((self.name, LANE_FACTS), none), marks.get((self.name, LANE_SAMPLES), none)
        self._facts = Tail(directory, LANE_FACTS, facts.place)
        self._samples = Tail(directory, LANE_SAMPLES, samples.place)
        self._facts.damaged, self._samples.damaged = facts.damaged, samples.damaged
        self._refused_facts, self._refused = facts.refused, samples.refused
        self._sealed = samples.place
        self._kept = facts.place
        self._columns: dict[tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]], Columns] = {}
        self._oldest: float | None = None  # when the oldest waiting sample was read
        self._dry = {
            LANE_FACTS: False,
            LANE_SAMPLES: False,
        }  # the process is dead, and its lane was read to the end
        self._freed = (0, 0)

    @property
    def waiting_bytes(self) -> int:
        """How much was read of lane s, and is not sealed."""
        return self._samples.place - self._sealed

    def read_facts(self) -> Batch | None:
        """Read on in lane f; return what is new, to be kept at once."""
        facts: list[tuple[int, Fact]] = []
        for n, payload in self._read(self._facts, LANE_FACTS):
            try:
                fact = wire.decode_fact(payload)
            except wire.UNREADABLE:
                self._refused_facts += 1
                continue
            if isinstance(fact, Span) and fact.by != OWNER:
                fact = msgspec.structs.replace(fact, by=OWNER)  # a process speaks for itself alone
            self.heard_t = max(self.heard_t, fact.t)
            facts.append((n, fact))
        if self._facts.place == self._kept or self.origin is None:
            return None
        return Batch(self.origin, LANE_FACTS, self._facts.place, self._facts.damaged, self._refused_facts, facts=facts)

    def read_samples(self, now: float) -> int:
        """Read on in lane s; return how many records came, which now wait to be sealed."""
        records = self._read(self._samples, LANE_SAMPLES)
        if not records:
            return 0
        assert self.origin is not None
        own, columns, decode = self.origin.span, self._columns, wire.decode_sample
        t = 0
        for n, payload in records:
            try:
                sample = decode(payload)
            except wire.UNREADABLE:
                rescued, refused = wire.rescue_sample(payload)
                self._refused += refused
                if rescued is None:
                    continue
                sample = rescued
            values = sample.values
            t = sample.t
            key = (sample.span, tuple(sample.tags.items()) if sample.tags else (), tuple(values))
            group = columns.get(key)
            if group is None:
                if not values:
                    continue
                group = columns[key] = Columns(
                    sample.span or own, dict(sorted(sample.tags.items())), tuple(values), [], [], [], []
                )
            group.n.append(n)
            group.t.append(t)
            group.step.append(sample.step)
            group.rows.append(tuple(values.values()))
        self.heard_t = max(self.heard_t, t)
        if self._oldest is None:
            self._oldest = now
        return len(records)

    def _read(self, tail: Tail, lane: str) -> list[tuple[int, bytes]]:
        self.was_read = True
        before = tail.place
        records = tail.read(gone=self.gone)
        self._dry[lane] = self.gone and tail.place == before
        if self.origin is None and tail.header is not None:
            self.origin = tail.header.origin
        return records

    def ends(self) -> tuple[int, int]:
        """Return the places that all which is written by now lies before."""
        return self._facts.end(), self._samples.end()

    def has_reached(self, ends: tuple[int, int]) -> bool:
        """Tell whether both lanes were read up to these places."""
        return self._facts.place >= ends[0] and self._samples.place >= ends[1]

    def due(self, now: float, seal_s: float) -> bool:
        """Tell whether samples must be sealed: one group is full, they are old, or they are many bytes."""
        if self._oldest is None:
            return False
        old = now - self._oldest >= seal_s or self.waiting_bytes >= _HOLD_BYTES
        return old or self._over or any(len(group.n) >= FULL for group in self._columns.values())

    def sealing(self, now: float, seal_s: float, *, all_of_it: bool) -> Batch | None:
        """Return the samples to seal, and the mark behind them.

        When only full chunks are wanted, every group is cut at the place where the fullest one has its last
        full chunk: one place is then the mark of all, and a restart reads on from exactly there.
        """
        if self.origin is None:
            return None
        if self._samples.place == self._sealed:
            return None
        aged = self._oldest is not None and now - self._oldest >= seal_s
        if all_of_it or aged or self._over or self.waiting_bytes >= _HOLD_BYTES:
            return self._batch(self._samples.place, list(self._columns.values()))
        fullest = max(self._columns.values(), key=lambda group: len(group.n))
        if len(fullest.n) < FULL:
            return None
        cut = fullest.n[len(fullest.n) // FULL * FULL - 1]
        return self._batch(cut, [part for group in self._columns.values() if (part := group.until(cut)).n])

    @property
    def _over(self) -> bool:
        return self.gone or self._samples.closed

    def _batch(self, place: int, columns: list[Columns]) -> Batch:
        assert self.origin is not None
        return Batch(self.origin, LANE_SAMPLES, place, self._samples.damaged, self._refused, columns=columns)

    def kept(self, batch: Batch, now: float) -> None:
        """Take note that the store has a batch."""
        if batch.lane == LANE_FACTS:
            self._kept = batch.place
            return
        self._sealed = batch.place
        rest = {key: group.after(batch.place) for key, group in self._columns.items()}
        self._columns = {key: group for key, group in rest.items() if group.n}
        self._oldest = now if self._columns else None

    @property
    def spans(self) -> set[str]:
        """The spans that samples are waiting for."""
        return {group.span for group in self._columns.values()}

    @property
    def finished(self) -> bool:
        """Whether its process is dead and all that it said is in the store."""
        kept = self._kept == self._facts.place and self._sealed == self._samples.place
        return all(self._dry.values()) and (kept or self.origin is None)

    @property
    def said_last_word(self) -> bool:
        """Whether its writer has closed it."""
        return self._facts.closed

    def sync(self) -> None:
        """Flush the segments that are being written."""
        self._facts.sync()
        self._samples.sync()

    def free(self) -> None:
        """Unlink the segments that lie wholly behind the marks. Only after a sync of the store."""
        if self._freed == (self._kept, self._sealed):
            return
        self._freed = (self._kept, self._sealed)
        for lane, mark in zip((LANE_FACTS, LANE_SAMPLES), self._freed, strict=True):
            places = list_segments(self.directory, lane)
            for place, following in itertools.pairwise(places):
                if following <= mark:
                    unlink(os.path.join(self.directory, segment_name(lane, place)))

    def remove(self) -> None:
        """Remove the spool of a finished origin."""
        self.shut()
        for name in os.listdir(self.directory):
            unlink(os.path.join(self.directory, name))
        os.rmdir(self.directory)

    def remove_empty(self) -> bool:
        """Remove a spool that nothing was ever written to; tell whether it was such a one."""
        self.shut()
        try:
            for name in os.listdir(self.directory):
                if name.endswith(".new"):  # its writer died while it made its first segment
                    unlink(os.path.join(self.directory, name))
            os.rmdir(self.directory)
        except OSError:
            return False
        return True

    def shut(self) -> None:
        """Let go of the open segments."""
        self._facts.shut()
        self._samples.shut()

    def stacks(self) -> str:
        """Return the stacks that were written when SIGTERM came, if it did."""
        try:
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(os.path.join(self.directory, "stacks"), flags), errors="replace") as file:
                return file.read(200_000)
        except OSError:
            return ""
