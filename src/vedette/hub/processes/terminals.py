"""Tidies the terminal of a console that was killed: nobody else is left to erase the bars that it drew there."""

import os
import re
import stat
from typing import Any

_TERMINAL = re.compile(r"/dev/(?:pts/\d{1,9}|tty\d{1,3})")
_ERASE_BELOW = b"\x1b[J"  # the cursor rests above the bars; the shell may have written its prompt there already


def erase_below(path: Any) -> None:
    """Erase what stands below the cursor of a terminal of our own user; never wait for it, and never raise."""
    if not isinstance(path, str) or not _TERMINAL.fullmatch(path):
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # it was closed, which may be what killed the process
        return
    try:
        status = os.fstat(fd)
        if stat.S_ISCHR(status.st_mode) and status.st_uid == os.geteuid() and os.isatty(fd):
            os.write(fd, _ERASE_BELOW)
    except OSError:  # it takes nothing now: somebody pressed Ctrl-S
        pass
    finally:
        os.close(fd)
