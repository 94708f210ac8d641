"""run a command as a run: record when it begins, how it ends, and why
examples:
  vedette run -- python train.py --lr 0.1
  vedette run --project cifar --config lr=0.1 --tag night -- ./job.sh
  vedette run --resume brisk-otter-417 -- python train.py --from checkpoint.pt
  vedette run --metric 'loss[=: ]+([0-9.e+-]+)' -- python train.py
  vedette run --time-limit 1h30m -- python train.py

A process that the command starts may call vedette.init() too: it joins the run. What the command prints goes where it
always went, at once and unchanged, and is recorded line by line. The last line on stderr says how it ended, and why.
"""

import argparse
import math
import os
import re
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from vedette import masks
from vedette.cli.notices import say
from vedette.client import asked
from vedette.client.arguments import meaning
from vedette.deaths.tree import GRACE_S
from vedette.errors import NotFoundError, VedetteError
from vedette.ids import looks_like_run
from vedette.settings import Settings
from vedette.views.text import duration

if TYPE_CHECKING:
    from vedette.client.journal import Journal
    from vedette.deaths.process_ends import ProcessEnd
    from vedette.launch.local import Options

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
_MOST_S = 10**8


class Limit(NamedTuple):
    """A time limit, and the text that the user typed."""

    s: float
    text: str


class Resumed(NamedTuple):
    """A run to resume, as far as this home knows it."""

    id: str = ""
    after: int = 0  # the number of its last try
    name: str = ""
    asked: dict[str, Any] = {}  # noqa: RUF012 - never changed


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--resume",
        default="",
        metavar="RUN",
        help="start a new try of this run: an id, the beginning of one, or a name",
    ).completer = _complete  # type: ignore[attr-defined]
    parser.add_argument("--project", default="", help="the project of the run")
    parser.add_argument("--name", help="its name (default: two words and a number)")
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE",
        help="a value that replaces the one which the program gives to init(config=...); can be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--metric", action="append", default=[], metavar="PATTERN",
        help="log the numbers that this regular expression finds in printed lines, such as 'loss[=: ]+([0-9.e+-]+)';"
        " `auto` for each name=number; can be repeated",
    )  # fmt: skip
    parser.add_argument("--tag", action="append", default=[], help="a tag; can be repeated")
    parser.add_argument(
        "--time-limit", type=_limit, metavar="TIME", help="end it after this time, such as 90s, 45m or 1h30m"
    )
    parser.add_argument(
        "--grace", type=float, default=GRACE_S, metavar="SECONDS",
        help="between SIGTERM and SIGKILL at its time limit (default %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--no-capture",
        action="store_true",
        help="let it inherit our stdin, stdout and stderr; its output is not recorded",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing of our own on stderr at its start and end")
    parser.add_argument("CMD", nargs=argparse.REMAINDER, help="the command, after --")


def run(args: argparse.Namespace) -> int:
    """Run a command; return its exit code, or 128 plus the number of the signal that killed it."""
    command = args.CMD[1:] if args.CMD[:1] == ["--"] else args.CMD
    if not command or not command[0]:
        raise VedetteError("what shall be run? The command goes after --, as in `vedette run -- python train.py`")
    if shutil.which(command[0]) is None:
        raise VedetteError(f"there is no command {command[0]!r} that can be run")
    if not 0 <= args.grace <= 86400:
        raise VedetteError("--grace takes seconds, from 0 to 86400")
    config = asked.values() | dict(_value(text) for text in args.config)  # first those of a `vedette run` around us
    if args.metric and not (args.settings.logs.output and not args.no_capture):
        raise VedetteError(
            "--metric reads what the command prints: it cannot be used with --no-capture or logs.output=false"
        )
    if args.metric:
        from vedette.launch.metrics import compiled

        compiled(args.metric)
    if args.settings.mode == "off":
        return _unmonitored(command, args, config)
    return _monitored(command, args, config)


def _monitored(command: list[str], args: argparse.Namespace, config: dict[str, Any]) -> int:
    from vedette import address
    from vedette.cli.beside import Beside
    from vedette.client.current import begin_owned, end_as
    from vedette.client.faults import swallow
    from vedette.client.run import DEFAULT_PROJECT, About
    from vedette.deaths.evidence import Evidence
    from vedette.deaths.process_ends import may_say_more, of_command
    from vedette.deaths.tree import of_try
    from vedette.deaths.verdict import EndKind, verdict
    from vedette.launch.ending import evidence
    from vedette.launch.joined import Joined
    from vedette.launch.local import Launch, exit_code
    from vedette.launch.metrics import Metrics
    from vedette.launch.record import Recorder
    from vedette.sources.bars import Bars

    named = os.environ.pop("VEDETTE_RESUME", "")
    resumed = _find(args.settings, args.resume or named)
    if held := {key: value for key, value in resumed.asked.items() if key not in config}:
        config = held | config
        if not args.quiet:
            say(f"{_spelled(held)} of an earlier try of {resumed.name or resumed.id} still holds")
    try:
        begun = begin_owned(
            args.settings, About(args.project or DEFAULT_PROJECT, name=args.name, tags=args.tag),
            resume=resumed.id, after=resumed.after, parent=os.environ.get("VEDETTE_RUN", ""), command=command,
        )  # fmt: skip
        journal = begun._journal  # noqa: SLF001 - the launcher writes to the run's own journal
        if config:
            journal.set(journal.run, {"asked": masks.values(config)})
        says: dict[str, Any] = {"launches": True, "command": masks.argv(command[:100])}
        journal.tell(journal.process, name=f"vedette run {os.getpid()}", attrs=says)
    except Exception as error:  # an error of ours must not keep the command from running
        swallow(error, "the beginning of the run")
        return _unmonitored(command, args, config)
    called = begun.name or resumed.name or begun.id
    if not args.quiet and sys.stderr.isatty():
        say(f"run {called} ({begun.id})")
    drawn: set[str] = set()

    def progress(total: float | None, msg: str) -> Any:
        bar = begun.progress(total, msg)
        drawn.add(getattr(bar, "id", ""))
        return bar

    joined = Joined(journal.home.spool, begun.id, journal.spool.origin.name)
    metrics = Metrics(begun.log, journal.event, args.metric, joined.log_numbers)
    recorder = Recorder(journal.event, Bars(progress, metrics.bar), on_line=metrics.line)
    console = Beside(begun, args.settings, drawn, lambda: job.takes_keys)

    def started(pid: int) -> None:
        recorder.pid = pid
        if options.capture:
            console.begin()

    options = _options(args)
    if resumed.name and not begun.name:
        os.environ["VEDETTE_NAME"] = resumed.name
    job = Launch(
        command, _environ(begun.id, config, capture=options.capture, new=not (resumed.id or args.project)), options,
        _guarded(recorder.take), left=lambda: of_try(begun.id, journal.attempt), on_start=started,
        around=console.around,
    )  # fmt: skip
    try:
        ended = job.run()
    except OSError as error:
        end = verdict(Evidence(start_error=error.strerror or str(error)))
        end_as(begun, end.state, end.cause)
        raise VedetteError(f"{command[0]} cannot be started: {error.strerror}") from None
    _guarded(recorder.close)()
    _guarded(metrics.close)()
    found = evidence(
        ended, recorder.last(), args.time_limit.text if args.time_limit else "", os.environ,
        command=command, errors=recorder.last("stderr"), together=job.prints_together,
    )  # fmt: skip
    if found.stacks is not None:
        _guarded(journal.event)("stacks", found.stacks.text, 40)
    end, ended_t = verdict(found), time.time_ns()
    if may_say_more(end, found) and (joined.any() or (end.kind != EndKind.DONE and journal.home.hub_pid() is not None)):
        end = of_command(end, _joined_ends(args.settings, journal, recorder.pid), recorder.pid, ended_t)
    console.close(called, end.state, end.cause)
    end_as(begun, end.state, end.cause)
    if not args.quiet and found.signal != signal.SIGPIPE:
        took = duration((journal.claimed_t - journal.begun_t) / 1e9)  # as it is recorded
        but = f", but {end.cause}" if end.cause else ""
        shows = f"`vedette show {shlex.quote(called)}` shows it"
        if args.settings.upstream:
            shows = f"it goes to the hub at {address.shown(args.settings.upstream)}, where {shows}"
        look = f"done in {took}{but}: {shows}"
        say(f"{called} {look if end.kind == EndKind.DONE else f'{end.state}: {end.cause}'}")
    return exit_code(ended.status)


def _joined_ends(settings: Settings, journal: "Journal", pid: int) -> "list[ProcessEnd]":
    """Return how the processes that joined the run have ended; none if that cannot be found out soon."""
    from vedette.cli.joined_ends import read
    from vedette.client.faults import swallow

    try:
        return read(settings, journal.try_id, journal.process, pid)
    except KeyboardInterrupt:  # the command has ended already: nobody wants to wait for this
        pass
    except Exception as error:
        swallow(error, "what the processes of the command say of their ends")
    return []


def _unmonitored(command: list[str], args: argparse.Namespace, config: dict[str, Any]) -> int:
    from vedette.launch.local import Launch, exit_code

    try:
        environ = _asking(dict(os.environ), config)
        return exit_code(
            Launch(command, environ, _options(args)._replace(capture=False), lambda _, __: None).run().status
        )
    except OSError as error:
        raise VedetteError(f"{command[0]} cannot be started: {error.strerror}") from None


def _options(args: argparse.Namespace) -> "Options":
    from vedette.launch.local import Options

    capture = args.settings.logs.output and not args.no_capture
    return Options(capture, args.time_limit.s if args.time_limit else None, args.grace)


def _environ(run_id: str, config: dict[str, Any], *, capture: bool, new: bool) -> dict[str, str]:
    """Return the command's environment: whoever joins the run leaves its output to us; a crash prints its stacks.

    `new`: the first process that joins may describe the run, as the command line did not.
    """
    environ = {"PYTHONFAULTHANDLER": "1", **os.environ}
    for name, is_set in (("VEDETTE_CAPTURED", capture), ("VEDETTE_NEW", new)):
        environ.pop(name, None)
        if is_set:
            environ[name] = run_id
    return _asking(environ, config)


def _asking(environ: dict[str, str], config: dict[str, Any]) -> dict[str, str]:
    """Hand down the values of --config."""
    if config:
        environ[asked.VARIABLE] = msgspec.json.encode(config).decode()
    return environ


def _guarded(act: Callable[..., None]) -> Callable[..., None]:
    """Wrap a function so that an error in it never disturbs the command."""
    from vedette.client.faults import swallow

    def call(*args: Any) -> None:
        try:
            act(*args)
        except Exception as error:
            swallow(error, "the record of the output")

    return call


def _find(settings: Settings, text: str) -> Resumed:
    """Return the run to resume."""
    if not text:
        return Resumed()
    from vedette.cli.output import open_home
    from vedette.query.finding import find
    from vedette.query.tries import of_runs, order

    try:
        store = open_home(settings, glance=True)
        found = find(store, text)
    except NotFoundError:
        if looks_like_run(text):  # a whole id: it may be kept by another hub
            return Resumed(text)
        raise
    tries = of_runs(store, [found.id]).get(found.id, [])
    store.close()
    said = {key[6:]: value for key, value in found.attrs.items() if key.startswith("asked.")}
    known = {key: value for key, value in said.items() if masks.MASK not in str(value)}
    return Resumed(found.id, order(tries[-1])[0] if tries else 0, found.name, known)


def _spelled(config: dict[str, Any]) -> str:
    return " ".join(f"--config {key}={value}" for key, value in masks.values(config).items())


def _complete(prefix: str, parsed_args: Any, **more: Any) -> list[str]:
    from vedette.cli.output import complete_runs

    return complete_runs(prefix, parsed_args, **more)


def _limit(text: str) -> Limit:
    found = _DURATION.fullmatch(text.strip())
    days, hours, minutes, seconds = (float(part or 0) for part in (found.groups() if found else [None] * 4))
    total = days * 86400 + hours * 3600 + minutes * 60 + seconds
    if not 0 < total <= _MOST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 90s, 45m or 1h30m")
    return Limit(total, text.strip() + ("s" if text.strip()[-1].isdigit() else ""))


def _value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise VedetteError(f"--config takes KEY=VALUE, not {text!r}")
    meant = meaning(value)
    if isinstance(meant, float) and not math.isfinite(meant):
        raise VedetteError(f"--config {key}={value}: the number is too large; give {key} another value")
    return key, meant
