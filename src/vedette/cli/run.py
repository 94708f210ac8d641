"""run a command as a run: its beginning, its end and the cause of it are on record
examples:
  vedette run -- python train.py --lr 0.1
  vedette run --project cifar --config lr=0.1 --tag night -- ./job.sh
  vedette run --resume brisk-otter-417 -- python train.py --from checkpoint.pt

What the command starts may call vedette.init() too: it joins the run. Its output goes where it always went.
"""

import argparse
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vedette.errors import NotFoundError, VedetteError
from vedette.model import looks_like_run
from vedette.settings import Settings

_PASSED_ON = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_WAITED_FOR = {*_PASSED_ON, signal.SIGCHLD}
_BY_THE_KERNEL = 0x80  # si_code: a terminal has sent it to all its foreground processes, the command among them


def add(parser: argparse.ArgumentParser) -> None:
    """Say what it takes."""
    parser.add_argument(
        "--resume", default="", metavar="RUN", help="a new try of this run: an id, the beginning of one, or a name"
    ).completer = _complete  # type: ignore[attr-defined]
    parser.add_argument("--project", default="", help="the project of the run")
    parser.add_argument("--name", help="its name (default: two words and a number)")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a value of its config")
    parser.add_argument("--tag", action="append", default=[], help="a tag of it")
    parser.add_argument("CMD", nargs=argparse.REMAINDER, help="the command, behind --")


def run(args: argparse.Namespace) -> int:
    """Run a command; return its exit code, or 128 and the number of the signal that killed it."""
    command = args.CMD[1:] if args.CMD[:1] == ["--"] else args.CMD
    if not command or not command[0]:
        raise VedetteError("what is to be run? A command stands behind --, as in `vedette run -- python train.py`")
    if shutil.which(command[0]) is None:
        raise VedetteError(f"there is no command {command[0]!r} that can be run")
    if args.settings.mode == "off":
        return _exit_code(_watch(command))
    return _monitored(command, args)


def _monitored(command: list[str], args: argparse.Namespace) -> int:
    from vedette.client.current import end_as, own
    from vedette.client.guard import swallow
    from vedette.client.run import DEFAULT_PROJECT
    from vedette.hub.liveness import Death, verdict

    named = os.environ.pop("VEDETTE_RESUME", "")
    again, after = _find(args.settings, args.resume or named)
    config = dict(_value(text) for text in args.config)
    try:
        begun = own(
            args.settings, resume=again, after=after, parent=os.environ.get("VEDETTE_RUN", ""),
            script=os.path.basename(command[0]), project=args.project or DEFAULT_PROJECT, experiment=None,
            name=args.name, config=config, tags=args.tag, notes="",
        )  # fmt: skip
    except Exception as error:  # a fault of ours keeps nobody's command from running
        swallow(error, "the beginning of the run")
        return _exit_code(_watch(command))
    try:
        status = _watch(command)
    except OSError as error:
        end_as(begun, "failed", f"it could not be started: {error.strerror}")
        raise VedetteError(f"{command[0]} cannot be started: {error.strerror}") from None
    end_as(begun, *verdict(Death(None, status), "", 0, ""))
    return _exit_code(status)


def _find(settings: Settings, text: str) -> tuple[str, int]:
    """Return the id of the run that is to be resumed, and the n of its last try."""
    if not text:
        return "", 0
    with _held():  # numpy starts threads, which must not catch what is meant for us
        from vedette.cli.output import open_home
        from vedette.query.runs import find
        from vedette.query.tries import of_runs, order
    try:
        store = open_home(settings)
        run_id = find(store, text).id
    except NotFoundError:
        if looks_like_run(text):  # a whole id: it may be kept by another hub
            return text, 0
        raise
    tries = of_runs(store, [run_id]).get(run_id, [])
    store.close()
    return run_id, order(tries[-1])[0] if tries else 0


def _watch(command: list[str]) -> int:
    """Start a command in this terminal, pass signals on to it, and return its wait status when it has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who started us may ignore it, and the status would be lost
    with _held() as before:
        child = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            setsigmask=before,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python has had ignored
        )
        while True:
            came = signal.sigwaitinfo(_WAITED_FOR)
            if came.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    break
            elif came.si_code != _BY_THE_KERNEL:
                os.kill(child, came.si_signo)
        while signal.sigtimedwait(_PASSED_ON, 0) is not None:
            pass  # it came too late for the command, and is none of ours
        return status


@contextmanager
def _held() -> Iterator[set[signal.Signals | int]]:
    """Have signals wait until they are asked for, in this thread and those that begin in here; yield the old mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _complete(prefix: str, parsed_args: Any, **more: Any) -> list[str]:
    from vedette.cli.output import complete_runs

    return complete_runs(prefix, parsed_args, **more)


def _exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _value(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise VedetteError(f"--config takes KEY=VALUE, not {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
