"""What dying programs write, read back; cases/tracebacks holds outputs, each below the cause that it should give."""

import errno
import signal
from pathlib import Path

import pytest

from vedette.deaths import last_words
from vedette.deaths.evidence import CrashStacks, Raised

CASES = sorted((Path(__file__).parents[1] / "cases" / "tracebacks").glob("*.txt"))
STACKS = """Fatal Python error: Segmentation fault

Thread 0x00007f (most recent call first):
  File "/usr/lib/threading.py", line 355 in wait

Current thread 0x00007e (most recent call first):
  File "/x/train.py", line 12 in step
  File "/x/train.py", line 20 in <module>
"""
DUMP = STACKS.partition("\n\n")[2]  # as SIGTERM has it written: nothing was fatal


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_traceback_at_the_end_is_the_cause(path):
    """The name of an exception is found behind the last traceback, if that is the end of the output."""
    cause, _, output = path.read_text().partition("\n--\n")
    found = last_words.raised(output.splitlines())
    assert (found.text if found else "") == cause


@pytest.mark.parametrize(
    ("line", "number", "path"),
    [
        ("OSError: [Errno 28] No space left on device: '/x/model'", errno.ENOSPC, "/x/model"),
        ("OSError: [Errno 28] No space left on device: '/x/a' -> '/x/b'", errno.ENOSPC, "/x/a"),
        ("RuntimeError: No space left on device", errno.ENOSPC, ""),
        ("OSError: [Errno 122] Disk quota exceeded: '/x/model'", errno.EDQUOT, "/x/model"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/x/model'", 0, ""),
    ],
)
def test_an_exception_of_a_full_disk(line, number, path):
    """A traceback of a full disk, or of a quota that is used up, has its error number and the file."""
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', line]
    assert last_words.raised(lines) == Raised(line, number, path)


def test_a_line_of_a_full_disk():
    """Among the last five lines the newest that tells of a full disk is found; one that is older is not."""
    assert last_words.full_disk(["tar: No space left on device", "a", "cp: Disk quota exceeded ", "b"]) == (
        "cp: Disk quota exceeded"
    )
    assert last_words.full_disk(["tar: No space left on device", *"abcde"]) == ""
    assert last_words.full_disk([]) == ""


def test_where_it_crashed():
    """The frame is the topmost one of the thread that crashed, not of another."""
    found = last_words.crash(["before", *STACKS.splitlines()])
    assert found == CrashStacks(signal.SIGSEGV, "train.py:12 (step)", STACKS.rstrip("\n"))
    assert last_words.crash(["before", *DUMP.splitlines()]) is None
    assert last_words.crash([]) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (STACKS, signal.SIGSEGV),
        (STACKS.replace("Segmentation fault", "Floating-point exception"), signal.SIGFPE),
        (STACKS.replace("Segmentation fault", "none_dealloc: deallocating None"), signal.SIGABRT),
        (DUMP, signal.SIGTERM),
    ],
)
def test_what_a_file_of_stacks_was_written_for(text, number):
    """The first line tells a crash; Python aborts for an error that it finds itself; a plain dump is SIGTERM's."""
    assert last_words.stacks(text) == CrashStacks(number, "train.py:12 (step)", text)


def test_a_crash_after_a_dump():
    """Of a process that was told to end, and crashed instead, the crash counts and all of the file is kept."""
    text = DUMP.replace("train.py", "other.py") + "\n" + STACKS
    assert last_words.stacks(text) == CrashStacks(signal.SIGSEGV, "train.py:12 (step)", text)
    assert last_words.stacks("") is None


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("terminate called after throwing an instance of 'std::runtime_error'\n  what():  no tensor",
         "std::runtime_error: no tensor"),
        ("terminate called after throwing an instance of 'int'\nAborted", "int"),
        ("terminate called without an active exception", ""),
        ("it said: terminate called after throwing an instance of 'x'", ""),
    ],
)  # fmt: skip
def test_the_exception_that_aborted_a_program_in_cpp(output, said):
    """What libstdc++ prints of an exception that nobody caught is read: its type, and its what()."""
    assert last_words.thrown(output.splitlines()) == said


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n  Proc: [[1,1],1]\n  Errorcode: 7\n\nNOTE:",
         "rank 1 aborted with code 7 (MPI_Abort)"),
        ("MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 7.\n\nNOTE: invoking",
         "rank 1 aborted with code 7 (MPI_Abort)"),
        ("application called MPI_Abort(MPI_COMM_WORLD, 3) - process 2", "rank 2 aborted with code 3 (MPI_Abort)"),
        ("Abort(3) on node 2 (rank 2 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 2",
         "rank 2 aborted with code 3 (MPI_Abort)"),
        ("prterun noticed that process rank 1 with PID 0 on node n1 exited on\nsignal 9 (Killed).",
         "rank 1 was killed by SIGKILL"),
        ("mpirun noticed that process rank 0 with PID 7 on node n1 exited on signal 99.",
         "rank 0 was killed by signal 99"),
        ("nothing of that kind", ""),
    ],
)  # fmt: skip
def test_the_rank_that_ended_all(output, said):
    """What Open MPI and MPICH print of the rank that aborted or was killed is read, wrapped as they print it."""
    assert last_words.failed_rank(output.splitlines()) == said
