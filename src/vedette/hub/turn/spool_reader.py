"""Reads one spool of this host: both lanes of an origin, and the samples that wait to be sealed."""

import contextlib
import functools
import itertools
import os
from collections.abc import Iterator

from vedette import kernel, wire
from vedette.fileio import unlink
from vedette.gauges import FILE
from vedette.hub.turn.about_process import AboutProcess
from vedette.hub.turn.quota import Quota
from vedette.model import HUB, KINDS, LANE_FACTS, LANE_SAMPLES, OWNER, Fact, Span
from vedette.segment import EXIT_CODE, STACKS, is_held, list_segments, origin_of, segment_name
from vedette.settings import Limits
from vedette.store import Batch, Block, Columns, Mark
from vedette.store.parcels import read_fact
from vedette.store.points import FULL, MOST_GROUPS, cut_of
from vedette.tail import OpenFiles, Tail, written_until

_HOLD_BYTES = 16 << 20
_READ_BYTES = 4 << 20  # bytes of lane s that are read at once
_READ_FACTS_BYTES = 512 << 10  # and of lane f, where a byte is more work
_ALL = 1 << 62  # an offset behind everything
_QUIET_S, _QUIET_EVERY_S = 2.0, 1.0  # one that was quiet for so long is read so often, where spools are many
_NO_LIMITS = Limits(name_chars=1 << 20)


class SpoolReader:
    """Reads one spool, and makes batches of it.

    A batch is *sent* to the store or to another hub, and *committed* when that one has it. Only what is committed is
    removed from the spool.
    """

    def __init__(
        self, directory: str, facts: Mark, samples: Mark, limits: Limits = _NO_LIMITS, files: OpenFiles | None = None
    ) -> None:
        """Read on from the marks of the two lanes; `files`: with whom it shares the number of open files."""
        self._limits = limits
        self._files = files
        self.name = os.path.basename(directory)
        self.directory = directory
        self.gone = False  # its process is dead: nothing more will come
        self.was_read = False
        self.reads = 0  # how often both lanes were read
        self._read_at = self._moved_at = 0.0  # when they were read last, and when that brought something
        self._offsets = (-1, -1)
        self.to_remove = False  # all of it is committed: it is not read any more
        self.is_cut = False  # there were too many groups to seal at once: the rest follows
        self.has_more = False  # the last read did not reach the end: it writes faster than it is read
        self.ready = True  # it may be read: the marks are known, here or at the upstream
        self.origin = origin_of(directory)
        self.upstream = self.origin.upstream if self.origin is not None else ""  # the hub it is meant for; "": this one
        self.heard_t = 0  # the newest time in its records
        self.about = AboutProcess(directory)
        self.end_recorded = False  # how its process ended is on record, or need not be
        self.has_gauges = os.path.exists(os.path.join(directory, FILE))
        self.progress_recorded = False  # its process is dead, and the last values of its progress bars are on record
        self._begin(facts, samples)

    def rewind(self, facts: Mark, samples: Mark) -> None:
        """Read on from other marks: what was sent since then did not arrive.

        The other hub may have lost what it had committed. What is no longer here either is a gap, and counted as one
        damaged record.
        """
        self.shut()
        counts = self._counts
        self._begin(
            _with_counts(facts, *counts[LANE_FACTS], gap=self._is_gap(LANE_FACTS, facts)),
            _with_counts(samples, *counts[LANE_SAMPLES], gap=self._is_gap(LANE_SAMPLES, samples)),
        )

    def _is_gap(self, lane: str, mark: Mark) -> bool:
        return mark.offset < self._committed[lane] and min(list_segments(self.directory, lane), default=0) > mark.offset

    def _begin(self, facts: Mark, samples: Mark) -> None:
        self.resumed = facts.offset > 0  # some of its records may be removed already
        if facts.offset:
            self._read_about_process(facts.offset)
        self._facts = Tail(self.directory, LANE_FACTS, facts.offset, files=self._files)
        self._samples = Tail(self.directory, LANE_SAMPLES, samples.offset, files=self._files)
        self._facts.damaged, self._samples.damaged = facts.damaged, samples.damaged
        self._refused_facts, self._refused = facts.refused, samples.refused
        self._sent = {LANE_FACTS: facts.offset, LANE_SAMPLES: samples.offset}
        self._committed = dict(self._sent)
        self._counts = {  # damaged and refused records, in what is committed
            LANE_FACTS: (facts.damaged, facts.refused), LANE_SAMPLES: (samples.damaged, samples.refused),
        }  # fmt: skip
        self._quota = Quota(self._limits, by_hub=self.of_hub)
        self._columns: dict[tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]], Columns] = {}
        self._oldest: float | None = None  # when the oldest waiting sample was read
        self._at_end = {LANE_FACTS: False, LANE_SAMPLES: False}  # the process is dead, and the lane was read to its end
        self._freed = {LANE_FACTS: 0, LANE_SAMPLES: 0}  # segments before this offset are removed
        self._caught_up = {LANE_FACTS: False, LANE_SAMPLES: False}  # the last read reached the end

    def read_last_state(self) -> None:
        """Read ahead what its process, which is dead, said of itself up to its end, and when it spoke last."""
        self._read_about_process(_ALL)
        for offset in list_segments(self.directory, LANE_SAMPLES)[:-3:-1]:  # the newest may be empty
            tail = Tail(self.directory, LANE_SAMPLES, offset)
            try:
                for records in tail.read_until(_ALL, gone=True):
                    with contextlib.suppress(*wire.UNREADABLE, IndexError):
                        self.heard_t = max(self.heard_t, wire.decode_sample(records[-1][1]).t)
            finally:
                tail.shut()

    def _read_about_process(self, offset: int) -> None:
        """Read again what its process said of itself up to an offset, as far as these records are still here."""
        tail = Tail(self.directory, LANE_FACTS)
        try:
            for records in tail.read_until(offset, gone=True):
                self.origin = self.origin or tail.origin
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
            self.about.note(fact)

    @property
    def of_hub(self) -> bool:
        """Whether a hub writes this spool, and not a user's process."""
        return self.origin is not None and self.origin.voice == HUB

    @property
    def waiting_bytes(self) -> int:
        """How many bytes were read and are not committed."""
        return self._samples.offset + self._facts.offset - sum(self._committed.values())

    def read_facts(self) -> Batch | None:
        """Read on in lane f; return what is new, to be committed at once."""
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
        if self._facts.offset == self._sent[LANE_FACTS] or self.origin is None:
            return None
        return Batch(
            self.origin, LANE_FACTS, self._facts.offset, self._facts.damaged, self._refused_facts, facts=facts,
            start=self._sent[LANE_FACTS],
        )  # fmt: skip

    def read_samples(self, now: float) -> int:
        """Read on in lane s, after lane f; return how many records were read. They wait to be sealed."""
        records = self._read(self._samples, LANE_SAMPLES)
        self.reads += 1
        self._read_at = now
        if (offsets := (self._facts.offset, self._samples.offset)) != self._offsets:
            self._moved_at, self._offsets = now, offsets
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
        limit = _READ_FACTS_BYTES if lane == LANE_FACTS else _READ_BYTES
        records = tail.read(gone=self.gone, limit=limit)
        self._caught_up[lane] = not tail.has_more
        self.has_more = self.has_more or tail.has_more
        self._at_end[lane] = self.gone and tail.offset == before and not tail.has_more
        if self.origin is None and tail.origin is not None:
            self.origin = tail.origin
            self.upstream = self.origin.upstream
            self._quota = Quota(self._limits, by_hub=self.of_hub)
        return records

    def is_quiet(self, now: float) -> bool:
        """Tell whether it need not be read now: nothing has come for a while, and it was read a moment ago."""
        return not self.gone and now - self._moved_at > _QUIET_S and now - self._read_at < _QUIET_EVERY_S

    def allocated_until(self) -> tuple[int, int]:
        """Return offsets of both lanes that all that is written by now lies before: where their segments end."""
        return self._facts.end(), self._samples.end()

    def written_until(self) -> tuple[int, int]:
        """Return the offsets of both lanes just behind all that is written by now, read or not."""
        facts, samples = (
            written_until(self.directory, lane, tail.offset, gone=self.gone, limit=_READ_BYTES)
            for lane, tail in ((LANE_FACTS, self._facts), (LANE_SAMPLES, self._samples))
        )
        return facts, samples

    def has_reached(self, ends: tuple[int, int], reads: int) -> bool:
        """Tell whether both lanes were read up to these offsets, or to their end since `reads`."""
        since = self.reads > reads
        facts = (since and self._caught_up[LANE_FACTS]) or self._facts.offset >= ends[0]
        return facts and ((since and self._caught_up[LANE_SAMPLES]) or self._samples.offset >= ends[1])

    def due(self, now: float, seal_s: float) -> bool:
        """Tell whether samples must be sealed: a group is full, they are old, or they are many bytes."""
        if self._oldest is None:  # there may be no sample, but the end of the lane
            return self._over and self._gathered_bytes > 0
        old = now - self._oldest >= seal_s or self._gathered_bytes >= _HOLD_BYTES
        return old or self._over or any(len(group.n) >= FULL for group in self._columns.values())

    @property
    def _gathered_bytes(self) -> int:
        return self._samples.offset - self._sent[LANE_SAMPLES]

    def sealing(self, now: float, seal_s: float, *, all_of_it: bool, most: int = MOST_GROUPS) -> Batch | None:
        """Return the samples to seal, as a batch of about `most` groups, `is_cut` if there are more; None if none.

        When only full chunks are wanted, every group is cut at the offset of the last full chunk of the fullest
        group. So one offset is the mark of all groups, and a restart reads on from exactly there.
        """
        self.is_cut = False
        if self.origin is None:
            return None
        if self._samples.offset == self._sent[LANE_SAMPLES]:
            return None
        aged = self._oldest is not None and now - self._oldest >= seal_s
        if all_of_it or aged or self._over or self._gathered_bytes >= _HOLD_BYTES:
            groups = list(self._columns.values())
            cut = cut_of([(group.n[0], group.n[-1]) for group in groups], most)
            if cut is None:
                return self._batch(self._samples.offset, groups)
            self.is_cut = True
            return self._batch(cut, [part for group in groups if (part := group.until(cut)).n])
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
            self.origin, LANE_SAMPLES, end, self._samples.damaged, self._refused, columns=groups,
            start=self._sent[LANE_SAMPLES],
            refusals=self._quota.take_refusals(),
        )  # fmt: skip

    def sent(self, batch: Batch, now: float) -> None:
        """Note that a batch was sent to the store or to another hub."""
        self._sent[batch.lane] = batch.end
        if batch.lane == LANE_FACTS:
            return
        rest = {key: group.after(batch.end) for key, group in self._columns.items()}
        self._columns = {key: group for key, group in rest.items() if group.n}
        if not self._columns:
            self._oldest = None
        elif not self.is_cut:
            self._oldest = now

    def committed(self, batch: Batch) -> None:
        """Note that a batch is committed: by the store, or by the hub that it is meant for."""
        self._counts[batch.lane] = batch.damaged, batch.refused
        self._committed[batch.lane] = max(self._committed[batch.lane], batch.end)

    def last(self) -> Batch:
        """Return an empty batch at the end of all that was sent."""
        assert self.origin is not None
        return Batch(self.origin, LANE_FACTS, self._sent[LANE_FACTS], start=self._sent[LANE_FACTS])

    @property
    def spans(self) -> set[str]:
        """The spans of the samples that wait to be sealed."""
        return {group.span for group in self._columns.values()}

    def newest(self, prefix: str) -> Iterator[wire.Newest]:
        """Yield the newest point of each series that waits to be sealed, of the spans whose ids begin with `prefix`."""
        for group in self._columns.values():
            if group.span.startswith(prefix):
                for name, value in zip(group.names, group.rows[-1], strict=True):
                    yield wire.Newest(group.span, name, group.tags, group.t[-1], value)

    @property
    def sealed(self) -> int:
        """The offset in lane s up to which all samples were sent to the store."""
        return self._sent[LANE_SAMPLES]

    def unsealed(self, prefixes: tuple[str, ...], after: int) -> Batch | None:
        """Return unsealed samples behind an offset, of spans whose ids begin with a prefix; None if there are none."""
        start = max(after, self.sealed)
        waiting = (group.after(start) for group in self._columns.values() if group.span.startswith(prefixes))
        found: list[Columns | Block] = [group for group in waiting if group.n]
        if not found or self.origin is None:
            return None
        return Batch(self.origin, LANE_SAMPLES, self._samples.offset, columns=found, start=start)

    @property
    def finished(self) -> bool:
        """Whether its process is dead and all that it wrote is committed."""
        return all(self._at_end.values()) and (self.waiting_bytes == 0 or self.origin is None)

    @property
    def rests(self) -> bool:
        """Whether its process lives, has said its end here, and all that it wrote is committed.

        A process may begin runs by the thousand; each has a spool, and another one if it is captured, which says
        nothing of a process. What is written after the end begins a new segment.
        """
        return (
            self.closed
            and not self.gone
            and (self.about.state in KINDS["process"].ends or (self.origin is not None and not self.origin.process))
            and self.waiting_bytes == 0
            and (self._samples.closed or not list_segments(self.directory, LANE_SAMPLES))
        )

    @property
    def closed(self) -> bool:
        """Whether its process has written that nothing will follow."""
        return self._facts.closed

    def is_held(self) -> bool | None:
        """Tell whether its process holds the lock of a segment, so that it lives; None if that cannot be told.

        A process of another kernel, on a file system of the network, holds locks that we do not see.
        """
        known = kernel.boot_alone(self.origin.boot) if self.origin is not None else ""
        if not known or (known != kernel.boot_alone(kernel.boot()) and not self._is_local):
            return None
        found = [
            is_held(os.path.join(self.directory, segment_name(lane, offset)))
            for lane in (LANE_FACTS, LANE_SAMPLES)
            for offset in list_segments(self.directory, lane)[-1:]
        ]
        if True in found:
            return True
        return False if False in found and None not in found else None

    @functools.cached_property
    def _is_local(self) -> bool:
        return kernel.file_system(self.directory) in kernel.MAPPABLE_FILE_SYSTEMS

    def sync(self) -> None:
        """Flush what was read and is not committed."""
        self._facts.sync(self._committed[LANE_FACTS])
        self._samples.sync(self._committed[LANE_SAMPLES])

    def free(self) -> None:
        """Unlink the segments whose records are all committed. Call it only after a sync of the store."""
        if self._freed == self._committed:
            return
        self._freed = dict(self._committed)
        for lane, mark in self._freed.items():
            for offset, following in itertools.pairwise(list_segments(self.directory, lane)):
                if following <= mark:
                    unlink(os.path.join(self.directory, segment_name(lane, offset)))

    def remove(self) -> None:
        """Remove the spool of a finished origin."""
        self.shut()
        for name in os.listdir(self.directory):
            unlink(os.path.join(self.directory, name))
        os.rmdir(self.directory)

    def remove_read(self) -> None:
        """Remove what was read of the spool of an origin that rests; its process may begin a segment meanwhile."""
        self.shut()
        done = {
            segment_name(lane, offset)
            for tail, lane in ((self._facts, LANE_FACTS), (self._samples, LANE_SAMPLES))
            for offset in list_segments(self.directory, lane)
            if offset < tail.offset  # the next one begins where the last one ends
        }
        for name in os.listdir(self.directory):
            if name in done or name in (FILE, STACKS, EXIT_CODE):
                unlink(os.path.join(self.directory, name))
        with contextlib.suppress(OSError):  # not empty: the next turn finds it again
            os.rmdir(self.directory)

    def remove_empty(self) -> bool:
        """Remove a spool that has no segments; return False when it has some after all."""
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
        """Close the open segments."""
        self._facts.shut()
        self._samples.shut()


def _with_counts(mark: Mark, damaged: int, refused: int, *, gap: bool) -> Mark:
    return Mark(mark.offset, max(mark.damaged, damaged) + gap, max(mark.refused, refused))
