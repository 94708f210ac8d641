"""A run as the process that takes part in it sees it."""

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from time import time_ns
from types import TracebackType
from typing import Any, NamedTuple, Self
from zlib import crc32

from vedette import masks, wire
from vedette.client import faults, files, open_runs, pools
from vedette.client.attrs import Attrs
from vedette.client.faults import never_raises
from vedette.client.journal import Journal
from vedette.client.messages import clean_text
from vedette.client.names import new_name
from vedette.client.progress import Bars, Message, Progress
from vedette.client.raised import evidence_of, last_line
from vedette.client.ranks import Rank
from vedette.client.series import Bound, Handle, bind
from vedette.client.values import as_config, encode_sample, numbers_in, plain, text_of
from vedette.deaths.evidence import Evidence
from vedette.deaths.verdict import EndKind, verdict
from vedette.home import Home
from vedette.ids import FIRST_TRY, new_id
from vedette.interrupts import let_through
from vedette.model import Value
from vedette.settings import Settings

DEFAULT_PROJECT = "default"
_pack_head = wire.pack_head
_MAX = wire.MAX_PAYLOAD
_MAX_STEP = 1 << 62
_MAX_REFUSED_NAMES = 100  # more are counted together as "others"
_Tags = tuple[tuple[str, str], ...]  # in order


class About(NamedTuple):
    """What the user says about a run when it begins."""

    project: str = DEFAULT_PROJECT
    experiment: str | None = None
    name: str | None = None
    config: Any = None
    tags: Iterable[str] = ()
    notes: str = ""

    @property
    def attrs(self) -> dict[str, Any]:
        """All but name and config; the default project counts as not given."""
        return {
            "project": self.project if self.project != DEFAULT_PROJECT else None,
            "experiment": self.experiment,
            "notes": self.notes,
            "tag": {text_of(tag): True for tag in ([self.tags] if isinstance(self.tags, str) else self.tags)},
        }


class Run:
    """A run. Every method returns at once, and none raises for an error of our own."""

    def __init__(self, journal: Journal, name: str, config: Mapping[str, Any]) -> None:
        """Use `_begin` for a new run, `_resume` for a new try of one, `_join` for a run that another process began."""
        self.id = journal.run
        self.name = name
        self.url: str | None = None  # always: a run does not know where its page is served
        self.config = Attrs(journal, "config", config)
        self.summary = Attrs(journal, "summary", {})
        self.finished = False
        self._journal = journal
        # The points of rank 0 have no tag, so that a run of one process and one of eight compare.
        self._tags = {"rank": str(journal.rank.number)} if journal.rank is not None and journal.rank.number else {}
        self._on_end: list[Callable[[], None]] = []  # called once, before the last records are written
        self._began = journal.main or journal.rank is not None  # and did not join what another process began
        self._context = open_runs.NOWHERE  # where it was begun
        self._outer: Any = None  # the run that this context had before, if it is still open
        self._ends_with_block = False  # it was begun by `with vedette.init(...)`
        self._measured = journal.is_measured
        self._voice = journal.voice
        self._samples = journal.spool.samples
        self._bars = Bars(journal)
        self._step = 0  # of the next `log` without a step
        self._handles: dict[tuple[str, _Tags], Bound] = {}  # by name and tags
        self._handles_count = False  # one of them was called without a step: `log` has to advance them
        self._refused: dict[str, int] = {}
        self._begun_t = time_ns()
        if self._tags:
            self.log = self._log_carefully  # type: ignore[method-assign] # such a record has one more field
        self._ended_as = ("", "")  # state and cause of its end, as this process knows them

    @classmethod
    def _begin(
        cls, home: Home, settings: Settings, about: About, *, parent: str = "", script: str | None = None,
        rank: Rank | None = None, count: int = 0,
    ) -> "Run":  # fmt: skip
        """Begin a new run. It ends with this process, unless it is finished before.

        `rank`: this process is one of several that begin the run together, as their `count`-th of its name.
        """
        given = text_of(about.name) if about.name else ""
        if rank is None:
            journal = Journal(home, settings, new_id(), FIRST_TRY, main=True)
        else:  # all ranks begin the run; the hub ends it when the last of them has ended
            journal = Journal(home, settings, rank.run_id(given, count), rank.attempt, main=False, rank=rank)
        name = given or new_name(rank.digest(given, count) if rank is not None else b"")
        run = cls(journal, name, as_config(about.config))
        attrs = about.attrs | {
            "project": about.project,
            "script": os.path.basename(sys.argv[0] if sys.argv else "") if script is None else script,
            "config": masks.values(dict(run.config)),
        }
        journal.begin(run.id, "run", run.name, parent, "created", _without_empty(attrs))
        ranks = {} if rank is None else {"ranks": rank.size}
        journal.begin(journal.try_id, "try", "", run.id, "running", {"n": int(journal.attempt), **ranks})
        journal.wake_hub()
        return run

    @classmethod
    def _resume(cls, home: Home, settings: Settings, run: str, about: About, *, after: int = 0) -> "Run":
        """Begin a new try of a run; the run ends when this try ends. Fields that are not given keep their values.

        The store is not asked for older tries. A try's number is its begin in nanoseconds, so a later try has a
        higher one; its id is random, so two tries of the same nanosecond differ. `after`: the number of a known
        older try; the new one is higher, even if the clock went back.
        """
        journal = Journal(home, settings, run, new_id(), main=True)
        resumed = cls(journal, text_of(about.name) if about.name else "", as_config(about.config))
        attrs = about.attrs | {"config": masks.values(dict(resumed.config))}
        journal.begin(run, "run", resumed.name, "", "", _without_empty(attrs))
        journal.begin(journal.try_id, "try", "", run, "running", {"n": max(time_ns(), after + 1)})
        journal.wake_hub()
        return resumed

    @classmethod
    def _join(
        cls, home: Home, settings: Settings, run: str, attempt: str, config: Any, rank: Rank | None = None
    ) -> "Run":
        """Join a run that another process began; the run goes on when this process ends."""
        journal = Journal(home, settings, run, attempt, main=False, rank=rank)
        joined = cls(journal, os.environ.get("VEDETTE_NAME", ""), {})
        joined._began = False
        joined._merge(config)
        journal.wake_hub()
        return joined

    def _describe(self, about: About) -> None:
        """Add what the program says about a run that a launcher has begun."""
        if attrs := _without_empty(about.attrs):
            self._journal.set(self.id, attrs)

    def _merge(self, config: Any) -> None:
        """Add what another process of the run gives as config."""
        self.config.update(as_config(config))

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Log named numbers at a step; without one, at the step after the last."""
        try:
            if step is None:
                step = self._next_step(values) if self._handles else self._step
                self._step = step + 1
            elif type(step) is not int:
                raise TypeError
            sum(values.values())  # raises unless all are numbers; much faster than a check of each
            payload = encode_sample((t := time_ns(), step, values))
            if (size := len(payload)) > _MAX:
                raise OverflowError
            if step >= self._step:  # a smaller one does not set the count back
                self._step = step + 1
            if self._handles_count:
                self._advance_handles(values, step)
        except Exception as error:
            let_through(error)
            self._log_carefully(values, step)
            return
        try:
            self._samples.write(_pack_head(size, crc32(payload, size)) + payload)
        except ValueError as error:
            let_through(error)
            self._samples.roll(wire.frame(payload))
        if t > self._voice.wake_at:
            self._journal.wake_hub()

    @never_raises
    def metric(self, name: str, value: Any, tags: Mapping[str, str] | None = None, step: int | None = None) -> None:
        """Log one number, or a dict of fields (`name/field`), of the series with these tags."""
        self._log_carefully({name: value}, step, tags)

    @never_raises
    def series(self, name: str, tags: Mapping[str, str] | None = None) -> Handle:
        """Return `handle(value, step=None)`, the fastest way to log one series of floats."""
        words = self._tags | _text_tags(tags)
        key = text_of(name), _in_order(words)
        if key not in self._handles:  # two handles of one series would each count from the same step
            self._handles[key] = bind(self._journal, key[0], words, self._log_for_handle, self._begin_to_count)
        return self._handles[key].log

    @never_raises
    def mark(self, *labels: Any) -> None:
        """Put a mark on the timeline."""
        words = [text_of(label) for label in labels]
        self._journal.event("mark", " ".join(words), attrs={"labels": words})

    @never_raises
    def save(self, path: "str | os.PathLike[str] | bytes", name: str | None = None) -> str | None:
        """Save a copy of a file, or bytes under a name, with this run; return the digest, or None if that failed.

        The copy is complete when this returns, so later writes to the file do not change it. That takes as long as
        the disk takes, about 3 s for a gigabyte; on a file system that can share blocks, only the time to read it.
        Call it in a thread if your program cannot wait.
        """
        digest: str | None = self._file(files.save, path, name)
        return digest

    @never_raises
    def use(self, path: "str | os.PathLike[str]", name: str | None = None) -> None:
        """Record which file this run reads: its name, size and digest, not its content.

        A file of up to 64 MiB is read before this returns; a larger one is read by a thread, and its digest follows.
        """
        self._file(files.use, path, name)

    def _file(self, do: Callable[[Journal, Any, str], Any], source: Any, name: Any) -> Any:
        shown = "save()"
        try:
            shown = files.name_of(source, name)
            return do(self._journal, source, shown)
        except files.CannotBeKeptError as error:
            self._refuse(shown, str(error))
        except TypeError as error:
            self._refuse(shown, f"takes a path or bytes: {error}")
        return None

    @never_raises
    def progress(self, total: float | None = None, msg: Message = "") -> Progress:
        """Begin a progress bar; `total` is None if it is unknown, `msg` is a text or several."""
        return self._bars.new(total, msg)

    @never_raises
    def finish(self, state: str | None = None) -> None:
        """End this process's part in the run. If this process began the run, the run ends too, by default as `done`."""
        self._end(state or "done", "")

    def _end(self, state: str, cause: str) -> None:
        if self.finished:
            return
        self.finished = True
        cause = cause or (self._journal.mishap if state == "done" else "")
        self._ended_as = state, cause
        try:
            self._call_on_end()
        finally:  # the end is recorded also if Ctrl-C, or a signal handler of the user's, interrupts that
            if state not in ("done", "failed", "cancelled"):
                faults.say_once(f"finish({state!r}): a run ends as 'done', 'failed' or 'cancelled'; taken as 'failed'")
                state, cause = "failed", f"finished as {text_of(state)}"
            self._report_refused()
            if self._journal.main:
                self._journal.claim(self._journal.try_id, state, cause)
            self._journal.claim(self._journal.process, state, cause)
            self._journal.close()

    def _call_on_end(self) -> None:
        try:
            self._bars.flush()
            while self._on_end:
                self._on_end.pop()()
        except BaseException:
            if self._on_end:
                self._call_on_end()
            raise

    def _leave(self, exit_code: int | None, text: str = "", told: str = "", *, sure: bool = False) -> None:
        """Record that the interpreter exits. `exit_code` is a guess unless it is `sure`; None: nobody can guess it.

        `text`: what SystemExit was raised with in place of a code. `told`: the signal whose handler has raised it.
        """
        if not self.finished:
            self.finished = True
            mishap = self._journal.mishap
            end = verdict(Evidence(said_code=exit_code, left=True, exit_text=text, told=told, mishap=mishap))
            self._ended_as = end.state, end.cause if exit_code is not None else ""  # the hub may yet see more than we
            try:
                self._call_on_end()
            finally:
                said = {"exit_code": exit_code if sure else None, "exit_text": text, "told": told, "mishap": mishap}
                self._say_leaving(said, note_code=not sure)

    def _say_leaving(self, said: dict[str, Any], *, note_code: bool) -> None:
        if self._journal.main or not self._journal.has_said_nothing:
            self._report_refused()
            if attrs := _without_empty(said):
                self._journal.set(self._journal.process, attrs)
            if note_code:
                self._journal.note_exit_code()
            self._journal.claim(self._journal.process, "leaving")
        self._journal.close()

    def _fail(self, error: BaseException) -> None:
        """End the run with an exception, which ends the program or the run's `with` block."""
        if self.finished:
            return
        end = verdict(pools.with_worker(evidence_of(error)))
        if end.kind in (EndKind.EXCEPTION, EndKind.DISK):
            text, attrs = describe_exception(error)
            self._journal.event("exception", text, 50, attrs)
        self._end(end.state, end.cause)

    def _after_fork(self) -> None:
        """Go on in a fork child, which takes part in the run but did not begin it."""
        self._began = False
        self._journal.after_fork()
        self._bars.after_fork()
        self._refused = {}

    def __enter__(self) -> Self:
        self._ends_with_block = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._end("done", "")
            else:
                self._fail(error)
        except Exception as trouble:
            let_through(trouble)
            faults.swallow(trouble, "the end of the run")

    def __repr__(self) -> str:
        return f"<vedette run {self.name or self.id} ({self.id})>"

    def _log_for_handle(self, values: Any, step: Any, tags: Mapping[str, str] | None, next_step: int) -> None:
        """Log for a series handle, which counts its own steps."""
        self._log_carefully(values, step, tags, next_step)

    def _begin_to_count(self) -> int:
        """Return the step at which a handle begins to count its own steps; `log` advances it from now on."""
        self._handles_count = True  # first: another thread may log meanwhile
        return self._step

    def _next_step(self, values: Mapping[str, Any]) -> int:
        """Return the next step of these series: a handle may be ahead of the run's own count."""
        handles = list(self._handles.items())  # another thread may add one
        return max([self._step, *(bound.next_step() for (name, _), bound in handles if name in values)])

    def _advance_handles(self, values: Mapping[str, Any], step: int, tags: _Tags = ()) -> None:
        """Let the handles of these series go on after a step that was logged."""
        for (name, tags_of_handle), bound in list(self._handles.items()):
            if name in values and tags_of_handle == tags:
                bound.advance(step)

    def _valid_step(self, step: Any, next_step: int) -> int:
        """Return the given step if it is valid; else the next one, and tell the user."""
        for candidate in (step, next_step):
            try:
                number = int(candidate)
            except Exception as error:  # a user's __int__ may raise anything
                let_through(error)
                if step is not None:
                    self._refuse("step", "is not a whole number in range, so the next step is taken")
                continue
            if -_MAX_STEP <= number < _MAX_STEP:
                return number
            self._refuse("step", "is not a whole number in range, so the next step is taken")
        return 0

    def _log_carefully(
        self, values: Any, step: Any = None, tags: Mapping[str, str] | None = None, next_step: int | None = None
    ) -> None:
        """Log the numbers in any value; refuse the rest, and tell the user once per name.

        `next_step`: that of whoever counts its own steps; None: the run's.
        """
        try:
            if not isinstance(values, Mapping):
                self._refuse("log()", f"takes a dict of numbers, not {type(values).__name__}")
                return
            numbers = {}
            for name, number in numbers_in(values):
                if number is None:
                    self._refuse(name, "is not a number")
                else:
                    numbers[name] = number
            own = next_step is None  # it is logged by the run, which counts these steps
            step = self._valid_step(step, self._next_step(numbers) if next_step is None else next_step)
            if own and step >= self._step:
                self._step = step + 1
            words = self._tags | _text_tags(tags)
            if self._handles:
                names = {**values, **numbers}  # both: a handle may have been given a dict
                self._advance_handles(names, step, _in_order(words))
            if numbers:
                self._write(numbers, step, words)
        except Exception as error:
            let_through(error)
            faults.swallow(error, "log()")

    def _write(self, numbers: dict[str, Any], step: int, tags: dict[str, str]) -> None:
        t = time_ns()
        payload = encode_sample((t, step, numbers, "", tags) if tags else (t, step, numbers))
        if len(payload) > _MAX and len(numbers) > 1:
            names = list(numbers)
            for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                self._write({name: numbers[name] for name in half}, step, tags)
        elif len(payload) > _MAX:
            self._refuse(next(iter(numbers))[:100], "has a name that is too long")
        else:
            self._samples.append(wire.frame(payload))
            if t > self._voice.wake_at:
                self._journal.wake_hub()

    def _refuse(self, name: str, why: str) -> None:
        if len(self._refused) >= _MAX_REFUSED_NAMES and name not in self._refused:
            name = "others"
        if name not in self._refused:
            faults.say_once(f"{name!r} {why}; refused")
        self._refused[name] = self._refused.get(name, 0) + 1

    def _report_refused(self) -> None:
        if faults.swallowed:
            text = f"{faults.swallowed} calls had no effect because of an error in vedette itself"
            self._journal.event("swallowed", text, 40, {"count": faults.swallowed})
            faults.swallowed = 0
        if self._refused:
            count = sum(self._refused.values())
            names = ", ".join(list(self._refused)[:10])
            self._journal.event(
                "refused", f"{count} values were refused: {names}", 30, {"count": count, "names": names}
            )


def describe_exception(error: BaseException) -> tuple[str, dict[str, Value]]:
    """Return the traceback of an exception as text, and the other attributes of its event."""
    text = clean_text("".join(traceback.format_exception(error)))
    return text, {"type": clean_text(type(error).__name__), "message": last_line(error), "pid": os.getpid()}


def _without_empty(attrs: dict[str, Any]) -> dict[str, Value]:
    return {key: plain(value) for key, value in attrs.items() if value not in (None, "", {})}


def _text_tags(tags: Mapping[str, str] | None) -> dict[str, str]:
    return {text_of(key): text_of(value) for key, value in (tags or {}).items()}


def _in_order(tags: dict[str, str]) -> _Tags:
    return tuple(sorted(tags.items()))
