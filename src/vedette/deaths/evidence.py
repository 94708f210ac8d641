"""What is known of an end: one struct, filled by whoever saw something of it, and judged by `verdict`."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct


class Stacks(NamedTuple):
    """What faulthandler wrote when a Python program died."""

    signal: int  # that it was written for
    frame: str  # where the thread was that the signal hit, as `train.py:12 (function)`
    text: str


class Raised(NamedTuple):
    """An exception that ended a program."""

    text: str  # the last line of its traceback
    errno: int = 0  # the error number of an OSError
    path: str = ""  # the file that an OSError is about
    interrupt: bool = False  # it is a KeyboardInterrupt


class Shortage(NamedTuple):
    """What was short: the limit of a cgroup, or else (`limit` is None) the machine's memory."""

    limit: int | None
    peak: int | None


class Evidence(Struct, frozen=True, kw_only=True):
    """All that is known of one end. What nobody saw keeps its default."""

    start_error: str = ""  # the error that kept it from starting at all
    status: int | None = None  # the wait status; None: nobody saw it
    said_code: int | None = None  # the exit code that the process said it was leaving with
    watched: bool = True  # somebody looked when it ended
    rebooted: bool = False  # its machine has been started again since
    stacks: Stacks | None = None
    raised: Raised | None = None
    full_disk: str = ""  # the line among its last ones that tells of a full disk
    refused: int = 0  # the error number with which its output was refused
    sent: Mapping[int, str] = {}  # signals that were passed on to it, and who had sent them
    stopped_by: str | None = None  # who asked for its end by `vedette stop` (empty: unknown); None: nobody did
    time_limit: str = ""  # the limit that it ran into, in words
    killed_late: bool = False  # at that limit it did not stop, and had to be killed
    batch_job: str = ""  # the job of a batch system that it ran in, if the time of that job was over
    memory_watched: bool = False  # the memory counters of its cgroups are known from its beginning
    shortage: Shortage | None = None

    @property
    def signal(self) -> int:
        """The signal that killed it: by its status, or else by what its stacks were written for; 0: none did."""
        if self.status is not None:
            return self.status & 0x7F
        return self.stacks.signal if self.stacks is not None and self.said_code is None else 0

    @property
    def code(self) -> int | None:
        """The exit code: by its status, or else what it said itself; None: a signal killed it, or nobody knows."""
        if self.status is None:
            return self.said_code
        return None if self.status & 0x7F else self.status >> 8 & 0xFF
