"""`vedette watch` in a pipe: every line once, whatever happens to the hub, and an exit code that says how it went."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.conftest import end_hub

from .conftest import eventually, read_runs

LOGGING = """
    import os, sys, time, vedette
    run = vedette.init(name="brisk-otter-417")
    os.write(1, (run.id + "\\n").encode())  # what is printed would be a line of the run
    for line in sys.stdin:
        if line.startswith("raise"):
            raise ValueError("of " + line.split()[1])
        for word in line.split():
            run._journal.event("log", word, 20, {"file": "/x/train.py", "line": 7})
        os.write(1, b"said\\n")
"""


@pytest.fixture
def watch(home):
    """Start `vedette watch`; it ends with the test."""
    running = []

    def begin(*args, **environ):
        argv = [sys.executable, "-m", "vedette", "watch", *args]
        surroundings = {**os.environ, "VEDETTE_HOME": home.asked, "TERM": "xterm", **environ}
        process = subprocess.Popen(argv, env=surroundings, text=True, stdout=-1, stderr=-1)
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def say(process, text):
    process.stdin.write(text + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "said\n"


def hang_up(process):
    process.stdin.close()
    process.stdin = None  # there is nothing more to flush


def rest(process):
    """Return what it prints until its end, and with which code that is."""
    out, err = process.stdout.read(), process.stderr.read()
    process.wait(30)
    return out, err


def words(out):
    return re.findall(r"INFO     (\w+)  train\.py:7$", out, re.MULTILINE)


def test_from_the_first_line_to_the_end(home, start, watch):
    """It begins before there is a home, shows what comes, and ends with the run's end, its cause and exit code 1."""
    watching = watch()
    assert "waiting for a run" in watching.stderr.readline()
    logging = start(LOGGING, stdin=subprocess.PIPE)
    logging.stdout.readline()
    say(logging, "one two")
    logging.stdin.write("raise it\n")
    hang_up(logging)
    out, _ = rest(watching)

    assert watching.returncode == 1
    assert words(out) == ["one", "two"]
    assert re.fullmatch(r"brisk-otter-417 failed after [\d.ms]+: ValueError: of it", out.splitlines()[-1])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out)
    again = watch("brisk-otter-417", "-n", "2")
    assert again.communicate(timeout=30)[0].splitlines()[-1] == out.splitlines()[-1]


def test_the_hub_dies_and_comes_back(home, start, watch):
    """Lines that are said while the hub is killed again and again come out once each, in their order."""
    logging = start(LOGGING, stdin=subprocess.PIPE)
    run = logging.stdout.readline().strip()
    eventually(lambda: os.path.exists(home.store) and os.path.getsize(home.store))
    watching = watch(run, "-n", "100000")
    for turn in range(5):
        say(logging, " ".join(f"w{turn * 200 + n}" for n in range(200)))
        end_hub(home)
        say(logging, f"late{turn}")
    hang_up(logging)
    out, err = rest(watching)

    assert watching.returncode == 0, err
    expected = [word for turn in range(5) for word in (*(f"w{turn * 200 + n}" for n in range(200)), f"late{turn}")]
    assert words(out) == expected


def test_a_burst(home, hub, start, watch):
    """5000 lines in a burst all come out, and those that were there before only as far as they were asked for."""
    logging = start(LOGGING, stdin=subprocess.PIPE)
    run = logging.stdout.readline().strip()
    say(logging, " ".join(f"before{n}" for n in range(100)))
    read_runs(home)
    watching = watch(run, "-n", "3")
    assert watching.stdout.readline() == "...\n"
    assert "before97" in watching.stdout.readline()
    say(logging, " ".join(f"w{n}" for n in range(5000)))
    hang_up(logging)
    out, _ = rest(watching)

    assert words(out) == ["before98", "before99", *(f"w{n}" for n in range(5000))]


def test_json(home, hub, start, watch):
    """With --json each line is an object: events, bars, and the end."""
    start("""
        import vedette
        from vedette.model import Span
        run = vedette.init(name="x")
        tell = run._journal._write
        bar = {"kind": "progress", "name": "b", "attrs": {"total": 9}}
        tell(Span(run.id + "/p-1", run._journal.now(), "running", at=4.0, **bar))
        run.mark("\\x1b[2Jhere")
        tell(Span(run.id + "/p-1", run._journal.now(), "done", at=9.0))
    """).communicate(timeout=30)
    read_runs(home)
    out, _ = watch("x", "--json").communicate(timeout=30)

    told = [json.loads(line) for line in out.splitlines()]
    assert [item["type"] for item in told] == ["event", "bar", "end"]
    assert told[0]["text"] == "\x1b[2Jhere"
    assert "\x1b" not in out
    assert (told[1]["done"], told[1]["total"], told[2]["state"]) == (9.0, 9.0, "done")


def test_all_runs(home, start, watch):
    """With --all lines have the names of their runs, the ends are told, and Ctrl-C leaves cleanly."""
    watching = watch("--all")
    watching.stderr.readline()
    first, second = (start(LOGGING.replace("brisk-otter-417", name), stdin=subprocess.PIPE) for name in ("ann", "ben"))
    for process, word in ((first, "one"), (second, "two")):
        process.stdout.readline()
        say(process, word)
    seen = {watching.stdout.readline() for _ in range(2)}
    assert {re.search(r"INFO     (\w+ \w+)", line)[1] for line in seen} == {"ann one", "ben two"}
    hang_up(first)
    assert watching.stdout.readline().startswith("ann done in ")
    watching.send_signal(signal.SIGINT)
    out, err = rest(watching)

    assert (watching.returncode, out, err) == (130, "", "")


def test_filters_and_what_is_wrong(home, hub, start, watch):
    """Levels and patterns choose lines; a bad one, or a run that is not there, is said in a sentence."""
    start(LOGGING, stdin=subprocess.PIPE).communicate("apple pear\n", timeout=30)
    read_runs(home)

    assert words(watch("brisk-otter-417", "--grep", "^p").communicate(timeout=30)[0]) == ["pear"]
    assert words(watch("brisk-otter-417", "--level", "warning").communicate(timeout=30)[0]) == []
    for args, sentence in (
        (["brisk-otter-417", "--grep", "("], "regular expression"),
        (["brisk-otter-417", "--level", "loud"], "there is no level"),
        (["nobody"], "there is no run 'nobody'"),
    ):
        process = watch(*args)
        assert sentence in process.communicate(timeout=30)[1]
        assert process.returncode == 2


def test_a_run_that_is_removed(home, hub, start, watch):
    """When the run that is watched is removed, watching ends with a sentence."""
    logging = start(LOGGING, stdin=subprocess.PIPE)
    run = logging.stdout.readline().strip()
    say(logging, "one")
    watching = watch(run)
    watching.stdout.readline()
    environ = {**os.environ, "VEDETTE_HOME": home.asked}
    subprocess.run([sys.executable, "-m", "vedette", "rm", "--force", run], env=environ, check=False)
    subprocess.run([sys.executable, "-m", "vedette", "rm", run], env=environ, check=False)
    _, err = rest(watching)

    assert watching.returncode == 2
    assert "was removed" in err
    assert "Traceback" not in err


def test_a_console_without_a_terminal(home, hub, finish):
    """`init(console=True)` with no terminal prints plain lines on stderr; without the wish nothing at all."""
    code = """
        import sys, vedette
        run = vedette.init(name="x", console={console})
        run._journal.event("log", "hello", 20)
        print("out")
    """
    _, out, err = finish(code.format(console=True))
    assert out == "out\n"
    begin, hello, end = err.splitlines()
    assert "vedette watch x" in begin
    assert re.fullmatch(r"[\d-]+ [\d:]+ INFO     hello", hello)
    assert re.fullmatch(r"x done in [\d.]+s", end)
    for console in (None, False):
        assert finish(code.format(console=console))[1:] == ("out\n", "")
