"""watch runs live: their log lines, their progress bars, and why they ended
examples:
  vedette watch
  vedette watch brisk-otter-417 --level warning
  vedette watch --all --grep "loss|nan"
  vedette watch 2pg66 --plain > lines.txt

Without RUN it watches the newest run that is alive; if there is none, it waits for the next one. It ends with the run:
with exit code 0 if the run is done, else 1. If the run asks a question, you can answer it here.
"""

import argparse
import contextlib
import os
import sys
import time

from msgspec import structs

from vedette.access.follower import LEFT, Follower
from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, count, json_line
from vedette.errors import HubError, LockedError, NotFoundError
from vedette.model import KINDS
from vedette.query.finding import find
from vedette.query.live import Feed, News
from vedette.query.new_lines import SETTLE_S
from vedette.query.progress import Bar
from vedette.query.questions import Question
from vedette.query.runs import RunView, select
from vedette.query.silence import LOST
from vedette.store import Reader, SpanQuery
from vedette.views.asking import Asking, Keys
from vedette.views.console import Board, Pipe, Tty, open_screen
from vedette.views.lines import run_end
from vedette.wire import NO_RUN

_TICK_S = 0.1
_LEAST_S = 0.05  # at most twenty looks a second, however much changes
_ENDS = KINDS["run"].ends


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "RUN", nargs="?", default="", help="an id, the beginning of one, or a name (default: the newest that is alive)"
    ).completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("--all", action="store_true", help="all runs of the home, until Ctrl-C")
    parser.add_argument("--level", default="0", help="only this level and above: debug, info, warning, error, critical")
    parser.add_argument("--grep", default="", help="only lines that match this regular expression")
    parser.add_argument(
        "-n", "--last", type=count, default=20, help="how many earlier lines to show first (default 20)"
    )
    parser.add_argument("--plain", action="store_true", help="plain lines, as in a pipe: no colours, no bars")
    parser.add_argument("--json", action="store_true", help="one JSON object per line: events, bars, ends")


def run(args: argparse.Namespace) -> int:
    """Watch until the end; 0 when all is well, 1 when the run was not done."""
    access = HomeAccess.of(args.settings)
    now_t = time.time_ns()
    store = _store(access)
    chosen = "" if args.all else _choose(args, access, store, now_t)
    follower = access.follower(chosen, least_s=_LEAST_S)
    feed = Feed(
        store,
        chosen,
        last=args.last,
        level=args.level,
        grep=args.grep,
        lost_after_s=args.settings.lost_after_s,
        settle_s=SETTLE_S,
    )
    watch = _Watch(args, access, feed, follower)
    try:
        return watch.run()
    finally:
        watch.close()


def _store(access: HomeAccess) -> Reader:
    """Open the store, as soon as there is one."""
    if (store := _opened(access)) is None:
        sys.stderr.write(f"nothing has been logged to {access.root} yet; waiting for a run (Ctrl-C leaves)\n")
        store = access.wait_for(lambda: _opened(access), needs_hub=lambda: os.path.exists(access.home.spool))
    assert store is not None  # it waits for as long as it takes
    return store


def _opened(access: HomeAccess) -> Reader | None:
    try:
        store = access.reader()
        store.spans(SpanQuery(limit=1))
    except (LockedError, NotFoundError):  # there is none, or the hub is creating it
        return None
    return store


def _choose(args: argparse.Namespace, access: HomeAccess, store: Reader, begun_t: int) -> str:
    """Return the id of the run to watch; without RUN also one that began since `begun_t` and has ended already."""
    with contextlib.suppress(HubError):
        access.seal(NO_RUN)  # the hub reads all spools, so new runs are known
    if args.RUN:
        return find(store, args.RUN).id
    lost_after_s = args.settings.lost_after_s
    if (chosen := _newest(store, begun_t, lost_after_s)) is None:
        sys.stderr.write("no run is alive; waiting for one to begin (Ctrl-C leaves)\n")
        # A run that begins starts a hub itself.
        chosen = access.wait_for(lambda: _newest(store, begun_t, lost_after_s), needs_hub=lambda: False)
    assert chosen is not None  # it waits for as long as it takes
    return chosen


def _newest(store: Reader, begun_t: int, lost_after_s: float) -> str | None:
    runs = select(store, limit=100, lost_after_s=lost_after_s)
    alive = [run for run in runs if run.end_t is None]
    living = [run for run in alive if run.state != LOST] or alive
    begun = [run for run in runs if (run.start_t or 0) >= begun_t]  # and may have ended already
    return next((run.id for run in (*living[:1], *begun[-1:])), None)


class _Watch:
    """Shows what is new, look by look, until the run ends."""

    def __init__(self, args: argparse.Namespace, access: HomeAccess, feed: Feed, follower: Follower) -> None:
        self._json = args.json
        self._access = access
        self._feed = feed
        self._follower = follower
        self._screen: Tty | Pipe = open_screen(sys.stdout, plain=args.plain or args.json)
        self._board = Board(self._screen.look, by_run=not feed.run)
        self._asking = Asking(Keys(), self._answer)
        self._board.typed = self._asking.row
        self._printed: dict[str, Bar] = {}
        self._trouble = ""  # with the hub, as it was last shown
        self._ended: set[str] = set()
        self._first = True

    def run(self) -> int:
        while True:
            fds = [self._asking.fd] if self._asking.fd is not None and self._screen.look.terminal else []
            change = self._follower.wait(_TICK_S, fds)
            if fds:
                self._show(self._asking.read())
            self._show_trouble()
            if (change is not None or self._feed.holds) and (code := self._look()) is not None:
                return code
            if self._screen.look.terminal:
                self._asking.tend(self._board.question)
            self._screen.below(self._board.rows)

    def _look(self) -> int | None:
        """Show what is new; return the exit code when the run has ended."""
        try:
            news = self._feed.look()
        except LockedError:  # the store is busy: the next look will do
            return None
        ended = [run for run in news.runs.values() if run.state in _ENDS and run.id not in self._ended]
        if self._feed.run and ended:
            self._take(news)
            self._seal()
            news = self._feed.look()
            ended = [run for run in news.runs.values() if run.state in _ENDS]
        self._take(news)
        for run in ended:
            self._ended.add(run.id)
            if self._feed.run or not self._first:
                self._end(run)
        self._first = False
        return (0 if ended[0].state == "done" else 1) if self._feed.run and ended else None

    def _show_trouble(self) -> None:
        """Say what is wrong with the hub, once; not that it has left, since another one is started."""
        if self._follower.trouble in (self._trouble, LEFT):
            return
        self._trouble = self._follower.trouble
        line = f"vedette: {self._trouble or 'the hub answers again'}"
        if self._screen.look.terminal:
            self._show([line])
        else:
            sys.stderr.write(f"{line}\n")

    def _seal(self) -> None:
        """Have the hub put all that was logged until now into the store."""
        with contextlib.suppress(HubError):
            self._access.seal(self._feed.run)

    def _take(self, news: News) -> None:
        if self._json:
            for event in news.events:
                print(json_line({"type": "event", **structs.asdict(event)}))
            for bar in news.bars:
                if self._printed.get(bar.id) != bar:
                    self._printed[bar.id] = bar
                    print(json_line({"type": "bar", **structs.asdict(bar)}))
            sys.stdout.flush()
            return
        late = self._asking.hear(news.events)
        self._show(late + self._board.take(news, first=self._first))

    def _end(self, run: RunView) -> None:
        if self._json:
            end = {"id": run.id, "name": run.name, "state": run.state, "cause": run.cause, "end_t": run.end_t}
            print(json_line({"type": "end", **end}), flush=True)
        else:
            self._show([run_end(run.name or run.id, run.state, run.cause, run.duration_s, self._screen.look)])

    def _show(self, lines: list[str]) -> None:
        if lines:
            self._screen.above(lines)

    def _answer(self, question: Question, text: str) -> str:
        return self._access.answer(question.process, question.id, text)

    def close(self) -> None:
        self._asking.close()
        self._screen.close()
        self._follower.close()
