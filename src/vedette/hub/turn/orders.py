"""Carries out commands for processes of this host, at most once each, and answers them by an Event."""

import contextlib
import functools
import signal
import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from vedette import kernel
from vedette.deaths import tree
from vedette.deaths.process_watch import Watch
from vedette.hub.own import Say
from vedette.ids import is_within, of_try, run_and_try
from vedette.model import Command, Event, Origin

ANSWER = "answer"  # the verb of a command that answers a question
_MOST_REMEMBERED = 10_000


class _Doomed(NamedTuple):
    """Who is killed unless it has stopped by a time: a process and what it had started, or what a run left behind."""

    at: float
    command: Command
    origin: Origin | None = None
    family: AbstractSet[tuple[int, int]] = frozenset()


class Orders:
    """Carries out commands for processes of this host."""

    def __init__(self, say: Say) -> None:
        """`say` writes an answer, for the hub that keeps the run."""
        self._say = say
        self._seen: dict[tuple[str, str | None], None] = {}
        self.stopped: dict[str, str] = {}  # origins that were told to stop, and by whom, if that is known
        self._to_kill: list[_Doomed] = []

    def is_new(self, command: Command, upstream: str | None = None) -> bool:
        """Tell whether a command was not seen before, and remember it.

        It may come from several upstreams: each commands only the processes whose records are meant for it. One that
        was given here (`upstream` is None) was for all of them.
        """
        if (command.id, upstream) in self._seen or (command.id, None) in self._seen:
            return False
        self._seen[command.id, upstream] = None
        while len(self._seen) > _MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return True

    @property
    def busy(self) -> bool:
        """Whether somebody who was told to stop may have to be killed."""
        return bool(self._to_kill)

    def obey(self, command: Command, processes: Iterable[tuple[Origin, Watch]], upstream: str | None = None) -> int:
        """Carry out a command for those of these processes that it is for; return how many they were.

        A stop is also for what the run has left behind. `upstream`: the hub that gives the command.
        """
        meant = [(origin, watch) for origin, watch in processes if origin.process and _is_for(command.to, origin)]
        if command.verb == ANSWER:  # the server hands it over; it must not be stored
            return len(meant)
        if command.verb != "stop":
            for origin, _ in meant:
                self._answer(command, origin, f"there is no command {command.verb[:50]!r} for")
            return len(meant)
        grace_s = command.args.get("grace_s", tree.GRACE_S)
        kill_at = time.monotonic() + max(0.0, float(grace_s) if isinstance(grace_s, int | float) else tree.GRACE_S)
        family: set[tuple[int, int]] = set()
        if not any(command.to == origin.process for origin, _ in meant):
            family = tree.born(tree.below(*(watch.pid for _, watch in meant if watch.pid and watch.send(0))))
        sent = [watch.send(signal.SIGTERM) for _, watch in meant]  # to all of them, before anything can go wrong
        by = command.args.get("by")
        who = by[:100] if isinstance(by, str) else ""
        self.stopped.update((origin.name, who) for origin, _ in meant)
        told = [origin for (origin, _), ok in zip(meant, sent, strict=True) if ok]
        self._to_kill += [_Doomed(kill_at, command, origin, family) for origin in told]
        for (origin, _), ok in zip(meant, sent, strict=True):
            self._answer(command, origin, "SIGTERM sent to" if ok else "cannot send SIGTERM to", who)
        if upstream is not None and not meant:  # it commands what is meant for it only, and orphans do not tell
            return 0
        others = {watch.pid for _, watch in meant} | {pid for pid, _ in family}
        where = meant[0][0].upstream if meant else ""
        return len(meant) + self._stop_orphans(command, others, where, kill_at)

    def _stop_orphans(self, command: Command, others: set[int], upstream: str, kill_at: float) -> int:
        """Send SIGTERM to what a run has left behind: nobody else passes it on to them; return how many they were.

        `others`: processes of the run that are no orphans.
        """
        run, attempt = run_and_try(command.to)
        if command.to not in (run, of_try(run, attempt)):
            return 0
        count = tree.tell(lambda: tree.of_try(run, attempt) - others, signal.SIGTERM)
        if count:
            self._to_kill.append(_Doomed(kill_at, command))
            text = f"SIGTERM sent to {count} {'process' if count == 1 else 'processes'} that the run has left behind"
            attrs = {"command": command.id, "verb": command.verb[:50]}
            with contextlib.suppress(OSError):
                event = Event(run, time.time_ns(), "answer", 20, f"{text} on {kernel.host()}", attrs)
                self._say([event], upstream)
        return count

    def tend(self, watches: Mapping[str, Watch]) -> None:
        """Kill the processes that did not stop in time; `watches` are by origin."""
        now = time.monotonic()
        due = [item for item in self._to_kill if item.at <= now]
        self._to_kill = [item for item in self._to_kill if item.at > now]
        for _, command, origin, family in due:
            if origin is None:
                tree.end(functools.partial(tree.of_try, *run_and_try(command.to)))
                continue
            watch = watches.get(origin.name)
            lives = watch is not None and watch.death is None and watch.send(signal.SIGSTOP)
            pid = watch.pid if watch is not None and lives else 0
            tree.end(functools.partial(_family, command.to, origin, family, pid))
            if watch is not None and lives and watch.send(signal.SIGKILL):
                self._answer(command, origin, "it did not stop in time: SIGKILL sent to")

    def _answer(self, command: Command, origin: Origin, what: str, who: str = "") -> None:
        text = f"{what} process {origin.pid} on {origin.host}" + (f", asked for by {who}" if who else "")
        attrs = {"command": command.id, "verb": command.verb[:50], "process": origin.process}
        with contextlib.suppress(OSError):  # a full disk does not keep a command from being carried out
            self._say([Event(origin.span, time.time_ns(), "answer", 20, text, attrs)], origin.upstream)


def _is_for(to: str, origin: Origin) -> bool:
    return to == origin.span or is_within(origin.process, to)


def _family(to: str, origin: Origin, family: AbstractSet[tuple[int, int]], pid: int) -> set[int]:
    """Return what a process has started; if the command is for its whole try, also what the try has left behind.

    `family`: what it had started when it was told to stop; some programs overwrite the environment that would tell.
    `pid`: its pid in our namespace while it lives, else 0.
    """
    left = {one for one, _ in family & tree.born([one for one, _ in family])}
    found = left | tree.below(*left, *([pid] if pid else []))
    return found if to == origin.process else found | tree.of_try(*run_and_try(origin.process))
