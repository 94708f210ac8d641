"""/proc/PID/stat, parsed in one place: what the kernel tells of a process in one line, and which field means what.

The line is `PID (NAME) STATE PPID ...`. The name may contain spaces and brackets, so fields are counted from behind it.
They stay bytes: whoever reads hundreds of processes converts only the numbers that it needs.
"""

import os

STATE, PARENT, GROUP, SESSION, TERMINAL = 0, 1, 2, 3, 4  # TERMINAL: 0 if it has none
MINOR_FAULTS, WAITED_MINOR_FAULTS = 7, 8  # WAITED: of its children that have ended and were waited for
USER_TICKS, SYSTEM_TICKS, WAITED_USER_TICKS, WAITED_SYSTEM_TICKS = 11, 12, 13, 14
THREADS, STARTED_TICKS, MEMORY_PAGES = 17, 19, 21
WAIT_STATUS = 49  # the wait status of a process that has ended

MOST_BYTES = 4096


def read(pid: int, proc: str = "/proc") -> bytes:
    """Return the line of a process; raise FileNotFoundError or ProcessLookupError when there is none."""
    fd = os.open(f"{proc}/{pid}/stat", os.O_RDONLY)
    try:
        return os.read(fd, MOST_BYTES)
    finally:
        os.close(fd)


def fields_of(stat: bytes) -> list[bytes]:
    """Return the fields behind the name, in the order of the numbers above; none for an empty line."""
    return stat.rpartition(b")")[2].split()


def name_of(stat: bytes) -> str:
    """Return the name that the process has set itself, or the first 15 bytes of its program's."""
    return stat.rpartition(b")")[0].partition(b"(")[2].decode(errors="replace")


def has_ended(fields: list[bytes]) -> bool:
    """Tell whether a process is a zombie: it has ended, but its parent has not waited for it."""
    return fields[STATE] in b"ZX"
