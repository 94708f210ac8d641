"""What is known about an end: one struct, which several parties fill in, and which `verdict` judges."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct


class CrashStacks(NamedTuple):
    """What faulthandler wrote when a Python program died."""

    signal: int  # the signal that it was written for
    frame: str  # where the interrupted thread was, such as `train.py:12 (function)`
    text: str


class Raised(NamedTuple):
    """An exception that ended a program."""

    text: str  # the last line of its traceback
    errno: int = 0  # the error number of an OSError
    path: str = ""  # the file that an OSError is about
    interrupt: bool = False  # it is a KeyboardInterrupt


class Shortage(NamedTuple):
    """Which memory ran out: that of a cgroup with a limit, or (`limit` is None) that of the machine."""

    limit: int | None
    peak: int | None


class Evidence(Struct, frozen=True, kw_only=True):
    """All that is known about one end. A field that nobody saw keeps its default."""

    start_error: str = ""  # why it could not be started
    status: int | None = None  # the wait status; None: nobody saw it
    said_code: int | None = None  # the exit code that the process itself reported
    watched: bool = True  # somebody looked when it ended
    rebooted: bool = False  # its machine has been started again since
    stacks: CrashStacks | None = None
    raised: Raised | None = None
    full_disk: str = ""  # the line among its last ones that tells of a full disk
    output_errno: int = 0  # the errno of a failed write of its output
    sent: Mapping[int, str] = {}  # by signal that was passed on to it: who sent it
    stopped_by: str | None = None  # who asked for its end by `vedette stop` (empty: unknown); None: nobody did
    time_limit: str = ""  # the time limit that it reached, in words
    killed_late: bool = False  # it did not stop at that limit, and was killed
    batch_job: str = ""  # its batch job, if the time of that job was over
    memory_watched: bool = False  # the memory counters of its cgroups were read at its begin
    shortage: Shortage | None = None

    @property
    def signal(self) -> int:
        """The signal that killed it: from its status, or else from its stacks; 0 if no signal did."""
        if self.status is not None:
            return self.status & 0x7F
        return self.stacks.signal if self.stacks is not None and self.said_code is None else 0

    @property
    def code(self) -> int | None:
        """The exit code: from its status, or else as it reported; None if a signal killed it or nobody knows."""
        if self.status is None:
            return self.said_code
        return None if self.status & 0x7F else self.status >> 8 & 0xFF
