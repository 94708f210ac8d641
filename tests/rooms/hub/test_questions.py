"""Answers on their way, in the hub's memory."""

import asyncio

import pytest

from vedette import wire
from vedette.hub.sockets import questions
from vedette.hub.sockets.questions import Questions
from vedette.model import Command


def answer(text):
    return Command(text, "run/1/process", "answer", 0, {"ask": "q", "text": text})


@pytest.mark.parametrize(
    ("early_s", "refused", "got"), [(30.0, "that question was answered already", "1"), (0.0, "", "")]
)
def test_an_answer_that_nobody_fetched_in_time_makes_room(monkeypatch, early_s, refused, got):
    """A question whose early answer was not fetched in time can be answered anew; one that still waits cannot."""
    monkeypatch.setattr(questions, "_EARLY_S", early_s)

    async def play():
        kept = Questions()
        assert kept.give(answer("1")) == ""
        second = kept.give(answer("2"))
        future = kept.wait(wire.Await("run/1/process", "q"))
        return second, future.result().text if future.done() else ""

    assert asyncio.run(play()) == (refused, got)
