"""A bound handle for one series: the fastest way to log a number."""

from collections.abc import Callable
from struct import Struct
from time import time_ns
from typing import Any, NamedTuple
from zlib import crc32

from vedette import wire
from vedette.client.journal import Journal
from vedette.interrupts import let_through

Handle = Callable[..., None]


class Bound(NamedTuple):
    """The handle of one series, the step that it logs at next, and what tells it of a step that it did not write."""

    log: Handle
    next_step: Callable[[], int]
    advance: Callable[[int], None]


def bind(
    journal: Journal, name: str, tags: dict[str, str], careful: Callable[..., None], begin: Callable[[], int]
) -> Bound:
    """Return a handle `log(value, step=None)`, which logs one float of the series.

    One struct packs the record: all bytes of the `Sample` are fixed except time, step and value.
    Other values go to `careful(values, step, tags, next_step)`. Before the first step that is not given, `begin` is
    called once: it returns the run's next step, and from then on `advance` has to be called.
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
    last = -1
    counts = False

    def begin_to_count() -> None:
        nonlocal last, counts
        last = max(last, begin() - 1)
        counts = True

    def advance(step: int) -> None:
        nonlocal last
        last = max(last, step)

    def log_carefully(value: Any, step: Any) -> None:
        if not counts:  # the step may be a bad one, in whose place the next one is taken
            begin_to_count()
        careful({name: value}, step, tags, last + 1)

    def log(value: float, step: int | None = None) -> None:
        """Log one number; without a step, the one after the last."""
        nonlocal last
        try:
            if step is None:
                if not counts:
                    begin_to_count()
                step = last = last + 1
            payload = pack_payload(head, t := time_ns(), b"\xd3", step, key, value)
            if step > last:  # noqa: PLR1730 - a smaller one does not set the count back; max() costs a call
                last = step
        except Exception as error:
            let_through(error)
            log_carefully(value, step)
            return
        try:
            lane.write(pack_record(length, crc32(payload, size), payload))
        except ValueError as error:
            let_through(error)
            lane.roll(wire.frame(payload))
        if t > voice.wake_at:
            journal.wake_hub()

    return Bound(log, lambda: last + 1, advance)
