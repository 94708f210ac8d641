"""A bound handle for one series: the fastest way to log a number."""

from collections.abc import Callable
from struct import Struct
from time import time_ns
from zlib import crc32

from vedette import wire
from vedette.client.journal import Journal

Handle = Callable[..., None]


def bind(journal: Journal, name: str, tags: dict[str, str], careful: Callable[..., None]) -> Handle:
    """Return `handle(value, step=None)`, which logs a float of the series.

    The record is laid out by one struct: its shape is that of `Sample`, fixed but for time, step and value.
    What does not fit goes to `careful(values, step, tags)`.
    """
    head = b"\x95" if tags else b"\x93"
    key = wire.encode({name: 0.5})[:-8]
    rest = b"\xa0" + wire.encode(tags) if tags else b""
    layout = Struct(f">2sQ1sq{len(key)}sd{len(rest)}s")
    size = layout.size
    pack_payload = layout.pack
    pack_record = Struct(f"<4sI{size}s").pack
    length = size.to_bytes(4, "little")
    uint64, int64 = head + b"\xcf", b"\xd3"
    lane = journal.spool.samples
    count = 0

    def log(value: float, step: int | None = None) -> None:
        """Log one number; without a step, the one after the last."""
        nonlocal count
        try:
            if step is None:
                step = count
            count = step + 1
            t = time_ns()
            payload = pack_payload(uint64, t, int64, step, key, value, rest)
            lane.write(pack_record(length, crc32(payload, size), payload))
            if t > journal.wake_at:
                journal.wake_hub()
        except Exception:
            careful({name: value}, step, tags)

    return log
