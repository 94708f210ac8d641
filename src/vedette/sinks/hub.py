"""A run of vedette's own: what is measured can then be seen by `vedette ls`, `show` and `points`, here or far away.

It goes into a spool, as everything that a process says: it waits there while no hub is up, and the hub passes it on
if it is meant for another.
"""

import os
import time
from collections.abc import Mapping

from msgspec import Struct

from vedette import kernel, masks, settings, wire
from vedette.errors import SettingError, VedetteError
from vedette.home import Home
from vedette.model import Fact, Origin, Sample, Span, Value, new_id
from vedette.sensing.sensor import Metric
from vedette.sinks import options
from vedette.spool import Spool

_FIRST_TRY = "1"
_WAKE_EVERY_S = 60.0


class Config(Struct, frozen=True):
    """Which home, which hub beyond it, and what the run is called; what is empty is as the settings say."""

    home: str = ""
    upstream: str = ""
    project: str = "default"
    name: str = ""
    run: str = ""  # a run, or RUN/TRY, that another has begun; empty: one of its own
    pid: int = 0


def parse(text: str) -> Config:
    """Read `[UPSTREAM][?project=P&name=N&run=RUN&home=PATH]`."""
    upstream, chosen = options(text, ("project", "name", "run", "home"))
    return Config(
        chosen.get("home", ""), upstream, chosen.get("project", Config().project), chosen.get("name", ""),
        chosen.get("run", ""),
    )  # fmt: skip


class Hub:
    """Puts samples on record: those of the process in the run, those of the host in the host's span."""

    def __init__(self, config: Config) -> None:
        """Begin the run; raise SettingError when settings are wrong, or nothing can be kept."""
        said = {"home": config.home or None, "upstream": config.upstream or None}
        chosen = settings.load(said)
        self.lost = 0
        self.trouble = ""
        self._home = Home.of(chosen)
        self._own = not config.run
        run, _, attempt = (config.run or new_id()).partition("/")
        self.run = run
        self._try = f"{run}/{attempt or _FIRST_TRY}"
        self._host = kernel.host_span()
        self._pid = os.getpid()
        self._t = 0
        self._woken = 0.0
        self._closed = False
        name = new_id(10)
        origin = Origin(
            name, kernel.host(), kernel.boot(), self._pid, _started(self._pid), run, f"{self._try}/{name}",
            chosen.upstream, main=self._own,
        )  # fmt: skip
        cap = chosen.spool
        self._spool = Spool(self._home.spool, lambda: origin, cap.cap_bytes, cap.cap_share, self._home.prepare)
        self._begin(config)
        if self._spool.lost:
            raise SettingError(f"nothing can be kept in {self._home.root}: {self._spool.trouble}")
        self._wake()

    def _begin(self, config: Config) -> None:
        watched = config.pid or self._pid
        argv = _argv(watched)
        script = os.path.basename(argv[0]) if argv else ""
        attrs: dict[str, Value] = {"project": config.project, "script": script, "config": {"pid": watched}}
        process = self._spool.origin.process
        about: dict[str, Value] = {
            "host": kernel.host(), "pid": self._pid, "main": self._own, "argv": _argv(self._pid), "usage_s": 0,
        }  # fmt: skip
        if self._own:
            name = config.name or f"{script or 'monitor'}-{watched}"
            self._say(Span(self.run, self._now(), "created", kind="run", name=name, attrs=attrs))
            self._say(Span(self._try, self._now(), "running", kind="try", parent=self.run, attrs={"n": 1}))
        self._say(
            Span(process, self._now(), "running", kind="process", name=f"monitor {self._pid}", parent=self._try,
                 attrs=about)
        )  # fmt: skip
        self._say(Span(self._host, self._now(), "up", kind="host", name=kernel.host(), attrs={"host": kernel.host()}))

    def put(self, samples: list[Sample]) -> None:
        """Put the samples of one moment on record; what there is no room for is lost, and counted."""
        if os.getpid() != self._pid:
            raise OSError("this run is another process's")
        for sample in samples:
            span = self._host if sample.span.startswith("host-") else ""
            told = Sample(sample.t, sample.step, sample.values, span, sample.tags)
            self._spool.samples.append(wire.frame(wire.encode(told)))
        self.lost = self._spool.lost
        self.trouble = f"the run {self.run} cannot be kept whole: {self._spool.trouble}" if self.lost else ""
        if time.monotonic() - self._woken > _WAKE_EVERY_S:
            self._wake()

    def close(self) -> None:
        """End the run."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        if self._own:
            self._say(Span(self._try, self._now(), "done"))
        self._say(Span(self._spool.origin.process, self._now(), "done"))
        self._spool.close()
        self.lost = self._spool.lost

    def _say(self, fact: Fact) -> None:
        self._spool.facts.append(wire.frame(wire.encode(fact)))

    def _now(self) -> int:
        self._t = max(time.time_ns(), self._t)
        return self._t

    def _wake(self) -> None:
        """Make sure that a hub lives, never waiting for it."""
        self._woken = time.monotonic()
        try:
            self._home.wake_hub()
        except (OSError, VedetteError) as error:
            self.trouble = f"no hub can be started ({error}); what is measured waits on disk"


def open(config: Config, metrics: Mapping[str, Metric]) -> Hub:  # noqa: A001, ARG001 - the name that every sink has
    """Open it."""
    return Hub(config)


def _started(pid: int) -> int:
    try:
        return kernel.start_ticks(pid) or 0
    except OSError:
        return 0


def _argv(pid: int) -> list[str]:
    return [word[:1000] for word in masks.argv(kernel.command(pid)[:100])]
