"""A run that logs while it is looked at: real spools, a real keeper that takes a turn when told, and plain numpy."""

import threading
from typing import Any

import numpy as np

from vedette import wire
from vedette.home import Home
from vedette.hub.turn import requests
from vedette.hub.turn.keeper import Keeper
from vedette.model import Sample, Span
from vedette.query.unsealed import UnsealedPoints
from vedette.settings import Hub, Settings
from vedette.store.parcels import unpack
from vedette.store.sqlite import SqliteStore
from vedette.voice import Voice, origin_here

RUN = "r"
SERIES = [("loss", {}), ("acc", {}), ("loss", {"split": "val"})]


class Stream:
    """A run `r` of two processes; `logged` has all points, by series, as (step, t, value)."""

    def __init__(self, home: Home) -> None:
        home.prepare()
        self.home = home
        self.lock = threading.Lock()  # a keeper is asked between two turns
        self.keeper = self._keeper()
        self.logged: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
        self._voices = [
            Voice(home, lambda name=name: origin_here(f"o-{name}", span=RUN, process=f"{RUN}/1/{name}"))
            for name in ("a", "b")
        ]
        self._t = 1_790_000_000_000_000_000
        self._voices[0].say(Span(RUN, self._t, "running", kind="run", name=RUN))
        for voice in self._voices:
            voice.say(Span(voice.origin.process, self._t, "running", kind="process", parent=f"{RUN}/1"))
        self.turn(seal=True)

    def _keeper(self) -> Keeper:
        return Keeper(self.home, SqliteStore(self.home.store), Settings(hub=Hub(sync_s=0, seal_s=3600)))

    def log(self, count: int, process: int = 0) -> None:
        """Log so many records, of all series."""
        for _ in range(count):
            self._t += 1_234_567_891
            step = len(self.logged.get(("loss", "{}"), []))
            value = float(np.sin(step)) if step % 17 else float("nan")
            self._say(process, step, {"loss": value, "acc": step}, {})
            if step % 3 == 0:
                self._say(process, step, {"loss": -value}, {"split": "val"})

    def _say(self, process: int, step: int, values: dict[str, Any], tags: dict[str, str]) -> None:
        self._voices[process].sample(Sample(self._t, step, values, "", tags))
        for name, value in values.items():
            self.logged.setdefault((name, str(tags)), []).append((step, self._t // 1000 * 1000, value))

    def turn(self, *, seal: bool = False) -> wire.Change:
        """Have the hub read what was logged, and seal it if so asked."""
        with self.lock:
            return self.keeper.turn(seal={RUN} if seal else None)[0]

    def tidy(self) -> None:
        """Merge short chunks, as the hub does now and then."""
        with self.lock:
            for voice in self._voices:
                self.keeper.store.tidy(voice.origin.name)

    def restart(self) -> None:
        """Kill the hub, and start another."""
        with self.lock:
            self.keeper.let_go()
            self.keeper = self._keeper()

    def answer(self, asked: wire.AskUnsealed) -> wire.Unsealed:
        """Answer as the hub does."""
        with self.lock:
            return requests.unsealed(self.keeper, asked)

    def gather(self, points: UnsealedPoints) -> None:
        """Have the points that wait, as the web server asks for them."""
        answer = self.answer(wire.AskUnsealed([RUN], points.ends()))
        points.take([unpack(parcel) for parcel in answer.parcels], answer.sealed)

    def columns(self, name: str, tags: dict[str, str]) -> tuple[Any, Any, Any]:
        """Return step, time and value of all points of a series, by step and then time."""
        rows = sorted(self.logged.get((name, str(tags)), []), key=lambda row: row[:2])
        step, t, value = zip(*rows, strict=True) if rows else ((), (), ())
        return np.array(step, np.int64), np.array(t, np.int64), np.array(value, np.float64)

    def close(self) -> None:
        """Let go."""
        with self.lock:
            self.keeper.let_go()
