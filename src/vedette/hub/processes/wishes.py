"""The messages from the hub to its meter: which processes to measure. The hub imports these, but not the sensors."""

from msgspec import Struct


class Measure(Struct, frozen=True, tag="measure"):
    """Asks the meter to measure a process that has a spool, and all its descendants; an interval of 0 is never."""

    name: str  # of its origin
    pid: int
    started: int
    process: str  # its span
    interval_s: float
    upstream: str = ""
    open: list[str] = []  # spans of processes of the same try that an earlier meter has opened and not ended


class Leave(Struct, frozen=True, tag="leave"):
    """Asks the meter to stop measuring a process."""

    name: str


class Spoke(Struct, frozen=True, tag="spoke"):
    """A process has a spool, but need not be measured: it has ended already."""

    pid: int
    started: int
    process: str
    upstream: str


Wish = Measure | Leave | Spoke
