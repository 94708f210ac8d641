"""A bound handle for one series: the fastest way to log a number."""

from collections.abc import Callable
from struct import Struct
from time import time_ns
from typing import NamedTuple
from zlib import crc32

from vedette import wire
from vedette.client.journal import Journal
from vedette.interrupts import let_through

Handle = Callable[..., None]


class Bound(NamedTuple):
    """The handle of one series, and the step that it logs at next."""

    log: Handle
    next_step: Callable[[], int]


def bind(journal: Journal, name: str, tags: dict[str, str], careful: Callable[..., None], step: int) -> Bound:
    """Return a handle `log(value, step=None)`, which logs one float of the series; `step`: the first one.

    One struct packs the record: all bytes of the `Sample` are fixed except time, step and value.
    Other values go to `careful(values, step, tags, next_step)`.
    """
    key = wire.encode({name: 0.5})[:-8]
    layout = Struct(f">2sQ1sq{len(key)}sd")
    size, pack_payload = layout.size, layout.pack
    head = b"\x93\xcf"  # an array of three: a uint64, an int64, a map of one double
    if tags:
        head, rest = b"\x95\xcf", wire.encode("") + wire.encode(tags)  # of five
        size, pack_payload = size + len(rest), lambda *fields: layout.pack(*fields) + rest
    pack_record = Struct(f"<4sI{size}s").pack
    length = size.to_bytes(4, "little")
    lane, voice = journal.spool.samples, journal.voice
    last = step - 1

    def log(value: float, step: int | None = None) -> None:
        """Log one number; without a step, the one after the last."""
        nonlocal last
        try:
            if step is None:
                step = last = last + 1
            payload = pack_payload(head, t := time_ns(), b"\xd3", step, key, value)
            if step > last:  # noqa: PLR1730 - a smaller one does not set the count back; max() costs a call
                last = step
        except Exception as error:
            let_through(error)
            careful({name: value}, step, tags, last + 1)
            return
        try:
            lane.write(pack_record(length, crc32(payload, size), payload))
        except ValueError as error:
            let_through(error)
            lane.roll(wire.frame(payload))
        if t > voice.wake_at:
            journal.wake_hub()

    return Bound(log, lambda: last + 1)
