"""Makes wrong shipments in valid frames, as a hostile hub with the right token could send them.

Each kind of error has a name, so that a test can say which one breaks the hub.
"""

import random
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from vedette import wire
from vedette.model import HUB, Event, Origin, Span
from vedette.store import chunks

_ROWS = 50
_END = 100 * _ROWS


class Hostile:
    """Makes wrong shipments; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._made = 0
        self.kinds: dict[str, Callable[[], list[wire.Parcel]]] = {
            "sound": lambda: [self._facts(), self._samples()],
            "lane": lambda: [self._facts(lane=self._pick("x", "", "fs", "f" * 100), start=self._pick(0, 5))],
            "beyond": lambda: [self._facts(start=1 << 20)],
            "ends": lambda: [self._samples(**self._pick(*_ENDS))],
            "integers": lambda: [
                self._facts(**{self._pick("damaged", "refused"): (1 << 64) - 1}),
                self._facts(origin=self._origin(**{self._pick("pid", "started"): self._pick(1 << 63, -(1 << 63))})),
            ],
            "names": lambda: [self._facts(origin=self._origin(name=self._pick("", "a\0b", "../../x", "n" * 100_000)))],
            "facts": lambda: [self._facts(facts=self._wrong_facts())],
            "columns": lambda: [self._samples(**self._wrong_columns())],
            "claims": lambda: [self._samples(**self._pick(*_CLAIMS))],
            "order": lambda: [self._samples(n=_pack(np.arange(_ROWS, 0, -1) * 100)), self._samples(t=_pack(-_steps()))],
            "refusals": lambda: [self._samples(refusals=_REFUSALS)],
            "many": lambda: [self._facts() for _ in range(300)],
            "over": lambda: [self._facts(over=True), self._samples(over=True)],
            "bomb": lambda: [self._bomb(part) for part in range(8)],
        }  # fmt: skip

    def shipment(self, kind: str, seq: int = 1) -> wire.Shipment:
        """Make a shipment of this kind."""
        return wire.Shipment(seq, self.kinds[kind]())

    def _pick(self, *items: Any) -> Any:
        return self._chance.choice(items)

    def _origin(self, **said: Any) -> Origin:
        self._made += 1
        name = f"hostile-{self._chance.randrange(1 << 30)}-{self._made}"
        return msgspec.structs.replace(Origin(name, "hostile", "boot", 7, 1, name, f"{name}/1/p"), **said)

    def _facts(self, **said: Any) -> wire.Parcel:
        start = said.get("start", 0)
        event = wire.encode(Event("hostile", time.time_ns(), "mark", 20, "x"))
        parcel = wire.Parcel(self._origin(), "f", start, start + _END, facts=[(start + _END, event)])
        return msgspec.structs.replace(parcel, **said)

    def _samples(self, **said: Any) -> wire.Parcel:
        """Make a parcel of samples; the keywords replace fields of the parcel or of its block."""
        n, t, step, value = (_pack(column) for column in (_steps() * 100, _steps() + 10**18, _steps(), _steps() * 0.5))
        block = wire.Packed("hostile", {}, ["a", "b"], _ROWS, n, t, step, [value, value])
        of_block = {key: value for key, value in said.items() if key in wire.Packed.__struct_fields__}
        blocks = [msgspec.structs.replace(block, **of_block)]
        of_parcel = {key: value for key, value in said.items() if key not in of_block}
        return msgspec.structs.replace(wire.Parcel(self._origin(), "s", 0, _END, blocks=blocks), **of_parcel)

    def _wrong_facts(self) -> list[tuple[int, bytes]]:
        sound = wire.encode(Event("hostile", time.time_ns(), "mark", 20, "x"))
        flipped = bytearray(sound)
        flipped[self._chance.randrange(len(flipped))] ^= 1 << self._chance.randrange(8)
        above = wire.encode(Span("hostile", 1, "failed", "I say so", HUB, kind="run"))
        return self._pick(
            [(5, sound), (4, sound)],
            [(_END + 1, sound)],
            [(-1, sound)],
            [(1, bytes(flipped)), (2, self._chance.randbytes(50)), (3, b""), (4, b"\x91" * 50_000)],
            [(1, above)],
            [(number, sound) for number in range(1, 2000)],
        )

    def _wrong_columns(self) -> dict[str, Any]:
        which = self._pick("n", "t", "step", "values")
        return {which: [self._wrong_column(), self._wrong_column()] if which == "values" else self._wrong_column()}

    def _wrong_column(self) -> bytes:
        """Return bytes that are not a column, or a column of the wrong length or values."""
        sound = bytearray(_pack(_steps()))
        sound[self._chance.randrange(len(sound))] ^= 1 << self._chance.randrange(8)
        return self._pick(b"", b"z", b"p", b"i1234567", _pack(_steps()[:7]), bytes(sound), self._chance.randbytes(300))

    def _bomb(self, number: int) -> wire.Parcel:
        """Make a parcel of a few hundred bytes that holds 64 MB of numbers."""
        rows = 1 << 20
        steps = np.arange(1, rows + 1)
        zeros = _pack(np.zeros(rows))
        return self._samples(
            end=1 << 40, tags={"bomb": str(number)}, names=list("abcde"), count=rows, n=_pack(steps), t=_pack(steps),
            step=_pack(steps), values=[zeros] * 5,
        )  # fmt: skip


_ENDS: tuple[dict[str, Any], ...] = ({"end": 0}, {"end": -1}, {"start": -5}, {"end": 1 << 62})
_REFUSALS = {"limits.name_chars": -5, "limits.points_per_s": 1 << 63, "x": 1}
_CLAIMS: tuple[dict[str, Any], ...] = (
    {"count": 0},
    {"count": -1},
    {"count": 1 << 62},
    {"count": _ROWS + 1},
    {"names": []},
    {"names": ["a", "a"]},
    {"names": ["a"]},
    {"names": ["a" * 100_000, "b"]},
    {"names": ["a\0", ""]},
    {"span": ""},
    {"span": "s" * 1000},
    {"tags": {"t" * 100_000: "v", "": "\0"}},
    {"tags": {str(number): "v" for number in range(5000)}},
)


def _steps() -> Any:
    return np.arange(1, _ROWS + 1, dtype=np.int64)


def _pack(column: Any) -> bytes:
    return chunks.pack(np.ascontiguousarray(column))
