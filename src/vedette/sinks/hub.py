"""A run of vedette's own: what is measured can then be seen by `vedette ls`, `show` and `points`, here or far away.

It goes into a spool, as everything that a process says: it waits there while no hub is up, and the hub passes it on
if it is meant for another.
"""

import os
from collections.abc import Mapping

from msgspec import Struct

from vedette import kernel, masks, settings
from vedette.errors import SettingError
from vedette.home import Home
from vedette.model import Sample, Span, Value, new_id
from vedette.sensing.sensor import Metric
from vedette.sinks import options
from vedette.voice import Voice, origin_here

_FIRST_TRY = "1"


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
        home = Home.of(chosen)
        self._own = not config.run
        run, _, attempt = (config.run or new_id()).partition("/")
        self.run = run
        self._try = f"{run}/{attempt or _FIRST_TRY}"
        self._host = kernel.host_span()
        self._pid = os.getpid()
        self._closed = False
        name = new_id(10)
        process = f"{self._try}/{name}"
        origin = origin_here(name, span=run, process=process, upstream=chosen.upstream, main=self._own)
        self._voice = Voice(home, lambda: origin, chosen.spool)
        self._begin(config)
        if self._voice.lost:
            raise SettingError(f"nothing can be kept in {home.root}: {self._voice.spool.trouble}")
        self._look_after_hub()

    def _begin(self, config: Config) -> None:
        watched = config.pid or self._pid
        argv = _argv(watched)
        script = os.path.basename(argv[0]) if argv else ""
        attrs: dict[str, Value] = {"project": config.project, "script": script, "config": {"pid": watched}}
        process, say, now = self._voice.origin.process, self._voice.say, self._voice.now
        about: dict[str, Value] = {
            "host": kernel.host(), "pid": self._pid, "main": self._own, "argv": _argv(self._pid), "usage_s": 0,
        }  # fmt: skip
        if self._own:
            name = config.name or f"{script or 'monitor'}-{watched}"
            say(Span(self.run, now(), "created", kind="run", name=name, attrs=attrs))
            say(Span(self._try, now(), "running", kind="try", parent=self.run, attrs={"n": 1}))
        say(
            Span(process, now(), "running", kind="process", name=f"monitor {self._pid}", parent=self._try,
                 attrs=about)
        )  # fmt: skip
        say(Span(self._host, now(), "up", kind="host", name=kernel.host(), attrs={"host": kernel.host()}))

    def put(self, samples: list[Sample]) -> None:
        """Put the samples of one moment on record; what there is no room for is lost, and counted."""
        if os.getpid() != self._pid:
            raise OSError("this run is another process's")
        for sample in samples:
            span = self._host if sample.span.startswith("host-") else ""
            told = Sample(sample.t, sample.step, sample.values, span, sample.tags)
            self._voice.sample(told)
        self.lost = self._voice.lost
        self.trouble = f"the run {self.run} cannot be kept whole: {self._voice.spool.trouble}" if self.lost else ""
        self._look_after_hub()

    def close(self) -> None:
        """End the run."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        if self._own:
            self._voice.say(Span(self._try, self._voice.now(), "done"))
        self._voice.say(Span(self._voice.origin.process, self._voice.now(), "done"))
        self._voice.close()
        self.lost = self._voice.lost

    def _look_after_hub(self) -> None:
        if why := self._voice.keep_hub_awake():
            self.trouble = f"no hub can be started ({why}); what is measured waits on disk"


def open(config: Config, metrics: Mapping[str, Metric]) -> Hub:  # noqa: A001, ARG001 - the name that every sink has
    """Open it."""
    return Hub(config)


def _argv(pid: int) -> list[str]:
    return [word[:1000] for word in masks.argv(kernel.command(pid)[:100])]
