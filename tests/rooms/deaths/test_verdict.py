"""The one judgement on an end: a table of what is known, and of what is then said."""

import signal
import subprocess
import sys

import pytest

from vedette import kernel
from vedette.deaths.evidence import CrashStacks, Evidence, Raised, Shortage, Worker
from vedette.deaths.limits import CpuUse
from vedette.deaths.memory import Baseline, Level
from vedette.deaths.process_watch import Watch
from vedette.deaths.verdict import RULES, EndKind, Sure, verdict
from vedette.launch.ending import Ending, evidence, sender
from vedette.model import Origin

SEGV = CrashStacks(signal.SIGSEGV, "train.py:12 (step)", "...")
DUMP = CrashStacks(signal.SIGTERM, "train.py:12 (step)", "...")
LIMIT = Shortage(512_000_000, 512_000_000)
FULL = Raised("OSError: [Errno 28] No space left on device: '/x/model'", 28, "/x/model")

POOL = Raised("concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly")
HEAD = "Current thread 0x1 (most recent call first):\n"
WAITS = '  File "/usr/lib/python3.11/multiprocessing/queues.py", line 365 in get\n'
WORKS = '  File "/x/train.py", line 12 in step\n'
IN_POOL = '  File "/usr/lib/python3.11/multiprocessing/pool.py", line 114 in worker\n'
IDLE = CrashStacks(signal.SIGTERM, "queues.py:365 (get)", HEAD + WAITS + IN_POOL)
BY_JOBLIB = CrashStacks(
    signal.SIGTERM, "pool.py:147 (get)", HEAD + '  File "/x/joblib/pool.py", line 147 in get\n' + IN_POOL
)
BOOTS = CrashStacks(
    signal.SIGTERM, "", HEAD + '  File "/usr/lib/python3.11/multiprocessing/process.py", line 317 in _bootstrap\n'
    + IN_POOL.replace("worker", "_repopulate_pool_static")
)  # fmt: skip
CLOSES = '  File "/x/vedette/spool.py", line 152 in close\n'
LEAVES = '  File "/x/vedette/client/run.py", line 278 in _leave\n'
FAILS = LEAVES.replace("_leave", "_fail")
AT_EXIT = (
    '  File "/x/vedette/client/exits.py", line 127 in _end_worker\n'
    '  File "/usr/lib/python3.11/multiprocessing/util.py", line 300 in _run_finalizers\n'
    '  File "/usr/lib/python3.11/multiprocessing/util.py", line 360 in _exit_function\n'
)
LEAVING, FAILING, SOON_LEAVING, STILL_WORKING = (
    CrashStacks(signal.SIGTERM, "", HEAD + top + AT_EXIT) for top in (CLOSES + LEAVES, CLOSES + FAILS, "", WORKS)
)
BESIDE = CrashStacks(  # another thread's stack is no matter
    signal.SIGTERM, "train.py:12 (step)", f"Thread 0x2 (most recent call first):\n{LEAVES}{AT_EXIT}\n{HEAD}{WORKS}"
)
BUSY = CrashStacks(signal.SIGTERM, "train.py:12 (step)", HEAD + WORKS + IN_POOL)

TABLE = [
    ({"start_error": "Exec format error"},
     (EndKind.START, "failed", "it could not be started: Exec format error", Sure.SEEN)),
    # its own exit
    ({"status": 0}, (EndKind.DONE, "done", "", Sure.SEEN)),
    ({"status": 0, "mishap": "thread a died: E"}, (EndKind.DONE, "done", "thread a died: E", Sure.SEEN)),
    ({"status": 0, "sent": {10: "ada"}}, (EndKind.DONE, "done", "", Sure.SEEN)),
    ({"status": 0, "sent": {15: "ada"}},
     (EndKind.SIGNAL, "cancelled", "told to stop by SIGTERM, sent by ada, and exited with code 0", Sure.SEEN)),
    ({"status": 0, "stopped_by": "ada"},
     (EndKind.STOPPED, "cancelled", "told to stop by ada, and exited with code 0", Sure.SEEN)),
    ({"status": 0, "stopped_by": ""},
     (EndKind.STOPPED, "cancelled", "told to stop, and exited with code 0", Sure.SEEN)),
    ({"status": 1 << 8, "exit_text": "no such dataset"},
     (EndKind.EXIT, "failed", "exit code 1: no such dataset", Sure.SEEN)),
    ({"status": 2 << 8, "exit_text": "no such dataset"}, (EndKind.EXIT, "failed", "exit code 2", Sure.SEEN)),
    ({"status": 0, "told": "SIGTERM"},
     (EndKind.SIGNAL, "cancelled", "told to stop by SIGTERM (who sent it was not seen), and exited with code 0",
      Sure.SEEN)),
    ({"status": 3 << 8, "told": "SIGTERM"}, (EndKind.EXIT, "failed", "exit code 3", Sure.SEEN)),
    ({"status": 1 << 8, "last_line": "no such dataset"},
     (EndKind.EXIT, "failed", "exit code 1; its last line: no such dataset", Sure.SEEN)),
    ({"status": 1 << 8, "last_error": "no such dataset"},
     (EndKind.EXIT, "failed", "exit code 1; its last line on stderr: no such dataset", Sure.SEEN)),
    ({"status": 124 << 8},
     (EndKind.EXIT, "failed", "exit code 124: probably the time limit of `timeout` was over", Sure.LIKELY)),
    ({"status": 124 << 8, "own_limit": "5s"}, (EndKind.TIME, "failed", "time limit of `timeout 5s`", Sure.LIKELY)),
    ({"status": 9, "own_limit": "5s"},
     (EndKind.TIME, "failed", "time limit of `timeout 5s`, killed by SIGKILL", Sure.LIKELY)),
    ({"status": 3 << 8, "own_limit": "5s"}, (EndKind.EXIT, "failed", "exit code 3", Sure.SEEN)),
    # what MPI, C++ and process pools say
    ({"status": 3 << 8, "rank": "rank 1 aborted with code 3 (MPI_Abort)"},
     (EndKind.EXIT, "failed", "exit code 3: rank 1 aborted with code 3 (MPI_Abort)", Sure.LIKELY)),
    ({"status": 1 << 8, "rank": "rank 1 failed", "raised": Raised("ValueError: bad")},
     (EndKind.EXIT, "failed", "exit code 1: rank 1 failed: ValueError: bad", Sure.LIKELY)),
    ({"status": 6, "thrown": "std::bad: x"},
     (EndKind.CRASH, "failed", "killed by SIGABRT: std::bad: x", Sure.SEEN)),
    ({"status": 134 << 8, "thrown": "std::bad: x"},
     (EndKind.CRASH, "failed", "exit code 134: probably SIGABRT killed what it had started: std::bad: x", Sure.LIKELY)),
    ({"raised": POOL, "worker": Worker(4711, -9), "memory_watched": True, "shortage": LIMIT},
     (EndKind.MEMORY, "failed", ("worker 4711 of the process pool was killed by SIGKILL: the memory limit of its cgroup"
      " (512 MB) was hit; BrokenProcessPool followed"), Sure.LIKELY)),
    ({"raised": POOL, "worker": Worker(4711, -9), "memory_watched": True},
     (EndKind.EXCEPTION, "failed", ("worker 4711 of the process pool was killed by SIGKILL: kill -9 or a scheduler; the"
      " memory limit was not reached; BrokenProcessPool followed"), Sure.LIKELY)),
    ({"raised": POOL, "worker": Worker(4711, 3)},
     (EndKind.EXCEPTION, "failed", "worker 4711 of the process pool exited with code 3; BrokenProcessPool followed",
      Sure.LIKELY)),
    ({"status": 1 << 8, "raised": POOL, "shortage": LIMIT},
     (EndKind.MEMORY, "failed", ("a worker of the process pool was killed: the memory limit of its cgroup (512 MB) was"
      " hit; BrokenProcessPool followed"), Sure.LIKELY)),
    ({"status": 15, "stacks": IDLE},
     (EndKind.DONE, "done", "its pool ended it, as it had nothing more to do", Sure.LIKELY)),
    ({"status": 15, "stacks": BY_JOBLIB},
     (EndKind.DONE, "done", "its pool ended it, as it had nothing more to do", Sure.LIKELY)),
    ({"status": 15, "stacks": BOOTS},
     (EndKind.DONE, "done", "its pool ended it, as it had nothing more to do", Sure.LIKELY)),
    ({"status": 15, "stacks": LEAVING},
     (EndKind.DONE, "done", "it was ended by SIGTERM when its work was done, as it left", Sure.LIKELY)),
    ({"status": 15, "stacks": SOON_LEAVING},
     (EndKind.DONE, "done", "it was ended by SIGTERM when its work was done, as it left", Sure.LIKELY)),
    ({"status": 15, "left": True, "said_code": 0},
     (EndKind.DONE, "done", "it was ended by SIGTERM when its work was done, as it left", Sure.LIKELY)),
    ({"status": 15, "left": True, "said_code": 3}, (EndKind.SIGNAL, "cancelled", "killed by SIGTERM", Sure.SEEN)),
    ({"status": 15, "left": True}, (EndKind.SIGNAL, "cancelled", "killed by SIGTERM", Sure.SEEN)),
    ({"status": 15, "stacks": STILL_WORKING}, (EndKind.SIGNAL, "cancelled", "killed by SIGTERM", Sure.SEEN)),
    ({"status": 15, "stacks": FAILING}, (EndKind.SIGNAL, "cancelled", "killed by SIGTERM", Sure.SEEN)),
    ({"status": 15, "stacks": BESIDE}, (EndKind.SIGNAL, "cancelled", "killed by SIGTERM", Sure.SEEN)),
    ({"status": 15, "stacks": BUSY}, (EndKind.SIGNAL, "cancelled", "killed by SIGTERM", Sure.SEEN)),
    ({"status": 15, "launched": True},
     (EndKind.SIGNAL, "cancelled",
      "killed by SIGTERM: who sent it was not seen, as it did not come through `vedette run`", Sure.SEEN)),
    ({"status": 15, "launched": True, "sent": {15: "ada"}},
     (EndKind.SIGNAL, "cancelled", "killed by SIGTERM: sent by ada", Sure.SEEN)),
    ({"status": 15, "stacks": DUMP, "sender_unseen": True},
     (EndKind.SIGNAL, "cancelled", "killed by SIGTERM: who sent it was not seen; `vedette run` sees it", Sure.SEEN)),
    ({"status": 3 << 8}, (EndKind.EXIT, "failed", "exit code 3", Sure.SEEN)),
    ({"status": 126 << 8},
     (EndKind.EXIT, "failed", "exit code 126: what it should run cannot be executed", Sure.SEEN)),
    ({"status": 127 << 8}, (EndKind.EXIT, "failed", "exit code 127: a command was not found", Sure.SEEN)),
    ({"status": 137 << 8},
     (EndKind.EXIT, "failed", "exit code 137: probably SIGKILL killed what it had started", Sure.LIKELY)),
    ({"status": 141 << 8}, (EndKind.EXIT, "failed", "exit code 141", Sure.SEEN)),
    ({"status": 143 << 8},
     (EndKind.EXIT, "cancelled", "exit code 143: probably SIGTERM killed what it had started", Sure.LIKELY)),
    ({"status": 143 << 8, "stacks": DUMP},
     (EndKind.EXIT, "cancelled", "exit code 143: probably SIGTERM killed what it had started", Sure.LIKELY)),
    ({"status": 139 << 8, "stacks": SEGV},
     (EndKind.CRASH, "failed", "exit code 139: probably SIGSEGV killed what it had started in train.py:12 (step)",
      Sure.LIKELY)),
    ({"status": 1 << 8, "sent": {15: "ada"}},
     (EndKind.SIGNAL, "cancelled", "exit code 1 after SIGTERM, sent by ada", Sure.SEEN)),
    ({"status": 1 << 8, "sent": {2: "bob", 15: "ada"}},
     (EndKind.SIGNAL, "cancelled", "exit code 1 after SIGTERM, sent by ada", Sure.SEEN)),
    ({"status": 1 << 8, "sent": {10: "ada"}}, (EndKind.EXIT, "failed", "exit code 1", Sure.SEEN)),
    # nobody saw the status
    ({"said_code": 0}, (EndKind.DONE, "done", "", Sure.LIKELY)),
    ({"said_code": 3}, (EndKind.EXIT, "failed", "exit code 3", Sure.LIKELY)),
    ({"said_code": 0, "stacks": DUMP}, (EndKind.DONE, "done", "", Sure.LIKELY)),
    ({"stacks": SEGV}, (EndKind.CRASH, "failed", "killed by SIGSEGV in train.py:12 (step)", Sure.LIKELY)),
    ({"stacks": DUMP}, (EndKind.SIGNAL, "cancelled", "killed by SIGTERM", Sure.LIKELY)),
    ({"stacks": DUMP, "stopped_by": "ada"},
     (EndKind.STOPPED, "cancelled", "killed by SIGTERM: told to stop by ada", Sure.LIKELY)),
    ({"elsewhere": True},
     (EndKind.UNKNOWN, "ended",
      "it ended without a word where nobody here sees how: in another container, or on another machine", Sure.UNKNOWN)),
    ({"elsewhere": True, "left": True},
     (EndKind.UNKNOWN, "ended", "its exit code was not seen", Sure.UNKNOWN)),
    ({"rebooted": True},
     (EndKind.REBOOT, "failed", "the machine went down, and was started again since", Sure.LIKELY)),
    ({"left": True}, (EndKind.UNKNOWN, "ended", "its exit code was not seen", Sure.UNKNOWN)),
    ({}, (EndKind.UNKNOWN, "ended", "it ended without a word, and nobody saw how", Sure.UNKNOWN)),
    # signals
    ({"status": 2}, (EndKind.SIGNAL, "cancelled", "killed by SIGINT: Ctrl-C", Sure.SEEN)),
    ({"status": 13}, (EndKind.SIGNAL, "cancelled", "killed by SIGPIPE: nobody read its output any more", Sure.SEEN)),
    ({"status": 15}, (EndKind.SIGNAL, "cancelled", "killed by SIGTERM", Sure.SEEN)),
    ({"status": 15, "sent": {15: "ada"}}, (EndKind.SIGNAL, "cancelled", "killed by SIGTERM: sent by ada", Sure.SEEN)),
    ({"status": 15, "stopped_by": "ada"},
     (EndKind.STOPPED, "cancelled", "killed by SIGTERM: told to stop by ada", Sure.SEEN)),
    ({"status": 15, "stopped_by": ""}, (EndKind.STOPPED, "cancelled", "killed by SIGTERM: told to stop", Sure.SEEN)),
    ({"status": 24},
     (EndKind.SIGNAL, "failed", "killed by SIGXCPU: its limit of CPU time (ulimit -t) was reached", Sure.SEEN)),
    ({"status": 25},
     (EndKind.SIGNAL, "failed", "killed by SIGXFSZ: its limit of a file's size (ulimit -f) was reached", Sure.SEEN)),
    ({"status": 40}, (EndKind.SIGNAL, "failed", "killed by signal 40", Sure.SEEN)),
    # SIGKILL
    ({"status": 9},
     (EndKind.KILLED, "failed", "killed by SIGKILL: kill -9, a scheduler, or the kernel because memory ran out",
      Sure.LIKELY)),
    ({"status": 9, "memory_watched": True},
     (EndKind.KILLED, "failed", "killed by SIGKILL: kill -9 or a scheduler; the memory limit was not reached",
      Sure.LIKELY)),
    ({"status": 9, "memory_watched": True, "cpu": CpuUse(60, 59.5)},
     (EndKind.TIME, "failed", "killed by SIGKILL: its limit of CPU time (ulimit -t 60) was reached", Sure.LIKELY)),
    ({"status": 9, "memory_watched": True, "cpu": CpuUse(60, 50.0)},
     (EndKind.KILLED, "failed", "killed by SIGKILL: kill -9 or a scheduler; the memory limit was not reached",
      Sure.LIKELY)),
    ({"status": 9, "memory_watched": True, "cpu": CpuUse(60, None)},
     (EndKind.KILLED, "failed", ("killed by SIGKILL: kill -9, a scheduler, or its limit of CPU time (ulimit -t 60); the"
      " memory limit was not reached"), Sure.LIKELY)),
    ({"status": 9, "memory_watched": True, "stopped_by": "ada"},
     (EndKind.STOPPED, "cancelled", "told to stop by ada, and killed by SIGKILL as it did not", Sure.SEEN)),
    ({"status": 9, "memory_watched": True, "shortage": LIMIT},
     (EndKind.MEMORY, "failed", "killed by SIGKILL: the memory limit of its cgroup (512 MB) was hit", Sure.LIKELY)),
    ({"status": 9, "shortage": Shortage(64_000_000_000, 63_000_000_000)},
     (EndKind.MEMORY, "failed", "killed by SIGKILL: the memory limit of its cgroup (64 GB, peak 63 GB) was hit",
      Sure.LIKELY)),
    ({"status": 9, "shortage": Shortage(None, None)},
     (EndKind.MEMORY, "failed", "killed by SIGKILL: the machine ran out of memory", Sure.LIKELY)),
    ({"status": 137 << 8, "shortage": LIMIT},
     (EndKind.MEMORY, "failed", "exit code 137: the memory limit of its cgroup (512 MB) was hit", Sure.LIKELY)),
    ({"status": 3 << 8, "shortage": LIMIT}, (EndKind.EXIT, "failed", "exit code 3", Sure.SEEN)),
    # crashes
    ({"status": 11, "stacks": SEGV}, (EndKind.CRASH, "failed", "killed by SIGSEGV in train.py:12 (step)", Sure.SEEN)),
    ({"status": 11 | 0x80}, (EndKind.CRASH, "failed", "killed by SIGSEGV", Sure.SEEN)),
    ({"status": 6, "stacks": SEGV}, (EndKind.CRASH, "failed", "killed by SIGABRT", Sure.SEEN)),
    ({"status": 11, "stacks": DUMP}, (EndKind.CRASH, "failed", "killed by SIGSEGV", Sure.SEEN)),
    # exceptions, and a full disk
    ({"raised": Raised("ValueError: bad")}, (EndKind.EXCEPTION, "failed", "ValueError: bad", Sure.SEEN)),
    ({"status": 1 << 8, "raised": Raised("ValueError: bad")},
     (EndKind.EXCEPTION, "failed", "ValueError: bad", Sure.SEEN)),
    ({"status": 1 << 8, "raised": Raised("ValueError: bad"), "full_disk": "tar: No space left on device"},
     (EndKind.EXCEPTION, "failed", "ValueError: bad", Sure.SEEN)),
    ({"status": 0, "raised": Raised("ValueError: bad")}, (EndKind.DONE, "done", "", Sure.SEEN)),
    ({"raised": Raised("KeyboardInterrupt", interrupt=True)},
     (EndKind.INTERRUPT, "cancelled", "KeyboardInterrupt (Ctrl-C)", Sure.SEEN)),
    ({"raised": FULL}, (EndKind.DISK, "failed", f"disk full (/x/model): {FULL.text}", Sure.SEEN)),
    ({"status": 1 << 8, "raised": FULL._replace(path="", errno=122)},
     (EndKind.DISK, "failed", f"disk full: {FULL.text}", Sure.SEEN)),
    ({"status": 1 << 8, "full_disk": "tar: x: No space left on device"},
     (EndKind.DISK, "failed", "exit code 1: disk full: tar: x: No space left on device", Sure.LIKELY)),
    ({"status": 13, "output_errno": 28},
     (EndKind.DISK, "failed", "disk full: its output could not be written any more", Sure.SEEN)),
    ({"status": 141 << 8, "output_errno": 122},
     (EndKind.DISK, "failed", "exit code 141: disk full: its output could not be written any more", Sure.SEEN)),
    ({"status": 13, "output_errno": 32},
     (EndKind.SIGNAL, "cancelled", "killed by SIGPIPE: nobody read its output any more", Sure.SEEN)),
    # time limits
    ({"status": 15, "time_limit": "1h"}, (EndKind.TIME, "failed", "time limit of 1h", Sure.SEEN)),
    ({"status": 0, "time_limit": "1h"}, (EndKind.TIME, "failed", "time limit of 1h", Sure.SEEN)),
    ({"status": 9, "time_limit": "1h", "killed_late": True},
     (EndKind.TIME, "failed", "time limit of 1h, and killed by SIGKILL as it did not stop", Sure.SEEN)),
    ({"status": 15, "sent": {15: "ada"}, "batch_job": "Slurm job 7"},
     (EndKind.TIME, "failed", "killed by SIGTERM: the time limit of Slurm job 7", Sure.LIKELY)),
    ({"status": 3 << 8, "batch_job": "Slurm job 7"}, (EndKind.EXIT, "failed", "exit code 3", Sure.SEEN)),
]  # fmt: skip


@pytest.mark.parametrize(("known", "told"), TABLE, ids=lambda value: "-".join(value) if isinstance(value, dict) else "")
def test_what_is_known_gives_the_verdict(known, told):
    """From all that is known of an end comes one kind, state and cause, and how sure that is."""
    assert verdict(Evidence(**known)) == told


def test_the_table_has_every_rule():
    """Each rule has the say in at least one row of the table."""
    used = {next((rule for rule in RULES if rule(Evidence(**known))), None) for known, _ in TABLE}
    assert used == {*RULES, None}


def test_every_status_has_a_verdict():
    """Whatever status the kernel reports, a state that a process can end in is told; only success has no cause."""
    for status in [*range(128), *(number | 0x80 for number in range(1, 128)), *(code << 8 for code in range(256))]:
        found = verdict(Evidence(status=status))
        assert found.state in ("done", "failed", "cancelled")
        assert (found.kind == EndKind.DONE) == (found.cause == "") == (status == 0)


def test_a_machine_that_went_down():
    """After a reboot of its host a process is dead, and that is the cause."""
    origin = Origin("o", kernel.host(), "another-boot/pid:[1]", 7, 1, "r", "r/1/o")
    death = Watch(origin).death
    assert verdict(Evidence(status=death.status, rebooted=death.rebooted)).kind == EndKind.REBOOT


def ending(status=0, *, levels=(), **more):
    return Ending(status, Baseline(1, levels, 0.0), **{"sent": {}, "timed_out": False, "killed": False, **more})


def test_what_a_launcher_gathers():
    """Status, signals, time limit, refused output and the last lines of a command are its evidence."""
    found = evidence(
        ending(15, sent={15: "ada"}, timed_out=True, killed=True, output_errno=28,
               levels=(Level("/nowhere", 0, 0, None),)),
        ["Traceback (most recent call last):", "  ...", "ValueError: bad", "tar: No space left on device"], "1h", {},
    )  # fmt: skip
    assert found == Evidence(
        status=15, launched=True, raised=Raised("ValueError: bad"), full_disk="tar: No space left on device",
        output_errno=28, sent={15: "ada"}, time_limit="1h", killed_late=True, memory_watched=True,
    )  # fmt: skip
    assert evidence(ending(), [], "1h", {}) == Evidence(status=0, launched=True)


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({"SLURM_JOB_ID": "4711", "SLURM_JOB_END_TIME": "5"}, "Slurm job 4711"),
        ({"SLURM_JOB_END_TIME": "5"}, "Slurm job"),
        ({"SLURM_JOB_ID": "4711", "SLURM_JOB_END_TIME": str(1 << 40)}, ""),
        ({"SLURM_JOB_ID": "4711", "SLURM_JOB_END_TIME": "soon"}, ""),
    ],
)
def test_the_time_of_a_slurm_job(environ, job):
    """A launcher knows the Slurm job that it runs in, once the time of that job is over."""
    assert evidence(ending(15), [], "", environ).batch_job == job


def test_who_sent_a_signal():
    """A sender is told by its command, or, once it is gone, by its pid; what a hub sends is `vedette stop`."""
    code = "import time; print(flush=True); time.sleep(60)"
    for words, named in (([], f"{sys.executable} -c import"), (["vedette", "hub"], "`vedette stop`")):
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE)
        try:
            process.stdout.readline()
            assert sender(process.pid, 0).startswith(named[:60])
        finally:
            process.kill()
            process.communicate()
    assert sender(process.pid, 0) == f"process {process.pid} of root"
    assert sender(0, 4_000_000) == "uid 4000000"
