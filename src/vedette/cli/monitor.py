"""watch what a command or a process uses, with all its descendants: CPU, memory, disk, network, GPU, power
examples:
  vedette monitor -- ./simulate --steps 1000
  vedette monitor --pid 4711 --interval 5
  vedette monitor --to usage.jsonl --to prometheus:8003 -- python train.py
  vedette monitor --pid 4711 --sensors all --json | jq .cpu_percent
  vedette monitor --pid 4711 --for 60 --to usage.csv

Without --to it prints a row for each moment: on stdout, or on stderr if it runs a command, whose own output stays as it
is. At the end it prints a summary on stderr. It exits with the command's exit code, or with 128 plus the signal's
number if the command was killed.
"""

import argparse
import errno
import os
import select
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from vedette import kernel
from vedette.cli.notices import say, write
from vedette.errors import NotFoundError, VedetteError
from vedette.views.rows import Rows, summary_lines
from vedette.views.text import clean, duration, size

if TYPE_CHECKING:
    import resource

    from vedette.launch.gate import Gate
    from vedette.model import Sample
    from vedette.monitor.plan import Plan

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_PASSED_ON = (*_ENDING, signal.SIGUSR1, signal.SIGUSR2)
_MOST_S = 10**8


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--pid", type=int, metavar="N", help="watch this process, and all that descends from it"
    ).completer = _complete_pids  # type: ignore[attr-defined]
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="S", help="seconds between two measurements (default 1)"
    )
    parser.add_argument(
        "--to", action="append", default=[], metavar="SINK",
        help="where the numbers go: a path (.jsonl, .csv, .txt, .log) or NAME:TEXT; can be repeated",
    ).completer = _complete_sinks  # type: ignore[attr-defined]  # fmt: skip
    parser.add_argument(
        "--sensors", default="", metavar="NAMES", help="what to measure, such as process,gpu; or all"
    ).completer = _complete_sensors  # type: ignore[attr-defined]
    parser.add_argument("--for", type=float, dest="seconds", metavar="S", help="stop measuring after this many seconds")
    parser.add_argument("--json", action="store_true", help="a JSON object for each moment, then the summary")
    parser.add_argument("CMD", nargs=argparse.REMAINDER, help="the command, after --")


def run(args: argparse.Namespace) -> int:
    """Watch; return the command's exit code, or 130 after a Ctrl-C, else 0."""
    from vedette.monitor.plan import DEFAULT, make

    command = args.CMD[1:] if args.CMD[:1] == ["--"] else args.CMD
    if bool(command) == (args.pid is not None):
        raise VedetteError("what shall be watched? Give --pid N, or a command after --, but not both")
    if args.seconds is not None and not 0 < args.seconds <= _MOST_S:
        raise VedetteError(f"--for takes seconds, more than 0 and at most {_MOST_S}")
    plan = make(
        args.to, interval_s=args.interval, where="thread", pid=args.pid, sensors=args.sensors or DEFAULT, keep=1
    )
    return _command(plan, args, command) if command else _process(plan, args)


def _process(plan: "Plan", args: argparse.Namespace) -> int:
    from vedette.launch.local import blocked
    from vedette.monitor.liveness import Liveness, exists

    if not exists(plan.pid):
        raise NotFoundError(f"there is no process {plan.pid}")
    with blocked(_ENDING):
        process = Liveness(plan.pid)
        watch = _Watch(plan, args, plan.pid, kernel.command(plan.pid), sys.stdout)
        ended = watch.until_end(process)
        watch.finish()
        watch.close()
    if ended in _ENDING:
        return 130 if ended == signal.SIGINT else 128 + ended
    if not ended and not args.json:
        say(f"process {plan.pid} has ended")
    return 0


def _command(plan: "Plan", args: argparse.Namespace, command: list[str]) -> int:
    from vedette.launch.gate import Gate
    from vedette.launch.local import blocked, exit_code
    from vedette.monitor.liveness import Liveness

    if shutil.which(command[0]) is None and not os.path.exists(command[0]):
        say(f"there is no command {command[0]!r}")
        return 127
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if we inherited SIG_IGN, the exit status would be lost
    with blocked(_PASSED_ON) as before:
        gate = Gate(command, os.environ, before)
        watch = None
        try:
            watch = _Watch(plan, args, gate.pid, command, sys.stderr, gate)
        except OSError as error:
            say(f"{command[0]} cannot be started: {error.strerror}")
            return 127 if error.errno == errno.ENOENT else 126
        process = Liveness(gate.pid)
        watch.until_end(process, command=True)
        watch.finish()  # before wait4, while the ended process can still be measured
        _, status, used = os.wait4(gate.pid, 0)
        watch.close(used)
    return exit_code(status)


class _Watch:
    """A monitor that prints what it measures."""

    def __init__(
        self, plan: "Plan", args: argparse.Namespace, pid: int, command: list[str], out: Any, gate: "Gate | None" = None
    ) -> None:
        """Open the sinks, and only then the gate: if a sink cannot be opened, the command does not start."""
        from vedette.monitor.guarded_sinks import GuardedSink, open_all
        from vedette.monitor.record import Record
        from vedette.monitor.rounds import Rounds
        from vedette.sensing.sensor import Target
        from vedette.sources import sampler

        self._args, self._pid, self._name, self._out = args, pid, " ".join(command), out
        self._newest = _Newest()
        self._record = Record(plan.keep)
        target = Target(pid, apart=(os.getpid(),))
        try:
            sensors, _ = sampler.find(plan.sensors, target)  # for their metrics only: the command is not running yet
            opened = [*open_all(plan, sampler.metrics(sensors), pid, command), GuardedSink("rows", self._newest)]
            for sensor in sensors.values():
                sensor.close()
        except BaseException:
            if gate is not None:
                gate.shut()
            raise
        if gate is not None:
            try:
                gate.open()
            except OSError:
                for guarded in opened:
                    guarded.close(say)
                raise
        self._rounds = Rounds(plan, target, self._record, say, opened)
        self._rows = Rows(*_terminal(out), tenths=plan.interval_s < 1)
        for port in self._rounds.ports:
            say(f"/metrics can be read at port {port}")
        for run in [guarded.sink.run for guarded in opened if hasattr(guarded.sink, "run")]:
            say(f"this becomes the run {run}: `vedette show {run}`")
        self._until = None if args.seconds is None else time.monotonic() + args.seconds
        if args.sensors and args.sensors != "all":
            for sensor_name, why in self._rounds.absent.items():
                say(f"there is no {sensor_name} here: {why}")

    def until_end(self, process: Any, *, command: bool = False) -> int:
        """Measure until the process ends (return 0), a signal comes (its number) or the time is over (-1)."""
        signals = kernel.open_signals(_PASSED_ON if command else _ENDING)
        ready = select.poll()
        for fd in (signals, process.fd):
            if fd is not None:
                ready.register(fd, select.POLLIN)
        try:
            while not process.gone():
                ready.poll(self._wait_ms(endless=process.fd is not None))
                self._rounds.turn()
                self._show()
                for came in kernel.read_signals(signals):
                    if not command:
                        return int(came.number)
                    if came.code != kernel.FROM_KERNEL:  # else the terminal has sent it to the command, too
                        os.kill(process.pid, came.number)
                if self._until is not None and time.monotonic() >= self._until:
                    self._rounds.finish()
                    self._until = None
                    if not command:
                        return -1
            return 0
        finally:
            os.close(signals)
            while signal.sigtimedwait(_PASSED_ON if command else _ENDING, 0) is not None:
                pass  # it came too late for the command, and is not meant for us

    def finish(self) -> None:
        """Measure once more, and print it."""
        self._rounds.finish()
        self._show()

    def close(self, used: "resource.struct_rusage | None" = None) -> None:
        """Print the summary; `used` is the kernel's account of a command that has ended."""
        summary = self._record.summary()
        by_kernel = {} if used is None else _account(used)
        if by_kernel:
            summary["kernel"] = by_kernel
        if self._args.json:
            from vedette.cli.output import json_line

            self._print(json_line({"summary": summary, "trouble": self._rounds.trouble}))
            return
        missed = f", {summary['missed']} missed" if summary["missed"] else ""
        count = summary["samples"]
        name = clean(self._name, one_line=True)[: max(16, min(60, _terminal(sys.stderr)[0] - 44))]
        watched = f"{name} ({self._pid})" if name else f"process {self._pid}"
        say(f"{watched}: {duration(summary['seconds'])}, {count} moment{'s' * (count != 1)}{missed}")
        for line in summary_lines(summary):
            write(line)
        if by_kernel:
            most = f", one process up to {size(by_kernel['memory_bytes'])}" if "memory_bytes" in by_kernel else ""
            write(f"  by the kernel: CPU time {by_kernel['cpu_s']:.2f}s{most}")
        for text in self._rounds.trouble.values():
            say(text)

    def _wait_ms(self, *, endless: bool) -> int | None:
        waits = [] if self._rounds.closed else [self._rounds.wait_s()]
        if self._until is not None:
            waits.append(max(0.0, self._until - time.monotonic()))
        if not endless:
            waits.append(1.0)
        return int(min(waits) * 1000) + 1 if waits else None

    def _show(self) -> None:
        samples = self._newest.take()
        if not samples or (self._args.to and not self._args.json):
            return
        if self._args.json:
            from vedette.sinks.jsonl import line as as_json

            self._print(as_json(samples, self._pid).decode().rstrip())
            return
        from vedette.sensing.sensor import flat_values

        self._rows.fit(*_terminal(self._out))
        for line in self._rows.lines(samples[0].t, flat_values(samples)):
            self._print(line)

    def _print(self, line: str) -> None:
        if self._out is sys.stderr:  # if nobody reads stderr any more, the command still goes on
            write(line)
            return
        self._out.write(line + "\n")
        self._out.flush()


class _Newest:
    """A sink that holds the newest moment until it is shown."""

    lost = 0

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def put(self, samples: "list[Sample]") -> None:
        self._samples = samples

    def take(self) -> "list[Sample]":
        samples, self._samples = self._samples, []
        return samples

    def close(self) -> None:
        pass


def _account(used: "resource.struct_rusage") -> dict[str, float | int]:
    """Return the kernel's account of a command that has ended.

    Its peak memory includes our own memory at the fork, so a peak that is not above ours is left out.
    """
    import resource

    found: dict[str, float | int] = {"cpu_s": used.ru_utime + used.ru_stime}
    if used.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
        found["memory_bytes"] = used.ru_maxrss * 1024
    return found


def _terminal(out: Any) -> tuple[int, int]:
    """Return the width and height of the terminal; without one, values that print whole rows below one header."""
    try:
        found = os.get_terminal_size(out.fileno())
        return found.columns or 80, found.lines or 24
    except (OSError, ValueError):
        return 1000, 0


def _complete_pids(prefix: str, **_: Any) -> list[str]:
    try:
        return [str(pid) for pid in kernel.parents() if str(pid).startswith(prefix)]
    except OSError:
        return []


def _complete_sinks(prefix: str, **_: Any) -> list[str]:
    import glob

    from vedette.sinks import SINKS

    paths = [path for path in glob.glob(glob.escape(prefix) + "*")[:100] if ":" not in prefix]
    return [f"{name}:" for name in SINKS if name.startswith(prefix)] + paths


def _complete_sensors(prefix: str, **_: Any) -> list[str]:
    from vedette.sources.sampler import known

    before, comma, last = prefix.rpartition(",")
    return [before + comma + name for name in ("all", *known()) if name.startswith(last)]
