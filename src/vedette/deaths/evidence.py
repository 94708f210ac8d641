"""What is known about an end: one struct, which several parties fill in, and which `verdict` judges."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from vedette.deaths.limits import CpuUse

_BROKEN_POOL = re.compile(r"(?:\w+\.)*(BrokenProcessPool|TerminatedWorkerError)\b")
# An idle worker of multiprocessing.Pool waits for a task, or begins or ends: all that it runs on top of `worker`, or of
# what has forked it, is of multiprocessing, or the queue of joblib's pool.
_IDLE_WORKER = re.compile(
    r'(?:  File "[^"]*/(?:multiprocessing/[^"]*", line \d+ in .*|joblib/pool\.py", line \d+ in get)\n)*'
    r'  File "[^"]*/multiprocessing/pool\.py", line \d+ in (?:worker|_repopulate_pool_static)\n'
)
# A worker whose function has returned runs finalizers. Ours calls `_leave`; after an exception it would be `_fail`. A
# finalizer of the user's counts as work.
_LEAVING_WORKER = re.compile(
    r'(?:  File ".*\n)*?'
    r'  File "[^"]*/vedette/client/run\.py", line \d+ in _leave\n'
    r'  File "[^"]*/vedette/client/exits\.py", line \d+ in _end_worker\n'
    r'|(?:  File "[^"]*/(?:multiprocessing/[^"]*|vedette/client/exits\.py)", line \d+ in .*\n)*?'
    r'  File "[^"]*/multiprocessing/util\.py", line \d+ in _exit_function\n'
)


class CrashStacks(NamedTuple):
    """What faulthandler wrote when a Python program died."""

    signal: int  # the signal that it was written for
    frame: str  # where the interrupted thread was, such as `train.py:12 (function)`
    text: str

    @property
    def is_idle_worker(self) -> bool:
        """Whether it was a worker of `multiprocessing.Pool` that had nothing to do."""
        return self._begins_with(_IDLE_WORKER)

    @property
    def is_leaving_worker(self) -> bool:
        """Whether it was a worker of `multiprocessing` whose work was done, and that was about to exit."""
        return self._begins_with(_LEAVING_WORKER)

    def _begins_with(self, frames: re.Pattern[str]) -> bool:
        """Tell whether the stack of the interrupted thread begins with such frames."""
        head = self.text.find("(most recent call first):\n", max(0, self.text.find("Current thread")))
        return head >= 0 and frames.match(self.text, self.text.index("\n", head) + 1) is not None


class Raised(NamedTuple):
    """An exception that ended a program."""

    text: str  # the last line of its traceback
    errno: int = 0  # the error number of an OSError
    path: str = ""  # the file that an OSError is about
    interrupt: bool = False  # it is a KeyboardInterrupt

    @property
    def is_broken_pool(self) -> bool:
        """Whether it says that a worker of a process pool was killed."""
        return bool(self.pool_error)

    @property
    def pool_error(self) -> str:
        """The name of the error by which a pool says that one of its workers was killed; else empty."""
        found = _BROKEN_POOL.match(self.text)
        return found[1] if found else ""


class Worker(NamedTuple):
    """A worker of a process pool that did not end well."""

    pid: int
    code: int  # its exit code; negative: the signal that killed it


class Shortage(NamedTuple):
    """Which memory ran out: that of a cgroup with a limit, or (`limit` is None) that of the machine."""

    limit: int | None
    peak: int | None


class Evidence(Struct, frozen=True, kw_only=True):
    """All that is known about one end. A field that nobody saw keeps its default."""

    start_error: str = ""  # why it could not be started
    status: int | None = None  # the wait status; None: nobody saw it
    said_code: int | None = None  # the exit code that the process itself reported
    left: bool = False  # it said that it leaves, so it was not killed before that
    rebooted: bool = False  # its machine has been started again since
    elsewhere: bool = False  # it was in another pid namespace, and only its locks told that it is gone
    exit_text: str = ""  # what it gave to sys.exit, or raised SystemExit with, in place of a code
    last_error: str = ""  # its last line on stderr
    last_line: str = ""  # its last line, if stdout and stderr go to the same place
    told: str = ""  # the signal whose handler in the program has ended it by sys.exit
    mishap: str = ""  # a thread or a task of it that died, while the program itself went on
    thrown: str = ""  # the C++ exception that aborted it
    rank: str = ""  # what MPI says of the rank that ended it all, such as `rank 1 aborted with code 3`
    worker: Worker | None = None  # the worker that broke its process pool
    cpu: CpuUse | None = None  # the CPU time that it may use, and has used; None: it has no limit
    own_limit: str = ""  # its command is `timeout`, with this limit
    sender_unseen: bool = False  # nobody was there who could see who sent it a signal
    launched: bool = False  # by `vedette run`, which sees who sends a signal to it, not who sends one to its command
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
