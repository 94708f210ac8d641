"""One relay against another: what it may not say of the other's runs and processes, over real sockets.

Each attack has a victim of its own: a relay that has shipped half of a run, and ships the rest after the attack.
"""

import asyncio
import contextlib
import hashlib
import os
import socket
import time

import msgspec
import numpy as np
import pytest

from tests.rooms.hubs import ask, connect, serving, until
from vedette import address, tokens, wire
from vedette.blobs import Blobs
from vedette.home import Home
from vedette.hub.peers import blob_receiver, downstreams
from vedette.hub.peers.downstreams import Downstream
from vedette.hub.peers.identity import identify
from vedette.hub.peers.trust import Trust
from vedette.hub.sockets.connection import Connection
from vedette.hub.turn.orders import ANSWER
from vedette.model import HUB, LANE_FACTS, LANE_SAMPLES, Blob, Command, Event, Origin, Span
from vedette.settings import Hub, Limits, Settings
from vedette.store import Batch, Block, EventQuery, SpanQuery, parcels
from vedette.store.sqlite import SqliteStore

SETTINGS = Settings(hub=Hub(address="127.0.0.1:0", idle_s=60.0, turn_s=0.01, sync_s=0.05, seal_s=0.05))
T = 10**18
SECRET = "Kamele-und-3-Palmen"
DATA = b"a file of the victim" * 100
DIGEST = hashlib.sha256(DATA).hexdigest()


class Peer:
    """A relay: its key, its token, and what it has shipped."""

    def __init__(self, there, key, token):
        self._there, self._key, self._token = there, key, token
        self._seq = 0

    async def connect(self, *origins):
        """Connect anew, and return the marks of origins."""
        self.link = Connection(*await asyncio.open_connection(self._there.host, self._there.port))
        self._seq = 0
        hello = await ask(self.link, wire.Hello(name="test", token=self._token))
        self.link.send(identify(self._key, hello.challenge, self._token, ""))
        return await ask(self.link, wire.Introduce("a-home", "a-host", list(origins)))

    async def ship(self, *shipped):
        """Ship parcels; return when they are acknowledged, or the connection is ended."""
        self._seq += 1
        self.link.send(wire.Shipment(self._seq, list(shipped)))
        with contextlib.suppress(EOFError, ConnectionError):
            while not isinstance(await asyncio.wait_for(self.link.receive(1 << 20), 30), wire.Kept | wire.Refused):
                pass


class Victim:
    """A run whose first half was shipped: a process with ten points, a line and a file."""

    def __init__(self, name, peer):
        self.run, self.origin = f"run{name}", f"origin{name}"
        self.process = f"{self.run}/1/{self.origin}"
        self.who = Origin(self.origin, "a-host", span=self.run, process=self.process, main=True)
        self.peer = peer
        self.facts = [
            Span(self.run, T, "running", kind="run", name="honest", attrs={"config": {"lr": 0.5}}),
            Span(f"{self.run}/1", T, "running", kind="try", parent=self.run, attrs={"n": 1}),
            Span(self.process, T, "running", kind="process", parent=f"{self.run}/1"),
            Event(self.run, T, "log", 20, "an honest line"),
            Blob(self.run, T, "model", "a" * 64, 3),
        ]

    def said(self):
        facts = [(n, fact) for n, fact in enumerate(self.facts, 1)]
        return parcels.pack(Batch(self.who, LANE_FACTS, len(facts), facts=facts))

    async def begin(self):
        await self.peer.connect(self.origin)
        await self.peer.ship(*self.said(), *points(self.who, self.run, 0, 10))

    async def go_on(self):
        """Ship the rest from where the hub says that it is."""
        facts, samples = (await self.peer.connect(self.origin)).marks[self.origin]
        last = [(6, Event(self.run, T, "log", 20, "the last line"))] if facts < 6 else []
        rest = Batch(self.who, LANE_FACTS, max(facts, 6), facts=last, start=facts)
        await self.peer.ship(*parcels.pack(rest), *points(self.who, self.run, samples, 20))


def points(who, span, start, end, value=1.0):
    if end <= start:
        return []
    n = np.arange(start + 1, end + 1, dtype=np.int64)
    block = Block(span, {}, ("loss",), n, T + n, n, (np.full(len(n), value),))
    return parcels.pack(Batch(who, LANE_SAMPLES, end, columns=[block], start=start))


def facts_of(who, *facts):
    return parcels.pack(Batch(who, LANE_FACTS, len(facts), facts=list(enumerate(facts, 1))))


def speaks(*make, voice="owner"):
    """An attack by facts that a process of the attacker says; with `voice`, its hub."""

    async def attack(victim, attacker):
        name = f"evil{victim.origin}"
        who = Origin(name, "evil", span="", process="", voice=voice)
        await attacker.connect(name)
        await attacker.ship(*facts_of(who, *(each(victim) for each in make)))

    return attack


def ships(make):
    """An attack by parcels."""

    async def attack(victim, attacker):
        await attacker.connect(victim.origin)
        await attacker.ship(*make(victim))

    return attack


async def samples_of_its_run(victim, attacker):
    who = Origin(f"evil{victim.origin}", "evil")
    await attacker.connect(who.name)
    await attacker.ship(*points(who, victim.run, 0, 5, value=-7.0))


async def says_that_it_lives(victim, attacker):
    await attacker.connect(victim.origin)
    await ask(attacker.link, wire.Alive(time.time_ns(), {victim.origin: 0.0}, 1e6, {victim.origin: 1e6}))


async def joins_as_its_process(victim, attacker):
    who = Origin(f"evil{victim.origin}", "evil", span=victim.run, process=f"{victim.run}/1/evil", main=True)
    await attacker.connect(who.name)
    await attacker.ship(*facts_of(who, Event("evil-run", T, "log", 20, "a line")))


MARKS = {
    "a mark of samples, far away": ships(lambda v: [wire.Parcel(v.who, "s", 0, 1 << 60)]),
    "a mark of facts, far away": ships(lambda v: [wire.Parcel(v.who, "f", 0, 1 << 60)]),
    "a mark of samples, near": ships(lambda v: [wire.Parcel(v.who, "s", 10, 20)]),
    "the end of its process": ships(lambda v: [wire.Parcel(v.who, "s", 10, 10, over=True)]),
    "samples in its name": ships(lambda v: points(v.who, v.run, 10, 20, value=-1.0)),
    "facts in its name": ships(lambda v: parcels.pack(
        Batch(v.who, LANE_FACTS, 6, facts=[(6, Event(v.run, T, "log", 20, "forged"))], start=5))),
    "a replay of what it said, and more": ships(lambda v: [*v.said(), wire.Parcel(v.who, "f", 5, 99)]),
    "parcels in another order": ships(
        lambda v: [*points(v.who, v.run, 15, 20, -1.0), *points(v.who, v.run, 10, 15, -1.0)]),
    "a heartbeat": says_that_it_lives,
}  # fmt: skip
PURGES = {
    "a purge by a process": speaks(lambda v: Span(v.run, T + 1, "purged")),
    "a purge by a hub": speaks(lambda v: Span(v.run, T + 1, "purged", by="user"), voice=HUB),
    "a purge of its try": speaks(lambda v: Span(f"{v.run}/1", T + 1, "purged", by="hub"), voice=HUB),
}
CLAIMS = {
    "the end of the try": speaks(lambda v: Span(f"{v.run}/1", T + 1, "failed", "forged")),
    "the end of the try, by a hub": speaks(lambda v: Span(f"{v.run}/1", T + 1, "failed", by="hub"), voice=HUB),
    "a name": speaks(lambda v: Span(v.run, T + 1, name="forged")),
    "a config": speaks(lambda v: Span(v.run, T + 1, attrs={"config": {"lr": 9.0}})),
    "a parent": speaks(lambda v: Span(v.run, T + 1, parent="evil-run")),
    "a line": speaks(lambda v: Event(v.run, T + 1, "log", 40, "forged")),
    "a line of its process": speaks(lambda v: Event(v.process, T + 1, "log", 40, "forged")),
    "a file": speaks(lambda v: Blob(v.run, T + 1, "model", "b" * 64, 3)),
    "a bar": speaks(lambda v: Span(f"{v.run}/p-evil", T, "running", kind="progress", parent=v.run, at=1.0)),
    "a later try": speaks(lambda v: Span(f"{v.run}/2", T, "failed", kind="try", parent=v.run, attrs={"n": 2})),
    "a try with an id of its own": speaks(
        lambda v: Span("evil", T, "failed", kind="try", parent=v.run, attrs={"n": 9})),
    "samples": samples_of_its_run,
    "a process": joins_as_its_process,
}  # fmt: skip
EARLY = {  # before the run is begun, so that nobody knows whose it will be
    f"{name}, before it is begun": attack
    for name, attack in {
        "a try with an id of its own": speaks(
            lambda v: Span(f"evil{v.run}", T, "failed", kind="try", parent=v.run, attrs={"n": 9})),
        "a try below a run of its own": speaks(
            lambda v: Span(f"evil{v.run}/9", T, "failed", kind="try", parent=v.run, attrs={"n": 9})),
        "a run that becomes a try": speaks(
            lambda v: Span(f"evil{v.run}", T, "running", kind="run", parent=v.run),
            lambda v: Span(f"evil{v.run}", T + 1, "failed", kind="try", attrs={"n": 9})),
        "a bar with an id of its own": speaks(
            lambda v: Span(f"evil{v.run}/p-1", T, "running", kind="progress", parent=v.run, at=1.0)),
        "a process with an id of its own": speaks(
            lambda v: Span(f"evil{v.run}/1/x", T, "failed", kind="process", parent=f"{v.run}/1")),
    }.items()
}  # fmt: skip
ATTACKS = MARKS | PURGES | CLAIMS | EARLY


class Anybody:
    """A relay that is every relay."""

    def __eq__(self, other):
        return True

    __hash__ = None


def told(store, victim):
    """All that the store says of a victim."""
    spans = [(row.id, row.state, row.name, row.parent, row.attrs) for row in store.spans(SpanQuery(prefix=victim.run))]
    parents = (victim.run, f"{victim.run}/1")
    below = [row.id for parent in parents for row in store.spans(SpanQuery(parent=parent))]
    lines = [(row.span, row.text) for row in store.events(EventQuery(span=victim.run))]
    files = [(row.name, row.digest) for row in store.blobs(victim.run)]
    points = store.points([row.id for row in store.series([victim.run])])
    values = [part.value.tolist() for part in points.values()]
    origins = [(row.origin.name, row.skew_s) for row in store.origins([victim.run])]
    return sorted(spans), sorted(below), lines, files, values, origins


async def attacked(home, tmp_path, attacks, holder):
    """Have a holder's relay attack alice's; return what is said of each victim, and what would be without it."""
    home.prepare()
    alice = tokens.new_holder(home, "alice")
    token = alice if holder == "alice" else tokens.new_holder(home, holder)
    async with serving(home, SETTINGS) as service:
        await until(lambda: service._listens)
        there = address.parse(service._listens)
        honest, evil = Home(str(tmp_path / "honest")), Home(str(tmp_path / "evil"))
        for each in (honest, evil):
            each.prepare()
        victims = {
            name: Victim(f"{number:02d}", Peer(there, honest, alice))
            for number, name in enumerate(["nobody", *attacks])
        }
        for name in attacks.keys() & EARLY.keys():
            with contextlib.suppress(EOFError, ConnectionError):
                await attacks[name](victims[name], Peer(there, evil, token))
        for victim in victims.values():
            await victim.begin()
        for name in attacks.keys() - EARLY.keys():
            with contextlib.suppress(EOFError, ConnectionError):
                await attacks[name](victims[name], Peer(there, evil, token))
        for victim in victims.values():
            await victim.go_on()
        await ask(await connect(home), wire.Seal())
        found = await service.in_keeper(lambda keeper: {n: told(keeper.store, v) for n, v in victims.items()})
        relays = await service.in_keeper(lambda keeper: (keeper.trust.save(), keeper.store.relays())[1])

    def plain(name):
        return repr(found[name]).replace(victims[name].origin, "origin").replace(victims[name].run, "run")

    return {name: plain(name) for name in attacks}, plain("nobody"), {row.holder: row for row in relays}


@pytest.mark.parametrize(("holder", "attacks"), [("mallory", ATTACKS), ("alice", MARKS | PURGES)])
def test_no_attack_of_a_relay_succeeds(home, tmp_path, holder, attacks):
    """Neither another holder's relay nor another one of the same holder changes what its owner may not."""
    found, right, relays = asyncio.run(attacked(home, tmp_path, attacks, holder))
    assert "1.0, 1.0" in right
    assert right.count("1.0") == 20
    assert {name: text for name, text in found.items() if text != right} == {}
    assert relays[holder].refused >= len(PURGES)


def test_the_control_lets_them_through(home, tmp_path, monkeypatch):
    """Where every relay may say everything, the attacks do harm: the test above would see it."""
    monkeypatch.setattr(Trust, "may_ship", lambda *_: True)
    monkeypatch.setattr(Trust, "_may_speak", lambda *_, **_k: True)
    monkeypatch.setattr(Trust, "_may_be", lambda *_: True)
    monkeypatch.setattr("vedette.hub.peers.trust.PURGED", "none")
    monkeypatch.setattr(Trust, "others", lambda *_: set())
    monkeypatch.setattr(Trust, "relay_of", lambda *_: Anybody())
    monkeypatch.setattr(Trust, "of_relay", lambda _self, origins, _relay: set(origins))
    monkeypatch.setattr(Trust, "_beginners_of", lambda _self, tops: dict.fromkeys(tops, "anybody"))
    found, right, _ = asyncio.run(attacked(home, tmp_path, ATTACKS, "mallory"))
    harmless = {name for name, text in found.items() if text == right}
    held_otherwise = {name for name in MARKS if "far away" in name or "order" in name}  # their connection is ended
    assert harmless <= held_otherwise | {"the end of its process"}


def test_ranks_of_one_holder_are_one_run(home, tmp_path):
    """A relay may add processes, points and lines to the run of another one of the same holder."""

    async def act():
        home.prepare()
        alice = tokens.new_holder(home, "alice")
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            first = Victim("1", Peer(there, _home(tmp_path, "one"), alice))
            await first.begin()
            second = Origin("rank1", "other", span=first.run, process=f"{first.run}/1/rank1")
            peer = Peer(there, _home(tmp_path, "two"), alice)
            await peer.connect("rank1")
            said = (Span(second.process, T, "running", kind="process"), Event(second.process, T, "log", 20, "a line"))
            await peer.ship(*facts_of(second, *said), *points(second, second.process, 0, 5))
            await ask(await connect(home), wire.Seal())
            return await service.in_keeper(
                lambda keeper: (
                    [row.id for row in keeper.store.spans(SpanQuery(kind="process"))],
                    [row.text for row in keeper.store.events(EventQuery(span=second.process))],
                    [row.count for row in keeper.store.series([second.process])],
                )
            )

    processes, lines, counts = asyncio.run(act())
    assert sorted(processes) == ["run1/1/origin1", "run1/1/rank1"]
    assert (lines, counts) == (["a line"], [5])


@pytest.mark.parametrize("silent", [False, True])
def test_a_machine_that_two_people_relay_from(home, tmp_path, monkeypatch, silent):
    """One of them tells of it, and when he is silent the other one; what is left out is no offence."""
    if silent:
        monkeypatch.setattr("vedette.hub.peers.trust._SILENCE_NS", 0)

    async def act():
        home.prepare()
        holders = [tokens.new_holder(home, name) for name in ("alice", "bob")]
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            for number, token in enumerate(holders):
                peer = Peer(there, _home(tmp_path, str(number)), token)
                who = Origin(f"meter{number}", "a-host", voice=HUB)
                await peer.connect(who.name)
                await peer.ship(*points(who, "host-a-1", 0, 5, value=float(number)))
            await ask(await connect(home), wire.Seal())
            return await service.in_keeper(
                lambda keeper: (
                    keeper.trust.save(),
                    [row.refused for row in keeper.store.relays()],
                    [row.count for row in keeper.store.series(["host-a-1"])],
                )
            )

    _, refused, counts = asyncio.run(act())
    assert refused == [0, 0]
    assert counts == [10 if silent else 5]


def test_nobody_makes_the_next_hub_believe_in_a_circle(home, tmp_path):
    """A relay that says that it carries for the next hub is sent away; the hub in the middle goes on relaying."""

    async def act():
        last = Home(str(tmp_path / "last"))
        async with serving(last, SETTINGS) as far:
            await until(lambda: far._listens)
            onward = msgspec.structs.replace(address.parse(far._listens), token=tokens.hub_token(last))
            hub = msgspec.structs.replace(SETTINGS.hub, onward=onward.connect_string())
            async with serving(home, msgspec.structs.replace(SETTINGS, hub=hub)) as middle:
                await until(lambda: middle._listens)
                there, token = address.parse(middle._listens), tokens.hub_token(home)
                honest = Victim("1", Peer(there, _home(tmp_path, "one"), token))
                evil = Peer(there, _home(tmp_path, "two"), token)
                await honest.begin()
                await evil.connect()
                await ask(evil.link, wire.Alive(1, through=[tokens.home_id(last)]))
                said = await asyncio.wait_for(evil.link.receive(1 << 20), 30)
                await honest.go_on()
                return said, [relay.session for relay in middle.keeper.upstreams.relays.values()]

    said, [session] = asyncio.run(act())
    assert "in a circle" in said.why
    assert session is not None


def test_answers_go_to_the_relay_that_ships_the_process(home, tmp_path):
    """After a restart of the hub, whoever claims a process first is not told the answers that are meant for it."""

    async def act():
        home.prepare()
        alice = tokens.new_holder(home, "alice")
        keys = [_home(tmp_path, name) for name in ("one", "two")]
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            victim = Victim("1", Peer(address.parse(service._listens), keys[0], alice))
            await victim.begin()
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            liar = Peer(there, keys[1], alice)
            marks = await liar.connect(victim.origin)
            victim.peer = Peer(there, keys[0], alice)
            await victim.peer.connect(victim.origin)
            answer = Command("id-1", victim.process, ANSWER, time.time_ns() + 10**10, {"ask": "q", "text": SECRET})
            done = await ask(await connect(home), wire.Order(answer))
            heard = await asyncio.wait_for(victim.peer.link.receive(1 << 20), 30)
            liar.link.send(wire.Alive(1))
            return marks, done, heard, await asyncio.wait_for(liar.link.receive(1 << 20), 30)

    marks, done, heard, others = asyncio.run(act())
    assert list(marks.refused) == ["origin1"]
    assert done == wire.Done(1)
    assert heard.command.args["text"] == SECRET
    assert isinstance(others, wire.Clock)  # nothing came before it


def test_nobody_spoils_a_file_that_another_sends(home, tmp_path):
    """What one relay sends of a file is not taken for what another one has sent of it."""

    async def act():
        home.prepare()
        alice, mallory = tokens.new_holder(home, "alice"), tokens.new_holder(home, "mallory")
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            honest, evil = Peer(there, _home(tmp_path, "one"), alice), Peer(there, _home(tmp_path, "two"), mallory)
            for peer in (honest, evil):
                await peer.connect()
            await ask(evil.link, wire.Piece(DIGEST, len(DATA), 0, b"x" * 100))
            here = await ask(honest.link, wire.AskBlobs({DIGEST: len(DATA)}))
            return here, await ask(honest.link, wire.Piece(DIGEST, len(DATA), 0, DATA))

    here, sent = asyncio.run(act())
    assert here.offsets == {DIGEST: 0}
    assert sent.offsets == {DIGEST: len(DATA)}


@pytest.mark.parametrize("told", [False, True], ids=["", "control"])
def test_nobody_is_told_of_a_file_that_he_has_not_sent(home, tmp_path, monkeypatch, told):
    """Nobody learns whether another's file is here, or keeps it young; who sends it, too, has it from then on."""
    if told:
        monkeypatch.setattr(SqliteStore, "delivered", lambda _self, digests, _holder: set(digests))

    async def act():
        home.prepare()
        alice, mallory = tokens.new_holder(home, "alice"), tokens.new_holder(home, "mallory")
        ages = []
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            one, evil, two = (
                Peer(there, _home(tmp_path, str(number)), token) for number, token in enumerate((alice, mallory, alice))
            )
            for peer in (one, evil, two):
                await peer.connect()
            said = [await ask(one.link, wire.Piece(DIGEST, len(DATA), 0, DATA))]
            for peer in (evil, two):
                os.utime(Blobs(home).path(DIGEST), (0, 0))
                said.append(await ask(peer.link, wire.AskBlobs({DIGEST: len(DATA), "0" * 64: 5})))
                ages.append(os.stat(Blobs(home).path(DIGEST)).st_mtime)
            halves = [wire.Piece(DIGEST, len(DATA), offset, DATA[offset:][:1000]) for offset in (0, 1000)]
            for message in (*halves, wire.AskBlobs({DIGEST: len(DATA)})):
                said.append(await ask(evil.link, message))  # noqa: PERF401 - one after the other
            return [answer.offsets.get(DIGEST) for answer in said], ages

    offsets, ages = asyncio.run(act())
    assert offsets == ([2000, 2000, 2000, 1000, 2000, 2000] if told else [2000, 0, 2000, 1000, 2000, 2000])
    assert [age == 0 for age in ages] == [not told, False]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("fair", [True, False], ids=["", "control"])
def test_nobody_takes_all_room_for_files(home, tmp_path, monkeypatch, whole, fair):
    """However many relays a holder has, and whether its files are ever whole: there is room for another's."""
    if not fair:
        monkeypatch.setattr(blob_receiver, "OWNER", "mallory")
        monkeypatch.setattr(blob_receiver, "_MOST_PARTS", 100)
        monkeypatch.setattr(blob_receiver, "_PARTS_SHARE", 0)

    async def send(peer, size, more=0):
        data = os.urandom(size)
        return await ask(peer.link, wire.Piece(hashlib.sha256(data).hexdigest(), size + more, 0, data))

    async def act():
        home.prepare()
        alice, mallory = tokens.new_holder(home, "alice"), tokens.new_holder(home, "mallory")
        async with serving(home, msgspec.structs.replace(SETTINGS, limits=Limits(blobs_bytes=80_000))) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            refused = 0
            for number in range(3):
                evil = Peer(there, _home(tmp_path, str(number)), mallory)
                await evil.connect()
                for _ in range(9):
                    refused += bool((await send(evil, 10_000 - 2500 * number, 0 if whole else 1)).refused)
            honest = Peer(there, _home(tmp_path, "honest"), alice)
            await honest.connect()
            return refused, await send(honest, 9000)

    refused, answer = asyncio.run(act())
    assert bool(answer.refused) is not fair
    assert refused or not whole


@pytest.mark.parametrize(
    "message",
    [wire.Follow(), wire.AskLatest(), wire.AskUnsealed([""]), wire.AskHealth(), wire.Seal(), wire.Edit(["r"])],
    ids=lambda message: type(message).__name__,
)
def test_readers_do_not_come_over_tcp(home, message):
    """Whoever has a token is not told which runs there are."""

    async def act():
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            link = Connection(*await asyncio.open_connection(there.host, there.port))
            await ask(link, wire.Hello(name="test", token=tokens.hub_token(home)))
            return await ask(link, message)

    assert "from this machine only" in asyncio.run(act()).why


@pytest.mark.parametrize("how", ["no signature", "another key", "an old signature", "one for another token"])
def test_a_relay_shows_who_it_is(home, tmp_path, how):
    """Without a right signature of this connection's challenge nobody relays."""

    async def act():
        key, other = _home(tmp_path, "one"), _home(tmp_path, "two")
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            token = tokens.hub_token(home)
            link = Connection(*await asyncio.open_connection(there.host, there.port))
            hello = await ask(link, wire.Hello(name="test", token=token))
            right = identify(key, hello.challenge, token, "")
            shown = {
                "no signature": None,
                "another key": wire.Identify(right.key, identify(other, hello.challenge, token, "").signature),
                "an old signature": identify(key, b"\0" * 32, token, ""),
                "one for another token": identify(key, hello.challenge, "other", ""),
            }[how]
            if shown is not None:
                link.send(shown)
            link.send(wire.Introduce("a-home", "a-host", []))
            return await asyncio.wait_for(link.receive(1 << 20), 30)

    assert isinstance(asyncio.run(act()), wire.Refused)


def test_a_revoked_token_ends_its_connections(home, tmp_path):
    """One holder's token is revoked alone: the relays that use it are sent away, others stay."""

    async def act():
        home.prepare()
        alice = tokens.new_holder(home, "alice")
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            revoked = Peer(there, _home(tmp_path, "one"), alice)
            stays = Peer(there, _home(tmp_path, "two"), tokens.hub_token(home))
            await revoked.connect()
            await stays.connect()
            tokens.revoke(home, "alice")
            return [await ask(peer.link, wire.Alive(1)) for peer in (revoked, stays)]

    gone, clock = asyncio.run(act())
    assert "revoked" in gone.why
    assert isinstance(clock, wire.Clock)


def test_a_silent_relay_without_a_token_is_told_nothing(home, tmp_path, monkeypatch):
    """Whose token was revoked hears of no seal and no command, although it has sent nothing since; others do."""
    monkeypatch.setattr(downstreams, "_SEAL_S", 0.05)

    async def act():
        home.prepare()
        alice = tokens.new_holder(home, "alice")
        async with serving(home, SETTINGS) as service:
            await until(lambda: service._listens)
            there = address.parse(service._listens)
            revoked = [Peer(there, _home(tmp_path, name), alice) for name in ("one", "two")]
            stays = Peer(there, _home(tmp_path, "three"), tokens.hub_token(home))
            victim = Victim("1", revoked[0])
            await victim.begin()
            for peer in (revoked[1], stays):
                await peer.connect()
            tokens.revoke(home, "alice")
            link = await connect(home)
            await ask(link, wire.Order(Command("id-1", victim.run, "stop", time.time_ns() + 10**10, {})))
            await ask(link, wire.Seal("", within_s=0.0))
            return [await asyncio.wait_for(peer.link.receive(1 << 20), 30) for peer in (*revoked, stays)]

    *gone, seal = asyncio.run(act())
    assert all("revoked" in each.why for each in gone)
    assert isinstance(seal, wire.Seal)


def test_a_relay_that_reads_nothing_is_sent_away():
    """What waits to be written to a link is bounded; one that is read goes on."""

    async def act(*, reads):
        here, there = socket.socketpair()
        link = Connection(*await asyncio.open_unix_connection(sock=here))
        downstream = Downstream("a-host", link, None)
        order = wire.Order(Command("id", "r", "stop", 1, {"text": "x" * 100_000}), 1.0)
        most = 0
        for _ in range(100):
            downstream.send(order)
            most = max(most, link.writer.transport.get_write_buffer_size())
            while reads and link.writer.transport.get_write_buffer_size():
                await asyncio.to_thread(there.recv, 1 << 20)
        goes_on = not link.writer.transport.is_closing()
        link.writer.transport.abort()
        there.close()
        return goes_on, most < 5 << 20

    assert asyncio.run(act(reads=True)) == (True, True)
    assert asyncio.run(act(reads=False)) == (False, True)


def _home(tmp_path, name):
    home = Home(str(tmp_path / name))
    home.prepare()
    return home
