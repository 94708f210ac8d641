"""Batches <-> parcels: the form in which a hub sends batches to another hub or to a reader, in wide columns of numbers.

A parcel comes from another machine: everything in it is checked.
"""

from typing import Literal

import msgspec

from vedette import wire
from vedette.errors import FormatError
from vedette.ids import is_id
from vedette.model import HUB, LANE_FACTS, MOST_VALUES, OWNER, Blob, Event, Fact, Origin, Span, count_values, shallow
from vedette.settings import Limits
from vedette.store import Batch, Block

MOST_NUMBERS = 8 << 20  # numbers in one shipment: 64 MiB
_PARCEL_BYTES = 2 << 20  # of samples in one parcel, if nothing can be compressed and there are several of them
_MOST_REFUSED = 1 << 40  # points that one parcel may say were over a limit
_FACT_HEAD = 16  # bytes of a fact beside its payload, about


def pack(batch: Batch, *, over: bool = False) -> list[wire.Parcel]:
    """Return a batch as parcels, each small enough for one shipment."""
    parcels = _pack_facts(batch) if batch.lane == LANE_FACTS else _pack_samples(batch)
    return [*parcels[:-1], msgspec.structs.replace(parcels[-1], over=over)]


def _parcel(
    batch: Batch, start: int, end: int, facts: list[tuple[int, bytes]], blocks: list[wire.Packed]
) -> wire.Parcel:
    origin = msgspec.structs.replace(batch.origin, upstream="")  # it may hold a token
    lane: Literal["f", "s"] = "f" if batch.lane == LANE_FACTS else "s"
    return wire.Parcel(origin, lane, start, end, batch.damaged, batch.refused, facts, blocks, refusals=batch.refusals)


def _pack_facts(batch: Batch) -> list[wire.Parcel]:
    parcels: list[wire.Parcel] = []
    facts: list[tuple[int, bytes]] = []
    start, size = batch.start, 0
    for n, fact in batch.facts:
        payload = wire.encode(fact)
        if facts and size + len(payload) > wire.MAX_PAYLOAD:
            parcels.append(_parcel(batch, start, facts[-1][0], facts, []))
            start, size, facts = facts[-1][0], 0, []
        facts.append((n, payload))
        size += len(payload) + _FACT_HEAD
    return [*parcels, _parcel(batch, start, batch.end, facts, [])]


def _pack_samples(batch: Batch) -> list[wire.Parcel]:
    if not batch.columns:
        return [_parcel(batch, batch.start, batch.end, [], [])]
    import numpy as np

    blocks = [columns.block() for columns in batch.columns]
    offsets = np.unique(np.concatenate([block.n for block in blocks]))
    if sum(map(_most_bytes, blocks)) > _PARCEL_BYTES and len(offsets) > 1:
        cut = int(offsets[len(offsets) // 2 - 1])
        first = [b if b.n[-1] <= cut else b.until(cut) for b in blocks if b.n[0] <= cut]
        second = [b if b.n[0] > cut else b.after(cut) for b in blocks if b.n[-1] > cut]
        return [
            *_pack_samples(msgspec.structs.replace(batch, columns=first, end=cut)),
            *_pack_samples(msgspec.structs.replace(batch, columns=second, start=cut, refusals={})),
        ]
    return [_parcel(batch, batch.start, batch.end, [], [_pack_block(block) for block in blocks])]


def _most_bytes(block: Block) -> int:
    """Return how large a packed block can be at most: when nothing can be compressed."""
    names = sum(map(len, block.names)) + sum(len(key) + len(value) for key, value in block.tags.items())
    return len(block.n) * (3 + len(block.names)) * 8 + 4 * names + 20 * len(block.names) + 200


def _pack_block(block: Block) -> wire.Packed:
    import numpy as np

    from vedette.store.chunks import pack as packed

    n, t, step, *values = (
        packed(np.ascontiguousarray(column)) for column in (block.n, block.t, block.step, *block.values)
    )
    return wire.Packed(block.span, block.tags, list(block.names), len(block.n), n, t, step, values)


def unpack(parcel: wire.Parcel) -> Batch:
    """Return the batch of a parcel; raise FormatError when its content does not fit its header.

    Facts are treated as those of a spool: one that cannot be read is counted, one that a process says for others is
    attributed to the process.
    """
    if parcel.start > parcel.end:
        raise FormatError(f"a parcel goes from {parcel.start} to {parcel.end}")
    batch = Batch(
        parcel.origin,
        parcel.lane,
        parcel.end,
        parcel.damaged,
        parcel.refused,
        start=parcel.start,
        refusals=_counts(parcel.refusals),
    )
    last = parcel.start
    for n, payload in parcel.facts:
        if not last < n <= parcel.end:
            raise FormatError("the facts of a parcel are not in order")
        last = n
        fact = read_fact(payload, parcel.origin)
        if fact is None:
            batch.refused += 1
        else:
            batch.facts.append((n, fact))
    batch.columns = [_unpack_block(packed, parcel) for packed in parcel.blocks]
    return batch


def values_of(fact: Fact) -> int:
    """Return how many values are in the attributes of a fact, and how many places it waits for."""
    return (
        0 if isinstance(fact, Blob) else count_values(fact.attrs) + (len(fact.after) if isinstance(fact, Span) else 0)
    )


def weight_of(fact: Fact) -> int:
    """Return how much work it is to mask and store a fact, about: a short one is 1, and text adds to it."""
    return (
        1 + (len(fact.text) >> 8)
        if isinstance(fact, Event)
        else 1 + (len(fact.after) >> 3 if isinstance(fact, Span) else 0)
    )


def numbers_in(parcel: wire.Parcel) -> int:
    """Return how many numbers a parcel claims to hold."""
    return sum(block.count * (3 + len(block.names)) for block in parcel.blocks)


def packed_bytes(parcel: wire.Parcel) -> int:
    """Return about how many bytes the samples of a parcel take on the wire."""
    return sum(
        sum(map(len, (block.n, block.t, block.step, *block.values, *block.names))) + 100 for block in parcel.blocks
    )


def _counts(refusals: dict[str, int]) -> dict[str, int]:
    """Return the counts that are plausible: of limits that exist."""
    known = {f"limits.{name}" for name in Limits.__struct_fields__}
    return {limit: count for limit, count in refusals.items() if limit in known and 0 < count <= _MOST_REFUSED}


def nothing_of(parcel: wire.Parcel) -> Batch:
    """Return an empty batch in place of a parcel that cannot be read; it counts one damaged record."""
    end = max(parcel.start, parcel.end)
    return Batch(parcel.origin, parcel.lane, end, parcel.damaged + 1, parcel.refused, start=parcel.start)


def read_fact(payload: bytes, origin: Origin) -> Fact | None:
    """Return a fact, None when it cannot be read, or is longer than any that a process writes.

    A process may speak only for itself: `by` and `of` are reset. Attributes that are nested too deep are cut; those
    that are too many cannot be read.
    """
    if len(payload) > wire.MAX_PAYLOAD:
        return None
    try:
        fact = wire.decode_fact(payload)
    except wire.UNREADABLE:
        return None
    if not isinstance(fact, Blob):
        try:
            if len(payload) > MOST_VALUES and count_values(fact.attrs) > MOST_VALUES:
                return None
        except RecursionError:  # it is as deep as it is large
            return None
        if (attrs := shallow(fact.attrs)) is not fact.attrs:
            fact = msgspec.structs.replace(fact, attrs=attrs)
    if isinstance(fact, Span) and (fact.by != OWNER or fact.of) and (origin.voice != HUB or origin.process):
        return msgspec.structs.replace(fact, by=OWNER, of="")
    return fact


def _unpack_block(packed: wire.Packed, parcel: wire.Parcel) -> Block:
    count, names = packed.count, packed.names
    if len(names) != len(packed.values):
        raise FormatError(f"a block claims {count} rows of {len(names)} names and {len(packed.values)} columns")
    if not names or len(set(names)) != len(names) or not is_id(packed.span):
        raise FormatError("a block has no names, one twice, or no span")
    from vedette.store.chunks import unpack_exactly

    n, t, step = (unpack_exactly(data, count) for data in (packed.n, packed.t, packed.step))
    if any(column.dtype != "int64" for column in (n, t, step)):
        raise FormatError("offsets, times and steps are not integers")
    if n[0] <= parcel.start or n[-1] > parcel.end or (n[1:] <= n[:-1]).any() or t.min() < 0:
        raise FormatError("the samples of a parcel are not in order, or have negative times")
    values = tuple(unpack_exactly(data, count) for data in packed.values)
    return Block(packed.span, dict(sorted(packed.tags.items())), tuple(names), n, t, step, values)
