"""One origin as the hub hears it: its two lanes, and the samples that wait to be sealed."""

import itertools
import os
from collections.abc import Iterator, Mapping

from vedette import wire
from vedette.fileio import unlink
from vedette.gauges import FILE
from vedette.hub.peers.parcels import read_fact
from vedette.hub.turn.quota import Quota
from vedette.model import HUB, LANE_FACTS, LANE_SAMPLES, OWNER, Fact, Span
from vedette.segment import list_segments, origin_of, segment_name
from vedette.settings import Limits
from vedette.store import Batch, Block, Columns, Mark
from vedette.store.chunks import FULL
from vedette.tail import Tail

_HOLD_BYTES = 16 << 20
_READ_BYTES = 4 << 20  # of a lane at once
_NO_LIMITS = Limits(name_chars=1 << 20)


class SpoolReader:
    """Reads one spool. What it hands over as a Batch is freed only when it is kept, by the store or by another hub."""

    def __init__(self, directory: str, facts: Mark, samples: Mark, limits: Limits = _NO_LIMITS) -> None:
        """Go on from what is kept of the two lanes."""
        self._limits = limits
        self.name = os.path.basename(directory)
        self.directory = directory
        self.gone = False  # its process is dead: nothing more will come
        self.was_read = False
        self.has_more = False  # than was read the last time: it writes faster than it is looked at
        self.ready = True  # may be read: where it is kept is known, and how far it is there
        self.origin = origin_of(directory)
        self.upstream = (
            self.origin.upstream if self.origin is not None else ""
        )  # the hub that keeps it; empty: this one
        self.heard_t = 0  # the newest time that it spoke of
        self.state = ""  # what it last said of its own process
        self.exit_code = 0
        self.usage_s: float | None = None  # how often it wishes to be measured, once it has said so; 0: never
        self.launches = False  # a command that it was started for: `vedette run`
        self.named = False  # how it ended is on record, or need not be
        self.has_gauges = os.path.exists(os.path.join(directory, FILE))
        self.gauged = False  # it is dead, and how far its trackers were is on record
        self._facts = Tail(directory, LANE_FACTS)
        self._samples = Tail(directory, LANE_SAMPLES)
        self._begin(facts, samples)

    def rewind(self, facts: Mark, samples: Mark) -> None:
        """Go on from other offsets: what was handed over since then did not arrive.

        Should what was kept be lost there, and be gone here, that is a gap: counted as one record that is damaged.
        """
        self.shut()
        counts = self._counts
        self._begin(
            _with_counts(facts, *counts[LANE_FACTS], gap=self._is_gap(LANE_FACTS, facts, self._kept)),
            _with_counts(samples, *counts[LANE_SAMPLES], gap=self._is_gap(LANE_SAMPLES, samples, self._sealed)),
        )

    def _is_gap(self, lane: str, mark: Mark, kept: int) -> bool:
        return mark.offset < kept and min(list_segments(self.directory, lane), default=0) > mark.offset

    def _begin(self, facts: Mark, samples: Mark) -> None:
        self.resumed = facts.offset > 0  # what it said before that may be gone from here
        if facts.offset:
            self._recall(facts.offset)
        self._facts = Tail(self.directory, LANE_FACTS, facts.offset)
        self._samples = Tail(self.directory, LANE_SAMPLES, samples.offset)
        self._facts.damaged, self._samples.damaged = facts.damaged, samples.damaged
        self._refused_facts, self._refused = facts.refused, samples.refused
        self._handed_facts, self._handed = facts.offset, samples.offset
        self._kept, self._sealed = facts.offset, samples.offset
        self._counts = {  # damaged and refused, of what is kept
            LANE_FACTS: (facts.damaged, facts.refused), LANE_SAMPLES: (samples.damaged, samples.refused),
        }  # fmt: skip
        self._quota = Quota(self._limits, by_hub=self.of_hub)
        self._columns: dict[tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]], Columns] = {}
        self._oldest: float | None = None  # when the oldest waiting sample was read
        self._dry = {
            LANE_FACTS: False,
            LANE_SAMPLES: False,
        }  # the process is dead, and its lane was read to the end
        self._freed = (0, 0)
        self._caught_up = {LANE_FACTS: False, LANE_SAMPLES: False}  # the last time it was read

    def hear_out(self) -> None:
        """Hear what its process, now dead, said of itself up to its end, wherever the lane is being read."""
        self._recall(1 << 62)

    def _recall(self, offset: int) -> None:
        """Hear what its process said of itself up to an offset, as far as it is still there."""
        tail = Tail(self.directory, LANE_FACTS)
        try:
            while tail.offset < offset and (records := tail.read(gone=True)):
                self.origin = self.origin or (tail.header.origin if tail.header else None)
                for _, payload in records:
                    fact = read_fact(payload, self.origin) if self.origin else None
                    if fact is not None:
                        self._note(fact)
        finally:
            tail.shut()

    def _note(self, fact: Fact) -> None:
        self.heard_t = max(self.heard_t, fact.t)
        if isinstance(fact, Span) and fact.add is not None and fact.by == OWNER:
            self.has_gauges = True
        if isinstance(fact, Span) and self.origin is not None and fact.id == self.origin.process:
            self.state = fact.state or self.state
            code = fact.attrs.get("exit_code", self.exit_code)
            self.exit_code = code if isinstance(code, int) else 0
            self.launches = self.launches or fact.attrs.get("launches") is True
            if (wished := wished_s(fact.attrs)) is not None:
                self.usage_s = wished

    @property
    def of_hub(self) -> bool:
        """Whether it is a hub that speaks, and no process of a user."""
        return self.origin is not None and self.origin.voice == HUB

    @property
    def waiting_bytes(self) -> int:
        """How much was read, and is not kept."""
        return self._samples.offset - self._sealed + self._facts.offset - self._kept

    def read_facts(self) -> Batch | None:
        """Read on in lane f; return what is new, to be kept at once."""
        self.has_more = False
        facts: list[tuple[int, Fact]] = []
        for n, payload in self._read(self._facts, LANE_FACTS):
            assert self.origin is not None
            fact = read_fact(payload, self.origin)
            if fact is None:
                self._refused_facts += 1
                continue
            self._note(fact)
            facts.append((n, fact))
        if self._facts.offset == self._handed_facts or self.origin is None:
            return None
        return Batch(
            self.origin, LANE_FACTS, self._facts.offset, self._facts.damaged, self._refused_facts, facts=facts,
            start=self._handed_facts,
        )  # fmt: skip

    def read_samples(self, now: float) -> int:
        """Read on in lane s; return how many records came, which now wait to be sealed."""
        records = self._read(self._samples, LANE_SAMPLES)
        if not records:
            return 0
        assert self.origin is not None
        own, columns, decode = self.origin.span, self._columns, wire.decode_sample
        quota = self._quota
        limited = quota.most > 0
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
            if limited and not quota.in_time(t, len(values)):
                continue
            group = columns.get(key)
            if group is None:
                if not quota.admits(key[2], sample.tags):
                    values = quota.short(values, sample.tags)
                    key = (*key[:2], tuple(values))
                    group = columns.get(key)
                if not values:
                    continue
            if group is None:
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
        before = tail.offset
        records = tail.read(gone=self.gone, limit=_READ_BYTES)
        self._caught_up[lane] = tail.offset - before < _READ_BYTES
        self.has_more = self.has_more or not self._caught_up[lane]
        self._dry[lane] = self.gone and tail.offset == before
        if self.origin is None and tail.header is not None:
            self.origin = tail.header.origin
            self.upstream = self.origin.upstream
            self._quota = Quota(self._limits, by_hub=self.of_hub)
        return records

    def ends(self) -> tuple[int, int]:
        """Return the offsets that all which is written by now lies before."""
        return self._facts.end(), self._samples.end()

    def has_reached(self, ends: tuple[int, int]) -> bool:
        """Tell whether both lanes were read up to these offsets, or, since these were taken, as far as they went."""
        facts = self._caught_up[LANE_FACTS] or self._facts.offset >= ends[0]
        return facts and (self._caught_up[LANE_SAMPLES] or self._samples.offset >= ends[1])

    def due(self, now: float, seal_s: float) -> bool:
        """Tell whether samples must be sealed: one group is full, they are old, or they are many bytes."""
        if self._oldest is None:  # at its end there may be nothing but the end
            return self._over and self._gathered_bytes > 0
        old = now - self._oldest >= seal_s or self._gathered_bytes >= _HOLD_BYTES
        return old or self._over or any(len(group.n) >= FULL for group in self._columns.values())

    @property
    def _gathered_bytes(self) -> int:
        return self._samples.offset - self._handed

    def sealing(self, now: float, seal_s: float, *, all_of_it: bool) -> Batch | None:
        """Return the samples to seal, and the mark behind them.

        When only full chunks are wanted, every group is cut at the offset where the fullest one has its last
        full chunk: one offset is then the mark of all, and a restart reads on from exactly there.
        """
        if self.origin is None:
            return None
        if self._samples.offset == self._handed:
            return None
        aged = self._oldest is not None and now - self._oldest >= seal_s
        if all_of_it or aged or self._over or self._gathered_bytes >= _HOLD_BYTES:
            return self._batch(self._samples.offset, list(self._columns.values()))
        fullest = max(self._columns.values(), key=lambda group: len(group.n))
        if len(fullest.n) < FULL:
            return None
        cut = fullest.n[len(fullest.n) // FULL * FULL - 1]
        return self._batch(cut, [part for group in self._columns.values() if (part := group.until(cut)).n])

    @property
    def _over(self) -> bool:
        return self.gone or self._samples.closed

    def _batch(self, end: int, columns: list[Columns]) -> Batch:
        assert self.origin is not None
        groups: list[Columns | Block] = list(columns)
        return Batch(
            self.origin, LANE_SAMPLES, end, self._samples.damaged, self._refused, columns=groups, start=self._handed,
            refusals=self._quota.take_refusals(),
        )  # fmt: skip

    def handed(self, batch: Batch, now: float) -> None:
        """Take note that a batch is on its way to be kept."""
        if batch.lane == LANE_FACTS:
            self._handed_facts = batch.end
            return
        self._handed = batch.end
        rest = {key: group.after(batch.end) for key, group in self._columns.items()}
        self._columns = {key: group for key, group in rest.items() if group.n}
        self._oldest = now if self._columns else None

    def kept(self, batch: Batch) -> None:
        """Take note that a batch is kept: by the store, or by the hub that it is meant for."""
        self._counts[batch.lane] = batch.damaged, batch.refused
        if batch.lane == LANE_FACTS:
            self._kept = max(self._kept, batch.end)
        else:
            self._sealed = max(self._sealed, batch.end)

    def last(self) -> Batch:
        """Return a batch without content that goes as far as all that was handed over."""
        assert self.origin is not None
        return Batch(self.origin, LANE_FACTS, self._handed_facts, start=self._handed_facts)

    @property
    def spans(self) -> set[str]:
        """The spans that samples are waiting for."""
        return {group.span for group in self._columns.values()}

    def newest(self, prefix: str) -> Iterator[wire.Newest]:
        """Yield the newest point of each series that waits, of the spans that begin so."""
        for group in self._columns.values():
            if group.span.startswith(prefix):
                for name, value in zip(group.names, group.rows[-1], strict=True):
                    yield wire.Newest(group.span, name, group.tags, group.t[-1], value)

    @property
    def finished(self) -> bool:
        """Whether its process is dead and all that it said is in the store."""
        kept = self._kept == self._facts.offset and self._sealed == self._samples.offset
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
            offsets = list_segments(self.directory, lane)
            for offset, following in itertools.pairwise(offsets):
                if following <= mark:
                    unlink(os.path.join(self.directory, segment_name(lane, offset)))

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
        """Return the stacks that were written when SIGTERM came or it crashed, if one of these did happen."""
        try:
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(os.path.join(self.directory, "stacks"), flags), errors="replace") as file:
                return file.read(200_000)
        except OSError:
            return ""


def _with_counts(mark: Mark, damaged: int, refused: int, *, gap: bool) -> Mark:
    return Mark(mark.offset, max(mark.damaged, damaged) + gap, max(mark.refused, refused))


def wished_s(attrs: Mapping[str, object]) -> float | None:
    """Return how often a process wishes to be measured, as it says in its attributes; 0 is never."""
    wished = attrs.get("usage_s")
    if isinstance(wished, bool) or not isinstance(wished, int | float) or not 0 <= wished <= 3600:
        return None
    return max(float(wished), 0.05) if wished else 0.0
