"""`vedette run` in a terminal: the command sees one, keys and signals reach it, and every byte comes through."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.journeys.conftest import eventually, read_runs
from tests.journeys.screen import Screen, run_command
from tests.rooms.conftest import QUICK, call

PYTHON = sys.executable
TTY = "import os; print('tty', *[int(os.isatty(fd)) for fd in (0, 1, 2)], flush=True)"


@pytest.fixture
def screen(home, hub):
    """Start programs in terminals; what is left of them goes with the test."""
    started = []

    def start(*argv, **options):
        started.append(Screen(*argv, **options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def ended(home):
    return eventually(lambda: (r := read_runs(home)) and r[0].end_t and r[0])


def output(run):
    return [event.text for event in run.logs() if event.kind == "output"]


@pytest.mark.parametrize(
    ("redirect", "seen"),
    [
        ("", "tty 1 1 1"),
        ("</dev/null", "tty 0 1 1"),
        ("2>/dev/null", "tty 1 1 0"),
        ("</dev/null 2>/dev/null", "tty 0 1 0"),
    ],
)
def test_what_is_a_terminal_stays_one(home, hub, screen, redirect, seen):
    """The command sees a terminal where there is one, and none where there is none."""
    said, code = screen(*run_command(PYTHON, "-c", TTY), redirect=redirect).end()

    assert (seen.encode() in said, code) == (True, 0)
    assert output(ended(home)) == [seen]


def test_stdout_in_a_file_and_stderr_on_the_terminal(home, hub, screen, tmp_path):
    """`vedette run -- cmd > file`: stdout is no terminal, stderr is one, and both are on record as what they are."""
    code = TTY + "; import sys; print('word', file=sys.stderr)"
    said, _ = screen(*run_command(PYTHON, "-c", code), redirect=f"> {tmp_path}/out").end()

    assert (tmp_path / "out").read_text() == "tty 1 0 1\n"
    assert said == b"word\r\n"
    found = {event.text: event.attrs["stream"] for event in ended(home).logs() if event.kind == "output"}
    assert found == {"tty 1 0 1": "stdout", "word": "stderr"}


def test_the_size_of_the_window(home, hub, screen):
    """The command's window is as large as ours, and stays so when that changes; it is told."""
    code = (
        "import os, signal, time\n"
        "show = lambda *_: print(*os.get_terminal_size(), flush=True)\n"
        "signal.signal(signal.SIGWINCH, show); show(); input(); print('over')"
    )
    term = screen(*run_command(PYTHON, "-c", code), rows=30, columns=111)
    term.until("111 30")
    term.resize(40, 99)
    term.until("99 40")
    term.type("\n")
    assert term.end()[1] == 0


def test_what_is_typed_reaches_the_command(home, hub, screen):
    """input() gets what is typed, its echo is the command's terminal's, and Ctrl-D ends the input."""
    code = "import sys; print('hello', input('name? ')); print('rest', repr(sys.stdin.read()))"
    term = screen(*run_command(PYTHON, "-c", code))
    term.until("name? ")
    term.type("ada\n")
    term.until("hello ada")
    term.type("more\n\x04")
    said, code = term.end()

    assert (b"rest 'more\\n'" in said, code) == (True, 0)
    assert said.count(b"ada") == 2


def test_the_terminal_is_set_as_ours_and_ours_is_left_as_it_was(home, hub, screen):
    """`stty -a` says what it says without us, and our own terminal is as it was, also after a Ctrl-C."""
    plain = screen("/bin/stty", "-a").end()[0]
    term = screen(*run_command("stty", "-a"))
    before = term.settings()
    said, _ = term.end()
    assert said == plain

    shell = screen("/bin/sh", environ={"PS1": "$ "})
    shell.until("$ ")
    before = shell.settings()
    shell.type(" ".join(run_command("sleep", "60")) + "\n")
    eventually(lambda: shell.settings() != before)
    shell.type("\x03")
    eventually(lambda: shell.settings() == before)


@pytest.mark.parametrize(("key", "name"), [("\x03", "SIGINT"), ("\x1c", "SIGQUIT")])
def test_keys_that_mean_a_signal(home, hub, screen, key, name):
    """Ctrl-C and Ctrl-backslash reach the command as the terminal's signals, and end it as they do."""
    term = screen(*run_command("sh", "-c", "ulimit -c 0; echo ready; exec sleep 60"))
    term.until("ready")
    term.type(key)

    assert term.end()[1] == 128 + getattr(signal, name)
    assert f"killed by {name}" in ended(home).cause


def test_ctrl_z_and_back(home, hub, screen):
    """Ctrl-Z gives the shell its terminal back, and `fg` goes on with the command and its keys."""
    shell = screen("/bin/bash", "--norc", "-i", environ={"PS1": "$ "})
    shell.until("$ ")
    loop = "import time; print('rea' + 'dy', flush=True); print('got', input(), flush=True)"
    shell.type(f'{" ".join(run_command(PYTHON, "-c"))} "{loop}"\n')
    shell.until("ready")
    time.sleep(0.2)
    shell.type("\x1a")
    shell.until("Stopped")
    shell.type("echo at the $((40 + 2)) shell\n")
    shell.until("at the 42 shell")
    shell.type("fg\n")
    time.sleep(0.5)
    shell.type("word\n")
    shell.until("got word")
    shell.said = shell.said.partition(b"got word")[2]
    shell.until("$ ")  # what is typed earlier is the command's, and goes with it
    shell.type("exit $?\n")

    assert shell.end()[1] == 0
    assert ended(home).state == "done"


def test_in_the_background(home, hub, screen):
    """A command in the background takes no key from the shell, and is not stopped."""
    shell = screen("/bin/bash", "--norc", "-i", environ={"PS1": "$ "})
    shell.until("$ ")
    shell.type(f"{' '.join(run_command('sh', '-c'))} 'sleep 0.5; echo from be''low' &\n")
    shell.type("echo still $((40 + 2)) here\n")
    shell.until("still 42 here")
    shell.until("from below")
    shell.type("wait; exit\n")
    assert shell.end()[1] == 0


def test_every_byte_of_a_full_screen_comes_through(home, hub, screen, tmp_path):
    """What a full-screen program draws comes out byte for byte as without us; on record it is text alone."""
    drawn = (
        b"\x1b[?1049h\x1b[2J\x1b[H\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[10;20Hhere\x1b[?25l\x1bP1$r0m\x1b\\\r\n"
        + bytes(range(1, 256)) + b"\r\n\x1b[1mbold\x1b[0m\r\n\x1b[?1049l"
    )  # fmt: skip
    (tmp_path / "drawn").write_bytes(drawn)
    draw = ["sh", "-c", f"stty -opost; cat {tmp_path}/drawn"]
    said, _ = screen(*run_command(*draw)).end()

    assert said == drawn
    events = [event for event in ended(home).logs() if event.kind == "output"]
    assert not any(re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", event.text) for event in events)
    assert [event.attrs["ansi"] for event in events if event.text == "bold"] == ["\x1b[1mbold\x1b[0m"]
    assert events[0].text == "redhere"


def test_binary_output_in_a_pipe(home, hub, tmp_path):
    """Any bytes come out of a pipe as they went in."""
    data = os.urandom(3_000_000) + b"\n" + bytes(range(256)) * 100
    (tmp_path / "data").write_bytes(data)
    done = subprocess.run(
        run_command("cat", str(tmp_path / "data")), env={**os.environ, **QUICK}, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (data, b"")
    assert ended(home).state == "done"


def test_two_streams_to_one_place_keep_their_order(home, hub):
    """With `2>&1` lines of both streams come in the order in which they were written."""
    done = subprocess.run(
        run_command("sh", "-c", "for n in $(seq 300); do echo out $n; echo err $n >&2; done"),
        env={**os.environ, **QUICK}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "".join(f"out {n}\nerr {n}\n" for n in range(1, 301))


def test_lines_are_on_record(home, hub):
    """Each line of the command and its children is an event with its stream, a last one without an end too."""
    done = call("run", "--quiet", "--", "sh", "-c", "echo one; sh -c 'echo two >&2'; printf three")
    assert (done.stdout, done.stderr) == ("one\nthree", "two\n")

    events = [event for event in ended(home).logs() if event.kind == "output"]
    assert sorted((event.text, event.attrs["stream"]) for event in events) == [
        ("one", "stdout"), ("three", "stdout"), ("two", "stderr"),
    ]  # fmt: skip
    assert all(isinstance(event.attrs["pid"], int) for event in events)


def test_nothing_is_captured_when_not_asked_for(home, hub):
    """With --no-capture the command has our own descriptors, and nothing that it prints is on record."""
    code = (
        "import os; same = os.readlink('/proc/self/fd/1') == os.readlink(f'/proc/{os.getppid()}/fd/1');"
        "print(same, os.environ.get('VEDETTE_CAPTURED'))"
    )
    assert call("run", "--quiet", "--no-capture", "--", PYTHON, "-c", code).stdout == "True None\n"
    off = {"VEDETTE_LOGS_OUTPUT": "false"}
    assert call("run", "--quiet", "--", PYTHON, "-c", code, environ=off).stdout == "True None\n"
    assert output(ended(home)) == []


def test_who_joins_knows_that_its_output_is_taken_down(home, hub):
    """VEDETTE_CAPTURED names the run to what the command starts."""
    code = "import os; print(os.environ['VEDETTE_CAPTURED'] == os.environ['VEDETTE_RUN'])"
    assert call("run", "--", PYTHON, "-c", code).stdout == "True\n"


def test_a_flood(home, hub):
    """A million lines all come through; on record is a part of them, the last ones among it, and how many are not."""
    done = call("run", "--quiet", "--", "seq", "1000000")
    assert done.stdout == "".join(f"{n}\n" for n in range(1, 1_000_001))

    run = ended(home)
    lines = output(run)
    left_out = sum(event.attrs["count"] for event in run.logs() if event.kind == "dropped")
    assert lines[-50:] == [str(n) for n in range(999_951, 1_000_001)]
    assert left_out > 0
    assert abs(len(lines) + left_out - 1_000_000) <= 2 * sum(event.kind == "dropped" for event in run.logs())


def test_a_reader_that_has_seen_enough(home, hub):
    """`vedette run -- yes | head -1` ends, and the command by SIGPIPE as without us."""
    done = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | head -1', "bash", *run_command("yes")],
        env={**os.environ, **QUICK}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("y\n", "", 141)
    run = ended(home)
    assert (run.state, run.cause) == ("cancelled", "killed by SIGPIPE: nobody read its output any more")


def test_a_child_in_the_background_is_not_waited_for(home, hub):
    """A child that holds the command's stdout keeps nobody waiting; what was said until then is there."""
    begin = time.monotonic()
    done = call("run", "--quiet", "--", "sh", "-c", "sleep 45 & echo $!; exit 3")
    assert done.returncode == 3
    os.kill(int(done.stdout), signal.SIGKILL)
    assert time.monotonic() - begin < 40
    assert output(ended(home)) == [done.stdout.strip()]


def test_stdin_of_a_pipe_is_the_commands_own(home, hub):
    """What is piped into `vedette run` reaches the command, and so does its end."""
    assert call("run", "--quiet", "--", "wc", "-c", input="x" * 100_000).stdout.strip() == "100000"


def test_bars_of_tqdm(home, hub, screen):
    """A bar that is drawn a hundred times is one line in the end; nested ones, too. Its numbers are series."""
    code = (
        "import time\nfrom tqdm import tqdm\n"
        "for _ in tqdm(range(3), desc='outer', mininterval=0):\n"
        "    bar = tqdm(range(20), desc='inner', leave=False, mininterval=0)\n"
        "    for n in bar: bar.set_postfix(loss=n / 2); time.sleep(0.002)\n"
        "print('over')"
    )
    said, _ = screen(*run_command(PYTHON, "-c", code), columns=100).end()
    assert said.count(b"outer: ") > 2

    lines = output(ended(home))
    assert [line for line in lines if line.startswith("outer: 100%|")] != []
    assert len([line for line in lines if "|" in line]) <= 4
    assert lines[-1] == "over"
    points = ended(home).history("loss")
    assert points.step.tolist() == list(range(60))
    assert points.value.tolist() == [n / 2 for _ in range(3) for n in range(20)]


def test_the_start_and_the_end_are_told_on_a_terminal(home, hub, screen):
    """On a terminal the run's name is told first, and the cause last; --quiet says neither."""
    words = [word for word in run_command("sh", "-c", "exit 3") if word != "--quiet"]
    said, code = screen(*words).end()
    name = ended(home).name

    assert said.startswith(f"vedette: run {name} (".encode())
    assert said.endswith(f"vedette: {name} failed: exit code 3\r\n".encode())
    assert code == 3


def test_a_command_that_lets_go_of_its_terminal_lives_on(home, hub, screen, tmp_path):
    """A command may redirect all its streams to files, and go on; it may come back to its terminal, too."""
    log = tmp_path / "log"
    script = f"exec </dev/null >{log} 2>&1; sleep 0.5; echo in the file; exec >/dev/tty; echo back; exit 5"
    said, code = screen(*run_command("bash", "-c", script)).end()

    assert (said, code) == (b"back\r\n", 5)
    assert log.read_text() == "in the file\n"
    assert output(ended(home)) == ["back"]


def test_a_pipeline_in_a_terminal(home, hub, screen):
    """`vedette run -- cmd | other`: what the other writes to the terminal looks as ever, and Ctrl-C ends them all."""
    # `exec`: while dash forks, it loses a Ctrl-C of its own accord.
    script = "echo ready >&2; echo one; echo two; read x; echo $x; exec sleep 30"
    shell = screen(*run_command("sh", "-c", script), redirect="| tee /dev/null")
    shell.until("ready")
    shell.until("two")
    shell.type("typed\n")
    shell.until("typed\r\ntyped\r\n")
    before = shell.said
    shell.type("\x03")
    shell.end()

    assert b"one\r\ntwo\r\n" in before
    assert b"ready\r\n" in before
    assert ended(home).state == "cancelled"
    assert sorted(output(ended(home))) == ["one", "ready", "two", "typed"]
