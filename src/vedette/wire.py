"""Bytes <-> facts: how a record is framed, what the messages on the hub's socket are, and their limits.

Nothing here does I/O. A frame is length u32, crc32 u32, payload, little endian. The checksum starts from
the length, so that a damaged header is noticed too. Spool segments and sockets carry the same frames.
"""

import math
import struct
from collections.abc import Callable, Generator
from typing import Annotated, Any, Literal
from zlib import crc32

import msgspec
from msgspec import Meta, Struct, field

from vedette.errors import FormatError, VersionError
from vedette.model import Blob, Command, Event, Fact, Id, Origin, Sample, Span, Value
from vedette.settings import Keep

VERSION = 1
MAX_PAYLOAD = 1 << 20
MAX_SHIPMENT = 8 << 20
MAX_HELLO = 4 << 10  # what may be sent before Hello is accepted
END = 0xFFFFFFFF  # instead of a length: go on in the next segment
CLOSED = 0xFFFFFFFE  # instead of a length: nothing will follow
NO_RUN = "-"  # no run has this id: Seal(NO_RUN) asks for a turn, which reads all spools, and seals nothing

# All that msgspec raises on malformed bytes (for text that is not UTF-8 it is a plain ValueError).
UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)

HEAD = struct.Struct("<II")
pack_head = HEAD.pack
unpack_head = HEAD.unpack_from

encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode
decode_fact: Callable[[bytes], Fact] = msgspec.msgpack.Decoder(Span | Event | Blob).decode
decode_sample: Callable[[bytes], Sample] = msgspec.msgpack.Decoder(Sample).decode
_decode_any: Callable[[bytes], Any] = msgspec.msgpack.Decoder().decode


def frame(payload: bytes) -> bytes:
    """Put length and checksum before a payload."""
    size = len(payload)
    return pack_head(size, crc32(payload, size)) + payload


def rescue_sample(payload: bytes) -> tuple[Sample | None, int]:
    """Read a sample whose keys or steps have wrong types; return what could be saved, and how many values were lost.

    To be fast, the client writes what it is given without checking it. It is corrected here.
    """
    try:
        t, step, values, *rest = _decode_any(payload)
        numbers = {str(k): v for k, v in values.items() if isinstance(v, float | int)}
        span, tags = rest or ("", {})
        t = int(t)
        step = int(step) if isinstance(step, int) or (isinstance(step, float) and math.isfinite(step)) else 0
        t, step = max(0, min(t, (1 << 63) - 1)), max(-(1 << 63), min(step, (1 << 63) - 1))
        sample = Sample(t, step, numbers, str(span), {str(k): str(v) for k, v in tags.items()})
        return (sample if numbers else None), len(values) - len(numbers)
    except (*UNREADABLE, AttributeError):
        return None, 1


class Unframer:
    """Cuts a stream of bytes into payloads; raises FormatError on damage or a frame over the limit."""

    def __init__(self, limit: int = MAX_PAYLOAD) -> None:
        self.limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Generator[bytes, None, None]:
        """Take bytes as they come; yield each payload that is complete."""
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= HEAD.size:
                size, crc = unpack_head(self._buffer, at)
                if size > self.limit:
                    raise FormatError(f"a frame of {size} bytes is over the limit of {self.limit}")
                stop = at + HEAD.size + size
                if stop > len(self._buffer):
                    break
                payload = bytes(self._buffer[at + HEAD.size : stop])
                if crc32(payload, size) != crc:
                    raise FormatError("a frame's checksum is wrong")
                at = stop
                yield payload
        finally:
            del self._buffer[:at]


# Messages of a reader or a command to a hub, and its answers. Each side says Hello first.


class Hello(Struct, frozen=True, tag="hello"):
    """The name of the sender, and its version of the wire; over TCP also the token of the hub."""

    version: int = VERSION
    name: str = ""
    token: str = ""
    home: str = ""  # of a hub: the lasting id of its home
    takes: list[str] = []  # of a hub: optional kinds of messages that it accepts
    challenge: bytes = b""  # of a hub: what a relay signs


class Seal(Struct, frozen=True, tag="seal"):
    """Asks the hub to put into the store all that this run has logged until now; without a run, all of every run."""

    run: str = ""
    id: str = ""  # between hubs: a hub that has seen it does not pass it on again
    within_s: float = 45.0  # it is answered by then, though not all of it is there


class Follow(Struct, frozen=True, tag="follow"):
    """Asks for a Change each time something of this run is committed; without a run, of any run."""

    run: str = ""


class Edit(Struct, frozen=True, tag="edit"):
    """Asks the hub to keep a user's edit of spans: attributes, or the end that removes them for good."""

    spans: list[Id]
    attrs: dict[str, Value] = {}
    state: Literal["", "purged"] = ""  # a user may set no other state


class AskHealth(Struct, frozen=True, tag="ask_health"):
    """Asks how the hub is."""


class Health(Struct, frozen=True, tag="health"):
    """How the hub is: what `vedette doctor` shows."""

    pid: int
    version: str
    up_s: float
    living: int  # origins whose process is alive
    waiting_bytes: int  # read from spools, not yet sealed
    set_aside: dict[str, str] = {}  # origins that cannot be read, and why
    trouble: str = ""  # why the hub cannot commit; empty when it can
    listens: str = ""  # the address that other hubs connect to
    deaf: str = ""  # why an address that it should listen on cannot be had
    links: list[tuple[str, float | None]] = []  # hosts of downstreams: how far their clock is ahead, if known
    relays: list[tuple[str, str]] = []  # addresses of upstreams, and what is wrong there, if anything
    refused: dict[str, int] = {}  # what was refused, by reason or limit
    keep: Keep = Keep()  # the rules by which it removes runs
    sweeping: bool = False  # it is deleting purged data
    sweep_trouble: str = ""  # why it cannot delete purged data; empty when it can
    helpers: list[str] = []  # what is wrong with helper processes other than listeners, a sentence each
    relaying: list[str] = []  # the ids of the relays that are connected
    longest_turn_s: float = 0.0  # since it began: so long at most somebody has waited for it
    sent_trouble: str = ""  # what went wrong last with what other hubs send, if it was recently


class AskLatest(Struct, frozen=True, tag="ask_latest"):
    """Asks for the newest point of every series that waits to be sealed, of spans whose ids begin with `prefix`."""

    prefix: str = ""


class Newest(Struct, frozen=True, array_like=True):
    """The newest point of a series that is not in the store yet."""

    span: str
    name: str
    tags: dict[str, str]
    t: int
    value: float | int | bool


class Latest(Struct, frozen=True, tag="latest"):
    """The answer to AskLatest; if there are very many series, only some of them."""

    points: list[Newest] = []


class Done(Struct, frozen=True, tag="done"):
    """A request is done."""

    count: int = 0
    id: str = ""  # of the Seal that is answered, between hubs
    behind: list[str] = []  # hosts of hubs that were not done in time: their data may be old


class TakeIn(Struct, frozen=True, tag="take_in"):
    """Asks the hub to take a home, spool or archive at a path of its machine into its store."""

    path: str


class TakenIn(Struct, frozen=True, tag="taken_in"):
    """How much of it was new until now; the last one has `over`."""

    spans: int
    events: int
    points: int
    notes: list[str] = []  # what could not be taken in, though the rest was
    over: bool = False


class Change(Struct, tag="change"):
    """What was committed just now: the ids of spans that changed, or that have new events or points."""

    spans: list[str] = []
    events: list[str] = []
    points: list[str] = []
    missed: bool = False  # this follower was too slow: read everything again


LEAVE = "leave"  # in Hello.takes: this hub takes Leave


class Leave(Struct, frozen=True, tag="leave"):
    """Asks the hub to end, as a SIGTERM does: it stores all that it has, and releases the home."""


class Refused(Struct, frozen=True, tag="refused"):
    """Why a request was refused."""

    why: str


# Messages between hubs. A relay ships what it has, its upstream keeps it (decisions/008).


class Identify(Struct, frozen=True, tag="identify"):
    """The relay shows who it is: it has signed the challenge of the other hub's Hello. It comes before Introduce."""

    key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


class Introduce(Struct, frozen=True, tag="introduce"):
    """The relay names the origins that it will ship; the answer is Marks."""

    relay: Id  # the home of the relay, by its lasting id
    host: str
    origins: list[Id]


class Marks(Struct, frozen=True, tag="marks"):
    """How far the upstream has each origin: the offsets in lanes f and s up to which nothing need be sent."""

    marks: dict[str, tuple[int, int]]
    refused: dict[str, str] = {}  # origins that the upstream does not accept from this relay, and why


class Packed(Struct, frozen=True, array_like=True):
    """Samples of one span, with the same tags and names, as columns that `store.chunks` has packed."""

    span: str
    tags: dict[str, str]
    names: list[str]
    count: Annotated[int, Meta(ge=1, le=1 << 20)]
    n: bytes
    t: bytes
    step: bytes
    values: list[bytes]


Offset = Annotated[int, Meta(ge=0, lt=1 << 62)]  # in bytes, in a lane
Count = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Parcel(Struct, frozen=True, array_like=True):
    """All that one lane of one origin has from the offset `start` to the offset `end`."""

    origin: Origin
    lane: Literal["f", "s"]
    start: Offset
    end: Offset
    damaged: Count = 0
    refused: Count = 0
    facts: list[tuple[Offset, bytes]] = []
    blocks: list[Packed] = []
    over: bool = False  # nothing will follow in either lane
    refusals: dict[str, int] = {}  # points that were over a limit, by its name


class Shipment(Struct, frozen=True, tag="shipment"):
    """Parcels that are acknowledged together, by Kept, when a power cut can no longer lose them."""

    seq: int
    parcels: list[Parcel]


class Kept(Struct, frozen=True, tag="kept"):
    """The acknowledgement: all shipments up to this one are safe."""

    seq: int


class Alive(Struct, frozen=True, tag="alive"):
    """The heartbeat of a relay, with the seconds since each origin was last known alive; answered by Clock."""

    t: int  # by the clock of the relay
    ages: dict[str, float] = {}
    skew_s: float | None = None  # how far its clock is ahead of the upstream's, as measured by the last Clock
    skews: dict[str, float] = {}  # how far the clocks of remote origins are ahead of the relay's
    through: list[str] = []  # the homes of the hubs that relay through it


class Clock(Struct, frozen=True, tag="clock"):
    """The time of the upstream; `t` is copied from the Alive that it answers."""

    t: int
    here_t: int


Digest = Annotated[str, Meta(min_length=64, max_length=64, pattern="^[0-9a-f]{64}$")]
Size = Annotated[int, Meta(ge=0, le=1 << 60)]
BLOBS = "blobs"  # in Hello.takes: the hub accepts messages about blobs
MAX_PIECE = (1 << 20) - 1024  # of a blob in one message


class AskBlobs(Struct, frozen=True, tag="ask_blobs"):
    """Asks how much of these blobs the upstream has of this holder's relays; with the size of each."""

    sizes: Annotated[dict[Digest, Size], Meta(max_length=1000)]


class Piece(Struct, frozen=True, tag="piece"):
    """Some bytes of a blob, from an offset on."""

    digest: Digest
    size: Size  # of the whole blob
    offset: Size = field(name="place")
    data: Annotated[bytes, Meta(min_length=1, max_length=MAX_PIECE)]


class HasBlobs(Struct, frozen=True, tag="has_blobs"):
    """How many bytes of each blob the upstream has; all of them only when the digest was right."""

    offsets: dict[Digest, Size] = field(default_factory=dict, name="places")
    refused: dict[Digest, str] = {}  # blobs that it does not accept, and why


# Points that are not sealed yet, for a reader: in parcels, as between hubs.

UNSEALED = "unsealed"  # in Hello.takes: this hub answers AskUnsealed


class AskUnsealed(Struct, frozen=True, tag="ask_unsealed"):
    """Asks for points that wait to be sealed, of spans whose ids begin so; of each origin, those behind an offset."""

    prefixes: Annotated[list[str], Meta(max_length=2000)]
    after: dict[str, Offset] = {}  # by origin: `end` of the last parcel that the asker has


class Unsealed(Struct, frozen=True, tag="unsealed"):
    """What AskUnsealed asks for. Of very many points, those that fit into one answer."""

    parcels: list[Parcel] = []  # of lane s, with the spans that were asked for
    sealed: dict[str, Offset] = {}  # by origin: all up to this offset is in the store
    more: bool = False  # ask again, behind these


# Commands for processes, down through hubs, and answers to what a process asks.


class Order(Struct, frozen=True, tag="order"):
    """A command for processes, passed down from hub to hub; its `to` is a run, a try or a process."""

    command: Command
    left_s: float | None = None  # until it expires, between hubs: their clocks may differ


class Await(Struct, frozen=True, tag="await"):
    """A process waits for the answer to its question; it comes once, as Answer."""

    process: Id
    ask: Id


class Answer(Struct, frozen=True, tag="answer"):
    """The answer; it is never stored."""

    ask: Id
    text: str
    command: str = ""  # the command that brought it


Message = (
    Hello | Seal | Edit | Follow | AskHealth | Health | TakeIn | TakenIn | Done | Change | Leave | Refused
    | AskLatest | Latest | AskUnsealed | Unsealed | Identify | Introduce | Marks | Shipment | Kept | Alive | Clock
    | Order | Await | Answer | AskBlobs | Piece | HasBlobs
)  # fmt: skip
_decode_message: Callable[[bytes], Message] = msgspec.msgpack.Decoder(Message).decode


def pack_message(message: Message) -> bytes:
    """Frame a message for the socket."""
    return frame(encode(message))


def unpack_message(payload: bytes) -> Message:
    """Read a message; raise FormatError when it is malformed."""
    try:
        return _decode_message(payload)
    except UNREADABLE as error:
        raise FormatError(f"not a message of this wire: {error}") from None


def check_version(hello: Hello) -> None:
    """Raise VersionError when the other side speaks a newer wire."""
    if hello.version > VERSION:
        raise VersionError(
            f"the other side speaks version {hello.version} of the wire, this vedette {VERSION}: upgrade vedette"
        )
