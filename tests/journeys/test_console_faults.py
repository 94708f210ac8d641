"""Whatever happens to the console of a run, the work goes on, and ends as it would have without it."""

import os
import pty
import re
import subprocess
import sys
import termios
import textwrap

import pytest

from .conftest import eventually, read_runs

BEGIN = """
    import os, sys, time, vedette
    run = vedette.init(name="x")
    def say(text):
        run._journal.event("log", text, 20, {"pid": os.getpid()})
    def wait(name):
        while not os.path.exists(os.path.join(os.environ["STEPS"], name)):
            time.sleep(0.02)
"""


@pytest.fixture
def on_a_pty(home, tmp_path):
    """Start a script whose stderr is a terminal; hand out the process, and the terminal's other side."""
    running, terminals = [], []

    def begin(code, **environ):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(code))
        ours, theirs = pty.openpty()
        surroundings = {**os.environ, "VEDETTE_HOME": home.asked, "STEPS": str(tmp_path), "TERM": "xterm", **environ}
        process = subprocess.Popen([sys.executable, str(path)], env=surroundings, stdout=-1, stderr=theirs, text=True)
        os.close(theirs)
        running.append(process)
        terminals.append(open(ours, "rb", buffering=0))  # noqa: SIM115 - a file knows that it is closed, a number not
        return process, terminals[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()
    for terminal in terminals:
        terminal.close()


def read_all(terminal):
    """Return all that comes out of a terminal until its other side is closed."""
    data = b""
    try:
        while more := terminal.read(1 << 16):
            data += more
    except OSError:
        pass
    return data.decode()


@pytest.fixture
def bystander(tmp_path):
    """Open a file under a number that is free; by the end of the test nobody else has closed it."""
    files = []

    def begin(number):
        fd = os.open(tmp_path / "bystander", os.O_WRONLY | os.O_CREAT)
        if fd != number:
            os.dup2(fd, number)
            os.close(fd)
        files.append(open(number, "wb", buffering=0))  # noqa: SIM115 - it outlives this

    yield begin
    for file in files:
        file.write(b"still open")
        file.close()


def test_a_closed_terminal_is_not_closed_again(bystander, on_a_pty):
    """What is opened next, such as a store, may have the number of a terminal that was closed: it is left alone."""
    _, terminal = on_a_pty("")
    number = terminal.fileno()
    terminal.close()

    bystander(number)  # checks it at the end of the test


def test_the_terminal_goes_away(on_a_pty, tmp_path, home, hub):
    """A terminal that is closed while a run is shown on it does not disturb the run."""
    process, terminal = on_a_pty("""
        for n in range(50):
            say(f"line {n}")
            time.sleep(0.02)
            if n == 10: wait("gone")
        print("worked")
    """)
    terminal.read(100)
    terminal.close()
    (tmp_path / "gone").touch()

    assert process.communicate(timeout=60)[0] == "worked\n"
    assert process.returncode == 0
    [run] = eventually(lambda: [run for run in read_runs(home) if run.state == "done"])
    assert len(run.logs(kind="log")) == 50


def test_the_terminal_is_stopped(on_a_pty, home, hub):
    """A terminal that takes nothing any more, as after Ctrl-S, holds up neither the work nor its end."""
    process, _ = on_a_pty("""
        for n in range(2000): say("a line that is long enough to fill whatever buffer there is " * 4)
        time.sleep(1)
        print("worked")
    """)

    assert process.communicate(timeout=60)[0] == "worked\n"
    assert process.returncode == 0
    [run] = eventually(lambda: [run for run in read_runs(home) if run.state == "done"])
    assert len(run.logs(kind="log")) == 2000


def test_without_a_hub(on_a_pty, home, tmp_path):
    """Where no hub can be had, the process's own lines and its end are shown all the same."""
    os.makedirs(home.root, exist_ok=True)
    os.mkdir(home.store)  # no hub can open this
    process, terminal = on_a_pty("""
        say("hello")
        print("printed", file=sys.stderr)
        sys.exit(3)
    """)
    shown = read_all(terminal)

    assert process.wait(30) == 3
    assert re.search(r"INFO\s+\S* hello", shown)
    assert shown.index("hello") < shown.index("printed") < shown.index("exit code 3")


def test_a_file_is_not_drawn_on(on_a_pty, home, hub, tmp_path):
    """A program that leads its stderr into a file finds there what it writes, and nothing of the console."""
    process, fd = on_a_pty("""
        bar = run.progress(10, "bar")
        bar.advance()
        say("shown")
        time.sleep(0.5)
        file = os.open(os.path.join(os.environ["STEPS"], "err"), os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 2)
        for _ in range(8):
            bar.advance()
            say("not shown")
            print("mine", file=sys.stderr)
            time.sleep(0.1)
        print("worked")
    """)

    assert process.communicate(timeout=60)[0] == "worked\n"
    assert process.returncode == 0
    shown = read_all(fd)
    assert "shown" in shown
    lines = (tmp_path / "err").read_text().splitlines()
    assert lines[:8] == ["mine"] * 8
    assert "\x1b" not in "".join(lines)


def test_what_is_printed_elsewhere_is_flushed_as_ever(on_a_pty, home, hub):
    """Beside a console too, a full disk behind stdout is found out when the buffer is written, not by each print."""
    process, fd = on_a_pty(
        """
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        for _ in range(10): print("into a buffer")
        os.write(2, b"worked")
        os._exit(0)
    """,
        PYTHONUNBUFFERED="",
    )

    shown = read_all(fd)
    assert process.wait(30) == 0, shown
    assert "worked" in shown


def test_two_runs_in_one_process(on_a_pty, home, hub):
    """A second run of a process has a console of its own, after the end of the first."""
    process, terminal = on_a_pty("""
        say("one")
        vedette.finish()
        run = vedette.init(name="y")
        say("two")
    """)
    shown = read_all(terminal)

    assert process.wait(30) == 0
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in shown.splitlines()]
    kept = [line.split()[-1] if "INFO" in line else line.split()[0] for line in lines if line]
    assert kept == ["x", "one", "x", "y", "two", "y"]


def test_the_terminal_is_left_as_it_was(on_a_pty, home, hub):
    """A question that is open when the program ends leaves the terminal's modes as they were."""
    process, terminal = on_a_pty("""
        import threading
        threading.Thread(target=vedette.ask, args=("ever?",), daemon=True).start()
        time.sleep(1)
    """)
    before = termios.tcgetattr(terminal)
    read_all(terminal)
    process.wait(30)

    assert termios.tcgetattr(terminal)[:4] == before[:4]


@pytest.mark.parametrize("environ", [{"VEDETTE_CAPTURED": "x"}, {"VEDETTE_CONSOLE_MODE": "off"}, {"TERM": "dumb"}])
def test_where_none_is_wanted(on_a_pty, environ, home, hub):
    """Under `vedette run`, when it is off, and on a dumb terminal there is no console."""
    process, terminal = on_a_pty("say('hello')", **environ)

    assert read_all(terminal) == ""
    assert process.wait(30) == 0


def test_nothing_heavy_without_a_console(home, hub, finish):
    """Without a terminal a run imports neither rich nor sqlite3 nor numpy."""
    code = "import sys, vedette\nvedette.init()\nprint([m for m in ('rich', 'sqlite3', 'numpy') if m in sys.modules])"

    assert finish(code)[1] == "[]\n"
    eventually(lambda: read_runs(home))
