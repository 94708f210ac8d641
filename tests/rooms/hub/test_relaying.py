"""Two hubs inside this process, one of which relays to the other: shipments, marks, heartbeats, seals and orders."""

import asyncio
import subprocess
import tempfile
import time

import pytest

from tests.conftest import end_hub
from tests.rooms.hubs import ask, connect, relaying, serving, until
from vedette import kernel, wire
from vedette.blobs import Blobs
from vedette.cli.doctor import examine
from vedette.home import Home
from vedette.hub.own import Own
from vedette.hub.peers import downstreams
from vedette.model import LANE_FACTS, LANE_SAMPLES, Blob, Command, Event, Origin, Sample, Span
from vedette.settings import Hub, Settings
from vedette.store import EventQuery, SpanQuery
from vedette.voice import Voice, origin_here

RUN = Span("r", 1, "running", kind="run", name="one")


@pytest.fixture
def far():
    """The home of a hub that relays."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        yield Home(root)


def settings(**hub):
    return Settings(hub=Hub(**{"idle_s": 60.0, "turn_s": 0.01, "sync_s": 0.05, "ship_s": 0.05, "seal_s": 0.05, **hub}))


async def in_store(service, check):
    """Wait until a function of the store is true; return its value."""
    async with asyncio.timeout(60):
        while not (found := await service.in_keeper(lambda keeper: check(keeper.store))):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


def names(store):
    return [run.name for run in store.spans(SpanQuery(kind="run"))]


def acknowledged(store):
    """Return how far another hub has acknowledged the two lanes, once it has both."""
    marks = {lane: mark.offset for (_, lane), mark in store.marks().items() if mark.offset and lane.endswith(">")}
    return marks if len(marks) == 2 else {}


def test_what_is_meant_for_another_hub_is_shipped_and_acknowledged(home, far):
    """Facts and samples of a spool that names another hub are in its store, and only there; the marks are here."""

    async def act():
        async with serving(home, settings()) as here, serving(far, settings()) as there:
            voice = Own(far)
            voice.say([RUN, Event("r", 2, "log", 20, "hello")], home.socket)
            voice.sample([Sample(n, n, {"x": float(n)}, "r") for n in range(1, 100)], home.socket)
            marks = await in_store(there, acknowledged)
            series = await in_store(here, lambda store: store.series(["r"]))
            return marks, series[0].count, await there.in_keeper(lambda keeper: names(keeper.store))

    marks, count, left = asyncio.run(act())
    assert marks.keys() == {LANE_FACTS + ">", LANE_SAMPLES + ">"}
    assert count == 99
    assert left == []


def test_an_end_travels_ahead_of_the_points_and_is_not_shown(home, far):
    """Points come later than facts over a relay: until they are here the run is leaving, and nowhere has it ended."""

    async def act():
        async with serving(home, settings(seal_s=60.0)) as here, serving(far, settings(ship_s=0.5)):
            origin = origin_here("o1", span="r", process="r/1/o1", upstream=home.socket, main=True)
            voice = Voice(far, lambda: origin)
            for fact in (RUN, Span("r/1", 1, "running", kind="try", parent="r")):
                voice.say(fact)
            for n in range(1, 100):
                voice.sample(Sample(n, n, {"x": float(n)}))
            voice.say(Span("r/1", 200, "done"))
            states, ended = set(), None
            while ended is None:
                state, count = await here.in_keeper(lambda keeper: how_it_is(keeper.store))
                states.add(state)
                ended = count if state == "done" else None
                await asyncio.sleep(0.01)
            return states, ended

    def how_it_is(store):
        run = next(iter(store.spans(SpanQuery(kind="run"))), None)
        return run and run.state, sum(row.count for row in store.series(["r"]))

    states, count = asyncio.run(act())
    assert count == 99
    assert "leaving" in states


def test_a_seal_waits_for_the_hubs_that_relay(home, far):
    """What a downstream has read is in the store when a seal of the upstream is answered."""

    async def act():
        async with serving(home, settings()) as here, serving(far, settings(ship_s=60.0)):
            voice = Own(far)
            voice.say([RUN], home.socket)
            await in_store(here, names)
            voice.sample([Sample(5, 1, {"x": 1.0}, "r")], home.socket)
            done = await ask(await connect(home), wire.Seal("r"))
            return done.behind, await here.in_keeper(lambda keeper: len(keeper.store.series(["r"])))

    assert asyncio.run(act()) == ([], 1)


def test_a_hub_that_does_not_answer_is_waited_for_once(home, monkeypatch):
    """A relay that has missed a seal holds up the next ones no more, until it answers again; its host is named once."""
    monkeypatch.setattr(downstreams, "_SEAL_S", 0.3)

    async def act():
        home.prepare()
        async with serving(home, settings()) as here:
            link = await connect(home)
            for _ in range(2):  # two connections of one machine
                relay = await relaying(home, home)
                assert isinstance(await ask(relay, wire.Introduce("far", "laptop", [])), wire.Marks)
            first = await ask(link, wire.Seal("", within_s=0.0))
            monkeypatch.setattr(downstreams, "_SEAL_S", 1000.0)
            second = await ask(link, wire.Seal("", within_s=0.0))
            seal = await relay.receive(1 << 20)
            relay.send(wire.Done(id=seal.id))
            open_now = here._server.downstreams.open.values()
            await until(lambda: [each.late for each in open_now].count(False) == 1)
            return first.behind, second.behind

    first, second = asyncio.run(act())
    assert first.count("laptop") == second.count("laptop") == 1


def test_what_a_relay_says_of_itself_is_bounded(home, monkeypatch):
    """No time that is none, no home too many; and only an answer in time to what was asked is one."""
    monkeypatch.setattr(downstreams, "_SEAL_S", 0.05)
    monkeypatch.setattr(downstreams, "_HEARD_AT_ONCE", 3)

    async def act():
        async with serving(home, settings()) as here:
            relay = await relaying(home, home)
            names = ["a", "b", "c", "d"]
            await ask(relay, wire.Introduce("far", "laptop", names))
            who = [wire.Parcel(Origin(name), "f", 0, 1) for name in names]
            relay.send(wire.Shipment(1, who))
            while not isinstance(await relay.receive(1 << 20), wire.Kept):
                pass
            [link] = here._server.downstreams.open.values()
            homes = ["x" * 101] + [f"home{number}" for number in range(1500)]
            said = []
            ages, strange = dict.fromkeys(names, 1.0), {"a": float("inf"), "b": float("nan"), "c": 1e300, "d": 1.0}
            for message in (
                wire.Alive(1, strange, 2.0, {}, homes),
                wire.Alive(1, ages, 2.0, strange),
                wire.Alive(1, {}, float("nan")),
            ):
                for each in (message, wire.Introduce("far", "laptop", [])):  # its answer comes when all is done
                    await ask(relay, each)
                rows = await here.in_keeper(lambda keeper: keeper.store.origins())
                heard = {row.origin.name: row.skew_s for row in rows if row.heard_t and row.origin.name in names}
                said.append((link.skew_s, len(link.through), heard))
            await ask(await connect(home), wire.Seal("", within_s=0.0))
            seal = await relay.receive(1 << 20)
            late = [link.late]
            for asked in ("never asked", seal.id):
                relay.send(wire.Done(id=asked))
                await ask(relay, wire.Alive(1))
                late.append(link.late)
            monkeypatch.setattr(downstreams, "_SEAL_S", 60)
            await ask(await connect(home), wire.Seal("", within_s=0.0))
            relay.send(wire.Done(id=(await relay.receive(1 << 20)).id))
            await ask(relay, wire.Alive(1))
            return said, [*late, link.late]

    said, late = asyncio.run(act())
    heard = {"a": 2.0, "b": 2.0, "c": 2.0, "d": 3.0}
    assert said == [(2.0, 1001, {"d": 2.0}), (2.0, 1, heard), (None, 1, heard)]
    assert late == [True, True, True, False]


def test_a_hub_that_is_its_own_upstream_keeps_what_it_has(home):
    """Records that name the hub's own address are kept by it."""

    async def act():
        async with serving(home, settings()) as here:
            Own(home).say([RUN], home.socket)
            return await in_store(here, names)

    assert asyncio.run(act()) == ["one"]


def test_an_upstream_that_is_no_address_sets_the_spool_aside(home):
    """A spool whose upstream cannot be read is left as it is, and named with the reason."""

    async def act():
        async with serving(home, settings()) as here:
            Own(home).say([RUN], "no:such:port")
            await until(lambda: here.health().set_aside)
            return here.health().set_aside

    [why] = asyncio.run(act()).values()
    assert "port" in why


def test_an_outage_loses_nothing(home, far):
    """What is written while the upstream is away arrives when it is back, once."""

    async def act():
        async with serving(far, settings()) as there:
            voice = Own(far)
            voice.say([RUN], home.socket)
            await until(lambda: there.health().relays and there.health().relays[0][1])
            async with serving(home, settings()) as here:
                await in_store(here, names)
            voice.say([Event("r", 3, "log", 20, "while it was away")], home.socket)
            async with serving(home, settings()) as here:
                return await in_store(here, lambda store: [e.text for e in store.events(EventQuery("r"))])

    assert asyncio.run(act()) == ["while it was away"]


def test_who_lives_elsewhere_is_known_to_be_alive(home, far, monkeypatch):
    """A heartbeat of a relay brings when its processes were last known alive, and how their clock differs."""
    monkeypatch.setattr("vedette.hub.turn.heartbeats.ALIVE_EVERY_S", 0.1)

    async def act():
        async with serving(home, settings()) as here, serving(far, settings()):
            origin = origin_here("p1", span="r", process="r/1/p1", upstream=home.socket)
            voice = Voice(far, lambda: origin)
            voice.say(RUN)
            voice.say(Span("r/1/p1", time.time_ns(), "running", kind="process", attrs={"usage_s": 0}))
            rows = await in_store(
                here, lambda store: [o for o in store.origins() if o.origin.name == "p1" and o.heard_t]
            )
            health = here.health()
            voice.close()
            return rows, health.links

    [row], [(host, _)] = asyncio.run(act())
    assert abs(row.heard_t - time.time_ns()) < 60 * 10**9
    assert host


def test_a_blob_follows_the_fact_that_names_it(home, far):
    """The bytes of a blob that a relayed fact names are in the upstream's home soon, and leave the queue."""

    async def act():
        far.prepare()
        digest, size = Blobs(far).keep(b"x" * 100_000)
        async with serving(home, settings()), serving(far, settings()) as there:
            Own(far).say([RUN, Blob("r", 2, "file.txt", digest, size)], home.socket)
            await until(lambda: Blobs(home).size(digest) == size)
            await until(lambda: there.keeper.blob_queue.idle)
            return Blobs(home).verify(digest)

    assert asyncio.run(act())


def test_an_order_goes_down_to_the_hubs_that_relay_once(home, far):
    """A command is passed on to downstreams; the same one again is refused, and so is one that has expired."""

    async def act():
        async with serving(home, settings()) as here, serving(far, settings()):
            Own(far).say([RUN], home.socket)
            await in_store(here, names)
            connection = await connect(home)
            later = time.time_ns() + 60 * 10**9
            order = wire.Order(Command("c1", "nobody", "stop", later))
            old = wire.Order(Command("c2", "nobody", "stop", 1))
            return [await ask(connection, message) for message in (order, order, old)]

    first, again, old = asyncio.run(act())
    assert first.count == 1
    assert "given before" in again.why
    assert "expired" in old.why


def test_a_hub_in_the_middle_passes_everything_on(home, far):
    """With `onward` a hub keeps nothing itself: what its downstream ships is acknowledged when the next hub has it."""

    async def act():
        with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
            middle = Home(root)
            async with (
                serving(home, settings()) as here,
                serving(middle, settings(onward=home.socket)) as between,
                serving(far, settings()) as there,
            ):
                voice = Own(far)
                voice.say([RUN], middle.socket)
                voice.sample([Sample(5, 1, {"x": 1.0}, "r")], middle.socket)
                await in_store(here, names)
                await in_store(here, lambda store: store.series(["r"]))
                await in_store(there, lambda store: [m for (_, lane), m in store.marks().items() if lane == "s>"])
                return await between.in_keeper(lambda keeper: names(keeper.store))

    assert asyncio.run(act()) == []


def test_a_malformed_shipment_ends_its_connection(home):
    """A shipment that is not the next one is refused with a sentence, and counted."""

    async def act():
        async with serving(home, settings()) as here:
            connection = await relaying(home, home)
            assert isinstance(await ask(connection, wire.Introduce("relay", "host", ["a"])), wire.Marks)
            connection.send(wire.Shipment(1, []))
            connection.send(wire.Shipment(7, []))
            answers = []
            while not answers or not isinstance(answers[-1], wire.Refused):
                answers.append(await asyncio.wait_for(connection.receive(wire.MAX_PAYLOAD), 60))
            return answers[-1].why, here.health().refused

    why, refused = asyncio.run(act())
    assert "shipment 7 is not the next one" in why
    assert refused["malformed"] == 1


def test_the_newest_points_are_told_before_they_are_sealed(home):
    """AskLatest returns the newest point of a series that is not in the store yet."""

    async def act():
        async with serving(home, settings(seal_s=60.0)) as here:
            voice = Own(home)
            voice.say([RUN])
            voice.sample([Sample(5, 1, {"x": 1.0}, "r"), Sample(6, 2, {"x": 2.0}, "r")])
            await in_store(here, names)
            return await ask(await connect(home), wire.AskLatest("r"))

    [point] = asyncio.run(act()).points
    assert (point.name, point.value) == ("x", 2.0)


def test_a_hub_without_its_upstream_leaves_and_the_next_one_ships(home, far):
    """What waits for a hub that does not answer keeps the hub for a while only, unless a process lives.

    `vedette doctor` names what waits, and the next hub sends it.
    """
    process = subprocess.Popen(["sleep", "60"])
    started = kernel.start_ticks(process.pid)
    origin = Origin("a", kernel.host(), kernel.boot(), process.pid, started, "r", "r/1/a", home.socket)

    async def wait():
        async with serving(far, settings(without_upstream_s=0.2)) as waiting:
            Voice(far, lambda: origin).say(RUN)
            await until(lambda: waiting.keeper.watcher.watches.keys() & {"a"})
            await asyncio.sleep(0.5)
            stayed = waiting._thread._thread.is_alive()
            process.kill()
            process.wait()
            await until(lambda: not waiting._thread._thread.is_alive())
            return stayed

    assert asyncio.run(wait())
    waits = [found for what, found, _ in examine(Settings(home=far.root)) if what == "waits"]
    end_hub(far)
    assert [found.partition(" for ")[2] for found in waits] == [
        f"{home.socket}: a hub sends it there, as soon as that answers"
    ]

    async def ship():
        async with serving(home, settings()) as here, serving(far, settings()):
            return await in_store(here, names)

    assert asyncio.run(ship()) == ["one"]
