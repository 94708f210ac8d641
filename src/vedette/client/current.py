"""The current run of this process, and the verbs that act on it: `vedette.init`, `vedette.log` and so on."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from vedette import settings
from vedette.client import capturing, exits, faults, screen
from vedette.client.off import OffRun
from vedette.client.run import DEFAULT_PROJECT, FIRST_TRY, Run
from vedette.client.series import Handle
from vedette.errors import VedetteError
from vedette.home import Home
from vedette.model import looks_like_run

_current: Run | OffRun | None = None
_MOST_ATTEMPT = 64  # letters of a try's own part of its id


def init(
    project: str = DEFAULT_PROJECT,
    experiment: str | None = None,
    name: str | None = None,
    config: Any = None,
    tags: Iterable[str] = (),
    notes: str = "",
    *,
    home: str | None = None,
    hub: str | None = None,
    console: bool | None = None,
    usage: bool | None = None,
    resume: bool | str | None = None,
) -> Run | OffRun:
    """Begin a run, resume one by its id, or join the one that the parent process began; make it the current one.

    A run that this process had begun before is finished. Never raises: if nothing else can be done, the run
    that is returned does nothing, and the reason is on stderr.
    """
    global _current
    try:
        said = {"home": home, "upstream": hub, "usage.enable": usage}
        if console is not None:
            said["console.mode"] = "on" if console else "off"
        _current = _init(project, experiment, name, config, tags, notes, said, resume)
    except Exception as error:
        faults.let_through(error)
        faults.swallow(error, "init()")
        _current = OffRun(config)
    return _current


def _init(
    project: str,
    experiment: str | None,
    name: str | None,
    config: Any,
    tags: Iterable[str],
    notes: str,
    said: dict[str, Any],
    resume: bool | str | None,
) -> Run | OffRun:
    try:
        chosen = settings.load(said)
    except VedetteError as error:
        faults.say_once(f"{error} (the defaults are used)")
        chosen = settings.fallback(said["home"], said["upstream"])
    if chosen.mode == "off":
        return OffRun(config)
    again = "" if resume is None or isinstance(resume, bool) else _whole_id(resume, f"init(resume={resume!r})")
    before = _current if isinstance(_current, Run) and not _current.finished else None
    if before is not None and not before._journal.main and resume is not False and again in ("", before.id):
        before._merge(config)  # a fork child, or one that has joined already
        return before
    if before is not None:
        before.finish()
    above = os.environ.get("VEDETTE_RUN", "")
    if above and resume is not False and again in ("", above):
        attempt = os.environ.get("VEDETTE_TRY", "")
        sound = 0 < len(attempt) <= _MOST_ATTEMPT and "/" not in attempt
        run = Run._join(Home.of(chosen), chosen, above, attempt if sound else FIRST_TRY, config)
        exits.watch(run)
        _listen(run, chosen)
        if os.environ.pop("VEDETTE_NEW", "") == above:  # its launcher was told nothing of it
            run._describe(project, experiment, [tags] if isinstance(tags, str) else tags, notes)
        return run
    if not above and resume is not False:
        named = os.environ.pop("VEDETTE_RESUME", "")  # it is meant for one run of this process, not for the next
        again = again or _whole_id(named, f"VEDETTE_RESUME={named!r}")
    run = own(
        chosen, resume=again, parent=above, project=project, experiment=experiment, name=name, config=config,
        tags=[tags] if isinstance(tags, str) else tags, notes=notes,
    )  # fmt: skip
    if not above:  # else the terminal is that of the process which began the run above
        screen.begin(run, chosen)
    _listen(run, chosen)  # outside of the console's lock: who takes a line down may have to wait for the journal's
    return run


def _listen(run: Run, chosen: settings.Settings) -> None:
    """Take down what the program says; a fault there leaves the run as it is."""
    from vedette.client.listening import listen  # noqa: PLC0415 - it loads `logging`, which a run that is off spares

    try:
        listen(run, chosen)
    except Exception as error:
        faults.let_through(error)
        faults.swallow(error, "listening to logs and output")


def own(
    chosen: settings.Settings,
    *,
    resume: str = "",
    after: int = 0,
    parent: str = "",
    command: list[str] | None = None,
    **told: Any,
) -> Run:
    """Begin a run, or a new try of one, whose end is that of this process; the processes that it starts join it.

    `command`: what it is begun for, where that is another program.
    """
    script = None if command is None else os.path.basename(command[0])
    place = Home.of(chosen)
    if resume:
        run = Run._resume(place, chosen, resume, after=after, **told)
    else:
        run = Run._begin(place, chosen, parent=parent, script=script, **told)
    capturing.begin(run._journal, chosen, command)
    _export(run, place)
    exits.watch(run)
    return run


def end_as(run: Run, state: str, cause: str) -> None:
    """End a run that was begun for another program as that one ended."""
    try:
        run._end(state, cause)
    except Exception as error:
        faults.swallow(error, "the end of the run")


def _whole_id(text: Any, said: str) -> str:
    """Return the id of a run that is to be resumed; what is none is passed over, with a word."""
    if isinstance(text, str) and (not text or looks_like_run(text)):
        return text
    faults.say_once(f"{said}: a run is resumed by its whole id, as `vedette ls` shows it; gone on without")
    return ""


def _export(run: Run, home: Home) -> None:
    """Let the processes that this one starts join the run, until it is finished."""
    attempt = run._journal.try_id.removeprefix(run.id + "/")
    said = {"VEDETTE_RUN": run.id, "VEDETTE_TRY": attempt, "VEDETTE_HOME": home.asked}
    before = {key: os.environ.get(key) for key in said}
    os.environ.update(said)

    def restore() -> None:
        for key, value in before.items():
            if os.environ.get(key) != said[key]:
                continue
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value

    run._on_end.append(restore)


def current() -> Run | OffRun:
    """Return the current run; a verb used without `init` opens one, named after the script."""
    if _current is not None and not _current.finished:
        return _current
    script = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    nameless = script in ("", "-c", "-m") or os.environ.get("VEDETTE_RESUME")  # a run that goes on keeps its name
    return init(name=None if nameless else script)


def log(values: Mapping[str, Any], step: int | None = None) -> None:
    """Log named numbers to the current run."""
    current().log(values, step)


def metric(name: str, value: Any, tags: Mapping[str, str] | None = None, step: int | None = None) -> None:
    """Log one number, or a dict of fields, with tags, to the current run."""
    current().metric(name, value, tags, step)


def series(name: str, tags: Mapping[str, str] | None = None) -> Handle | None:
    """Return a handle that logs one series of the current run."""
    return current().series(name, tags)


def mark(*labels: Any) -> None:
    """Put a mark on the current run's timeline."""
    current().mark(*labels)


def save(path: "str | os.PathLike[str] | bytes", name: str | None = None) -> str | None:
    """Keep a file of the current run, or bytes with a name; return their digest, None if that failed."""
    return current().save(path, name)


def use(path: "str | os.PathLike[str]", name: str | None = None) -> None:
    """Put on record which file the current run reads."""
    current().use(path, name)


def finish(state: str | None = None) -> None:
    """Finish the current run, if there is one."""
    if _current is not None:
        _current.finish(state)
