"""The wire: what was framed comes out as it was or not at all; what is too large, damaged or newer is refused."""

import itertools
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.soak import times
from vedette import wire
from vedette.errors import FormatError, VersionError
from vedette.model import Blob, Event, Origin, Sample, Span

PAYLOADS = st.lists(st.binary(max_size=200), max_size=12)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
TIMES = st.integers(0, (1 << 63) - 1)
INTS = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | INTS | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ATTRS = st.dictionaries(TEXT, VALUES, max_size=4)
IDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=40)
MAYBE = st.none() | st.floats(allow_nan=False)
FACTS = (
    st.builds(Span, IDS, TIMES, TEXT, TEXT, TEXT, TEXT, TEXT, IDS | st.just(""), ATTRS, MAYBE, MAYBE)
    | st.builds(Event, IDS, TIMES, TEXT, INTS, TEXT, ATTRS)
    | st.builds(Blob, IDS, TIMES, TEXT, TEXT, INTS, TEXT)
)
NUMBERS = st.floats(allow_nan=False) | INTS | st.booleans()
SAMPLES = st.builds(
    Sample, TIMES, INTS, st.dictionaries(TEXT, NUMBERS, max_size=5), TEXT, st.dictionaries(TEXT, TEXT, max_size=3)
)
DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
SIZES = st.integers(0, 1 << 60)
OFFSETS = st.integers(0, (1 << 62) - 1)
MESSAGES = (
    st.builds(wire.Hello, INTS, TEXT)
    | st.builds(wire.Seal, TEXT)
    | st.builds(wire.Follow, TEXT)
    | st.just(wire.AskHealth())
    | st.builds(wire.Health, INTS, TEXT, st.floats(allow_nan=False), INTS, INTS, st.dictionaries(TEXT, TEXT), TEXT)
    | st.just(wire.Done())
    | st.builds(wire.AskLatest, TEXT)
    | st.builds(
        wire.Latest,
        st.lists(st.builds(wire.Newest, TEXT, TEXT, st.dictionaries(TEXT, TEXT), INTS, st.floats(allow_nan=False))),
    )
    | st.builds(wire.AskUnsealed, st.lists(TEXT), st.dictionaries(TEXT, OFFSETS, max_size=3))
    | st.builds(
        wire.Unsealed,
        st.lists(st.builds(wire.Parcel, st.builds(Origin, IDS), st.just("s"), OFFSETS, OFFSETS), max_size=3),
        st.dictionaries(TEXT, OFFSETS, max_size=3),
        st.booleans(),
    )
    | st.builds(wire.Change, st.lists(TEXT), st.lists(TEXT), st.lists(TEXT), st.booleans())
    | st.builds(wire.Refused, TEXT)
    | st.builds(wire.AskBlobs, st.dictionaries(DIGESTS, SIZES, max_size=3))
    | st.builds(wire.Piece, DIGESTS, SIZES, SIZES, st.binary(min_size=1, max_size=50))
    | st.builds(wire.HasBlobs, st.dictionaries(DIGESTS, SIZES, max_size=3), st.dictionaries(DIGESTS, TEXT, max_size=3))
)


def unframed(stream: bytes, cuts: list[int], limit: int = wire.MAX_PAYLOAD) -> list[bytes]:
    """Feed a stream, cut at these places, to one Unframer."""
    unframer = wire.Unframer(limit)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [payload for a, b in itertools.pairwise(bounds) for payload in unframer.feed(stream[a:b])]


@settings(deadline=None, max_examples=times(80))
@given(PAYLOADS, st.lists(st.integers(0, 3000), max_size=20))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(payloads: list[bytes], cuts: list[int]):
    """Payloads framed one behind the other come out the same and in order, at whatever bytes the stream is cut."""
    assert unframed(b"".join(map(wire.frame, payloads)), cuts) == payloads


def test_a_stream_may_come_byte_by_byte():
    """Even single bytes, and a frame of the largest size between small ones, come together again."""
    payloads = [b"", b"x", bytes(1000), random.Random(1).randbytes(3000)]

    assert unframed(b"".join(map(wire.frame, payloads)), list(range(5000))) == payloads
    assert unframed(wire.frame(b"a") + wire.frame(bytes(wire.MAX_PAYLOAD)) + wire.frame(b"b"), [7, 70_000]) == [
        b"a",
        bytes(wire.MAX_PAYLOAD),
        b"b",
    ]


def test_what_is_left_unread_of_one_feed_comes_with_the_next():
    """A caller that takes one payload and comes back later gets the others, none twice."""
    unframer = wire.Unframer()
    feed = unframer.feed(wire.frame(b"a") + wire.frame(b"b") + wire.frame(b"c"))
    assert next(feed) == b"a"
    feed.close()

    assert list(unframer.feed(b"")) == [b"b", b"c"]


@settings(deadline=None, max_examples=times(30))
@given(st.integers(0, 300), st.integers(0, 300))
def test_a_frame_over_the_limit_is_refused_by_its_head_alone(size: int, limit: int):
    """A frame larger than the limit is refused before a byte of its payload has come; one at the limit is not."""
    frame = wire.frame(bytes(size))
    if size > limit:
        with pytest.raises(FormatError, match="limit"):
            list(wire.Unframer(limit).feed(frame[: wire.HEAD.size]))
    else:
        assert unframed(frame, [], limit) == [bytes(size)]


@settings(deadline=None, max_examples=times(100))
@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6), st.data())
def test_a_flipped_bit_is_never_handed_out(payloads: list[bytes], data: st.DataObject):
    """After one flipped bit the payloads before it come out, and then nothing but a refusal or silence."""
    stream = bytearray(b"".join(map(wire.frame, payloads)))
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at] ^= 1 << data.draw(st.integers(0, 7))
    whole, start = [], 0
    for payload in payloads:
        start += wire.HEAD.size + len(payload)
        if start > at:
            break
        whole.append(payload)
    got = []
    unframer = wire.Unframer()
    try:
        for payload in unframer.feed(bytes(stream)):
            got.append(payload)  # noqa: PERF402 - what came before the refusal counts
        refused = False
    except FormatError:
        refused = True

    assert got == whole
    if refused:
        with pytest.raises(FormatError):
            list(unframer.feed(wire.frame(b"later")))


def test_a_build_without_checksums_is_caught(monkeypatch: pytest.MonkeyPatch):
    """The check above means something: where the checksum is not compared, a flipped bit is handed out."""

    class Any(int):
        __hash__ = int.__hash__

        def __ne__(self, other: object) -> bool:
            return False

    stream = bytearray(wire.frame(b"payload"))
    stream[-1] ^= 1
    monkeypatch.setattr(wire, "crc32", lambda *_: Any())

    assert list(wire.Unframer().feed(bytes(stream))) == [b"payloae"]


@settings(deadline=None, max_examples=times(80))
@given(FACTS)
def test_facts_round_trip(fact):
    """A Span, an Event or a Blob is the same after it has been bytes."""
    back = wire.decode_fact(wire.encode(fact))

    assert back == fact
    assert type(back) is type(fact)


@settings(deadline=None, max_examples=times(60))
@given(SAMPLES)
def test_samples_round_trip(sample: Sample):
    """A Sample is the same after it has been bytes, whether read as one or rescued."""
    payload = wire.encode(sample)

    assert wire.decode_sample(payload) == sample
    assert wire.rescue_sample(payload) == ((sample if sample.values else None), 0)


@settings(deadline=None, max_examples=times(80))
@given(MESSAGES)
def test_messages_round_trip(message: wire.Message):
    """Every message of the hub's socket is the same on the other side."""
    (payload,) = wire.Unframer().feed(wire.pack_message(message))

    assert wire.unpack_message(payload) == message


@settings(deadline=None, max_examples=times(100))
@given(st.binary(max_size=60))
@example(b"\x82\xa4type\xa5hello\xa4name\xa1\xff")
@example(b"\x91" * 5000)
def test_what_is_no_message_is_a_format_error(payload: bytes):
    """Whatever bytes a peer sends in a sound frame, they are a message or a FormatError, and nothing else."""
    try:
        wire.unpack_message(payload)
    except FormatError:
        pass


def damaged(chance: random.Random, payload: bytes) -> bytes:
    """Change a few bytes anywhere."""
    changed = bytearray(payload)
    for _ in range(chance.randint(1, 4)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def test_a_message_with_changed_bytes_is_a_message_or_a_format_error():
    """Messages with bytes changed, as a peer of another make might send them, raise nothing but FormatError."""
    chance = random.Random(3)
    message = wire.encode(wire.Health(1, "0.1", 1.5, 2, 3, {"a": "b"}, "none"))
    strange = set()
    for _ in range(20_000):
        try:
            wire.unpack_message(damaged(chance, message))
        except FormatError:
            pass
        except Exception as error:
            strange.add(type(error))

    assert strange == set()


def test_a_rescue_never_raises():
    """Whatever a sample's bytes have become, what can be saved of it is, and the rest is counted."""
    chance = random.Random(4)
    payload = wire.encode(Sample(5, 7, {"loss": 0.5, "n": 3}, "run", {"k": "v"}))
    for _ in range(20_000):
        sample, refused = wire.rescue_sample(damaged(chance, payload))
        assert refused >= 0
        if sample is not None:
            assert wire.decode_sample(wire.encode(sample)) == sample or "nan" in repr(sample)


def test_a_hello_of_a_newer_version_is_refused():
    """A peer that speaks a newer wire is refused with a sentence that says what to do; the same and older are not."""
    with pytest.raises(VersionError, match="upgrade"):
        wire.check_version(wire.Hello(wire.VERSION + 1))
    wire.check_version(wire.Hello(wire.VERSION))
    wire.check_version(wire.Hello(wire.VERSION - 1))
