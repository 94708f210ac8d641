"""A process that lives, which writes its spool as a client does; it is this process itself, unless one is named."""

import os

from tests.rooms.conftest import BORN
from vedette import kernel, wire
from vedette.model import Origin, Sample, Span
from vedette.spool import Spool


class Speaker:
    """A process that lives, which writes its spool as a client does."""

    def __init__(self, home, name, run="", pid=0):
        run = run or f"run-{name}"
        self.process = f"{run}/1/{name}"
        pid = pid or os.getpid()
        origin = Origin(name, kernel.host(), kernel.boot(), pid, kernel.start_ticks(pid), run, self.process, main=True)
        home.prepare()
        self.spool = Spool(home.spool, lambda: origin, 1 << 30, 0.5)
        self.say(Span(run, BORN, "created", kind="run", name=name))
        self.say(Span(self.process, BORN, "running", kind="process"))

    def say(self, fact):
        self.spool.facts.append(wire.frame(wire.encode(fact)))

    def log(self, step, **values):
        self.spool.samples.append(wire.frame(wire.encode(Sample(BORN + step, step, values))))

    def end(self):
        self.say(Span(self.process, BORN + 1, "done"))
        self.spool.close()
