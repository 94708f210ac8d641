"""The command line: `vedette COMMAND`. Each command is a file with `add` (its arguments) and `run` (what it does).

Only the command that is asked for is imported, and it imports only what it needs: people type commands often, and a
shell that completes a name waits for the answer. `COMMANDS` says what each of them does:

- begin and watch: `run`, `watch`, `top`, `ui`, `monitor`, `answer`
- read: `ls`, `show`, `points`, `plot`, `logs`, `files`, `usage`, `diff`, `compare`, `sql`
- change: `edit`, `stop`, `rm`
- move: `reproduce`, `export`, `sync`, `backup`
- look after: `hub`, `token`, `doctor`, `completion`

Eight files are not commands: `output` prints tables, JSON and completions; `ranking` has the options that sort runs and
choose columns; `notices` prints what is said on stderr; `beside` is the console beside a command, `joined_ends` asks
how its processes have ended, `hub_status` prints who keeps a home and who relays to it; `doctor_home` is what `doctor`
says of the directory of a home, and `store_check` of the store.
"""

import argparse
import importlib
import io
import os
import re
import sys
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from vedette.errors import VedetteError
from vedette.lean_start import import_msgspec
from vedette.version import __version__

_MOST_CHARS = 1 << 16  # of a value that is read from a file

# The first line of each command's file, repeated here so that `vedette --help` need not import them.
COMMANDS = {
    "run": "run a command as a run: record when it begins, how it ends, and why",
    "watch": "watch runs live: their log lines, their progress bars, and why they ended",
    "top": "watch all runs and hosts on one screen: state, progress, trend, CPU, memory, GPU, last line",
    "ui": "show all runs in the browser: charts, usage, logs, comparison; only you can open it",
    "monitor": (
        "watch what a command or a process uses, with all its descendants: CPU, memory, disk, network, GPU, power"
    ),
    "answer": "answer a question that a run has asked with vedette.ask",
    "ls": "list runs, the newest first",
    "show": "show one run: what it is, how it ended, its config, series, bars and processes",
    "points": "print the points of a series: step, time and value",
    "plot": "draw curves of a metric in the terminal: one or more runs, live with -f",
    "logs": "print what happened in a run: log records, printed lines, marks, warnings, exceptions",
    "files": "list the files that a run has saved, or write one out",
    "usage": "draw what the processes of a run used: CPU, memory, reads and writes, threads, GPUs",
    "diff": "explain how a run differs from another: the most likely causes first, then every difference",
    "compare": "compare runs side by side: what differs, and their last values",
    "sql": "query the store in SQL, read-only; the points are a table too",
    "edit": "edit a run afterwards: its name, description, notes, star and tags",
    "reproduce": (
        "write what a run was made of into a directory: its code, packages, environment, and the command to run it"
        " again"
    ),
    "stop": "stop a run on any machine: SIGTERM, then SIGKILL after a grace period",
    "rm": "remove runs; they can be brought back, unless they were removed for good",
    "export": "write runs to one file: an archive that `vedette sync` reads back, or their points as Parquet or CSV",
    "sync": "take in what was logged elsewhere: homes, spools and archives, each as often as you like",
    "backup": "copy a home into one file while jobs log to it, or make a home of such a file again",
    "hub": "run the hub of a home in the foreground; one starts by itself when it is needed",
    "token": "list, make, replace and revoke the tokens with which other machines connect to the hub of this home",
    "doctor": "check home, hub (started if needed), disk and versions; say what is wrong and what to do",
    "completion": "print the code that lets your shell complete commands and runs with TAB",
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in a sentence, with the nearest right word, instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        from vedette.views.text import clean

        wrong = re.search(r"(?:unrecognized arguments: |invalid choice: ')(\S+?)'?(?: |$)", message)
        choices = re.search(r"\(choose from (.+)\)", message)
        words = [option for action in self._actions for option in action.option_strings]
        if choices:
            words = [*COMMANDS] if message.startswith("argument COMMAND") else re.findall(r"[^', ]+", choices[1])
        near = _nearest(wrong[1], words) if wrong else []
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


def _nearest(word: str, words: Sequence[str]) -> list[str]:
    import difflib

    return difflib.get_close_matches(word, words, 1)


def build_parser(names: Collection[str] = COMMANDS, *, listed: bool = False) -> argparse.ArgumentParser:
    """Return the parser with these commands; `listed`: it also names the others, without their arguments."""
    parser = _Parser(
        prog="vedette",
        description="What are my jobs doing, how do they compare, and why did that one die?",
        epilog="example: vedette ls --where 'config.lr > 0.1 and state = failed'",
    )
    parser.add_argument("--version", action="version", version=f"vedette {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        if name in names:
            _add(commands, name, summary)
        elif listed:
            commands.add_parser(name, help=summary, add_help=False)
    return parser


def _add(commands: Any, name: str, summary: str) -> None:
    import_msgspec()
    module = importlib.import_module(f"vedette.cli.{name}")
    command = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=(module.__doc__ or "").partition("\n")[2].strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add(command)
    command.add_argument("--home", help="the home to work on (default: VEDETTE_HOME, or ~/.vedette)")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting, such as hub.idle_s=5 for a hub that this starts; KEY=@FILE takes the value from a file",
    )
    command.set_defaults(run=module.run, parser=command)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit: 0, or 1 when it found something wrong, or 2 with a sentence that says what."""
    _replace_closed_streams()
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    asked = [word for word in words if word in COMMANDS][:1]
    parser = build_parser(asked, listed=words[:1] != asked)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if words[0].partition("=")[0] in ("--home", "--set"):
        parser.exit(
            2, f"vedette: {words[0].partition('=')[0]} goes after the command, as in `vedette ls --home HOME`\n"
        )
    args = parser.parse_args(words)
    sys.exit(_run(args, words))


def _run(args: argparse.Namespace, words: Sequence[str]) -> int:
    from vedette.settings import load, unknown_variables
    from vedette.views.text import clean

    try:
        _check_words(args, words)
        for sentence in unknown_variables(os.environ):
            sys.stderr.write(f"vedette: {clean(sentence, one_line=True)}\n")
        overrides = {"home": args.home, **dict(_setting(text) for text in args.set)}
        args.reload = lambda: load(overrides)
        args.settings = args.reload()
        code = args.run(args) or 0
        sys.stdout.flush()
    except VedetteError as error:
        sys.stderr.write(f"vedette: {clean(str(error), one_line=True)}\n")
        code = 2
    except BrokenPipeError:  # the reader of our pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # a full disk behind stdout, say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        what = f": {error.filename}" if isinstance(error.filename, str) else ""
        sys.stderr.write(f"vedette: {clean(f'{error.strerror or error}{what}', one_line=True)}\n")
        code = 2
    except KeyboardInterrupt:
        code = 130
    return int(code)


def _complete() -> None:
    """Answer a shell that asks for completions, and exit; return if argcomplete is not installed."""
    try:
        import argcomplete
    except ImportError:
        return
    typed = re.split(r"[\s'\"]+", os.environ.get("COMP_LINE", ""))
    argcomplete.autocomplete(build_parser([word for word in typed if word in COMMANDS], listed=True))


def _replace_closed_streams() -> None:
    """Open /dev/null for each standard stream that is closed; else the next file we open would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - it stays


def _check_words(args: argparse.Namespace, words: Sequence[str]) -> None:
    """Raise VedetteError for a word that is not text, unless it is the path of the home; and for a token.

    What a command of the user's is given, as by `vedette run -- CMD`, is the user's own business.
    """
    from vedette.settings import has_token

    command = getattr(args, "CMD", None) or []
    for word in words[: len(words) - len(command)]:
        if has_token(word):
            raise VedetteError(
                "every user of this machine can read a token on a command line, so it is refused there: give it in a"
                " file of your own (`--set hub.reroute=@FILE`), in vedette.toml, or in the environment (VEDETTE_HUB,"
                " VEDETTE_HUB_REROUTE); this one was seen, so end it where it was made: `vedette token --revoke NAME`"
                " and `vedette token --new NAME`, or `vedette token --new` if it is your own"
            )
    for word in words:
        try:
            if word not in (args.home, f"--home={args.home}"):
                word.encode()
        except UnicodeEncodeError:
            raise VedetteError(f"an argument is not UTF-8 text: {word.encode(errors='replace').decode()}") from None


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise VedetteError(f"--set takes KEY=VALUE, not {text!r}")
    if value.strip().startswith("@"):
        value = _content(key.strip(), value.strip()[1:])
    return key.strip(), value.strip()


def _content(key: str, path: str) -> str:
    """Return what a file has for a setting."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read(_MOST_CHARS)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise VedetteError(f"--set {key}=@{path}: the file cannot be read: {why}") from None
