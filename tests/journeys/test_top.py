"""`vedette top` in a real terminal, in a pipe, and over two hosts."""

import json
import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually
from tests.journeys.test_relay import JOB, VEDETTE, connect_string, listen
from tests.journeys.test_top_screen import ENDED, LIVING
from tests.journeys.tmux import Terminal, terminal, why_not
from tests.rooms.conftest import call, python
from vedette.home import Home

needs_terminal = pytest.mark.skipif(bool(why_not()), reason=f"NO TERMINAL WAS DRIVEN: {why_not()}")


@contextmanager
def opened(home: Home, columns: int = 130) -> Iterator[Terminal]:
    """Open a terminal with the screen in it."""
    with terminal(columns, 24, VEDETTE_HOME=home.asked, TERM="xterm-256color") as shown:
        # Where tests run side by side, these say how wide another terminal is.
        shown.type(f"env -u COLUMNS -u LINES {shlex.quote(sys.executable)} -m vedette top", "Enter")
        yield shown


@needs_terminal
def test_a_session_in_a_terminal(home, hub, start):
    """Runs are there, a filter and the lines of a run open and close, a run is stopped; q gives the terminal back."""
    job = start(LIVING, "brisk-otter-417")
    job.stdout.readline()
    start(ENDED).communicate(timeout=30)
    with opened(home) as shown:
        screen = shown.wait_for("✗ failed  broken-crow-3")
        rows = [line.split() for line in screen if "●" in line or "✗" in line]
        assert [row[:3] for row in rows] == [["●", "running", "brisk-otter-417"], ["✗", "failed", "broken-crow-3"]]
        assert re.match(r"\S+ +1 run, 1 process", screen[0])
        assert screen[-1].split()[:6] == ["⏎", "open", "?", "help", "q", "leave"]

        shown.type("/")
        shown.wait_for("words, or state = failed")
        shown.type("crow", "Enter")
        eventually(lambda: "brisk-otter" not in "\n".join(shown.screen()))
        shown.type("Escape")
        shown.wait_for("brisk-otter-417")
        shown.resize(60, 15)
        eventually(lambda: all(len(line) <= 60 for line in shown.screen()) and "brisk" in "\n".join(shown.screen()))
        shown.resize(130, 24)

        shown.type("k", "l")
        shown.wait_for("esc back")
        shown.wait_for("[red]said[/] and done: step")
        shown.type("Escape")
        shown.wait_for("broken-crow-3")
        shown.type("x")
        shown.wait_for("stop brisk-otter-417?  y/n")
        shown.type("y")
        shown.wait_for("0 alive, 2 ended")
        assert job.wait(10) != 0
        shown.type("q")
        screen = eventually(lambda: (found := shown.screen())[-1].strip() in ("$", "#") and found)
        assert not [line for line in screen if "brisk-otter-417" in line or "Traceback" in line], screen


@needs_terminal
def test_the_hub_is_killed_under_the_screen(home, start):
    """In a real terminal too, the table outlives the hub, and goes on with the next one."""
    start(LIVING, "brisk-otter-417").stdout.readline()
    with opened(home, 220) as shown:
        shown.wait_for("brisk-otter-417")
        for _ in range(2):
            end_hub(home)
            assert "brisk-otter-417" in "\n".join(shown.screen())
            eventually(lambda: home.hub_pid() is not None, 20)
        later = _step(shown) + 10
        deadline = time.monotonic() + 30
        while _step(shown) < later:
            assert time.monotonic() < deadline, "\n".join(shown.screen())


def _step(shown: Terminal) -> int:
    return max(map(int, re.findall(r"step (\d+)", "\n".join(shown.screen()))), default=0)


@needs_terminal
def test_ctrl_c_leaves(home, hub, start):
    """Ctrl-C leaves, and the run goes on."""
    job = start(LIVING, "brisk-otter-417")
    job.stdout.readline()
    with opened(home) as shown:
        shown.wait_for("brisk-otter-417")
        shown.type("C-c")
        eventually(lambda: shown.screen()[-1].strip() in ("$", "#"))
    assert job.poll() is None


def test_without_a_terminal(home, hub, start):
    """In a pipe it prints the table once, whole, without an escape code, and leaves."""
    start(LIVING, "brisk-otter-417").stdout.readline()
    start(ENDED).communicate(timeout=30)
    for options in ([], ["--once"]):
        done = call("top", *options, home=home.asked)

        assert (done.returncode, done.stderr) == (0, "")
        assert re.search(r"^running +brisk-otter-417 +cifar", done.stdout, re.MULTILINE)
        assert re.search(r"^failed +broken-crow-3 .*ValueError: it was the butler$", done.stdout, re.MULTILINE)
        assert "\x1b" not in done.stdout


def test_json(home, hub, start):
    """--json has everything, for scripts."""
    start(LIVING, "brisk-otter-417").stdout.readline()
    start(ENDED).communicate(timeout=30)
    seen = json.loads(call("top", "--json", "--metric", "accuracy", home=home.asked).stdout)

    assert [(run["name"], run["state"], run["alive"]) for run in seen["runs"]] == [
        ("brisk-otter-417", "running", True), ("broken-crow-3", "failed", False),
    ]  # fmt: skip
    assert [(run["metric"], run["metrics"]) for run in seen["runs"]] == [
        ("accuracy", ["accuracy", "loss"]), ("loss", ["loss"]),
    ]  # fmt: skip
    assert seen["hosts"][0]["link"] == "here"
    narrowed = json.loads(call("top", "--json", "--where", "state = failed", home=home.asked).stdout)
    assert [run["name"] for run in narrowed["runs"]] == ["broken-crow-3"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--where", "state ="], "expected a value"),
        (["--where", "sate = done"], "did you mean state?"),
        (["--interval", "0"], "--interval takes seconds"),
        (["--interval", "nan"], "--interval takes seconds"),
        (["--intervall", "1"], "did you mean --interval?"),
    ],
)
def test_mistakes(home, hub, options, said):
    """A mistake is one sentence and exit code 2."""
    done = call("top", *options, home=home.asked)

    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_home_without_runs(home):
    """An empty home is no mistake."""
    done = call("top", home=home.asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing has been logged" in done.stdout
    assert json.loads(call("top", "--json", home=home.asked).stdout)["runs"] == []


def test_textual_is_for_the_screen_alone(home, hub):
    """Only the screen imports textual: a script that asks for the table, or another command, does not wait for it."""
    done = python(
        "import sys; from vedette.cli import main\n"
        "try: main(['top', '--once'])\n"
        "except SystemExit: print('textual' in sys.modules)"
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_runs_of_two_hosts(lan):
    """Runs of another host are there, with their host, its link and what they use; a host that is gone shows."""
    far, here = lan(2)
    listen(here, VEDETTE_USAGE_ENABLE="true")
    job = far.start(JOB, "100000", "0.01", VEDETTE_HUB=connect_string(here), VEDETTE_USAGE_ENABLE="true")
    job.stdout.readline()
    near = here.start(JOB, "100000", "0.01", VEDETTE_USAGE_ENABLE="true")
    near.stdout.readline()

    def seen():
        _, out, _ = here.run([*VEDETTE, "top", "--json"])
        return json.loads(out) if out else {"runs": [], "hosts": []}

    def whole():
        found = seen()
        runs = {tuple(run["hosts"]): run["memory_bytes"] for run in found["runs"] if run["alive"]}
        links = {host["name"]: (host["link"], host["runs"]) for host in found["hosts"]}
        return set(runs) == {(far.name,), (here.name,)} and all(runs.values()) and links == {
            here.name: ("here", 1), far.name: ("linked", 1),
        }  # fmt: skip

    eventually(whole, 40)
    far.end_hub()  # its link goes with it
    eventually(lambda: [host["link"] for host in seen()["hosts"] if host["name"] == far.name] == ["cut"], 60)
