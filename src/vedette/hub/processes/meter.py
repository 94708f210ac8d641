"""The meter measures the processes of this host for the hub, as a helper process: `vedette.hub.processes.meter`.

As a thread of the hub it would be late, because its many small reads would wait for the interpreter during ingest; and
a GPU driver that hangs would hang the hub. The meter writes what it measures to a spool of its own, as the hub. It
reads on its standard input which processes to measure. It ends when there are none, or when the hub is gone.
"""

import os
import select
import signal
import sys
import time

import msgspec

from vedette import ids, masks
from vedette.home import Home
from vedette.hub.helper_process import Inlet
from vedette.hub.own import Own
from vedette.hub.processes.machine import Machine
from vedette.hub.processes.orphans import Orphans
from vedette.hub.processes.wishes import Leave, Measure, Spoke, Wish
from vedette.kernel import command, host, host_span
from vedette.model import HUB, UNSEEN, Fact, Sample, Span
from vedette.sensing.schedule import Schedule
from vedette.sources.gpu import Gpus
from vedette.sources.process import Process, look, rates

_LINGER_S = 1.0  # it waits this long for another process before it ends
_HOST_EVERY_S = 1.0  # the host is measured this often at most
_LEAST_S = 0.05  # CPU times are in ticks of 10 ms: over a shorter time a rate means nothing
_HOLD_S = 2.0  # of a process that is younger nothing is said: it may be about to speak by itself
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MOST_WORDS, _MOST_CHARS = 32, 200  # of a command line

_decode_wish = msgspec.json.Decoder(Wish).decode
_Key = tuple[int, int]  # pid and start time, which identify a process


class _Known:
    """A process as it was last seen."""

    def __init__(self, owner: str, span: str) -> None:
        self.owner = owner  # the target whose tree it was found in
        self.span = span
        self.name = ""
        self.last: Process | None = None
        self.at_s = 0.0
        self.since_s: float | None = None  # when it was met, while nothing is said of it: it may be about to speak
        self.unsaid: list[Span] = []
        self.held: list[Sample] = []
        self.gone_t = 0
        self.upstream = ""  # once it is gone


class Meter:
    """Measures the processes that it was asked to measure, their descendants, and what they have left behind."""

    def __init__(self, home: Home, apart: set[int], *, gpus: Gpus | None = None, proc: str = "/proc") -> None:
        """Measure nothing yet. Pids in `apart` are never measured. `proc` is the kernel's view of processes."""
        self.schedule: Schedule[str] = Schedule()
        self.own = Own(home)
        self._apart = apart
        self._gpus = gpus
        self._proc = proc
        self._targets: dict[str, Measure] = {}
        self._by_pid: dict[int, str] = {}  # a process may have several origins: the newest
        self._known: dict[_Key, _Known] = {}
        self._parted: dict[_Key, _Known] = {}  # those that are gone, and of which nothing was said yet
        self._orphans = Orphans(proc)
        self._unsaid: list[tuple[Fact, str]] = []
        self._machine = Machine(proc)
        self._machine_s = float("-inf")
        self._t = 0
        self._now_s = 0.0

    def hear(self, wish: Wish) -> None:
        """Carry out a wish; a new process is measured at once."""
        if isinstance(wish, Leave):
            self._leave(wish.name)
            return
        if isinstance(wish, Spoke):
            self._take_over((wish.pid, wish.started), wish.process, wish.upstream)
            return
        self._targets[wish.name] = wish
        self._rank()
        self._adopt(wish)
        if wish.interval_s > 0:
            self.schedule.want(wish.name, wish.interval_s, time.monotonic())
            self.measure([wish.name])

    def _rank(self) -> None:
        self._by_pid = {target.pid: name for name, target in sorted(self._targets.items())}

    def _adopt(self, target: Measure) -> None:
        """Take over a known process that now has a spool, and the spans that an earlier meter has opened."""
        key = target.pid, target.started
        known = self._known.get(key)
        was_held = self._take_over(key, target.process, target.upstream)
        if known is not None:
            if not was_held and known.span != target.process and ids.is_by_pid(known.span):
                self._end(known)
            known.owner, known.span = target.name, target.process
        for span in target.open:
            opened = ids.pid_and_start(span)
            if opened is None:
                continue
            if opened[0] in self._by_pid:
                self._end(_Known(target.name, span), target.upstream)
            elif opened not in self._known:
                self._known[opened] = _Known(target.name, span)

    def _take_over(self, key: _Key, process: str, upstream: str) -> bool:
        """If nothing was said of a process yet, give what was measured to the one that speaks: it is the same."""
        known = self._known.get(key) or self._parted.pop(key, None)
        if known is None or known.since_s is None:
            return False
        held = [msgspec.structs.replace(sample, span=process) for sample in known.held]
        known.since_s, known.unsaid, known.held = None, [], []
        self._keep({upstream: held})
        return True

    def _leave(self, name: str) -> None:
        target = self._targets.pop(name, None)
        if target is None:
            return
        self.schedule.drop(name)
        self._rank()
        heir = next((other for other in self._targets.values() if _try(other) == _try(target)), None)
        self._known.pop((target.pid, target.started), None)
        orphans = {key: known for key, known in self._known.items() if known.owner == name}
        alive = look([pid for pid, _ in orphans], (), self._proc).processes if orphans else {}
        for (pid, started), known in orphans.items():
            lives = pid in alive and alive[pid].started == started
            if heir is not None and lives:
                known.owner = heir.name
                continue
            if known.since_s is not None and not lives:
                self._hold((pid, started), self.own.now(), target.upstream)
                continue
            self._end(known, target.upstream, "it outlived its run" if lives else "")
            del self._known[pid, started]

    def measure(self, names: list[str]) -> None:
        """Measure the trees of these targets, in one pass; then the machine, if its time has come."""
        wanted = {name for name in names if self._by_pid[self._targets[name].pid] == name}
        if not wanted:
            return
        self._t = t = self.own.now()
        # Known processes are roots, too: their parent may be gone. The targets come last, because the last roots are
        # walked first: a process that is found below a target belongs to it.
        orphans = self._owned_orphans(wanted)
        roots = [pid for pid, _ in orphans]
        roots += [pid for (pid, _), known in self._known.items() if known.owner in wanted]
        roots += [self._targets[name].pid for name in wanted]
        snapshot = look(roots, self._apart | self._by_pid.keys(), self._proc)
        self._now_s = snapshot.at_s
        owners: dict[int, str] = {}
        samples: dict[str, list[Sample]] = {}
        spans: dict[int, tuple[str, str]] = {}  # upstream and span, by pid
        for pid, process in snapshot.processes.items():
            owner = self._owner(process, owners) or orphans.get((pid, process.started), "")
            if owner not in wanted:
                continue
            owners[pid] = owner
            target = self._targets[owner]
            known = self._meet(process, target)
            if known is None:
                continue
            values = self._values(process, known, snapshot.at_s, target.interval_s)
            sample = Sample(t, t // 10**6, values, known.span)
            if known.since_s is not None and snapshot.at_s - known.since_s < _HOLD_S:
                known.held.append(sample)
                continue
            self._tell(known)
            samples.setdefault(target.upstream, []).append(sample)
            spans[pid] = target.upstream, known.span
        self._find_gone(wanted, snapshot.processes)
        self._look_at_machine(snapshot.at_s, samples, spans)
        self._keep(samples)

    def _owned_orphans(self, wanted: set[str]) -> dict[_Key, str]:
        """Return the processes that name the try of one of these targets and are not known yet, with that target."""
        owners = {_try(self._targets[name]): name for name in sorted(wanted, reverse=True)}
        return {
            key: owners[attempt]
            for key, attempt in self._orphans.look(time.monotonic()).items()
            if attempt in owners and key not in self._known and key[0] not in self._by_pid and key[0] not in self._apart
        }

    def _owner(self, process: Process, owners: dict[int, str]) -> str:
        name = self._by_pid.get(process.pid)
        if name is not None:
            return name if self._targets[name].started in (0, process.started) else ""
        known = self._known.get((process.pid, process.started))
        return owners.get(process.ppid) or (known.owner if known is not None else "")

    def _meet(self, process: Process, target: Measure) -> _Known | None:
        """Return what is known of a process. One that has no spool gets a span when it is new, or has a new name."""
        key = process.pid, process.started
        known, last, at_s = self._known.get(key), None, 0.0
        if known is not None and ids.is_by_pid(known.span) and ids.enclosing(known.span) != _try(target):
            last, at_s = known.last, known.at_s  # a process above it now has a spool, and belongs to another run
            self._end(known)
            known = None
        if known is None:
            span = ids.of_process_by_pid(_try(target), process.pid, process.started)
            if process.pid == target.pid:
                span = target.process
            if len(span.encode()) > ids.MOST_LENGTH:
                return None
            known = self._known[key] = _Known(target.name, span)
            known.last, known.at_s = last, at_s
            if ids.is_by_pid(span) and last is None and _age_s(process) < _HOLD_S:
                known.since_s = self._now_s
        known.owner = target.name
        if ids.is_by_pid(known.span) and process.name != known.name:
            words = command(process.pid, self._proc) or [process.name]
            attrs = {
                "pid": process.pid,
                "ppid": process.ppid,
                "host": host(),
                "argv": [word[:_MOST_CHARS] for word in masks.argv(words[:_MOST_WORDS])],
            }
            state = "" if known.name else "running"
            opened = Span(known.span, self._t, state, "", HUB, "process", process.name, _try(target), attrs)
            known.name = process.name
            if known.since_s is None:
                self._say(opened, target.upstream)
            else:
                known.unsaid.append(opened)
        return known

    def _tell(self, known: _Known) -> None:
        """Say what was held back of a process: it did not begin to speak by itself."""
        if known.since_s is None:
            return
        upstream = self._targets[known.owner].upstream
        facts, held = known.unsaid, known.held
        known.since_s, known.unsaid, known.held = None, [], []
        for fact in facts:
            self._say(fact, upstream)
        self._keep({upstream: held})

    def _values(self, process: Process, known: _Known, at_s: float, interval_s: float) -> dict[str, float | int | bool]:
        values: dict[str, float | int | bool] = {"memory_bytes": process.memory_bytes, "threads": process.threads}
        before, since_s = known.last, at_s - known.at_s
        if before is None:
            # If it has just started, count from its start: a short-lived process is seen only once.
            since_s = _age_s(process)
            if since_s <= 2 * interval_s:
                moved = (None if process.read_bytes is None else 0, None if process.written_bytes is None else 0)
                before = process._replace(cpu_s=0.0, read_bytes=moved[0], written_bytes=moved[1])
        if before is not None and since_s >= min(_LEAST_S, interval_s / 2):
            values |= rates(before, process, since_s)
        elif known.last is not None:
            return values  # too soon after the last measurement: the next one counts from there
        known.last, known.at_s = process, at_s
        return values

    def _find_gone(self, wanted: set[str], found: dict[int, Process]) -> None:
        gone = [
            key
            for key, known in self._known.items()
            if known.owner in wanted and (key[0] not in found or found[key[0]].started != key[1])
        ]
        for key in gone:
            known = self._known[key]
            if known.since_s is not None:
                self._hold(key, self._t, self._targets[known.owner].upstream)
                continue
            del self._known[key]
            if ids.is_by_pid(known.span):
                self._end(known)
        self._part(self._now_s - _HOLD_S)

    def _hold(self, key: _Key, gone_t: int, upstream: str) -> None:
        """Wait before it is said that a process was there and is gone: the hub may be about to read its spool."""
        known = self._parted[key] = self._known.pop(key)
        known.gone_t, known.at_s, known.upstream = gone_t, self._now_s, upstream

    def _part(self, before_s: float) -> None:
        """Say of processes that were gone before a time, and have not spoken, that they were there."""
        for key in [key for key, known in self._parted.items() if known.at_s <= before_s]:
            known = self._parted.pop(key)
            for fact in (*known.unsaid, Span(known.span, known.gone_t, UNSEEN, "", HUB)):
                self._say(fact, known.upstream)
            self._keep({known.upstream: known.held})

    def _end(self, known: _Known, upstream: str | None = None, cause: str = "") -> None:
        """Write that a process is gone; only its parent knows how it ended."""
        if known.owner in self._targets:
            self._tell(known)
        self._t = self.own.now()
        if upstream is None:
            upstream = self._targets[known.owner].upstream
        self._say(Span(known.span, self._t, UNSEEN, cause, HUB), upstream)

    def _look_at_machine(
        self, at_s: float, samples: dict[str, list[Sample]], spans: dict[int, tuple[str, str]]
    ) -> None:
        if at_s - self._machine_s < 0.9 * _HOST_EVERY_S:
            return
        self._machine_s = at_s
        told_of_host = self._machine.look(self._t)
        gpus = self._gpus.look() if self._gpus is not None else {}
        t, step, here = self._t, self._t // 10**6, host_span()
        for upstream in {target.upstream for target in self._targets.values()}:
            heard = samples.setdefault(upstream, [])
            heard += told_of_host
            for index, gpu in gpus.items():
                told = {
                    "gpu_percent": gpu.percent, "gpu_memory_bytes": gpu.memory_bytes,
                    "gpu_power_w": gpu.power_w, "gpu_temperature_c": gpu.temperature_c,
                }  # fmt: skip
                numbers = {key: value for key, value in told.items() if value is not None}
                heard += [Sample(t, step, numbers, here, {"gpu": str(index)})] if numbers else []
        for index, gpu in gpus.items():
            for pid, memory in gpu.processes.items():
                if pid in spans:
                    upstream, span = spans[pid]
                    samples[upstream].append(Sample(t, step, {"gpu_memory_bytes": memory}, span, {"gpu": str(index)}))

    def close(self) -> None:
        """Close everything."""
        self._part(float("inf"))
        self.own.close()
        self._machine.close()

    def _say(self, fact: Fact, upstream: str) -> None:
        self._unsaid.append((fact, upstream))
        self._keep({})

    def _keep(self, samples: dict[str, list[Sample]]) -> None:
        """Write facts that wait, and samples. When the disk is full, facts wait and samples are lost."""
        try:
            while self._unsaid:
                fact, upstream = self._unsaid[0]
                self.own.say([fact], upstream)
                del self._unsaid[0]
            for upstream, heard in samples.items():
                self.own.sample(heard, upstream)
        except OSError:
            return


def _age_s(process: Process) -> float:
    """Return how long ago a process was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process.started / _TICKS_PER_S


def _try(target: Measure) -> str:
    return ids.enclosing(target.process)


def serve(meter: Meter, inlet: Inlet[Wish]) -> None:
    """Measure what the hub asks for, until the hub is gone or there has been nothing to measure for a while."""
    poll = select.poll()
    poll.register(inlet.fd, select.POLLIN)
    left_at = time.monotonic() + 10 * _LINGER_S  # the first wish will come soon
    while True:
        now = time.monotonic()
        wait_s = meter.schedule.wait_s(now)
        if wait_s is None and now >= left_at:
            return
        if poll.poll(1000 * (left_at - now if wait_s is None else wait_s)):
            wishes = inlet.read()
            if wishes is None:
                return
            for wish in wishes:
                meter.hear(wish)
            left_at = time.monotonic() + _LINGER_S
        if due := meter.schedule.due(time.monotonic()):
            meter.measure(due)
            left_at = time.monotonic() + _LINGER_S


def main() -> None:
    """Be the meter of the hub that has started this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the hub ends it
    os.umask(0o077)
    home, gpu = sys.argv[1:3]
    gpus = Gpus() if gpu == "gpu" else None
    meter = Meter(Home(home, foreign=True), {os.getpid(), os.getppid()}, gpus=gpus)
    try:
        serve(meter, Inlet(_decode_wish))
    finally:
        meter.close()
        if gpus is not None:
            gpus.shut()


if __name__ == "__main__":
    main()
