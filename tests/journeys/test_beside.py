"""The console beside a command of `vedette run`, in a real terminal: what its processes say, never in its way."""

import contextlib
import sys
import textwrap

import pytest

from .tmux import terminal, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"NO TERMINAL WAS TRIED: {why_not()}")

HEAD = """
    import logging, os, sys, time, vedette
    def wait(name):
        while not os.path.exists(os.path.join(os.environ["STEPS"], name)):
            time.sleep(0.02)
"""


@pytest.fixture
def launch(home, tmp_path):
    """Run a script by `vedette run` in a terminal; return that."""
    with contextlib.ExitStack() as stack:

        def begin(code, *options):
            path = tmp_path / "job.py"
            path.write_text(textwrap.dedent(HEAD) + textwrap.dedent(code))
            screen = stack.enter_context(terminal(VEDETTE_HOME=home.asked, STEPS=str(tmp_path)))
            screen.type("clear", "Enter")
            screen.run("-m", "vedette", "run", "--name", "job", *options, "--", sys.executable, str(path))
            return screen

        yield begin


@pytest.fixture
def step(tmp_path):
    """Let a script go on."""
    return lambda name: (tmp_path / name).touch()


def test_lines_and_bars_of_a_command(launch, step):
    """What a joined process logs stands above, its bars below, between what the command prints; the cause is last."""
    screen = launch("""
        run = vedette.init()
        bar = vedette.Progress.new(10, "epochs")
        bar.advance(4)
        print("printed")
        logging.getLogger("x").info("logged")
        wait("go")
        bar.advance(6)
        bar.complete()
        print("printed later")
        sys.exit(3)
    """)
    screen.wait_for("40%")
    shown = screen.wait_for("logged")
    at = [next(n for n, line in enumerate(shown) if text in line) for text in ("printed", "logged", "40%")]
    assert at == sorted(at), shown
    step("go")
    shown = screen.wait_for("job failed: exit code 3")
    assert sum("logged" in line for line in shown) == 1
    assert sum("printed later" in line for line in shown) == 1
    assert not any("40%" in line for line in shown)


def test_a_bar_that_the_command_draws_is_not_drawn_twice(launch, step):
    """A bar of tqdm stays as tqdm draws it: nothing of ours shows it a second time, though it is on record."""
    screen = launch("""
        from tqdm import tqdm
        for n in tqdm(range(10), desc="drawn", mininterval=0):
            if n == 5:
                wait("go")
        print("over")
    """)
    shown = screen.wait_for("5/10")
    assert sum("drawn" in line for line in shown) == 1, shown
    step("go")
    shown = screen.wait_for("over")
    assert sum("drawn" in line for line in shown) == 1, shown


def test_a_program_that_has_the_whole_screen_is_left_alone(launch, step):
    """While a program has the whole screen, or reads keys one by one, nothing of ours is drawn; later it comes out."""
    screen = launch("""
        run = vedette.init()
        bar = vedette.Progress.new(10, "epochs")
        sys.stdout.write("\\x1b[?1049h\\x1b[2J\\x1b[HWHOLE SCREEN")
        sys.stdout.flush()
        bar.advance(4)
        logging.getLogger("x").info("logged meanwhile")
        wait("go")
        sys.stdout.write("\\x1b[?1049l")
        print("back")
        wait("end")
    """)
    screen.wait_for("WHOLE SCREEN")
    for _ in range(30):
        shown = "\n".join(screen.screen())
        assert "logged" not in shown
        assert "40%" not in shown
    step("go")
    screen.wait_for("back")
    screen.wait_for("logged meanwhile")
    step("end")


def test_the_console_can_be_switched_off(launch, step):
    """With console.mode=off only the command itself is seen."""
    screen = launch(
        """
        run = vedette.init()
        bar = vedette.Progress.new(10, "epochs")
        bar.advance(4)
        logging.getLogger("x").info("logged")
        time.sleep(1)
        print("over")
        wait("end")
        """,
        "--set",
        "console.mode=off",
    )
    shown = "\n".join(screen.wait_for("over"))
    assert "40%" not in shown
    assert "logged" not in shown
    step("end")
