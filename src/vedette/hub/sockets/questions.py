"""Hands answers to the processes that asked: each is handed over once, and kept in memory only."""

import asyncio
import time

from vedette import wire
from vedette.model import Command

_MOST = 10_000
_EARLY_S = 30.0


class Questions:
    """The processes that wait, and answers that came before their process waited. Used in the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], asyncio.Future[wire.Answer]] = {}  # by process and question
        self._early: dict[tuple[str, str], tuple[float, wire.Answer]] = {}
        self._answered: dict[tuple[str, str], None] = {}

    def wait(self, message: wire.Await) -> "asyncio.Future[wire.Answer]":
        """Begin to wait. A process that waits again did not get its answer: it may be given once more."""
        key = message.process, message.ask
        self._answered.pop(key, None)
        if (before := self._waiting.pop(key, None)) is not None:
            before.cancel()
        future: asyncio.Future[wire.Answer] = asyncio.get_running_loop().create_future()
        early = self._early.pop(key, None)
        if early is not None and early[0] > time.monotonic():
            self._hand(key, future, early[1])
        else:
            self._waiting[key] = future
        return future

    def leave(self, message: wire.Await, future: "asyncio.Future[wire.Answer]") -> None:
        """Stop waiting."""
        if self._waiting.get((message.process, message.ask)) is future:
            del self._waiting[message.process, message.ask]

    def give(self, command: Command) -> str:
        """Hand an answer over, now or when its process waits for it; return why that is not possible, if so."""
        ask, text = command.args.get("ask"), command.args.get("text")
        if not isinstance(ask, str) or not isinstance(text, str) or not 0 < len(ask) <= 128:
            return "an answer needs a question and a text"
        key = command.to, ask
        answer = wire.Answer(ask, text, command.id)
        now = time.monotonic()
        self._early = {k: item for k, item in self._early.items() if item[0] > now}
        if key in self._answered or key in self._early:
            return "that question was answered already"
        future = self._waiting.pop(key, None)
        if future is not None and not future.done():
            self._hand(key, future, answer)
        else:
            if len(self._early) >= _MOST:
                return "too many answers wait for their processes"
            self._early[key] = now + _EARLY_S, answer
        return ""

    def _hand(self, key: tuple[str, str], future: "asyncio.Future[wire.Answer]", answer: wire.Answer) -> None:
        future.set_result(answer)
        self._answered[key] = None
        while len(self._answered) > _MOST:
            del self._answered[next(iter(self._answered))]
