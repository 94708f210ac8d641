"""The console as people see it: in a real terminal, whose screen is read back."""

import contextlib
import os
import re
import signal
import sys
import textwrap
import time

import pytest

from .conftest import eventually, read_runs
from .tmux import terminal, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"NO TERMINAL WAS TRIED: {why_not()}")

# Controlled by the files that a test makes: nothing here depends on how fast anything is.
SCRIPT = """
    import os, sys, time, vedette
    run = vedette.init(name="brisk-otter-417")
    journal = run._journal
    bars = {}
    def bar(ident, total, msg):
        bars[ident] = run.progress(total, msg)
    def at(ident, done):
        bars[ident].update(done)
    def end(ident, state="done", cause=""):
        bars[ident]._end(state, cause)
    def say(text, level=20, **attrs):
        journal.event("log", text, level, {"file": os.path.abspath(__file__), "line": 12, "pid": os.getpid(), **attrs})
    def wait(name):
        while not os.path.exists(os.path.join(os.environ["STEPS"], name)):
            time.sleep(0.02)
"""


@pytest.fixture
def tty(home, tmp_path):
    """Open a terminal in the home."""
    with contextlib.ExitStack() as stack:
        yield lambda columns=100, lines=30, **environ: stack.enter_context(
            terminal(columns, lines, VEDETTE_HOME=home.asked, STEPS=str(tmp_path), **environ)
        )


@pytest.fixture
def script(tmp_path):
    """Write a script."""

    def write(code):
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(SCRIPT) + textwrap.dedent(code))
        return path

    return write


@pytest.fixture
def step(tmp_path):
    """Let a script go on."""
    return lambda name: (tmp_path / name).touch()


def test_lines_above_and_bars_below(tty, script, step):
    """Lines, printed and logged, stand above in their order, bars below; ends become lines, the run's the last."""
    screen = tty()
    screen.run(
        script("""
        bar("a", 100, "epoch 1"); at("a", 42)
        say("first"); print("second"); say("third", 30)
        wait("go")
        at("a", 100); end("a"); bar("b", 10, "epoch 2"); at("b", 3); end("b", "failed", "ValueError: x")
        say("last")
        print("no newline", end="")
        raise ValueError("the end of it")
    """)
    )
    screen.wait_for("42%")
    shown = screen.wait_for("third")
    begin = next(number for number, line in enumerate(shown) if "vedette watch brisk-otter-417" in line)

    assert re.fullmatch(r"\d\d:\d\d:\d\d INFO     first  train\.py:12", shown[begin + 1])
    assert shown[begin + 2] == "second"
    assert re.fullmatch(r"\d\d:\d\d:\d\d WARNING  third  train\.py:12", shown[begin + 3])
    assert shown[begin + 4] == ""
    assert re.fullmatch(r"\S epoch 1  [━─]{40}  42/100  42%  .*", shown[begin + 5])
    step("go")
    shown = screen.wait_for("brisk-otter-417 failed")
    lines = shown[shown.index("second") :]

    assert any(re.fullmatch(r"\d\d:\d\d:\d\d done     epoch 1: 100/100 done in \S+", line) for line in lines)
    assert any(re.search(r"failed   epoch 2: failed at 3/10 after \S+: ValueError: x", line) for line in lines)
    end = next(number for number, line in enumerate(lines) if line.startswith("brisk-otter-417 failed after "))
    assert lines[end].endswith(": ValueError: the end of it")
    assert lines[end - 1] == "ValueError: the end of it"
    assert not any("━" in line for line in lines)
    assert "no newline" in "\n".join(lines)
    eventually(lambda: screen.screen()[-1].startswith(("$", "#")))


def test_narrow_wide_and_resized(tty, script, step):
    """On a narrow terminal bars are cut, not wrapped; after a resize they are as wide as it is then."""
    screen = tty(40, 20)
    screen.run(
        script("""
        for n in range(20): bar(f"{n:02}", 100, f"task {n} with a name that is too long")
        say("x" * 100)
        wait("go")
        print("resized")
        wait("end")
    """)
    )
    screen.wait_for("... and 11 more")
    rows = [line for line in screen.screen() if "task" in line]
    assert len(rows) == 9
    assert all(len(row) < 40 and "─" in row for row in rows)
    screen.resize(120, 20)
    step("go")
    screen.wait_for("resized")
    rows = eventually(lambda: [line for line in screen.screen() if "with a name that is too long" in line])
    assert len(rows) == 9
    assert len([line for line in screen.screen() if "... and 11 more" in line]) == 1
    step("end")
    shown = screen.wait_for("brisk-otter-417 done")
    assert not any("─" in line for line in shown)


def test_hostile_lines(tty, script, step):
    """Lines full of escape codes change nothing on the screen but their own place."""
    screen = tty()
    screen.run(
        script(r"""
        bar("a", 100, "safe \x1b[2J\x1b]0;bar\x07")
        hostile = "\x1b[2J\x1b[H", "\x1b]0;pwned\x07", "\x1bc", "\x9b2J", "\x1b[?1049h", "\x1b[5A", "\b" * 9, "\r\x1b[K"
        for text in hostile:
            say(text + "harmless", ansi=text + "\x1b[32mharmless")
        say("[/x] [bold :smile:")
        wait("end")
    """)
    )
    shown = screen.wait_for("[/x] [bold :smile:")

    assert len([line for line in shown if "harmless" in line]) == 8
    assert "pwned" not in screen.title()
    step("end")
    assert len([line for line in screen.wait_for("brisk-otter-417 done") if "harmless" in line]) == 8


def test_output_of_others(tty, script, step):
    """What children print, forked or not, and what the program prints without us, is not garbled by bars."""
    screen = tty(100, 40)
    screen.run(
        script("""
        import subprocess
        bar("a", 100, "epoch 1")
        wait("go")
        for n in range(3):
            subprocess.run(["sh", "-c", f"echo from sh {n}"])
            time.sleep(0.5)
            os.write(1, f"from C {n}\\n".encode())
            time.sleep(0.5)
        if os.fork() == 0:
            for n in range(3): print("forked", n)
            say("from the child")
            sys.stdout.flush()
            os._exit(0)
        os.wait()
        print("loss:", 3, sep=" ")
        wait("end")
    """)
    )
    screen.wait_for("epoch 1")
    step("go")
    screen.wait_for("from the child")
    shown = screen.wait_for("loss: 3")
    expected = [f"from {who} {n}" for n in range(3) for who in ("sh", "C")] + [f"forked {n}" for n in range(3)]

    assert [line for line in shown if line in expected] == expected
    assert len([line for line in shown if "epoch 1" in line]) == 1
    step("end")
    screen.wait_for("brisk-otter-417 done")


def test_asked_in_the_terminal(tty, script):
    """A question of the program itself and of a child is typed into the console's own line; a password is masked."""
    screen = tty()
    screen.run(
        script("""
        import multiprocessing
        def work():
            print("the child got", len(vedette.ask("password of the child?", password=True)))
        bar("a", 100, "epoch 1")
        print("the parent got", vedette.ask("go on?"))
        worker = multiprocessing.get_context("fork").Process(target=work)
        worker.start(); worker.join()
        print(input("and now? "))
    """)
    )
    screen.wait_for("? go on? █")
    screen.type("yes!", "BSpace")
    screen.wait_for("? go on? yes█")
    screen.type("Enter")
    screen.wait_for("the parent got yes")
    screen.wait_for("? password of the child? █")
    screen.type("hunter2")
    screen.wait_for("? password of the child? *******█")
    screen.type("Enter")
    screen.wait_for("the child got 7")
    screen.wait_for("and now?")
    screen.type("good")
    time.sleep(0.5)  # a bar would have been drawn over it by now
    screen.type(" bye", "Enter")
    shown = screen.wait_for("brisk-otter-417 done")

    assert "hunter2" not in "\n".join(screen.screen(history=True))
    assert "and now? good bye" in shown
    assert "good bye" in shown


def test_a_prompt_that_is_broken_off(tty, script):
    """Ctrl-C at `input()` leaves what was asked and typed; a stream that knows nothing of terminals harms nobody."""
    screen = tty()
    screen.run(
        script("""
        bar("a", 100, "epoch 1")
        try:
            input("go on? ")
        except KeyboardInterrupt:
            print(" no")
        class Mute:
            def write(self, text): pass
            def flush(self): pass
        was, sys.stdout = sys.stdout, Mute()
        answer = input("unseen ")
        sys.stdout = was
        print("it was", answer)
    """)
    )
    screen.wait_for("go on?")
    screen.type("perhaps")
    time.sleep(0.5)  # a bar would have been drawn over it by now
    screen.type("C-c")
    screen.wait_for("go on? perhaps^C no")
    screen.type("fine", "Enter")
    assert "go on? perhaps^C no" in screen.wait_for("it was fine")
    screen.wait_for("brisk-otter-417 done")


def test_watching_in_a_terminal(tty, script, step, home):
    """`vedette watch` shows lines, bars, the run's state, and answers; a kill of the run is named in the last line."""
    running, watching = tty(VEDETTE_CONSOLE_MODE="off"), tty(70, 25)
    running.run(
        script("""
        bar("a", 100, "epoch 1"); at("a", 42)
        say("hello"); say("careful", 30)
        wait("ask")
        say("answered " + str(vedette.ask("go on?")))
        wait("never")
    """)
    )
    watching.run("-m", "vedette", "watch")
    watching.wait_for("careful")
    shown = watching.wait_for("● brisk-otter-417 running for")
    assert [bool(re.search(text, "\n".join(shown))) for text in ("INFO     hello", "WARNING  careful", "42%")] == [
        True
    ] * 3
    step("ask")
    watching.wait_for("? go on? █")
    watching.type("oui", "Enter")
    watching.wait_for("answered oui")
    [run] = read_runs(home)
    os.kill(run.processes()[0].attrs["pid"], signal.SIGKILL)
    shown = watching.wait_for("brisk-otter-417 failed after")

    assert "killed by SIGKILL" in "\n".join(shown)
    assert not any("━" in line for line in shown)


@pytest.mark.parametrize(("environ", "live"), [({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, True)])
def test_terminals_that_can_do_less(tty, script, step, environ, live):
    """On a dumb terminal there is no console unless it is asked for; with NO_COLOR it has no colours."""
    screen = tty()
    for key, value in environ.items():
        screen.type(f"export {key}={value}", "Enter")
    screen.run(
        script("""
        bar("a", 100, "epoch 1")
        say("hello", 40)
        print("printed")
        wait("end")
    """)
    )
    screen.wait_for("printed")
    if live:
        screen.wait_for("epoch 1")
        assert "hello" in "\n".join(screen.screen())
        coloured = screen._do("capture-pane", "-p", "-e")
        assert not re.search(r"\x1b\[[0-9;]*m", coloured)
    step("end")
    eventually(lambda: screen.screen()[-1].startswith(("$", "#")))
    assert ("brisk-otter-417" in "\n".join(screen.screen())) is live


def test_asked_without_a_console(tty, script):
    """With the console off, and with VEDETTE_MODE=off, a question is asked at the terminal of the program itself."""
    for environ in ({"VEDETTE_CONSOLE_MODE": "off"}, {"VEDETTE_MODE": "off"}):
        screen = tty(**environ)
        path = script("")
        path.write_text(
            "import vedette\nrun = vedette.init()\nprint('got', vedette.ask('go on?'), len(vedette.ask('word?', True)))"
        )
        screen.run(path)
        screen.wait_for("go on?")
        screen.type("yes", "Enter")
        screen.wait_for("word?")
        screen.type("hunter2", "Enter")
        shown = screen.wait_for("got yes 7")
        assert "hunter2" not in "\n".join(shown)


def test_a_logger_that_nobody_set_up_is_shown_by_the_console(tty, script, step):
    """Where `logging` would print by itself, in its own form, the console does instead; a user's own format stays."""
    screen = tty()
    screen.run(
        script("""
        import logging
        logging.warning("by itself")
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("MINE %(message)s"))
        logging.getLogger("own").addHandler(handler)
        logging.getLogger("own").propagate = False
        logging.getLogger("own").warning("by my handler")
        wait("go")
    """)
    )
    screen.wait_for("MINE by my handler")
    shown = "\n".join(screen.wait_for("by itself"))
    assert "WARNING:root" not in shown
    assert shown.count("by itself") == shown.count("by my handler") == 1
    step("go")
    screen.wait_for("done in")


def test_a_killed_program_leaves_no_bars_behind(tty, script, home):
    """After SIGTERM and after SIGKILL the bars are erased, and what the shell prints next stands alone."""
    screen = tty()
    path = script("""
        for n in range(5): bar(n, 100, f"epoch {n}"); at(n, 42)
        print("pid", os.getpid())
        wait("never")
    """)
    for count, name in enumerate(("TERM", "KILL"), 1):
        screen.type("clear", "Enter")
        screen.run(path)
        shown = screen.wait_for("epoch 4")
        pid = next(line.split()[1] for line in shown if line.startswith("pid "))
        eventually(lambda: sum("terminal" in run.processes()[0].attrs for run in read_runs(home)) == count)  # noqa: B023
        os.kill(int(pid), getattr(signal, f"SIG{name}"))
        eventually(lambda: not any("epoch" in line for line in screen.screen()))
        screen.type("echo next $((40 + 2))", "Enter")
        assert "next 42" in screen.wait_for("next 42")


def test_a_debugger_below_a_launcher(tty, script, step):
    """While a debugger asks, no bar is drawn and no line comes between; what waited comes when it goes on."""
    screen = tty()
    screen.run(
        "-m", "vedette", "run", "--", sys.executable, str(script("""
        bar("a", 100, "epoch 1"); at("a", 42)
        wait("go")
        breakpoint()
        say("afterwards")
        wait("end")
        """))
    )  # fmt: skip
    screen.wait_for("42%")
    step("go")
    screen.wait_for("(Pdb)")
    screen.type("p 6 * 7", "Enter")
    screen.wait_for("42\n(Pdb)")
    shown = [line for line in screen.screen() if line]
    assert [line for line in shown if "epoch" in line] == []
    assert shown[-3:] == ["(Pdb) p 6 * 7", "42", "(Pdb)"]
    screen.type("c", "Enter")
    screen.wait_for("afterwards")
    screen.wait_for("epoch 1  ━")
    step("end")
    screen.wait_for("done in")
