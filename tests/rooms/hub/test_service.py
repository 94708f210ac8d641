"""The hub as it runs, inside this process: its thread, its sockets and its answers, without the program around them."""

import asyncio
import os
import socket
import threading
import time

import pytest

from tests import warm
from tests.conftest import begin_hub
from tests.rooms.hubs import PATIENCE_S, ask, connect, serving, until
from tests.rooms.speaker import Speaker
from vedette import address as addresses
from vedette import kernel, tokens, wire
from vedette.errors import HubError, SettingError
from vedette.hub import keeper_thread, program
from vedette.hub import log as hub_log
from vedette.hub.log import Log
from vedette.hub.own import Own
from vedette.hub.sockets.connection import Connection
from vedette.model import Event, Span
from vedette.settings import Hub, Settings
from vedette.store import SpanQuery


def connect_string(home):
    with open(home.connect) as file:
        return addresses.parse(file.read().strip())


def test_a_seal_is_answered_when_what_was_said_is_in_the_store(home):
    """Whoever asks for a seal finds in the store all that was written before it asked."""

    async def act():
        async with serving(home) as service:
            voice = Own(home)
            voice.say([Span("r", 1, "running", kind="run", name="one"), Event("r", 2, "log", 20, "hello")])
            connection = await connect(home)
            assert isinstance(await ask(connection, wire.Seal("r")), wire.Done)
            return await service.in_keeper(
                lambda keeper: [span.name for span in keeper.store.spans(SpanQuery(kind="run"))]
            )

    assert asyncio.run(act()) == ["one"]


def test_followers_are_told_what_was_committed(home):
    """A follower of a run hears of its new facts, and not of those of others."""

    async def act():
        async with serving(home):
            connection = await connect(home)
            assert isinstance(await ask(connection, wire.Follow("r")), wire.Done)
            voice = Own(home)
            voice.say([Span("other", 1, "running", kind="run"), Span("r", 1, "running", kind="run")])
            return await asyncio.wait_for(connection.receive(wire.MAX_PAYLOAD), 60)

    assert "r" in asyncio.run(act()).spans


def test_what_fails_in_the_keeper_is_an_error_for_whoever_asked(home):
    """An act that raises is answered with a HubError, and the hub goes on."""

    async def act():
        async with serving(home) as service:
            with pytest.raises(HubError, match="ZeroDivisionError"):
                await service.in_keeper(lambda _keeper: 1 / 0)
            return await service.in_keeper(lambda _keeper: "still here")

    assert asyncio.run(act()) == "still here"


def test_what_is_loaded_early_may_fail(home, monkeypatch):
    """What points need is loaded while there is nothing to do: an error there ends nothing, as when files run out."""
    tried = threading.Event()

    def fail(_store):
        tried.set()
        raise OSError(24, "too many open files")

    monkeypatch.setattr("vedette.store.sqlite.SqliteStore.prepare", fail)

    async def act():
        async with asyncio.timeout(PATIENCE_S), serving(home) as service:
            voice = Own(home)
            voice.say([Span("r", 1, "running", kind="run", name="one")])
            await until(tried.is_set)
            voice.say([Span("r", 2, "done", kind="run")])
            connection = await connect(home)
            assert isinstance(await ask(connection, wire.Seal("r")), wire.Done)
            return await service.in_keeper(
                lambda keeper: [span.state for span in keeper.store.spans(SpanQuery(kind="run"))]
            )

    assert asyncio.run(act()) == ["done"]


def test_what_a_relay_asks_for_holds_up_nobody(home, monkeypatch):
    """However much one relay asks for at once: passes go on, and others have their turns between its requests."""
    monkeypatch.setattr(keeper_thread, "_RELAYS_S", 0.0)  # time for one request of a relay in each turn

    async def act():
        done = []
        async with serving(home) as service:
            step = service.keeper.step
            monkeypatch.setattr(service.keeper, "step", lambda wishes: (done.append("pass"), step(wishes))[1])
            all_asked = threading.Event()
            asks = [(lambda _: all_asked.wait(PATIENCE_S), "")]  # nothing is done before all is asked
            asks += [(lambda _: done.append("evil"), "evil")] * 20
            asks += [(lambda _: done.append("honest"), "honest"), (lambda _: done.append("here"), "")]
            asked = [asyncio.ensure_future(service.in_keeper(*ask)) for ask in asks]
            await asyncio.sleep(0)
            all_asked.set()
            await asyncio.gather(*asked)
        return done

    done = asyncio.run(act())
    assert done.count("evil") == 20
    assert done[: done.index("honest")].count("evil") <= 2
    assert done[: done.index("here")].count("evil") <= 1
    assert done[done.index("evil") :].count("pass") >= 19


def test_health_names_what_was_set_aside_and_who_lives(home):
    """The hub's health has its pid, what is set aside, and no trouble when there is none."""

    async def act():
        async with serving(home) as service:
            await service.in_keeper(lambda keeper: keeper.set_aside.update({"x": "why"}))
            return await ask(await connect(home), wire.AskHealth())

    health = asyncio.run(act())
    assert (health.pid, health.set_aside, health.trouble) == (os.getpid(), {"x": "why"}, "")


def test_a_failed_turn_is_tried_again(home, monkeypatch, capsys):
    """When the store fails, whoever asked for a seal hears why; the next turn keeps what was said."""
    monkeypatch.setattr("vedette.hub.keeper_thread._RETRY_S", 0.0)

    async def act():
        async with serving(home) as service:
            keep, failing = service.keeper.store.keep, [True]

            def full(*args):
                if failing[0]:
                    raise OSError(28, "No space left on device")
                return keep(*args)

            monkeypatch.setattr(service.keeper.store, "keep", full)
            Own(home).say([Span("r", 1, "running", kind="run", name="one")])
            connection = await connect(home)
            refused = await ask(connection, wire.Seal("r"))
            failing[0] = False
            done = await ask(connection, wire.Seal("r"))
            return refused, done, await service.in_keeper(lambda keeper: len(keeper.store.spans(SpanQuery(kind="run"))))

    refused, done, spans = asyncio.run(act())
    assert "No space left" in refused.why
    assert isinstance(done, wire.Done)
    assert spans == 1
    assert "trying again" in capsys.readouterr().err


def test_an_edit_is_kept_and_a_purge_deletes(home):
    """What a user says of a run is in the store when it is answered; a purged run is deleted."""

    async def act():
        async with serving(home) as service:
            Own(home).say([Span("r", 1, "running", kind="run", name="one")])
            connection = await connect(home)
            done = await ask(connection, wire.Edit(["r"], {"notes": "good"}))
            attrs = await service.in_keeper(lambda keeper: keeper.store.spans(SpanQuery(kind="run"))[0].attrs)
            await ask(connection, wire.Edit(["r"], state="purged"))
            await until(lambda: not service.health().sweeping)
            return done, attrs, await service.in_keeper(lambda keeper: keeper.store.spans(SpanQuery(kind="run")))

    done, attrs, left = asyncio.run(act())
    assert isinstance(done, wire.Done)
    assert attrs["notes"] == "good"
    assert [(run.state, run.name, run.attrs) for run in left] == [("purged", "", {})]


def test_a_path_that_is_nothing_is_not_taken_in(home, tmp_path):
    """Taking in a path that holds nothing of ours is refused, with its name."""

    async def act():
        async with serving(home):
            return await ask(await connect(home), wire.TakeIn(str(tmp_path)))

    assert str(tmp_path) in asyncio.run(act()).why


def test_a_message_that_is_not_for_the_hub_ends_the_connection(home):
    """An answer sent to the hub is refused with its name, and counted as malformed."""

    async def act():
        async with serving(home) as service:
            refused = await ask(await connect(home), wire.Done())
            return refused, service.health().refused

    refused, counted = asyncio.run(act())
    assert "Done" in refused.why
    assert counted == {"malformed": 1}


def test_other_hubs_are_told_where_to_connect(home):
    """A hub with an address writes its connect string; a wrong token is refused over TCP, the right one is not."""

    async def act():
        settings = Settings(hub=Hub(address="127.0.0.1:0", idle_s=0.0, turn_s=0.01))
        async with serving(home, settings) as service:
            where = await asyncio.to_thread(connect_string, home)
            answers = []
            for token in ("wrong", where.token):
                connection = Connection(*await asyncio.open_connection(where.host, where.port))
                answers.append(await ask(connection, wire.Hello(name="test", token=token)))
            return answers, service.health()

    (refused, hello), health = asyncio.run(act())
    assert isinstance(refused, wire.Refused)
    assert isinstance(hello, wire.Hello)
    assert health.listens.startswith("127.0.0.1:")
    assert health.refused["token"] == 1
    assert not os.path.exists(home.connect)


def test_a_hub_on_loopback_says_that_only_this_machine_can_connect(home, capsys):
    """On loopback the user reads that other machines cannot connect, and how they could; elsewhere that they can."""

    def said(**options):
        settings = Settings(hub=Hub(idle_s=0.0, turn_s=0.01, **options))

        async def act():
            async with serving(home, settings, quiet=False) as service:
                return service.health().listens.rpartition(":")[2]

        return asyncio.run(act()), capsys.readouterr().out

    port, text = said(address="127.0.0.1:0")
    assert text.startswith("only your jobs on this machine can connect, by\n\n  export VEDETTE_HUB=vedette://")
    assert f"(for other machines and users, too: vedette hub --address :{port})" in text
    for options in ({"address": ":0"}, {"address": "127.0.0.1:0", "advertise": "login1.example.org"}):  # a tunnel's end
        _, text = said(**options)
        assert text.startswith("other machines connect by\n\n  export VEDETTE_HUB=vedette://")
        assert "only" not in text
        assert "--address" not in text


def test_an_address_that_is_taken_is_said_and_tried_again(home, monkeypatch, capsys):
    """A hub that no user waits for runs without its port, says so, and listens once the port is free."""
    monkeypatch.setattr("vedette.hub.service._LISTEN_AGAIN_S", 0.05)

    async def act():
        taken = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        async with serving(home, Settings(hub=Hub(address=f"127.0.0.1:{port}"))) as service:
            before = service.health().deaf
            token = tokens.renew(home)
            taken.close()
            await until(lambda: service.health().listens)
            assert connect_string(home).token == token  # also if it was replaced meanwhile
            return before, service.health().deaf

    before, after = asyncio.run(act())
    assert "cannot be listened on" in before
    assert after == ""
    assert "cannot be listened on" in capsys.readouterr().err


def test_a_seal_is_answered_in_time(home, monkeypatch):
    """Who has waited long enough is told that this machine is behind; who waits on is answered when all is there."""
    speaker = Speaker(home, "busy")
    for step in range(100):
        speaker.log(step, x=float(step))
    monkeypatch.setattr("vedette.hub.turn.spool_reader._READ_BYTES", 0)  # nothing is read for now

    async def act():
        async with serving(home):
            link = await connect(home)
            soon = await ask(link, wire.Seal("run-busy", within_s=0.0))
            monkeypatch.setattr("vedette.hub.turn.spool_reader._READ_BYTES", 4 << 20)
            return soon, await ask(link, wire.Seal("run-busy"))

    soon, late = asyncio.run(act())
    assert soon == wire.Done(behind=[kernel.host()])
    assert late == wire.Done()


def test_a_hub_that_nobody_needs_ends(home):
    """With nothing to keep and nobody alive the program returns, and leaves no socket behind."""
    settings = Settings(hub=Hub(idle_s=0.0, turn_s=0.01))
    assert program.run(home, settings, quiet=True) == 0
    assert not os.path.exists(home.socket)
    assert home.hub_pid() is None


def test_a_second_hub_leaves_the_home_to_the_first(home, capsys):
    """Where a hub holds the lock, another one says whose home it is, and ends."""
    home.prepare()
    lock = home.take_lock()
    assert program.run(home, Settings(), quiet=False) == 0
    os.close(lock)
    assert f"a hub keeps {home.root} already" in capsys.readouterr().out


def test_a_quiet_hub_that_is_to_listen_takes_the_place_of_another(home, hub):
    """`vedette hub --address ... --quiet` beside a hub listens, or fails in a sentence; it never just ends."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ["hub", "--quiet", "--address", f"127.0.0.1:{taken.getsockname()[1]}"]
        done = warm.run(words, env={**os.environ})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "cannot be listened on: another program listens there already" in done.stderr

    hub = begin_hub(home)
    warm.start(words, env={**os.environ}, log=home.log)
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.exists(home.connect):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert home.hub_pid() not in (None, hub)


def test_where_a_hub_was_killed_nobody_seems_to_listen(home):
    """A hub that does not listen removes what one that was killed has left of how to connect."""
    home.prepare()
    with open(home.connect, "w") as file:
        file.write("vedette://token@localhost:1\n")
    assert program.run(home, Settings(hub=Hub(idle_s=0.0, turn_s=0.01)), quiet=True) == 0
    assert not os.path.exists(home.connect)


def test_a_wrong_setting_ends_the_hub_before_it_takes_the_lock(home):
    """An upstream that is no address is an error at once."""
    with pytest.raises(SettingError):
        program.run(home, Settings(hub=Hub(onward="no:such:port")), quiet=True)
    assert home.hub_pid() is None


def test_a_store_that_cannot_be_opened_is_said(home, capsys):
    """A file that is no store ends the hub with a sentence and an exit code."""
    home.prepare()
    with open(home.store, "wb") as file:
        file.write(b"no store" * 1000)
    assert program.run(home, Settings(), quiet=True) == 1
    assert home._is_waking(reader=False)  # no process starts one again at once, but a reader may
    assert not home._is_waking(reader=True)
    assert "cannot be kept: the store is damaged (file is not a database)" in capsys.readouterr().err


def test_the_log_stays_small_and_says_a_thing_once(tmp_path, monkeypatch, capsys):
    """A large log is emptied at the start; the same sentence is not written twice in a minute."""
    path = tmp_path / "log"
    path.write_bytes(b"x" * ((1 << 20) + 1))
    log = Log(str(path))
    log.trim()
    assert path.read_bytes() == b""

    for text in ("a", "a", "b", "a"):
        log.complain(text)
    monkeypatch.setattr(hub_log, "_REPEAT_S", 0.0)
    log.complain("a")
    assert [line[-1] for line in capsys.readouterr().err.splitlines()] == ["a", "b", "a", "a"]
