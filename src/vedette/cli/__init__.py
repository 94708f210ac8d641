"""The command line: `vedette COMMAND`. Each command is a file with `add` (its arguments) and `run` (what it does)."""

import argparse
import difflib
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from vedette.errors import VedetteError
from vedette.settings import load
from vedette.version import __version__
from vedette.views.text import clean

COMMANDS = (
    "run", "watch", "top", "ui", "monitor", "answer", "ls", "show", "points", "logs", "files", "usage", "diff",
    "compare", "sql", "edit", "reproduce", "stop", "rm", "export", "sync", "hub", "doctor", "completion",
)  # fmt: skip


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in a sentence, with the nearest right word, instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        wrong = re.search(r"(?:unrecognized arguments: |invalid choice: ')(\S+?)'?(?: |$)", message)
        choices = re.search(r"\(choose from (.+)\)", message)
        words = [option for action in self._actions for option in action.option_strings]
        if choices:
            words = [*COMMANDS] if message.startswith("argument COMMAND") else re.findall(r"[^', ]+", choices[1])
        near = difflib.get_close_matches(wrong[1], words, 1) if wrong else []
        if wrong and message.startswith("argument COMMAND"):
            message = f"there is no command {wrong[1]!r}"
        hint = f"did you mean {near[0]}?" if near else f"`{self.prog} --help` shows what there is"
        self.exit(2, f"vedette: {clean(message, one_line=True)}; {hint}\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Have a command complain about its own arguments, with its own options as hints."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            parsed.parser.error(f"unrecognized arguments: {' '.join(rest)}")
        return parsed


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of the command line, or of some of its commands: importing them all takes its time."""
    parser = _Parser(
        prog="vedette",
        description="What are my jobs doing, how do they compare, and why did that one die?",
        epilog="example: vedette ls --where 'config.lr > 0.1 and state = failed'",
    )
    parser.add_argument("--version", action="version", version=f"vedette {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        module = importlib.import_module(f"vedette.cli.{name}")
        summary, _, example = (module.__doc__ or "").partition("\n")
        command = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=example.strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add(command)
        command.add_argument("--home", help="the home to work on (default: VEDETTE_HOME, or ~/.vedette)")
        command.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a setting, such as hub.idle_s=5 for a hub that this starts",
        )
        command.set_defaults(run=module.run, parser=command)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit: 0, or 1 when it found something wrong, or 2 with a sentence that says what."""
    _stand_in_for_closed()
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    completing = "_ARGCOMPLETE" in os.environ
    parser = build_parser(words[:1] if words[:1] and words[0] in COMMANDS and not completing else COMMANDS)
    try:
        import argcomplete

        argcomplete.autocomplete(parser)
    except ImportError:
        pass
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if words[0].partition("=")[0] in ("--home", "--set"):
        parser.exit(
            2, f"vedette: {words[0].partition('=')[0]} stands behind the command, as in `vedette ls --home HOME`\n"
        )
    args = parser.parse_args(words)
    try:
        _check_text(words)
        said = {"home": args.home, **dict(_setting(text) for text in args.set)}
        args.reload = lambda: load(said)
        args.settings = args.reload()
        code = args.run(args)
        sys.stdout.flush()
    except VedetteError as error:
        sys.stderr.write(f"vedette: {clean(str(error), one_line=True)}\n")
        code = 2
    except BrokenPipeError:  # the reader of our pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # a full disk behind stdout, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"vedette: {clean(error.strerror or str(error), one_line=True)}\n")
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.exit(code or 0)


def _stand_in_for_closed() -> None:
    """Put something in the place of each standard stream that is closed, or a file of ours would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - it stays


def _check_text(argv: Sequence[str]) -> None:
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise VedetteError(f"an argument is not UTF-8 text: {word.encode(errors='replace').decode()}") from None


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise VedetteError(f"--set takes KEY=VALUE, not {text!r}")
    return key.strip(), value.strip()
