"""Monitors in programs that are hard on them: descriptors closed or used up, signals as the system has them, a stop."""

import os

import pytest

CLOSED = """
import os, sys, time
from vedette.monitor import Monitor
m = Monitor(sys.argv[1], interval_s=0.02, where=sys.argv[2]).start()
other = Monitor(pid=os.getppid(), interval_s=0.02).start()
time.sleep(0.2)
os.closerange(3, 1000)
before = os.path.getsize(sys.argv[1])
end = time.monotonic() + 20
while sys.argv[2] == "thread" and os.path.getsize(sys.argv[1]) == before and time.monotonic() < end: time.sleep(0.01)
m.stats(), m.summary(), m.stop(), other.stop()
print(sys.argv[2] == "process" or os.path.getsize(sys.argv[1]) > before)
n = len(m.stats()["t"])
m.start(), time.sleep(0.1), m.stop()
print(len(m.stats()["t"]) > n, set(m.trouble) | set(other.trouble))
"""


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_program_that_closes_everything(where, finish, tmp_path):
    """Where a program closes all descriptors, as daemons do, nothing raises, and the monitor opens its files again."""
    code, out, err = finish(CLOSED, str(tmp_path / "usage.jsonl"), where)

    assert (code, out) == (0, "True\nTrue set()\n"), err
    assert "Traceback" not in err


LIKE_THE_SYSTEM = """
import os, signal, sys, time
from vedette.monitor import Monitor
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
m = Monitor(interval_s=0.05, where="process").start()
os.kill(m.worker, signal.SIGKILL)
while os.path.exists(f"/proc/{m.worker}/exe") and os.access(f"/proc/{m.worker}/exe", os.R_OK): time.sleep(0.01)
m.stats()
print(m.running, list(m.trouble))
first = m.worker
m.start()
print(m.running, m.worker != first, m.trouble)
m.stop()
"""


def test_a_broken_pipe_ends_nobody(finish):
    """Where SIGPIPE is left to the system a killed monitor does not take the program along; it can be started again."""
    code, out, err = finish(LIKE_THE_SYSTEM)

    assert (code, out) == (0, "False ['monitor']\nTrue True {}\n"), err


LEFT = """
import os, signal, sys, time
from vedette.monitor import Monitor
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.mkfifo(sys.argv[1])
reader = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
m = Monitor("text:" + sys.argv[1], interval_s=0.02).start()
os.close(reader)
while not m.trouble: time.sleep(0.01)
m.stop()
print("there")
"""


def test_a_reader_that_leaves(finish, tmp_path):
    """Nor does a pipe that nobody reads any more."""
    code, out, err = finish(LEFT, str(tmp_path / "pipe"))

    assert (code, out) == (0, "there\n"), err


WITHOUT_STREAMS = """
import os, sys, time
for fd in (0, 1, 2): os.close(fd)
from vedette.monitor import Monitor
m = Monitor(interval_s=0.02, where="process").start()
time.sleep(0.1)
m.stop()
with open(sys.argv[1], "w") as file: file.write(f"{m.summary()['samples'] > 1} {m.trouble}")
os._exit(0)
"""


def test_without_standard_streams(finish, tmp_path):
    """A program that has closed stdin, stdout and stderr has a process beside it like any other."""
    finish(WITHOUT_STREAMS, str(tmp_path / "out"))

    assert (tmp_path / "out").read_text() == "True {}"


HALTED = """
import os, signal, time
from vedette.monitor import Monitor
m = Monitor(interval_s=0.02, where="process").start()
time.sleep(0.1)
os.kill(m.worker, signal.SIGSTOP)
for _ in range(500): m.stats()
known = len(m.stats()["t"])
print(m.running, list(m.trouble))
os.kill(m.worker, signal.SIGCONT)
while len(m.stats()["t"]) == known: time.sleep(0.01)
os.kill(m.worker, signal.SIGSTOP)
m.stop()
os.kill(m.worker, signal.SIGCONT)
print("stopped")
"""


def test_a_monitor_that_is_halted(finish):
    """A halted monitor costs a second once, not for each question; when it goes on, so does what it tells."""
    code, out, err = finish(HALTED, timeout=120)  # at a second for each question it would take 500

    assert (code, out) == (0, "True ['monitor']\nstopped\n"), err


NOTHING_LEFT = """
import os, resource, sys, time
from vedette.monitor import Monitor
both = None, os.getppid()
made = [Monitor(where=where, interval_s=0.02, pid=pid) for where in ("thread", "process") for pid in both]
made[2].start().stop()  # all is imported
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
for m in made:
    m.start(), time.sleep(0.05), m.stop()
for fd in held: os.close(fd)
print(os.listdir("/proc/self/fd").__len__() <= 6, [bool(m.trouble) for m in made])
"""


def test_no_descriptor_is_left(finish):
    """Where no file can be opened the work goes on, watched or not, and it is said."""
    code, out, err = finish(NOTHING_LEFT)

    assert (code, out) == (0, "True [False, False, True, True]\n"), err
    assert err == "vedette: nothing is monitored: [Errno 24] Too many open files\n"


ODD = """
import os, sys
from vedette.errors import SettingError
from vedette.monitor import Monitor
path = os.fsdecode(os.fsencode(sys.argv[1]) + b"/\\xff.jsonl")
for wish in ({"to": path}, {"keep": 10**30}, {"to": [("jsonl", {"path": object()})]}):
    try: Monitor(where="process", **wish).start()
    except SettingError as error: print(str(error)[:38])
"""


def test_what_cannot_be_handed_over(finish, tmp_path):
    """What no other process can be told is a mistake in one sentence."""
    code, out, err = finish(ODD, str(tmp_path))

    assert (code, out, err) == (0, "this cannot be handed to a process, wh\n" * 3, "")


BECOME = """
import os, sys, time
from vedette.monitor import Monitor
m = Monitor(sys.argv[1], interval_s=0.02).start()
os.setresuid(65534, 65534, 65534)
seen = len(m.stats()["t"])
while len(m.stats()["t"]) < seen + 5: time.sleep(0.01)
m.stop()
print(m.trouble)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another")
def test_a_program_that_becomes_another_user(finish, tmp_path):
    """A file that is open stays so when the program has given up the right to find it again."""
    closed = tmp_path / "closed"
    closed.mkdir(0o700)
    code, out, err = finish(BECOME, str(closed / "usage.jsonl"))

    assert (code, out, err) == (0, "{}\n", "")


TWICE = """
import os, signal, sys, threading, time
from vedette.monitor import Monitor
class Interrupted(Monitor):
    def _begin(self):
        signal.raise_signal(signal.SIGALRM)
        return super()._begin()
m = Interrupted(interval_s=0.02)
signal.signal(signal.SIGALRM, lambda *_: m.start())
m.start()
print(m.running, [thread.name for thread in threading.enumerate()].count("vedette-monitor"))
m.stop()
"""


def test_a_signal_handler_that_starts_it(finish):
    """A start in the middle of a start, by a signal handler, begins nothing that nobody would stop."""
    assert finish(TWICE) == (0, "True 1\n", "")
