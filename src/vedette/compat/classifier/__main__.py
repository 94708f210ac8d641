"""The command line of the classifier's monitor: a server for many calls, or a script run under its settings."""

import functools
import os
import runpy
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import vedette
from vedette import address as addresses
from vedette import cli, detached, host_port, settings
from vedette.access.home_access import HomeAccess
from vedette.compat.classifier.setting import Chosen
from vedette.errors import SettingError, VedetteError
from vedette.guard import is_loopback
from vedette.home import Home

USAGE = """usage:
  python -m vedette.compat.classifier monitor -setting Monitor "address: :PORT"
  python -m vedette.compat.classifier [-setting NAME "KEY: VALUE"]... [-analysis monitor.Usage] SCRIPT [ARGUMENT]...

examples:
  python -m vedette.compat.classifier monitor -setting Monitor "address: :10200"
  python -m vedette.compat.classifier -setting Monitor "{address: localhost:10200, connect: true}" train.py
  python -m vedette.compat.classifier -setting monitor.Usage "enable: true" -analysis monitor.Usage train.py
"""
ANALYSES = ("monitor.Usage",)
_HUB = [sys.executable, "-P", "-m", "vedette", "hub"]
_START_TIMEOUT_S = 20.0


def main(argv: list[str]) -> Callable[[], int]:
    """Read the command line and prepare; return a function that does the work and returns the exit code."""
    chosen, analyses = Chosen(), []
    words = list(argv)
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if word in ("-h", "--help"):
            sys.stdout.write(USAGE)
            return lambda: 0
        if word == "-setting":
            chosen.add(_next(words, "-setting NAME"), _next(words, "-setting NAME VALUE"))
        elif word == "-analysis":
            analyses.append(_known_analysis(_next(words, "-analysis NAME")))
        elif word == "-flag":
            if _next(words, "-flag NAME") == "debug":
                chosen.add("monitor.Log", "level: 10")
        elif word.startswith("-"):
            raise SettingError(
                f"there is no option {word!r} before the script: there are -setting, -analysis and -flag"
            )
        elif word == "monitor" and not rest:
            rest = [word]
        else:
            rest += [word, *words]
            break
    for name in chosen.meaningless():
        sys.stderr.write(f"vedette: {name} has no effect here\n")
    if not rest:
        raise SettingError("nothing to run: give `monitor`, or a script; --help shows examples")
    if rest[0] == "monitor":
        if len(rest) > 1:
            raise SettingError(f"`monitor` takes no {rest[1]!r}")
        return functools.partial(_serve, chosen)
    return _prepare(chosen, analyses, rest)


def _next(words: list[str], form: str) -> str:
    if not words:
        raise SettingError(f"the command line ends in the middle of {form}")
    return words.pop(0)


def _known_analysis(name: str) -> str:
    if name not in ANALYSES:
        raise SettingError(f"there is no analysis {name!r}; did you mean {ANALYSES[0]!r}?")
    return name


def _serve(chosen: Chosen) -> int:
    """Run a hub that receives what others send, and show it, until Ctrl-C."""
    home = Home.of(settings.load())
    before = home.hub_pid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that the hub and its open port end with us
    # In a session of its own: Ctrl-C ends only the view; then we stop the hub.
    process = subprocess.Popen(
        [*_HUB, "--address", str(chosen.get("Monitor", "address"))],
        env=detached.environment(), start_new_session=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while (process.poll() is None and not os.path.exists(home.connect)) or home.hub_pid() in (None, 0, before):
            if process.poll() is not None or time.monotonic() > deadline:
                return process.poll() or 2
            time.sleep(0.05)
        cli.main(["watch", "--all"])
    except (SystemExit, KeyboardInterrupt):
        pass
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()
    return 0


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
    listening = _connect(chosen)
    stem = os.path.splitext(os.path.basename(script))[0]
    folder = _folder(chosen, stem)
    report = os.path.join(folder, "usage") if analyses else ""
    return functools.partial(_run, command, stem, report, listening=listening)


def _run(command: list[str], name: str, report: str, *, listening: bool) -> int:
    run = vedette.init(name=name)
    sys.argv = command
    sys.path[0] = os.path.dirname(os.path.abspath(command[0]))
    try:
        runpy.run_path(command[0], run_name="__main__")
    finally:
        if report and run.id:
            run.__exit__(*sys.exc_info())
            _analyse(run.id, report)
        if listening:  # a hub that listens never ends by itself; another one starts when it is needed
            _stop_hub()
    return 0


def _folder(chosen: Chosen, stem: str) -> str:
    """Return the directory for the reports on a script."""
    output, begun = str(chosen.get("IO", "output")), time.strftime(str(chosen.get("IO", "timestamp")))
    try:
        return os.path.join(output.format(main=stem, timestamp=begun), str(chosen.get("IO", "report")))
    except (LookupError, ValueError, AttributeError):
        raise SettingError(f"IO output takes {{main}} and {{timestamp}}, not {output!r}") from None


def _connect(chosen: Chosen) -> bool:
    """Connect the run to the given server, or make our own hub listen; tell whether it listens."""
    if not chosen.is_set("Monitor", "address"):
        return False
    address = addresses.parse(str(chosen.get("Monitor", "address")), listening=True)
    home = Home.of(settings.load())
    if not chosen.get("Monitor", "connect"):
        return _listen(str(chosen.get("Monitor", "address")))
    if address.path:
        os.environ["VEDETTE_HUB"] = address.path
    elif not _is_ours(home, address):
        os.environ["VEDETTE_HUB"] = str(chosen.get("Monitor", "address"))
        known = addresses.parse(settings.load().upstream)
        if not known.token or not (known.is_local or known.fingerprint or settings.load().hub.trusted_network):
            raise SettingError(
                f"{address} needs a token and a certificate fingerprint: as address, give"
                " the whole vedette://... that it printed, in quotes"
            )
    return False


def _is_ours(home: Home, address: addresses.Address) -> bool:
    """Tell whether an address is that of this home's own hub, which needs no network."""
    try:
        with open(home.connect) as file:
            own = addresses.parse(file.read())
    except (OSError, SettingError):
        return False
    here = is_loopback(address.host) or address.host in (own.host, *host_port.own_names())
    return here and address.port == own.port


def _listen(address: str) -> bool:
    """Make this home's hub listen at an address; return False if it already listened."""
    home = Home.of(settings.load({"hub.address": address}))
    if os.path.exists(home.connect) and home.hub_pid() is not None:
        return False
    _stop_hub()
    health = HomeAccess(home).health()
    if health is not None and health.deaf:
        _stop_hub()
        raise SettingError(health.deaf)
    return True


def _stop_hub() -> None:
    subprocess.run([*_HUB, "--stop", "--quiet"], env=detached.environment(), check=False)


def _analyse(run: str, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "index.html")
    try:
        cli.main(["usage", run, "--html", path])
    except SystemExit as error:
        if error.code:
            return
    sys.stderr.write(f"vedette: the usage report is in {path}\n")


if __name__ == "__main__":
    try:
        do = main(sys.argv[1:])
    except VedetteError as error:  # not around the script: its exceptions are its own
        sys.stderr.write(f"vedette: {error}\n")
        sys.exit(2)
    sys.exit(do())
