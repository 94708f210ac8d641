"""The current run of this process, and the verbs that act on it: `vedette.init`, `vedette.log` and so on."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from vedette import settings
from vedette.client import exits, guard
from vedette.client.off import OffRun
from vedette.client.run import Run
from vedette.client.series import Handle
from vedette.errors import VedetteError
from vedette.home import Home

_current: Run | OffRun | None = None


def init(
    project: str = "default",
    experiment: str | None = None,
    name: str | None = None,
    config: Any = None,
    tags: Iterable[str] = (),
    notes: str = "",
    *,
    home: str | None = None,
    hub: str | None = None,
    resume: bool | None = None,
) -> Run | OffRun:
    """Begin a run, or join the one that the parent process began, and make it the current one.

    A run that this process had begun before is finished. Never raises: if nothing else can be done, the run
    that is returned does nothing, and the reason is on stderr.
    """
    global _current
    try:
        _current = _init(project, experiment, name, config, tags, notes, home, hub, resume)
    except Exception as error:
        guard.swallow(error, "init()")
        _current = OffRun(config)
    return _current


def _init(
    project: str,
    experiment: str | None,
    name: str | None,
    config: Any,
    tags: Iterable[str],
    notes: str,
    home: str | None,
    hub: str | None,
    resume: bool | None,
) -> Run | OffRun:
    try:
        chosen = settings.load({"home": home, "upstream": hub})
    except VedetteError as error:
        guard.say_once(f"{error} (the defaults are used)")
        chosen = settings.fallback(home, hub)
    if chosen.mode == "off":
        return OffRun(config)
    if resume not in (None, False):
        guard.say_once(f"init(resume={resume!r}): resuming a run is not there yet; a run of its own is begun or joined")
    tags = [tags] if isinstance(tags, str) else tags
    before = _current if isinstance(_current, Run) and not _current.finished else None
    if before is not None and not before._journal.main and resume is not False:
        before._merge(config)  # a fork child, or one that has joined already
        return before
    if before is not None:
        before.finish()
    place = Home.of(chosen)
    above = os.environ.get("VEDETTE_RUN", "")
    if above and resume is not False:
        attempt = os.environ.get("VEDETTE_TRY", "1")
        run = Run._join(place, chosen, above, int(attempt) if attempt.isdigit() else 1, config)
    else:
        run = Run._begin(
            place, chosen, project=project, experiment=experiment, name=name, config=config, tags=tags, notes=notes,
            parent=above,
        )  # fmt: skip
        _export(run, place)
    exits.watch(run)
    return run


def _export(run: Run, home: Home) -> None:
    """Let the processes that this one starts join the run, until it is finished."""
    said = {"VEDETTE_RUN": run.id, "VEDETTE_TRY": "1", "VEDETTE_HOME": home.asked}
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
    return init(name=script if script not in ("", "-c", "-m") else None)


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


def finish(state: str | None = None) -> None:
    """Finish the current run, if there is one."""
    if _current is not None:
        _current.finish(state)
