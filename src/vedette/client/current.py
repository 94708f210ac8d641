"""The current run of a thread or task, and the verbs that act on it: `vedette.init`, `vedette.log` and so on."""

import os
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from vedette import command_line, masks, settings
from vedette.client import asked, capturing, children, exits, faults, notebook, open_runs, ranks, screen, with_block
from vedette.client.off import OffRun
from vedette.client.run import DEFAULT_PROJECT, About, Run
from vedette.client.series import Handle
from vedette.client.values import text_of
from vedette.errors import StrangerError, VedetteError
from vedette.home import Home
from vedette.ids import FIRST_TRY, can_name_try, looks_like_run
from vedette.interrupts import let_through

_joined_programs: set[str] = set()  # runs that this program has joined; it joins each of them once
_begun: dict[str, int] = {}  # by name, how many runs this process has begun as a rank; all ranks begin the same ones
_one_begins = threading.RLock()  # of several threads that log without `init`, one begins the run


def _after_fork() -> None:
    global _one_begins
    _one_begins = threading.RLock()  # the thread that holds it may be gone


os.register_at_fork(after_in_child=_after_fork)


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
    """Begin a run, resume one by its id, or join the run of the parent process; make it that of this thread or task.

    Any number of runs may be open. Only a run that an `init` without `with` has begun in the same thread or task is
    finished, and a message says so. This never raises: after an error it returns a run that does nothing, and prints
    the reason on stderr.
    """
    run: Run | OffRun
    try:
        notebook.end_earlier()
        overrides = {"home": home, "upstream": hub, "usage.enable": usage}
        if console is not None:
            overrides["console.mode"] = "on" if console else "off"
        in_with = with_block.is_head_of_with(sys._getframe(1))
        config = asked.override(config)
        run = _init(About(project, experiment, name, config, tags, notes), overrides, resume, in_with=in_with)
    except StrangerError as error:
        faults.say_once(f"{error}; your program goes on, and is not recorded")
        run = OffRun(config)
    except Exception as error:
        let_through(error)
        faults.swallow(error, "init()")
        run = OffRun(config)
    asked.offer(run.config)
    if open_runs.here() is not run:
        open_runs.enter(run)
    return run


def _init(about: About, overrides: dict[str, Any], resume: bool | str | None, *, in_with: bool) -> Run | OffRun:
    environ = open_runs.environ()  # a run that this very process has exported is no parent
    for sentence in settings.unknown_variables(environ):
        faults.say_once(sentence)
    try:
        loaded = settings.load(overrides, environ)
    except VedetteError as error:
        faults.say_once(f"{error} (vedette uses the defaults)")
        loaded = settings.fallback(overrides["home"], overrides["upstream"], environ)
    if loaded.mode == "off":
        return OffRun(about.config)
    resume_id = "" if resume is None or isinstance(resume, bool) else _whole_id(resume, f"init(resume={resume!r})")
    joins = resume is not False
    joined = _joined_before(about)
    if joined is not None and joins and resume_id in ("", joined.id):
        joined._merge(about.config)
        return joined
    if not in_with:
        _finish_plain_run()
    parent_run = environ.get("VEDETTE_RUN", "")
    if parent_run and not looks_like_run(parent_run):
        faults.say_once(f"VEDETTE_RUN={parent_run[:60]!r} is not the id of a run; vedette ignores it")
        parent_run = ""
    if parent_run and joins and resume_id in ("", parent_run) and parent_run not in _joined_programs:
        return _join(parent_run, environ, loaded, about)
    if not parent_run and joins:
        named = _take("VEDETTE_RESUME")  # it holds for the first run of this process only
        resume_id = resume_id or _whole_id(named, f"VEDETTE_RESUME={named!r}")
    rank = _rank(environ) if not resume_id and not parent_run else None
    run = begin_owned(loaded, about, resume=resume_id, parent=parent_run, rank=rank)
    if not parent_run and (
        rank is None or not rank.number
    ):  # else the terminal belongs to the process that began the parent run
        screen.begin(run, loaded)
    _install_hooks(run, loaded)  # not under the console's lock: whoever records a line may wait for the journal's lock
    return run


def _take(name: str) -> str:
    """Return a variable, and empty it. It is not deleted: another thread may be copying os.environ."""
    value = os.environ.get(name, "")
    if value:
        os.environ[name] = ""
    return value


def _joined_before(about: About) -> Run | None:
    """Return the run of another process that an `init` here means, if this process takes part in it already.

    A fork child or a worker of multiprocessing is a part of its parent's program: whatever it begins is that run. A
    program of its own joins once, and then begins runs of its own, unless it gives no word about them.
    """
    run = open_runs.meant(tell=False)
    if not isinstance(run, Run) or run._began:
        return None
    is_part = open_runs.is_fork_child() or children.is_worker()
    return run if is_part or about == About() else None


def _rank(environ: Mapping[str, str], *, joins: bool = False) -> ranks.Rank | None:
    """Return which rank of a parallel job this process is; what a thread of it begins is not begun by all ranks."""
    if open_runs.is_fork_child() or threading.current_thread() is not threading.main_thread():
        return None
    return ranks.find(environ, joins=joins)


def _finish_plain_run() -> None:
    """Finish the run that an `init` without `with` has begun in this thread or task."""
    before = open_runs.here()
    if isinstance(before, Run) and not before._ends_with_block and before._context.is_here():
        before.finish()
        faults.say_once(
            f"run {before.name or before.id} is finished, because init() begins another one in the same thread or task;"
            " to have both open, begin them by `with vedette.init(...) as run:` (this is said once)",
            "a plain init",
        )


def _join(parent_run: str, environ: Mapping[str, str], loaded: settings.Settings, about: About) -> Run:
    """Join the run of the process that started this one."""
    named = environ.get("VEDETTE_TRY", "")
    attempt = named if can_name_try(named) else FIRST_TRY
    home = Home.of(loaded)
    home.check_owner()
    run = Run._join(home, loaded, parent_run, attempt, about.config, _rank(environ, joins=True))
    if not children.is_worker():
        _joined_programs.add(parent_run)
    open_runs.add(run)
    exits.watch(run)
    _install_hooks(run, loaded)
    if _take("VEDETTE_NEW") == parent_run:  # a launcher began the run, and does not know these fields
        run._describe(about)
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
    rank: ranks.Rank | None = None,
) -> Run:
    """Begin a run, or a new try of one, that ends with this process; the processes that it starts join the run.

    `command`: the program that the run is about, if that is not this process. `rank`: it begins the run with others,
    and the run ends with the last of them.
    """
    script = notebook.title() if command is None else command_line.label(masks.argv(text_of(word) for word in command))
    home = Home.of(loaded)
    home.check_owner()
    if resume:
        run = Run._resume(home, loaded, resume, about, after=after)
    else:
        count = _begun.get(about.name or "", 0)
        run = Run._begin(home, loaded, about, parent=parent, script=script, rank=rank, count=count)
        if rank is not None:
            _begun[about.name or ""] = count + 1
    if rank is None or not rank.number:
        capturing.begin(run._journal, loaded, command)
    open_runs.add(run)
    exits.watch(run)
    return run


def end_as(run: Run, state: str, cause: str) -> None:
    """End a run that was begun for another program, with the state and cause of that program's end."""
    try:
        run._end(state, cause)
    except Exception as error:
        let_through(error)
        faults.swallow(error, "the end of the run")


def _whole_id(text: Any, given: str) -> str:
    """Return the id of the run to resume; say so and return an empty text if it is not a whole id."""
    if isinstance(text, str) and (not text or looks_like_run(text)):
        return text
    faults.say_once(f"{given}: a run is resumed by its whole id, as `vedette ls` shows it; vedette ignores this one")
    return ""


def current() -> Run | OffRun:
    """Return the run that a call here means. If none is open, begin a run named after the script.

    While Python shuts down no run is begun: it is the one that has just ended.
    """
    run = open_runs.meant()
    if run is not None:
        return run
    with _one_begins:
        run = open_runs.meant() or (open_runs.ended_last() if exits.has_left() else None)
        if run is not None:
            return run
        script = notebook.title()
        script = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else "") if script is None else script)[0]
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
    run = open_runs.meant()
    if run is not None:
        run.finish(state)
