"""The command line of the classifier's monitor: a server for many calls, or a script run under its settings."""

import functools
import os
import runpy
import sys
import time
import warnings
from collections.abc import Callable

import vedette
from vedette import settings
from vedette.compat.classifier import report
from vedette.compat.classifier.connection import connect, stop_hub
from vedette.compat.classifier.report import say
from vedette.compat.classifier.server import serve
from vedette.compat.classifier.setting import Chosen
from vedette.errors import SettingError, VedetteError

USAGE = """usage:
  python -m vedette.compat.classifier monitor -setting Monitor "address: :PORT"
  python -m vedette.compat.classifier SCRIPT [ARGUMENT]... [-setting NAME "KEY: VALUE"]... [-analysis monitor.Usage]

-setting, -analysis and -flag may stand anywhere; all behind -- is the script's own.

examples:
  python -m vedette.compat.classifier monitor -setting Monitor "address: :10200"
  python -m vedette.compat.classifier train.py -setting Monitor "{address: localhost:10200, connect: true}"
  python -m vedette.compat.classifier train.py -setting monitor.Usage "enable: true" -analysis monitor.Usage
  python -m vedette.compat.classifier monitor -setting Monitor "address: :10200" -analysis monitor.Usage
"""
ANALYSES = ("monitor.Usage",)
_OTHER_ANALYSES = ("notify.Gmail",)  # of the original, without a counterpart here


def main(argv: list[str]) -> Callable[[], int]:
    """Read the command line and prepare; return a function that does the work and returns the exit code."""
    chosen, analyses = Chosen(), []
    words = list(argv)
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if word == "-setting":
            chosen.add(_next(words, "-setting NAME"), _next(words, "-setting NAME VALUE"))
        elif word == "-analysis":
            analyses += _known_analysis(_next(words, "-analysis NAME"))
        elif word == "-flag":
            if (flag := _next(words, "-flag NAME")) == "debug":
                chosen.add("monitor.Log", "level: 10")
            else:
                say(f"the flag {flag!r} has no effect here")
        elif word == "--":
            rest += words
            break
        elif not rest and word in ("-h", "--help"):
            sys.stdout.write(USAGE)
            return lambda: 0
        elif not rest and word.startswith("-"):
            raise SettingError(
                f"there is no option {word!r} before the script: there are -setting, -analysis and -flag"
            )
        else:
            rest.append(word)
    for name in chosen.meaningless():
        say(f"{name} has no effect here")
    if not rest:
        raise SettingError("nothing to run: give `monitor`, or a script; --help shows examples")
    if rest[0] != "monitor":
        return _prepare(chosen, analyses, rest)
    if len(rest) > 1:
        raise SettingError(f"`monitor` takes no {rest[1]!r}")
    os.environ.update(chosen.environ())
    folder = os.path.join(_folder(chosen, "monitor"), "usage") if analyses else ""
    return functools.partial(serve, str(chosen.get("Monitor", "address")), folder)


def _next(words: list[str], form: str) -> str:
    if not words:
        raise SettingError(f"the command line ends in the middle of {form}")
    return words.pop(0)


def _known_analysis(name: str) -> list[str]:
    if name in _OTHER_ANALYSES:
        say(f"the analysis {name!r} has no effect here")
        return []
    if name not in ANALYSES:
        raise SettingError(f"there is no analysis {name!r}; did you mean {ANALYSES[0]!r}?")
    return [name]


def _prepare(chosen: Chosen, analyses: list[str], command: list[str]) -> Callable[[], int]:
    script = command[0]
    if not os.path.isfile(script):
        raise SettingError(f"there is no script {script!r}")
    os.environ.update(chosen.environ())
    if not chosen.get("Monitor", "enable"):
        os.environ["VEDETTE_MODE"] = "off"
    if not chosen.get("monitor.Console", "enable"):
        os.environ["VEDETTE_CONSOLE_MODE"] = "off"
    if chosen.get("Monitor", "warnings_ignore"):
        warnings.simplefilter("ignore")
    settings.load()  # a wrong value is reported before anything begins
    listening = connect(chosen)
    stem = os.path.splitext(os.path.basename(script))[0]
    folder = os.path.join(_folder(chosen, stem), "usage")
    return functools.partial(_run, command, stem, folder if analyses else "", listening=listening)


def _run(command: list[str], name: str, folder: str, *, listening: bool) -> int:
    run = vedette.init(name=name)
    sys.argv = command
    sys.path[0] = os.path.dirname(os.path.abspath(command[0]))
    try:
        runpy.run_path(command[0], run_name="__main__")
    finally:
        if folder and run.id:
            run.__exit__(*sys.exc_info())
            _analyse(run.id, folder)
        if listening:  # a hub that listens never ends by itself; another one starts when it is needed
            stop_hub()
    return 0


def _folder(chosen: Chosen, stem: str) -> str:
    """Return the directory for the reports on a script."""
    output, begun = str(chosen.get("IO", "output")), time.strftime(str(chosen.get("IO", "timestamp")))
    try:
        return os.path.join(output.format(main=stem, timestamp=begun), str(chosen.get("IO", "report")))
    except (LookupError, ValueError, AttributeError):
        raise SettingError(f"IO output takes {{main}} and {{timestamp}}, not {output!r}") from None


def _analyse(run: str, folder: str) -> None:
    """Draw the usage of a run; a run that another hub keeps has it there."""
    if upstream := os.environ.get("VEDETTE_HUB") or settings.load().upstream:
        where = upstream.rpartition("@")[2].partition("/")[0] or upstream
        say(
            f"there is no usage report here, because the server at {where} keeps the run: `vedette usage {run}` draws"
            " it there, and `monitor ... -analysis monitor.Usage` draws all calls when the server ends"
        )
        return
    report.usage_of(run, folder)


if __name__ == "__main__":
    try:
        do = main(sys.argv[1:])
    except VedetteError as error:  # not around the script: its exceptions are its own
        sys.stderr.write(f"vedette: {error}\n")
        sys.exit(2)
    sys.exit(do())
