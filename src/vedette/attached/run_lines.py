"""What the console of a run shows: lines of its own process at once, those of others from the store, and questions."""

import collections
import os
import time

from vedette import kernel
from vedette.access.home_access import HomeAccess
from vedette.client import ask
from vedette.errors import StoreError, VedetteError
from vedette.model import Event
from vedette.query.live import Feed, News
from vedette.query.questions import Question, settle
from vedette.store import EventRow
from vedette.views.asking import Asking, Keys
from vedette.views.console import Board, shown_in_process

_MAX_FAILED_READS = 50
_MAX_WAITING = 100_000  # own lines that are not shown yet


class RunLines:
    """Turns what happens in a run into lines. Hold the console's lock for every call except `look`."""

    def __init__(self, access: HomeAccess, run: str, process: str, board: Board, keys: Keys) -> None:
        """`process`: the span of this process, whose questions are answered without a hub."""
        self.asking = Asking(keys, self._answer)
        self.own: collections.deque[Event] = collections.deque(maxlen=_MAX_WAITING)  # what this process has said
        self.first: list[str] = []  # lines that come before all others
        self.has_heard_others = False  # another process has written a line
        self.heard_at = 0.0  # when that last happened
        self._access = access
        self._run = run
        self._process = process
        self._board = board
        self._board.typed = self.asking.row
        self._host, self._pid = kernel.host(), os.getpid()
        self._own_questions: dict[str, Question] = {}
        self._other_questions: list[Question] = []
        self._feed: Feed | None = None
        self._failed_reads = 0

    def take_own(self) -> list[str]:
        """Return this process's new lines since the last call."""
        lines, self.first = self.first, []
        while self.own:
            event = self.own.popleft()
            row = EventRow(
                0, event.span, event.t, event.kind, event.level, event.text, event.attrs, self._host, self._pid
            )
            settle(self._own_questions, [row])
            if shown_in_process(row, self._host):
                lines += self._board.events([row])
        self._board.ask([*self._own_questions.values(), *self._other_questions])
        return lines

    def look(self) -> News | None:
        """Return what is new in the store; None if it cannot be read just now."""
        if self._feed is None:
            self._open()
        if self._feed is None:
            return None
        try:
            news = self._feed.look()
        except StoreError:  # the store is being created, or is busy
            self._failed_reads += 1
            if self._failed_reads > _MAX_FAILED_READS:
                raise
            return None
        self._failed_reads = 0
        return news

    def take(self, news: News) -> list[str]:
        """Return the lines of other processes, and note bars and questions."""
        others = [event for event in news.events if event.pid and (event.host, event.pid) != (self._host, self._pid)]
        if others:
            self.has_heard_others, self.heard_at = True, time.monotonic()
        late = self.asking.hear(news.events)
        self._other_questions = [item for item in news.questions if item.process != self._process]
        news.questions = [*self._own_questions.values(), *self._other_questions]
        news.events = [event for event in others if shown_in_process(event, self._host)]
        return late + self._board.take(news)

    def _open(self) -> None:
        if os.path.exists(self._access.home.store):
            try:
                store = self._access.reader()
            except VedetteError:  # the store is being created
                return
            self._feed = Feed(store, self._run, lost_after_s=self._access.lost_after_s)

    def _answer(self, question: Question, text: str) -> str:
        if ask.answer(question.id, text):
            return ""
        return self._access.answer(question.process, question.id, text)
