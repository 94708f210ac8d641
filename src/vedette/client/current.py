"""The current run of this process, and the verbs that act on it: `vedette.init`, `vedette.log` and so on."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from vedette import settings
from vedette.client import capturing, exits, faults, screen
from vedette.client.off import OffRun
from vedette.client.run import DEFAULT_PROJECT, About, Run
from vedette.client.series import Handle
from vedette.errors import VedetteError
from vedette.home import Home
from vedette.ids import FIRST_TRY, can_name_try, looks_like_run
from vedette.interrupts import let_through

_current: Run | OffRun | None = None


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
    """Begin a run, resume one by its id, or join the run of the parent process; make it the current run.

    This finishes a run that this process began before. It never raises: after an error it returns a run that does
    nothing, and prints the reason on stderr.
    """
    global _current
    try:
        overrides = {"home": home, "upstream": hub, "usage.enable": usage}
        if console is not None:
            overrides["console.mode"] = "on" if console else "off"
        _current = _init(About(project, experiment, name, config, tags, notes), overrides, resume)
    except Exception as error:
        let_through(error)
        faults.swallow(error, "init()")
        _current = OffRun(config)
    return _current


def _init(about: About, overrides: dict[str, Any], resume: bool | str | None) -> Run | OffRun:
    try:
        loaded = settings.load(overrides)
    except VedetteError as error:
        faults.say_once(f"{error} (vedette uses the defaults)")
        loaded = settings.fallback(overrides["home"], overrides["upstream"])
    if loaded.mode == "off":
        return OffRun(about.config)
    resume_id = "" if resume is None or isinstance(resume, bool) else _whole_id(resume, f"init(resume={resume!r})")
    before = _current if isinstance(_current, Run) and not _current.finished else None
    if before is not None and not before._journal.main and resume is not False and resume_id in ("", before.id):
        before._merge(about.config)  # a fork child, or a process that has joined already
        return before
    if before is not None:
        before.finish()
    parent_run = os.environ.get("VEDETTE_RUN", "")
    if parent_run and resume is not False and resume_id in ("", parent_run):
        asked = os.environ.get("VEDETTE_TRY", "")
        attempt = asked if can_name_try(asked) else FIRST_TRY
        run = Run._join(Home.of(loaded), loaded, parent_run, attempt, about.config)
        exits.watch(run)
        _install_hooks(run, loaded)
        if os.environ.pop("VEDETTE_NEW", "") == parent_run:  # a launcher began the run, and does not know these fields
            run._describe(about)
        return run
    if not parent_run and resume is not False:
        named = os.environ.pop("VEDETTE_RESUME", "")  # it holds for the first run of this process only
        resume_id = resume_id or _whole_id(named, f"VEDETTE_RESUME={named!r}")
    run = begin_owned(loaded, about, resume=resume_id, parent=parent_run)
    if not parent_run:  # else the terminal belongs to the process that began the parent run
        screen.begin(run, loaded)
    _install_hooks(run, loaded)  # not under the console's lock: whoever records a line may wait for the journal's lock
    return run


def _install_hooks(run: Run, loaded: settings.Settings) -> None:
    """Record the program's logs and output; an error here does not affect the run."""
    from vedette.client import hooks  # noqa: PLC0415 - it loads `logging`; mode=off need not

    try:
        hooks.install(run, loaded)
    except Exception as error:
        let_through(error)
        faults.swallow(error, "recording logs and output")


def begin_owned(
    loaded: settings.Settings,
    about: About,
    *,
    resume: str = "",
    after: int = 0,
    parent: str = "",
    command: list[str] | None = None,
) -> Run:
    """Begin a run, or a new try of one, that ends with this process; the processes that it starts join the run.

    `command`: the program that the run is about, if that is not this process.
    """
    script = None if command is None else os.path.basename(command[0])
    home = Home.of(loaded)
    if resume:
        run = Run._resume(home, loaded, resume, about, after=after)
    else:
        run = Run._begin(home, loaded, about, parent=parent, script=script)
    capturing.begin(run._journal, loaded, command)
    _export(run, home)
    exits.watch(run)
    return run


def end_as(run: Run, state: str, cause: str) -> None:
    """End a run that was begun for another program, with the state and cause of that program's end."""
    try:
        run._end(state, cause)
    except Exception as error:
        faults.swallow(error, "the end of the run")


def _whole_id(text: Any, given: str) -> str:
    """Return the id of the run to resume; say so and return an empty text if it is not a whole id."""
    if isinstance(text, str) and (not text or looks_like_run(text)):
        return text
    faults.say_once(f"{given}: a run is resumed by its whole id, as `vedette ls` shows it; vedette ignores this one")
    return ""


def _export(run: Run, home: Home) -> None:
    """Set the environment so that the processes this one starts join the run, until it is finished."""
    exported = {"VEDETTE_RUN": run.id, "VEDETTE_TRY": run._journal.attempt, "VEDETTE_HOME": home.asked}
    before = {key: os.environ.get(key) for key in exported}
    os.environ.update(exported)

    def restore() -> None:
        for key, value in before.items():
            if os.environ.get(key) != exported[key]:
                continue
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value

    run._on_end.append(restore)


def current() -> Run | OffRun:
    """Return the current run. If `init` was not called, begin a run named after the script."""
    if _current is not None and not _current.finished:
        return _current
    script = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    nameless = script in ("", "-c", "-m") or os.environ.get("VEDETTE_RESUME")  # a resumed run keeps its name
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
