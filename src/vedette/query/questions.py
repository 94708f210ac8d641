"""Open questions: those that a process of a run has asked and nobody has answered yet."""

from collections.abc import Iterable

from msgspec import Struct

from vedette.model import KINDS
from vedette.store import EventQuery, EventRow, Reader, SpanQuery

ASK, ASKED = "ask", "asked"


class Question(Struct, frozen=True):
    """One question of a process."""

    id: str
    run: str
    process: str  # the span of the process that waits
    prompt: str
    password: bool
    t: int


def question(event: EventRow) -> Question | None:
    """Read a question from its event; return None when the event is not a question."""
    ask, process = event.attrs.get("ask"), event.attrs.get("process")
    if event.kind != ASK or not isinstance(ask, str) or not isinstance(process, str) or not ask or not process:
        return None
    return Question(ask, event.span, process, event.text, bool(event.attrs.get("password")), event.t)


def settle(asked: dict[str, Question], events: Iterable[EventRow]) -> None:
    """Update the open questions, by id, with newer events; the events may be in any order."""
    closed = {str(event.attrs.get("ask")) for event in events if event.kind == ASKED}
    for event in events:
        if (found := question(event)) is not None:
            asked[found.id] = found
    for ask in closed:
        asked.pop(ask, None)


def waiting(store: Reader, run: str = "") -> list[Question]:
    """Return the open questions of a run, or of all runs, the oldest first; those of dead processes are left out."""
    asked: dict[str, Question] = {}
    settle(asked, store.events(EventQuery(run, kinds=(ASK, ASKED))))
    return alive(store, asked.values())


def alive(store: Reader, questions: Iterable[Question]) -> list[Question]:
    """Return the questions whose process has not ended."""
    return [item for item in questions if _lives(store, item.process)]


def _lives(store: Reader, process: str) -> bool:
    rows = [row for row in store.spans(SpanQuery(kind="process", prefix=process)) if row.id == process]
    return not rows or rows[0].state not in KINDS["process"].ends
