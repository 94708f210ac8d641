"""What the hub tells its meter: whom to measure. The hub imports this much of it, and none of its sensors."""

from msgspec import Struct


class Measure(Struct, frozen=True, tag="measure"):
    """Asks that a process that speaks, and all that descend from it, be measured; every 0 s is never."""

    name: str  # of its origin
    pid: int
    started: int
    process: str  # its span
    interval_s: float
    upstream: str = ""
    open: list[str] = []  # spans of processes of the same try that another meter had opened, and not ended


class Leave(Struct, frozen=True, tag="leave"):
    """Asks that a process be measured no longer."""

    name: str


Wish = Measure | Leave
