"""A bound handle for one series: the fastest way to log a number."""

from collections.abc import Callable
from struct import Struct
from time import time_ns
from zlib import crc32

from vedette import wire
from vedette.client.journal import Journal
from vedette.interrupts import let_through

Handle = Callable[..., None]


def bind(journal: Journal, name: str, tags: dict[str, str], careful: Callable[..., None]) -> Handle:
    """Return `handle(value, step=None)`, which logs one float of the series.

    One struct packs the record: all bytes of the `Sample` are fixed except time, step and value.
    Other values, and series with tags, go to `careful(values, step, tags)`.
    """
    key = wire.encode({name: 0.5})[:-8]
    layout = Struct(f">2sQ1sq{len(key)}sd")
    size, pack_payload = layout.size, layout.pack
    pack_record = Struct(f"<4sI{size}s").pack
    length = size.to_bytes(4, "little")
    lane, voice = journal.spool.samples, journal.voice
    last = -1

    def log(value: float, step: int | None = None) -> None:
        """Log one number; without a step, the one after the last."""
        nonlocal last
        try:
            if step is None:
                step = last + 1
            last = step
            # an array of three: a uint64, an int64, a map of one double
            payload = pack_payload(b"\x93\xcf", t := time_ns(), b"\xd3", step, key, value)
        except Exception as error:
            let_through(error)
            careful({name: value}, step, tags)
            return
        try:
            lane.write(pack_record(length, crc32(payload, size), payload))
        except ValueError as error:
            let_through(error)
            lane.roll(wire.frame(payload))
        if t > voice.wake_at:
            journal.wake_hub()

    def log_tagged(value: float, step: int | None = None) -> None:
        """Log one number; without a step, the one after the last."""
        nonlocal last
        try:
            last = last + 1 if step is None else int(step)
        except Exception:
            last = 0
        careful({name: value}, last, tags)

    return log_tagged if tags else log
