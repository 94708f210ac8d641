"""answer a question that a run has asked with vedette.ask
examples:
  vedette answer brisk-otter-417
  vedette answer brisk-otter-417 yes
  pass show cluster | vedette answer 2pg66

Without TEXT the answer is read from the terminal (hidden if it is a password) or from a pipe: then it is not in the
history of your shell. vedette does not store the answer.
"""

import argparse
import getpass
import sys

from vedette.access.home_access import HomeAccess
from vedette.cli.output import complete_runs, open_home, print_json
from vedette.errors import HubError, NotFoundError, VedetteError
from vedette.query.finding import find
from vedette.query.questions import ASKED, Question, waiting
from vedette.store import EventQuery, Reader
from vedette.views.ansi import one_line

_TIMEOUT_S = 15.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("RUN", help="an id, the beginning of one, or a name").completer = complete_runs  # type: ignore[attr-defined]
    parser.add_argument("TEXT", nargs="?", help="the answer (default: read it from stdin)")
    parser.add_argument("--question", default="", help="the id of a question, if several wait (default: the oldest)")
    parser.add_argument("--list", action="store_true", help="only list the questions that wait")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """Answer a question; exit with 1 when the process has not confirmed it in time."""
    store = open_home(args.settings, glance=True)
    found = find(store, args.RUN)
    questions = waiting(store, found.id)
    if args.list:
        return _list(questions, as_json=args.json)
    chosen = [item for item in questions if not args.question or item.id == args.question]
    if not chosen:
        what = f"no question {args.question!r}" if args.question else "no question"
        raise NotFoundError(f"run {found.id} ({found.name}) has {what} that waits for an answer")
    question = chosen[0]
    text = _read(question) if args.TEXT is None else args.TEXT
    access = HomeAccess.of(args.settings)
    command = access.answer(question.process, question.id, text)
    how = access.wait_for(lambda: _outcome(store, question, command), _TIMEOUT_S, found.id)
    how = how or "the process has not confirmed it yet"
    if args.json:
        print_json({"run": found.id, "question": question.id, "how": how})
    elif how == "answered":
        print("answered")
    else:
        print(f"sent, but {how}")
    return 0 if how == "answered" else 1


def _list(questions: list[Question], *, as_json: bool) -> int:
    if as_json:
        print_json([{"question": item.id, "prompt": item.prompt, "password": item.password} for item in questions])
    else:
        for item in questions:
            print(f"{item.id}  {one_line(item.prompt)}")
    return 0


def _read(question: Question) -> str:
    prompt = one_line(question.prompt) + " "
    try:
        if not sys.stdin.isatty():
            if not (line := sys.stdin.readline()):
                raise EOFError
            return line.rstrip("\n")
        return getpass.getpass(prompt) if question.password else input(prompt)
    except EOFError:
        raise VedetteError("nothing was typed, so no answer was sent") from None


def _outcome(store: Reader, question: Question, command: str) -> str | None:
    """Return what the process has reported of its question; None: nothing yet."""
    for event in store.events(EventQuery(question.run, kinds=(ASKED,))):
        if event.attrs.get("ask") == question.id:
            if event.attrs.get("command") == command:
                return "answered"
            if event.attrs.get("how") != "answered":
                raise HubError("the process has given up waiting")
            raise HubError("somebody else had answered before")
    return None
