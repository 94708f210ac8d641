"""The port for other hubs under attack: it lives, stays small, and what a well-behaved relay ships is kept whole."""

import contextlib
import os
import sys

import pytest

from tests.journeys.conftest import eventually
from tests.journeys.fuzz import descriptors, fuzz, memory_kib, slow_loris
from tests.journeys.hostile import Hostile
from tests.journeys.port import FROM_A_HUB, FROM_OTHERS, Port, ask_through, hear, shipping
from tests.soak import times
from vedette import wire
from vedette.access.hub_socket import ask

_MOST_GROWTH_KIB = 64 << 10
_FRAMES = times(1000)


@pytest.fixture
def far(tmp_path_factory):
    """A home on another host."""
    return tmp_path_factory.mktemp("far")


@pytest.fixture
def port(home):
    """Open ports of hubs; they end with the test."""
    with contextlib.ExitStack() as stack:

        def begin(*more, **options):
            port = Port(home, *more, **options)
            stack.callback(port.end)
            return port

        yield begin


@pytest.fixture
def unharmed():
    """See that a hub has not grown, has let go of every connection, and has not complained."""

    @contextlib.contextmanager
    def check(port, most_growth_kib=_MOST_GROWTH_KIB):
        pid = port.process.pid
        small, open_before = memory_kib(pid)[0], descriptors(pid)
        yield
        assert ask(port.home, wire.AskHealth()).pid == pid
        assert memory_kib(pid)[1] - small < most_growth_kib
        eventually(lambda: descriptors(pid) <= open_before + 12)  # those of the relay, and its inbox
        assert port.complaints == ""

    return check


def test_strangers(port, far, unharmed):
    """Malformed frames, wrong tokens, versions and sizes from those without the token: refused, and nobody is hurt."""
    here = port()
    with shipping(here, far), unharmed(here):
        report = fuzz(here.stranger, frames=_FRAMES, seed=1)

        assert report.garbled == report.unreachable == report.ends["stuck"] == 0, report
        assert set(report.answers) == {"Refused"}
        for hello, why in (
            (wire.Hello(token="x"), "the token is not"),
            (wire.Hello(version=99), "version 99"),
            (wire.Hello(name="x" * wire.MAX_HELLO), "over the limit"),
            (wire.AskHealth(), "a Hello must come first"),
        ):
            with here.stranger() as peer:
                assert why in ask_through(peer, hello, wire.AskHealth()).why
        refused = ask(here.home, wire.AskHealth()).refused
        assert refused["token"] > 1
        assert refused["malformed"] > _FRAMES // 250


@pytest.mark.parametrize("way", ["greeted", "introduced"])
def test_frames_of_one_who_has_the_token(port, far, unharmed, way):
    """Malformed frames after a right Hello, and after an Introduce too: others are served, and nothing is lost."""
    here = port()
    messages = FROM_A_HUB if way == "introduced" else FROM_OTHERS
    with shipping(here, far), unharmed(here):
        report = fuzz(getattr(here, way), frames=_FRAMES, seed=2, messages=messages, greets=False, framed=True)

        assert report.garbled == report.unreachable == report.ends["stuck"] == 0, report
        assert report.answers["Refused"] > _FRAMES // 12


_ALONE = ("lane", "beyond", "integers", "bomb")  # each of these has stopped a hub for good
_OTHERS = [kind for kind in Hostile(1).kinds if kind not in _ALONE]


@pytest.mark.parametrize("kinds", [_OTHERS, *([kind] for kind in _ALONE)], ids=["others", *_ALONE])
def test_hostile_shipments(port, unharmed, kinds):
    """Sound frames with shipments that nobody sound would send: refused or counted, and others are acknowledged."""
    here = port("--set", "hub.seal_s=0.1", "--set", "hub.sync_s=0.05")
    hostile = Hostile(3)
    with here.introduced() as other, unharmed(here, 256 << 10):
        for kind in kinds * 4:
            with here.introduced() as peer:
                peer.settimeout(5)
                answer = ask_through(peer, hostile.shipment(kind))
                assert isinstance(answer, wire.Kept if kind == "sound" else wire.Kept | wire.Refused)
        other.settimeout(5)
        assert ask_through(other, hostile.shipment("over", 7)) == wire.Kept(7)
        eventually(lambda: len(os.listdir(here.home.inbox)) == 1, 5)  # what cannot be kept holds up nothing


def test_slow_strangers(port, far, unharmed):
    """Connections that greet a byte at a time are closed after ten seconds; those over the limit at once."""
    here = port("--set", "limits.connections=100")
    with shipping(here, far), unharmed(here):
        with slow_loris(here.stranger, 150, 0.5) as loris:
            eventually(lambda: loris.closed >= 52)  # one place is the relay's
            eventually(lambda: loris.closed == 150, 15)
        refused = ask(here.home, wire.AskHealth()).refused
        assert refused["limits.connections"] > 100  # an eighth of the places is for strangers
        assert 0 < refused["silent"] <= 12


def test_strangers_leave_room_for_the_owner(port):
    """However many strangers hold the port, the owner of the hub is answered."""
    here = port("--set", "limits.connections=20")
    with slow_loris(here.stranger, 40, 0.5):
        assert ask(here.home, wire.AskHealth()).pid == here.process.pid


def test_tls(port, far, unharmed):
    """The same over TLS, and whatever is no TLS: nobody is hurt, and the relay ships on."""
    here = port(loopback=False)
    with shipping(here, far), unharmed(here, 96 << 10):
        raw = fuzz(here.stranger, frames=_FRAMES // 4, seed=4)
        strange = fuzz(here.over_tls(), frames=_FRAMES // 4, seed=5)
        greeted = fuzz(
            here.over_tls(here.hello()), frames=_FRAMES // 4, seed=6, messages=FROM_OTHERS, greets=False, framed=True
        )

        assert raw.unreachable == raw.ends["stuck"] == 0, raw
        assert not raw.answers
        assert strange.garbled == strange.unreachable == strange.ends["stuck"] == 0, strange
        assert 2 * strange.answers["Refused"] >= strange.ends["closed"] > 0  # few fit into so many frames
        assert greeted.garbled == greeted.unreachable == greeted.ends["stuck"] == 0, greeted
        assert greeted.answers["Refused"] > 10
        with here.over_tls(here.hello())() as peer:  # what is sound is answered
            assert isinstance(hear(peer), wire.Hello)
            assert "from this machine only" in ask_through(peer, wire.AskHealth()).why


def test_half_a_handshake(port):
    """Connections that never finish their handshake count against the limit."""
    here = port("--set", "limits.connections=50", loopback=False)
    before = descriptors(here.process.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(here.stranger()).send(b"\x16\x03\x01\x02\x00")
        eventually(lambda: descriptors(here.process.pid) <= before + 60, 5)


def test_comings_and_goings_leave_nothing(port, unharmed):
    """A relay that comes and goes with nothing to say, and one that knows thousands of nobodies, cost nothing."""
    here = port("--set", "hub.sync_s=0.1")
    here.introduced().close()  # the first one makes the hub import what checks signatures
    with unharmed(here, 16 << 10):
        for _ in range(200):
            here.introduced().close()
        with here.introduced() as peer:
            for part in range(5):
                nobodies = {f"nobody-{part}-{number}": 1.0 for number in range(10_000)}
                assert isinstance(ask_through(peer, wire.Alive(1, nobodies, 0.5, nobodies)), wire.Clock)
        eventually(lambda: os.listdir(here.home.inbox) == [])
        assert ask(here.home, wire.AskHealth()).links == []


# A hub that throws away the samples of every other parcel, and says that they are safe.
_LOSSY = """
import itertools, msgspec
from vedette.cli import main
from vedette.store import parcels
count, unpack = itertools.count(1), parcels.unpack
def lossy(parcel):
    return unpack(msgspec.structs.replace(parcel, blocks=[]) if parcel.blocks and next(count) % 2 else parcel)
parcels.unpack = lossy
main()
"""


def test_a_lossy_hub_is_caught(port, far, tmp_path):
    """The check that nothing is lost fails for a hub that throws samples away."""
    script = tmp_path / "lossy.py"
    script.write_text(_LOSSY)
    here = port(program=(sys.executable, str(script)))
    with pytest.raises(AssertionError), shipping(here, far, count=600, pause_s=0.005, patience_s=8):
        pass
