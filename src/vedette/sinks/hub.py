"""Writes samples to a run of vedette, so that `vedette ls`, `show` and `points` show them, here or on another machine.

The samples go into a spool, like all records of a process: they wait there while no hub runs, and the hub relays them
if they are meant for another hub.
"""

import os
from collections.abc import Mapping

from msgspec import Struct

from vedette import command_line, kernel, masks, settings
from vedette.errors import SettingError
from vedette.home import Home
from vedette.ids import FIRST_TRY, is_host, new_id, of_process, of_try, run_and_try
from vedette.model import Sample, Span, Value
from vedette.sensing.sensor import Metric
from vedette.sinks import options
from vedette.voice import Voice, origin_here


class Config(Struct, frozen=True):
    """Which home, which upstream hub, and the run's name; the settings decide what is empty."""

    home: str = ""
    upstream: str = ""
    project: str = "default"
    name: str = ""
    run: str = ""  # RUN or RUN/TRY that another process began; empty: begin a new run
    pid: int = 0
    command: list[str] = []  # what the process is about to execute; empty: what it executes already


def parse(text: str) -> Config:
    """Read `[UPSTREAM][?project=P&name=N&run=RUN&home=PATH]`."""
    upstream, loaded = options(text, ("project", "name", "run", "home"))
    return Config(
        loaded.get("home", ""), upstream, loaded.get("project", Config().project), loaded.get("name", ""),
        loaded.get("run", ""),
    )  # fmt: skip


class Hub:
    """Records samples: those of the process in the run, those of the host in the host's span."""

    def __init__(self, config: Config) -> None:
        """Begin the run; raise SettingError if a setting is wrong, or nothing can be written."""
        overrides = {"home": config.home or None, "upstream": config.upstream or None}
        loaded = settings.load(overrides)
        self.lost = 0
        self.trouble = ""
        home = Home.of(loaded)
        self._own = not config.run
        run, attempt = run_and_try(config.run or new_id())
        self.run = run
        self._try = of_try(run, attempt or FIRST_TRY)
        self._host = kernel.host_span()
        self._pid = os.getpid()
        self._closed = False
        self._moments = 0
        name = new_id(10)
        process = of_process(self._try, name)
        origin = origin_here(name, span=run, process=process, upstream=loaded.upstream, main=self._own)
        self._voice = Voice(home, lambda: origin, loaded.spool)
        self._begin(config)
        if self._voice.lost:
            raise SettingError(f"nothing can be written to {home.root}: {self._voice.spool.trouble}")
        self._wake_hub()

    def _begin(self, config: Config) -> None:
        watched = config.pid or self._pid
        argv = _masked(config.command) if config.command else _argv(watched)
        script = command_line.label(argv)
        attrs: dict[str, Value] = {"project": config.project, "script": script, "config": {"pid": watched}}
        process, say, now = self._voice.origin.process, self._voice.say, self._voice.now
        process_attrs: dict[str, Value] = {
            "host": kernel.host(), "pid": self._pid, "main": self._own, "argv": _argv(self._pid), "usage_s": 0,
        }  # fmt: skip
        if self._own:
            name = config.name or f"{script or 'monitor'}-{watched}"
            say(Span(self.run, now(), "created", kind="run", name=name, attrs=attrs))
            say(Span(self._try, now(), "running", kind="try", parent=self.run, attrs={"n": 1}))
        say(
            Span(process, now(), "running", kind="process", name=f"monitor {self._pid}", parent=self._try,
                 attrs=process_attrs)
        )  # fmt: skip
        say(Span(self._host, now(), "up", kind="host", name=kernel.host(), attrs={"host": kernel.host()}))

    def put(self, samples: list[Sample]) -> None:
        """Record the samples of one moment; if there is no room they are lost, and counted."""
        if os.getpid() != self._pid:
            raise OSError("this run belongs to another process")
        for sample in samples:
            span = self._host if is_host(sample.span) else ""
            # In a run of its own the moments are counted. Another run, or the host, has points of others, too.
            step = self._moments if self._own and not span else sample.step
            self._voice.sample(Sample(sample.t, step, sample.values, span, sample.tags))
        self._moments += 1
        self.lost = self._voice.lost
        self.trouble = f"the run {self.run} has lost samples: {self._voice.spool.trouble}" if self.lost else ""
        self._wake_hub()

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

    def _wake_hub(self) -> None:
        if why := self._voice.keep_hub_awake():
            self.trouble = f"no hub can be started ({why}); the samples wait on disk"


def open(config: Config, metrics: Mapping[str, Metric]) -> Hub:  # noqa: A001, ARG001 - the name that every sink has
    """Open it."""
    return Hub(config)


def _argv(pid: int) -> list[str]:
    return _masked(kernel.command(pid))


def _masked(argv: list[str]) -> list[str]:
    return [word[:1000] for word in masks.argv(argv[:100])]
