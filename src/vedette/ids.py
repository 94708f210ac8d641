"""The ids of spans: how each form is made and read, so that no other module knows where the slashes are.

A run is `RUN`, a try of it `RUN/TRY`, a process of that `RUN/TRY/ORIGIN`, or `RUN/TRY/pid-PID-START` if only the meter
knows it; a progress bar is `RUN/p-...`, and a host in one boot is `host-NAME-BOOT`. What begins with an id and a slash
is below it. Nothing here does I/O; the user's process imports it.
"""

import os
import re
import time

FIRST_TRY = "1"
HOST = "host-"  # the id of every host begins so
BY_PID = "pid-"  # the last part of an id begins so if only the meter knows the process
MOST_LENGTH = 128  # characters of a whole id
NAME = r"\A[^\x00-\x1f\x7f]*\Z"  # no control characters: a database ends a text at NUL, a terminal obeys others

_MOST_OF_TRY = 64  # characters of a try's own part
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH_S = 1_704_067_200  # 2024-01-01: six characters of time are enough until 2058


def new_id(random_chars: int = 8) -> str:
    """Make an id that sorts by time: six characters for the second, the rest random.

    With eight random characters, a thousand runs that begin in the same second collide once in two million times.
    """
    number = max(0, int(time.time()) - _EPOCH_S)
    chars = []
    for _ in range(6):
        number, digit = divmod(number, 32)
        chars.append(_ALPHABET[digit])
    return "".join(reversed(chars)) + "".join(_ALPHABET[b & 31] for b in os.urandom(random_chars))


def from_digest(digest: bytes) -> str:
    """Make the id of a run that several processes begin together; it does not sort by time."""
    return "".join(_ALPHABET[byte & 31] for byte in digest[:14])


def looks_like_run(text: str) -> bool:
    """Tell whether a text could be the id of a run, in the present length or the earlier, shorter one."""
    return len(text) in (10, 14) and all(char in _ALPHABET for char in text)


def is_id(text: str) -> bool:
    """Tell whether a text could be the id of any span."""
    return 0 < len(text) <= MOST_LENGTH and re.search(NAME, text) is not None


def can_name_try(text: str) -> bool:
    """Tell whether a text can be a try's own part of its id."""
    return is_id(text) and len(text) <= _MOST_OF_TRY and "/" not in text


def of_try(run: str, attempt: str) -> str:
    """Return the id of a try; `attempt` is its own part."""
    return f"{run}/{attempt}"


def of_process(try_id: str, origin: str) -> str:
    """Return the id of a process that logs, which is named after its origin."""
    return f"{try_id}/{origin}"


def of_process_by_pid(try_id: str, pid: int, started: int) -> str:
    """Return the id of a process that only the meter knows; `started`: its start time in clock ticks."""
    return f"{try_id}/{BY_PID}{pid}-{started}"


def of_watched(pid: int) -> str:
    """Return what the samples of a monitor name the process that it watches, which need not belong to a run."""
    return f"{BY_PID}{pid}"


def of_new_bar(run: str) -> str:
    """Make the id of a progress bar."""
    return f"{run}/p-{new_id(8)}"


def of_host(name: str, boot: str) -> str:
    """Return the id of a host in one boot."""
    return f"{HOST}{name[:80]}-{boot[:8]}"


def is_host(span: str) -> bool:
    """Tell whether this is the id of a host."""
    return span.startswith(HOST)


def is_by_pid(span: str) -> bool:
    """Tell whether a process logs nothing itself: only the meter knows it, so it is named after its pid."""
    return span.rpartition("/")[2].startswith(BY_PID)


def pid_and_start(span: str) -> tuple[int, int] | None:
    """Return the pid and start time that a meter has named a process after; None for an id of another form."""
    word, *numbers = span.rpartition("/")[2].split("-")
    if f"{word}-" != BY_PID or len(numbers) != 2 or not all(each.isascii() and each.isdigit() for each in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


def run_and_try(span: str) -> tuple[str, str]:
    """Return the run and the try's own part of the id of a process or try; the second is empty if there is none."""
    run, _, rest = span.partition("/")
    return run, rest.partition("/")[0]


def run_of(span: str) -> str:
    """Return the id of the run that this belongs to; a run's or host's own id is returned as it is."""
    return span.partition("/")[0]


def origin_of(process: str) -> str:
    """Return the origin that a process is named after."""
    return process.rpartition("/")[2]


def enclosing(span: str) -> str:
    """Return the id one level up: the try of a process, the run of a try or bar; empty if this is the top."""
    return span.rpartition("/")[0]


def above(span: str) -> list[str]:
    """Return a span's id and the ids above it, the nearest first: `a/b/c`, `a/b`, `a`."""
    found = []
    while span:
        found.append(span)
        span = span.rpartition("/")[0]
    return found


def is_top(span: str) -> bool:
    """Tell whether no id is above this one, as for a run or a host."""
    return "/" not in span


def is_within(span: str, outer: str) -> bool:
    """Tell whether a span is another one, or below it."""
    return span == outer or span.startswith(outer + "/")


def prefix_below(span: str) -> str:
    """Return what exactly the ids below a span begin with."""
    return span + "/"


def range_below(span: str) -> tuple[str, str]:
    """Return two texts between which, in order of bytes, exactly the ids below a span are."""
    return span + "/", span + "0"  # '0' follows '/'
