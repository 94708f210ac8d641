"""Programs that are started beside a process: nobody's child, with nothing of the process but what they are handed."""

import json
import os
import subprocess
import sys

import pytest

from tests.journeys.conftest import eventually
from vedette import detached

TELLS = """
import json, os, signal, sys
from vedette import detached

before = {int(name) for name in os.listdir("/proc/self/fd")}
fds = detached.take_handed(int(sys.argv[2]))
said = {
    "argv": sys.argv[3:], "cwd": os.getcwd(), "environ": dict(os.environ), "session": os.getsid(0),
    "ignored": signal.getsignal(signal.SIGTERM) is signal.SIG_IGN, "blocked": len(signal.pthread_sigmask(0, [])),
    "handed": [os.pread(fd, 100, 0).decode() for fd in fds], "inheritable": [os.get_inheritable(fd) for fd in fds],
    "fds": [int(name) for name in os.listdir("/proc/self/fd")], "before": max(before),
}
print("out", flush=True)
print("err", file=sys.stderr, flush=True)
with open(sys.argv[1] + ".new", "w") as file:
    json.dump(said, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""


@pytest.fixture
def answer(tmp_path, monkeypatch):
    """Have a program there that tells what it finds; return a function that waits for what it told."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "tells.py").write_text(TELLS)
    path = tmp_path / "said"

    def look():
        eventually(path.exists)
        return json.loads(path.read_text())

    return look


def begin(tmp_path, count=0, *words, **how):
    detached.start("tells", [str(tmp_path / "said"), str(count), *words], detached.environment(), **how)


ALONE = """
import os, sys
from vedette import detached
detached.start("tells", [*sys.argv[1:], "a b", "$HOME", ""], detached.environment())
try:
    os.wait()
except ChildProcessError:
    print("no child")
"""


def test_it_is_nobodys_child(tmp_path, answer):
    """It begins in the root directory, in another session, and nobody sees its output."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "said"), "0"], capture_output=True, text=True, check=True
    )
    said = answer()

    assert (done.stdout, done.stderr) == ("no child\n", "")
    assert (said["argv"], said["cwd"]) == (["a b", "$HOME", ""], "/")
    assert said["session"] != os.getsid(0)


def test_it_stays_where_it_is_wanted(tmp_path, answer, monkeypatch):
    """A program whose paths may be relative begins where its starter is; its output is appended to a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text("before\n")
    with open("log", "ab") as log:
        begin(tmp_path, stay=True, log=log.fileno())

    assert answer()["cwd"] == str(tmp_path)
    assert (tmp_path / "log").read_text() == "before\nout\nerr\n"


def test_it_has_what_it_is_handed_and_no_more(tmp_path, answer):
    """Descriptors stand from 3 on, in their order; a lock or pipe that its starter had open is closed in it."""
    files = [os.memfd_create(f"f{at}", 0) for at in range(4)]  # without CLOEXEC
    for at, fd in enumerate(files):
        os.write(fd, str(at).encode())
    begin(tmp_path, 2, handed=[files[2], files[1]])
    said = answer()

    assert said["handed"] == ["2", "1"]
    assert said["inheritable"] == [False, False]
    assert said["before"] >= files[3]
    assert max(said["fds"]) <= 5  # the listing itself is one
    for fd in files:
        os.close(fd)


CROWDED = """
import os, sys
from vedette import detached
os.closerange(0, 10)
for name in "abcde":
    assert os.write(os.memfd_create(name), name.encode()) == 1
detached.start("tells", [sys.argv[1], "4"], detached.environment(), handed=[1, 4, 3, 0])
"""


def test_low_descriptors_are_not_mixed_up(tmp_path, answer):
    """A program that has closed its standard streams may hand over any descriptor, in any order."""
    subprocess.run([sys.executable, "-c", CROWDED, str(tmp_path / "said")], check=True)

    assert answer()["handed"] == ["b", "e", "d", "a"]


SIGNALS = """
import os, signal, sys
from vedette import detached
heard = []
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGHUP})
if sys.argv[2] == "ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
else:
    signal.signal(signal.SIGCHLD, lambda *_: heard.append(1))
detached.start("tells", [sys.argv[1], "0"], detached.environment())
print(len(heard), callable(signal.getsignal(signal.SIGCHLD)))
"""


@pytest.mark.parametrize(("how", "told"), [("heard", "0 True\n"), ("ignored", "0 False\n")])
def test_signals_are_its_own(tmp_path, answer, how, told):
    """What its starter ignores or blocks it does not; a SIGCHLD handler hears nothing of it, and stays."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALS, str(tmp_path / "said"), how], stdout=-1, text=True, check=True
    )

    assert done.stdout == told
    said = answer()
    assert (said["ignored"], said["blocked"]) == (False, 0)


def test_nothing_of_the_run_is_in_its_environment(tmp_path, monkeypatch):
    """What names a run, its hub or a session stays behind, but for what is asked for; all else is passed on."""
    for name in ("RUN", "TRY", "RESUME", "CAPTURED", "NEW", "HUB", "TOKEN", "MODE", "HOME"):
        monkeypatch.setenv(f"VEDETTE_{name}", "x")
    monkeypatch.setenv("PYTHONINSPECT", "1")
    monkeypatch.setenv("OTHER", "y")
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}lib{os.pathsep}/opt/lib")
    monkeypatch.chdir(tmp_path)
    environ = detached.environment()

    assert {name for name, value in environ.items() if value == "x"} == {"VEDETTE_HOME"}
    assert environ["VEDETTE_MODE"] == "off"
    assert "PYTHONINSPECT" not in environ
    assert environ["OTHER"] == "y"
    root, *path = environ["PYTHONPATH"].split(os.pathsep)
    assert os.path.isdir(os.path.join(root, "vedette"))
    assert path == [str(tmp_path / "lib"), "/opt/lib"]
    assert detached.environment(keep=("VEDETTE_HUB",))["VEDETTE_HUB"] == "x"


def test_what_cannot_be_started_is_an_error(tmp_path):
    """A descriptor that is not open is an error; nothing is left open."""
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError):
        begin(tmp_path, 1, handed=[1 << 20])

    assert len(os.listdir("/proc/self/fd")) == before
