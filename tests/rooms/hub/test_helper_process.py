"""Helper processes of the hub: told what they need, started again when they end, and never in the hub's way."""

import os
import signal
import subprocess
import sys
import time

import pytest
from msgspec import Struct

from tests.journeys.conftest import eventually
from vedette.hub import helper_process as helpers
from vedette.hub.helper_process import Helper

LISTENS = """
import select, sys
import msgspec
from vedette.hub.helper_process import Inlet

inlet = Inlet(msgspec.json.Decoder().decode)
while True:
    select.select([inlet.fd], [], [])
    messages = inlet.read()
    with open(sys.argv[1], "a") as file:
        file.write("".join(f"{message['word']}\\n" for message in messages or ()))
        if messages is None:
            file.write("the hub is gone\\n")
            break
        if any(message["word"] == "enough" for message in messages):
            break
"""
NEVER_READS = """
import subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
with open(sys.argv[1], "a") as file:
    file.write(f"{child.pid}\\n")
time.sleep(600)
"""
REPORTS = """
import sys, time
sys.stdout.write("one\\ntwo\\nthr")
sys.stdout.flush()
sys.stdin.readline()
sys.stdout.write("ee\\n")
"""
TALKS = """
import sys
while True:
    sys.stdout.write("x" * 1000)
"""
FAILS = "import sys\nsys.exit(3)"
HUB = """
import sys, time
from vedette.hub.helper_process import Helper
helper = Helper("listener", "listens", [sys.argv[1]])
helper.tend()
helper.tell({"word": "hello"})
helper.tend()
print("ready", flush=True)
time.sleep(600)
"""


class Word(Struct):
    word: str


@pytest.fixture
def said(tmp_path):
    """Return what a helper has written down, line by line."""
    path = tmp_path / "said"
    path.touch()
    return lambda: path.read_text().splitlines()


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Make a helper of a program that is handed the file to write to; close it at the end."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name, program in (
        ("listens", LISTENS),
        ("never_reads", NEVER_READS),
        ("fails", FAILS),
        ("reports", REPORTS),
        ("talks", TALKS),
    ):
        (tmp_path / f"{name}.py").write_text(program)
    begun = []

    def make(module, *words, reports=False):
        told = [Word(word) for word in words]
        helper = Helper("listener", module, [str(tmp_path / "said")], lambda: told, reports=reports)
        begun.append(helper)
        return helper

    yield make
    for helper in begun:
        helper.close(0.0)


@pytest.fixture
def start_hub():
    """Start a program as a hub; end it with the test."""
    begun = []

    def start(code, *args):
        process = subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, text=True)
        begun.append(process)
        return process

    yield start
    for process in begun:
        process.kill()
        process.wait()
        process.stdout.close()


def tended(helper, look):
    """Tend a helper until `look` is true; return that."""

    def turn():
        helper.tend()
        return look()

    return eventually(turn)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_hears_all_that_it_is_told(begin, said):
    """A new helper hears what everybody has to know first, then each message, in order; it leaves when it is asked."""
    helper = begin("listens", "first", "second")
    helper.tell(Word("nobody is here yet"))
    helper.tend()
    helper.tell(Word("third"))
    tended(helper, lambda: said() == ["first", "second", "third"])
    assert helper.trouble == ""
    helper.close()
    assert said()[-1] == "the hub is gone"
    assert helper.pid is None
    helper.tend()
    assert helper.pid is None


def test_it_is_started_only_when_it_is_wanted(begin):
    """Nobody is started before that."""
    helper = begin("listens")
    helper.tend(wanted=False)
    assert helper.pid is None
    helper.tend(wanted=True)
    assert is_alive(helper.pid)


def test_one_that_ended_by_itself_is_replaced_when_wanted(begin, said):
    """It ended well, so there is no trouble; the next one comes at once, and hears everything."""
    helper = begin("listens", "first")
    helper.tend()
    pid = helper.pid
    helper.tell(Word("enough"))

    def gone():
        helper.tend(wanted=False)
        return helper.pid is None

    eventually(gone)
    helper.tend()
    assert helper.pid not in (None, pid)
    tended(helper, lambda: said() == ["first", "enough", "first"])
    assert helper.trouble == ""


def test_one_that_failed_is_started_again_after_a_while(begin):
    """Its end is told in a sentence; the next one is not started at once."""
    helper = begin("fails")
    tended(helper, lambda: helper.trouble)
    assert helper.trouble == "the listener failed with exit code 3; it is started again"
    helper.tend()
    assert helper.pid is None
    helper._again_at -= helpers._AGAIN_S
    helper.tend()
    assert helper.pid is not None


def test_one_that_was_killed_is_replaced_and_the_trouble_passes(begin, said, monkeypatch):
    """The next one hears everything; once it has lived for a while, nothing is wrong any more."""
    monkeypatch.setattr(helpers, "_AGAIN_S", 0.3)
    helper = begin("listens", "first")
    tended(helper, said)
    pid = helper.pid
    os.kill(pid, signal.SIGKILL)
    tended(helper, lambda: helper.pid is None)
    assert helper.trouble == "the listener was killed by signal 9; it is started again"
    tended(helper, lambda: helper.pid is not None)
    tended(helper, lambda: said() == ["first", "first"])
    tended(helper, lambda: not helper.trouble)
    assert helper.pid != pid


def test_one_that_never_reads_holds_up_nobody(begin, said, monkeypatch):
    """Messages wait in memory up to a limit; past that it is killed with all that it has started."""
    monkeypatch.setattr(helpers, "_MOST_BYTES", 1 << 20)
    helper = begin("never_reads")
    tended(helper, said)
    pid, child = helper.pid, int(said()[0])
    before = time.thread_time()
    for _ in range(16):
        helper.tell(Word("x" * (1 << 16)))
        helper.tend()
    assert helper.pid == pid
    assert is_alive(pid)
    assert time.thread_time() - before < 1
    helper.tell(Word("x" * (1 << 17)))
    tended(helper, lambda: helper.trouble)
    assert helper.trouble == "the listener did not read its messages, and was killed; it is started again"
    assert len(helper._unsent) == 0
    eventually(lambda: not is_alive(child))


def test_one_that_does_not_leave_is_killed(begin, said):
    """One that does not heed the end of its input has a second, or what it is given."""
    helper = begin("never_reads")
    tended(helper, said)
    pid, child = helper.pid, int(said()[0])
    helper.close(0.1)
    assert helper.pid is None
    eventually(lambda: not is_alive(pid) and not is_alive(child))


def test_a_hub_that_dies_takes_it_along(begin, said, tmp_path, start_hub):
    """Killed with -9 a hub says nothing, and its helpers leave all the same."""
    hub = start_hub(HUB, str(tmp_path / "said"))
    assert hub.stdout.readline() == "ready\n"
    eventually(lambda: said() == ["hello"])
    hub.kill()
    hub.wait()
    eventually(lambda: said()[-1] == "the hub is gone")


def test_it_is_a_program_of_its_own(begin, said, monkeypatch):
    """It leads a session, begins in the root directory, and has nothing of the run that the hub was started from."""
    monkeypatch.setenv("VEDETTE_RUN", "somebody's")
    monkeypatch.setenv("VEDETTE_TOKEN", "a secret")
    helper = begin("never_reads")
    tended(helper, said)
    assert os.getsid(helper.pid) == helper.pid
    assert os.readlink(f"/proc/{helper.pid}/cwd") == "/"
    with open(f"/proc/{helper.pid}/environ") as file:
        environ = dict(line.partition("=")[::2] for line in file.read().split("\0"))
    assert environ["VEDETTE_MODE"] == "off"
    assert not environ.keys() & {"VEDETTE_RUN", "VEDETTE_TOKEN"}


def test_one_that_cannot_be_started_is_trouble(begin, monkeypatch):
    """Without a Python there is no helper; that is said, and tried again later."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    helper = begin("listens")
    helper.tend()
    assert helper.pid is None
    assert helper.trouble == "the listener cannot be started: No such file or directory"


def test_it_reports(begin):
    """What a helper writes comes line by line, its last words too; those of the next one come after them."""
    helper = begin("reports", reports=True)
    found = []

    def read():
        helper.tend()
        found.extend(helper.read())
        return len(found)

    eventually(lambda: read() >= 2)
    helper.tell(Word("go on"))
    eventually(lambda: read() >= 5)
    assert found == [b"one", b"two", b"three", b"one", b"two"]


def test_one_that_reports_without_end_is_killed(begin):
    """A report is a line, and a line is short: the hub gathers no more."""
    helper = begin("talks", reports=True)

    def killed():
        helper.tend()
        assert helper.read() == []
        return helper.trouble

    eventually(killed)
    assert helper.trouble == "the listener reported too much, and was killed; it is started again"
