"""A million malformed frames at the port for other hubs, beside a relay that must lose nothing."""

import contextlib
import functools
import pathlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.journeys.fuzz import Report, descriptors, fuzz, memory_kib
from tests.journeys.hostile import Hostile
from tests.journeys.port import FROM_A_HUB, FROM_OTHERS, Port, ask_through, shipping

from bench.place import fresh_home
from bench.report import Part
from vedette import wire
from vedette.access.hub_socket import ask
from vedette.errors import HubError

_SLICE, _SLICE_S = 2000, 30.0
_MOST_GROWTH_MB = 256
_JOB_PAUSE_S = 0.005


class Way(NamedTuple):
    """How far those come who send."""

    what: str
    connect: str  # a method of Port
    share: float
    messages: object
    greets: bool


_WAYS = (
    Way("without the token", "stranger", 0.75, wire.Message, True),
    Way("after a right Hello", "greeted", 0.2, FROM_OTHERS, False),
    Way("after Introduce", "introduced", 0.05, FROM_A_HUB, False),
)


def measure(*, quick: bool, times: int | None) -> Part:
    """Attack three hubs, one after the other, each with a well-behaved relay beside."""
    frames = times or (30_000 if quick else 1_000_000)
    part = Part("malformed frames at the port for other hubs")
    for number, way in enumerate(_WAYS):
        count = int(frames * way.share)
        _attack(part, f"{count} frames {way.what}", count, functools.partial(_send, way, count, number))
    shipments = frames // 500
    _attack(part, f"{shipments} hostile shipments in sound frames", shipments * 20, functools.partial(_ship, shipments))
    return part


def _attack(part: Part, what: str, frames: int, attack: Callable[[Port], Report]) -> None:
    """Run an attack while a far job logs; then see what is left of the hub, and what has arrived."""
    with fresh_home(hub=True) as home, tempfile.TemporaryDirectory(prefix="vdb-", ignore_cleanup_errors=True) as far:
        port = Port(home, "--set", "hub.seal_s=1")
        pid = port.process.pid
        whole = True
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(shipping(port, pathlib.Path(far), max(2000, frames // 10), _JOB_PAUSE_S))
                small, opened = memory_kib(pid)[0], descriptors(pid)
                report = attack(port)
                alive = port.process.poll() is None and _answers(port)
                grown = (memory_kib(pid)[1] - small) / 1000 if port.process.poll() is None else 0.0
                time.sleep(1)
                left = descriptors(pid) - opened if port.process.poll() is None else 0
        except AssertionError:
            whole = False
        finally:
            port.end()
        served = alive and not report.ends["stuck"] and not report.unreachable
        part.judge(f"{what}: the hub lives, and answers everybody", "yes" if served else "**no**", "yes", served)
        part.judge(f"{what}: what a relay shipped meanwhile", "whole" if whole else "**not whole**", "whole", whole)
        memory = f"{grown:.0f} MB"
        part.judge(f"{what}: growth at most", memory, f"< {_MOST_GROWTH_MB} MB", grown < _MOST_GROWTH_MB)
        said = len(port.complaints)
        part.judge(f"{what}: bytes of complaints in its log", f"{said}", "0", said == 0)
        refusals = ", ".join(f"{why!r} {count}" for why, count in report.refusals.most_common(4))
        part.know(f"{what}: sent, answered, descriptors left open",
                  f"{report.frames} in {report.connections} connections; {dict(report.answers)}; {left}")  # fmt: skip
        part.know(f"{what}: the most frequent refusals", refusals)


def _answers(port: Port) -> bool:
    try:
        return isinstance(ask(port.home, wire.AskHealth()), wire.Health)
    except HubError:
        return False


def _send(way: Way, frames: int, seed: int, port: Port) -> Report:
    total = Report()
    connect = getattr(port, way.connect)
    while total.frames < frames and not total.ends["stuck"] and not total.unreachable:
        seed += len(_WAYS)
        part = fuzz(connect, frames=min(_SLICE, frames - total.frames), seconds=_SLICE_S, seed=seed,
                    messages=way.messages, greets=way.greets, framed=not way.greets)  # fmt: skip
        total.frames += part.frames
        total.connections += part.connections
        total.unreachable += part.unreachable
        for mine, more in ((total.answers, part.answers), (total.refusals, part.refusals), (total.ends, part.ends)):
            mine.update(more)
    return total


def _ship(count: int, port: Port) -> Report:
    report = Report(ends=Counter(stuck=0))
    hostile = Hostile(1)
    kinds = [kind for kind in hostile.kinds if kind != "bomb"] * 20 + ["bomb"]
    while report.frames < count and not report.ends["stuck"]:
        kind = kinds[report.frames % len(kinds)]
        report.frames += 1
        report.connections += 1
        try:
            with port.introduced() as peer:
                answer = ask_through(peer, hostile.shipment(kind)) if report.frames % 20 == 0 else None
                if answer is None:
                    peer.sendall(wire.pack_message(hostile.shipment(kind)))
                else:
                    report.answers[type(answer).__name__] += 1
        except TimeoutError:
            report.ends["stuck"] += 1
            report.refusals[f"no answer to {kind}"] += 1
        except ConnectionError:
            report.ends["reset"] += 1
    return report
