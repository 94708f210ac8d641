"""Writes what this process says about one run and about itself: facts, lost records, and its stacks when it dies.

Nothing is created before the first record. That record also announces the process. The same holds in a fork child,
which begins a new spool under another origin.
"""

import getpass
import os
import platform
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from vedette import kernel, masks
from vedette.blobs import Blobs
from vedette.client.faults import say_once, swallow
from vedette.client.ranks import Rank
from vedette.client.stacks import Stacks
from vedette.fileio import open_private
from vedette.home import Home
from vedette.ids import new_id, of_process, of_try
from vedette.interrupts import let_through
from vedette.model import Blob, Event, Fact, Origin, Span, Value
from vedette.segment import EXIT_CODE
from vedette.settings import Settings
from vedette.voice import Voice, origin_here


class Journal:
    """The records of one process about one run. Nothing here raises when the disk is full or no hub runs."""

    def __init__(
        self, home: Home, settings: Settings, run: str, attempt: str, *, main: bool, rank: Rank | None = None
    ) -> None:
        """Open no file yet. `main`: this process began the try `run/attempt`, so the run ends with it."""
        self.rank = rank
        self.home = home
        self.blobs = Blobs(home, settings.limits)
        self.run = run
        self.attempt = attempt
        self.try_id = of_try(run, attempt)
        self.main = main
        self.on_announce: Callable[[], None] = lambda: None
        self.log_level: int | None = None  # log records of this level and above are written here; None: none are
        self.takes_output = False  # what the program prints is written here
        self.tap: Callable[[Event], None] | None = None  # the console of this process, which shows events at once
        self.begun_t = self.claimed_t = 0  # when the first span began, and when the last claim was made
        self.mishap = ""  # a thread or a task that died, while the program itself goes on
        self.upstream = settings.upstream
        self._usage_s = settings.usage.interval_s if settings.usage.enable else 0.0  # how often the hub measures
        self._lock = threading.RLock()
        self._announced = False
        self._is_fork_child = False
        self._reported_lost = 0
        self._stacks = Stacks()
        self.voice = Voice(home, self._make_origin, settings.spool)
        self.now = self.voice.clock.now
        self.spool = self.voice.spool
        self.spool.on_roll = self._rolled
        self.spool.on_removed = self._removed
        self._begun: dict[str, Span] = {}  # the spans that were begun here, with all that was said of them since
        self._was_removed = False  # what was said before is gone

    def _make_origin(self) -> Origin:
        name = new_id(10)
        process = of_process(self.try_id, name)
        return origin_here(name, span=self.run, process=process, upstream=self.upstream, main=self.main)

    @property
    def has_said_nothing(self) -> bool:
        """Whether this process has written no record yet."""
        return not self._announced

    @property
    def is_measured(self) -> bool:
        """Whether the hub measures this process."""
        return self._usage_s > 0

    @property
    def process(self) -> str:
        """The id of this process's span."""
        return self.spool.origin.process

    def after_fork(self) -> None:
        """Become the journal of a child process."""
        self.main = False
        self._is_fork_child = True
        self.mishap = ""
        self.tap = None
        self._lock = threading.RLock()
        self._announced = False
        self._reported_lost = 0
        self._begun = {}
        self.spool.renew()
        self._stacks.stop()  # they belong to the parent; this process opens its own with its first record

    def begin(self, span: str, kind: str, name: str, parent: str, state: str, attrs: dict[str, Value]) -> None:
        """Record that a span begins."""
        with self._lock:
            t = self.now()
            self.begun_t = self.begun_t or t
            begun = Span(span, t, state=state, kind=kind, name=name, parent=parent, attrs=attrs)
            self._begun[span] = msgspec.structs.replace(begun, attrs=dict(attrs))
            self._write(begun)

    def claim(self, span: str, state: str, cause: str = "") -> None:
        """Record that a span is in a state now."""
        with self._lock:
            self.claimed_t = self.now()
            self._write(Span(span, self.claimed_t, state=state, cause=cause[:1000]))

    def set(self, span: str, attrs: dict[str, Value]) -> None:
        """Set attributes of a span."""
        with self._lock:
            if (begun := self._begun.get(span)) is not None:
                _merge(begun.attrs, attrs)
            self._write(Span(span, self.now(), attrs=attrs))

    def tell(self, span: str, **said: Any) -> None:
        """Record any fields of a span."""
        with self._lock:
            self._write(Span(span, self.now(), **said))

    def event(self, kind: str, text: str, level: int = 20, attrs: dict[str, Value] | None = None) -> None:
        """Record that something happened in the run."""
        with self._lock:
            event = Event(self.run, self.now(), kind, level, text, attrs or {})
            self._write(event)
        tap = self.tap  # another thread may close the console at any moment
        if tap is not None:
            tap(event)

    def blob(self, name: str, digest: str, size: int, media: str) -> None:
        """Record that the run has a file, whose bytes are stored already."""
        with self._lock:
            self._write(Blob(self.run, self.now(), name, digest, size, media))

    def _write(self, fact: Fact) -> None:
        if fact.t > self.voice.wake_at and self._announced:
            self.wake_hub()
        with self._lock:
            self.voice.say(fact)

    def _removed(self) -> None:
        """Called when somebody has removed the spool: say again what was said of the run when it began."""
        self._announced = False
        self._was_removed = True

    def _begin_anew(self) -> None:
        """Say again what this process has begun: the home was removed or moved, and its store with it."""
        self._was_removed = False
        for span in list(self._begun.values()):
            if span.id != self.process:  # which is announced anew
                self.voice.say(msgspec.structs.replace(span, t=self.now()))
        text = (
            f"{self.home.root} was removed or moved while this run was running: what it had logged until then is gone,"
            " or where it was moved to"
        )
        self.event("removed", text, 40)
        say_once(f"{text}; it goes on in a new one")

    def _rolled(self) -> None:
        """Called when a segment begins: announce the process if that is not done yet, report losses, wake the hub."""
        try:
            if not self._announced:
                self._announced = True
                try:
                    if self._was_removed:
                        self._begin_anew()
                    self._announce()
                except BaseException:  # such as a timeout of the user's: the next roll announces it
                    self._announced = False
                    raise
            self.report_losses()
            self.wake_hub()
        except Exception as error:
            let_through(error)
            swallow(error, "the spool's roll")

    def _announce(self) -> None:
        attrs = {
            "host": self.spool.origin.host,
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "main": self.main,
            "argv": [arg[:1000] for arg in masks.argv(getattr(sys, "orig_argv", sys.argv)[:100])],
            "cwd": _or_empty(os.getcwd),
            "user": _or_empty(getpass.getuser),
            "python": platform.python_version(),
            "usage_s": self._usage_s,
        }
        name = f"{'main' if self.main else 'child'} {os.getpid()}"
        if self.rank is not None and not self._is_fork_child:
            attrs |= {"rank": self.rank.number}
            name = f"rank {self.rank.number}"
        self.begin(self.process, "process", name, self.try_id, "running", attrs)
        self._stacks.watch(self.spool.directory)
        self.on_announce()

    def report_losses(self) -> None:
        """Record how many records were dropped, once there is room for it."""
        with self._lock:  # facts are written under it, and so are lost under it
            lost, facts_lost = self.spool.lost, self.spool.facts.lost
            new = lost - self._reported_lost
            if new <= 0:
                return
            self._reported_lost = lost  # first: to write it may begin a segment, which reports losses
            why = self._why_lost()
            segments, self.spool.dropped_segments = self.spool.dropped_segments, []
            text = f"{'up to ' if segments else ''}{new} records could not be kept: {why}"
            attrs: dict[str, Value] = {"count": new, "why": why}
            if segments:
                attrs |= {"origin": self.spool.origin.name, "segments": segments}
            self.event("dropped", text, 40, attrs)
            if self.spool.facts.lost > facts_lost:  # nor could this one, which is no record of the user's: say it later
                self.spool.facts.lost = facts_lost
                self.spool.dropped_segments = segments + self.spool.dropped_segments
                self._reported_lost = lost - new

    def wake_hub(self) -> None:
        """Start a hub if none runs, never waiting for it; and see that what is written is still there."""
        if self._announced:
            self.spool.look_after()
        if why := self.voice.wake_hub():
            say_once(f"no hub can be started ({why}); what you log waits on disk. `vedette doctor` tells more")

    def note_exit_code(self) -> None:
        """Have the exit code of this process noted in its spool, while Python shuts down: only later is it known."""
        try:
            path = os.path.join(self.spool.directory, EXIT_CODE)
            kernel.note_exit_code(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        except Exception as error:  # where it cannot be noted, the hub learns it from the kernel or from nobody
            let_through(error)

    def close(self) -> None:
        """Record that nothing will follow, and tell the user about lost records."""
        if self._announced:
            self.report_losses()
            self.voice.close()
            self._stacks.stop()
        if lost := self.spool.lost:
            untold = lost - self._reported_lost if self._announced else lost
            hint = (
                f"; `vedette doctor` does not know of {untold} of them, as there was no room to say so"
                if untold
                else ""
            )
            about = "up to " if self.spool.dropped else ""  # a hub may have read some of them before
            say_once(f"{about}{lost} records of run {self.run} could not be kept: {self._why_lost()}{hint}")

    def _why_lost(self) -> str:
        return self.spool.trouble or "the disk was full"


def _merge(known: dict[str, Value], new: dict[str, Value]) -> None:
    """Add attributes to those that are known; nested ones, such as those of a config, stand beside each other."""
    for key, value in new.items():
        inside = known.get(key)
        if isinstance(value, dict) and isinstance(inside, dict):
            _merge(inside, value)
        else:
            known[key] = value


def _or_empty(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except Exception as error:
        let_through(error)
        return ""
