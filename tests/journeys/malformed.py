"""Makes malformed streams that a port must survive: damaged frames, and valid frames with wrong content.

It does no I/O, and the same seed makes the same bytes. All is derived from the declared messages of the wire, so a new
message or field is covered automatically. `fuzz.py` sends the streams.
"""

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any, get_args
from zlib import crc32

import msgspec

from vedette import wire

Frame = tuple[str, bytes]  # the kind of error, and the bytes

_encode = msgspec.msgpack.encode
_DEEP = 100_000
_HELLO = wire.pack_message(wire.Hello(name="fuzz"))
_HUGE = (
    b"\xdd\xff\xff\xff\xff",  # an array of 4 G items
    b"\xdc\xff\xff",  # of 65535
    b"\xdf\xff\xff\xff\xff",  # a map
    b"\xde\xff\xff",
    b"\xc6\xff\xff\xff\xff",  # bytes
    b"\xdb\xff\xff\xff\xff",  # text
    b"\xc9\xff\xff\xff\xff\x01",  # an extension
)
_DEEPS = (
    b"\x91" * _DEEP,
    b"\x81\xa0" * _DEEP,
    b"\x81\xa1a\x91" * _DEEP + b"\xc0",
    b"\x91" * _DEEP + b"\xc0",
    b"\x91" * 900 + b"\xc0",
)
_STRANGERS = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n{",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),  # TLS says hello
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x00\x00\x00\x55\xffSMB" + bytes(77),
    b"*1\r\n$4\r\nPING\r\n",
    b"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94.",  # a pickle
)
_FRAMED = {
    "valid", "wrong type", "bits flipped, checksum right", "noise, framed", "deep or huge", "large and sound",
}  # fmt: skip
# Encoded values that replace a field's value.
_WRONG = (
    b"\xc0", b"\xc2", b"\xc3", b"\x00", b"\xff", b"\xcf" + b"\xff" * 8, b"\xd3\x80" + bytes(7),
    b"\xcb\x7f\xf8" + bytes(6), b"\xcb\x7f\xf0" + bytes(6), b"\xa0", b"\xa3abc", b"\xa2\xff\xfe", b"\xa1\x00",
    b"\xc4\x03abc", b"\x90", b"\x80", b"\x91\xc0", b"\x81\xa1a\xc0", b"\x81\xc0\xc0", b"\x81\x90\x90",
    b"\xd4\xff\x00", b"\xd6\xff\xff\xff\xff\xff", b"\xc1", _encode("x" * 5000), _encode(["../" * 50] * 20),
)  # fmt: skip


def structs_of(messages: Any) -> list[type[msgspec.Struct]]:
    """Return the structs of a union of messages."""
    return list(get_args(messages)) or [messages]


def fill(kind: Any) -> Any:
    """Return a valid value of a type, as plain data."""
    info = msgspec.inspect.type_info(kind) if not isinstance(kind, msgspec.inspect.Type) else kind
    match info:
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.IntType():
            return info.ge if info.ge is not None else 1
        case msgspec.inspect.FloatType():
            return 0.5
        case msgspec.inspect.StrType():
            return "abc".ljust(info.min_length or 0, "0")
        case msgspec.inspect.BytesType() | msgspec.inspect.ByteArrayType():
            return b"abc".ljust(info.min_length or 0, b"0")
        case msgspec.inspect.NoneType():
            return None
        case msgspec.inspect.LiteralType():
            return info.values[0]
        case msgspec.inspect.DictType():
            return {fill(info.key_type): fill(info.value_type)}
        case (
            msgspec.inspect.ListType()
            | msgspec.inspect.SetType()
            | msgspec.inspect.FrozenSetType()
            | msgspec.inspect.VarTupleType()
        ):
            return [fill(info.item_type)]
        case msgspec.inspect.TupleType():
            return [fill(item) for item in info.item_types]
        case msgspec.inspect.UnionType():
            return fill(info.types[-1])
        case msgspec.inspect.Metadata():
            return fill(info.type)
        case msgspec.inspect.StructType():
            return msgspec.to_builtins(_example(info), builtin_types=(bytes,))
    return 1


def _example(info: msgspec.inspect.StructType) -> Any:
    plain = {field.encode_name: fill(field.type) for field in info.fields}
    if info.tag_field is not None:
        plain[info.tag_field] = info.tag
    if info.array_like:
        return [*([info.tag] if info.tag_field is not None else []), *(fill(field.type) for field in info.fields)]
    return plain


def _parts(kind: type[msgspec.Struct]) -> tuple[bool, list[tuple[bytes, bytes]]]:
    """Return whether a message is an array, and its (encoded name, encoded value) pairs, the tag among them."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    pairs = [(_encode(field.encode_name), _encode(fill(field.type))) for field in info.fields]
    if info.tag_field is not None:
        pairs.insert(0, (_encode(info.tag_field), _encode(info.tag)))
    return info.array_like, pairs


def _join(array: bool, pairs: list[tuple[bytes, bytes]]) -> bytes:
    if array:
        return b"\xdc" + struct.pack(">H", len(pairs)) + b"".join(value for _, value in pairs)
    return b"\xde" + struct.pack(">H", len(pairs)) + b"".join(name + value for name, value in pairs)


def valid_payloads(messages: Any = wire.Message) -> list[bytes]:
    """Return one valid payload of each message."""
    return [_join(*_parts(kind)) for kind in structs_of(messages)]


def wrong_payloads(messages: Any = wire.Message) -> list[bytes]:
    """Return every message with every field, and its tag, replaced, left out, doubled, and one too many."""
    found = []
    for kind in structs_of(messages):
        array, pairs = _parts(kind)
        for at, (name, value) in enumerate(pairs):
            before, after = pairs[:at], pairs[at + 1 :]
            found += [_join(array, [*before, (name, wrong), *after]) for wrong in (*_WRONG, *_HUGE)]
            found += [_join(array, [*before, (wrong, value), *after]) for wrong in _WRONG if not array]
            found += [_join(array, before + after), _join(array, [*before, (name, value), (name, value), *after])]
        found += [_join(array, [*pairs, (_encode("more"), wrong)]) for wrong in (*_WRONG, *_HUGE)]
        found += [_join(array, pairs) + b"\x00", _join(array, pairs)[:-1], _join(not array, pairs)]
    return found


class Malformer:
    """Makes streams for connections: lists of frames, most of them wrong.

    A connection ends at the first frame that the other side refuses, so later frames are often not reached.
    """

    def __init__(self, seed: int, messages: Any = wire.Message, *, greets: bool = True, framed: bool = False) -> None:
        """`greets`: most streams begin with a Hello; otherwise it was sent before.

        `framed`: only errors inside valid frames, and few per stream, so that most frames are reached.
        """
        self._chance = random.Random(seed)
        self._greets = 0.85 if greets else 0.0
        self.valid = [wire.frame(payload) for payload in valid_payloads(messages)]
        self.wrong = [wire.frame(payload) for payload in wrong_payloads(messages)]
        self._hostile = [wire.frame(payload) for payload in (*_DEEPS, *_HUGE, b"", b"\xc1", b"\x00" * 1000)]
        self.kinds: dict[str, tuple[int, Callable[[], bytes]]] = {
            "valid": (6, lambda: self._chance.choice(self.valid)),
            "wrong type": (30, lambda: self._chance.choice(self.wrong)),
            "bits flipped": (12, self._flip),
            "bits flipped, checksum right": (20, lambda: wire.frame(self._flip(wire.HEAD.size)[wire.HEAD.size :])),
            "wrong length": (8, self._stretch),
            "over the limit": (4, self._oversize),
            "cut short": (6, self._truncate),
            "noise": (6, lambda: self._chance.randbytes(self._chance.choice((1, 7, 8, 9, 300, 5000)))),
            "noise, framed": (8, lambda: wire.frame(self._chance.randbytes(self._chance.randrange(200)))),
            "deep or huge": (1, lambda: self._chance.choice(self._hostile)),
            "another protocol": (2, lambda: self._chance.choice(_STRANGERS)),
            "zeros": (1, lambda: bytes(self._chance.choice((8, 4096, 100_000)))),
            "large and sound": (0.1, lambda: wire.frame(_encode({"type": "hello", "name": "x" * 1_000_000}))),
        }
        if framed:
            self.kinds = {name: kind for name, kind in self.kinds.items() if name in _FRAMED}
        self._most = 5 if framed else 40
        self._names = list(self.kinds)
        self._weights = [weight for weight, _ in self.kinds.values()]

    def frames(self, count: int) -> Iterator[Frame]:
        """Make single frames; each kind has a weight."""
        kinds = self.kinds
        for name in self._chance.choices(self._names, self._weights, k=count):
            yield name, kinds[name][1]()

    def stream(self) -> list[Frame]:
        """Make what one connection sends: with or without a Hello, valid messages first or not, doubled, shuffled."""
        chance = self._chance
        frames = list(self.frames(chance.randrange(1, self._most)))
        if chance.random() < 0.2:
            frames += frames[: len(frames) // 2]  # sent twice
        if chance.random() < 0.2:
            chance.shuffle(frames)
        if chance.random() < self._greets:
            frames[:0] = [("hello", _HELLO)] * chance.choice((1, 1, 1, 2))
        return frames

    def _flip(self, begin: int = 0) -> bytes:
        data = bytearray(self._chance.choice(self.valid))
        for _ in range(self._chance.choice((1, 1, 1, 2, 8))):
            at = self._chance.randrange(begin * 8, len(data) * 8)
            data[at >> 3] ^= 1 << (at & 7)
        return bytes(data)

    def _stretch(self) -> bytes:
        payload = self._chance.choice(self.valid)[wire.HEAD.size :]
        size = max(0, len(payload) + self._chance.choice((-9, -1, 1, 2, 100, 60_000)))
        crc = crc32(payload, self._chance.choice((size, len(payload))))
        return wire.pack_head(size, crc) + payload

    def _oversize(self) -> bytes:
        size = self._chance.choice((wire.MAX_PAYLOAD + 1, 1 << 24, 1 << 31, wire.CLOSED, wire.END))
        return wire.pack_head(size, crc32(b"", size)) + self._chance.choice((b"", b"\x90" * 50))

    def _truncate(self) -> bytes:
        data = self._chance.choice(self.valid)
        return data[: self._chance.randrange(len(data))]
