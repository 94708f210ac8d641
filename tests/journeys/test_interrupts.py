"""Ctrl-C may come at any moment, inside our own code too: the program goes on as it likes, and so does the record."""

import collections
import os
import pty
import re
import textwrap
import threading

import pytest

from .conftest import eventually, read_runs

EVERYWHERE = """
    import logging, os, re, sys, threading, warnings
    import vedette

    run = vedette.init(name="interrupted")
    logging.basicConfig(stream=sys.stdout, level=logging.INFO)
    warnings.simplefilter("always")
    bar = run.progress(None, "bar")
    logger = logging.getLogger("x")
    count = 0

    def bars():
        with run.progress(3, "short") as short:
            short.advance(1, "renamed")
            short.update(2)

    acts = {
        "print": lambda: print("interrupted"),
        "log": lambda: logger.info("interrupted %s", object()),
        "warn": lambda: warnings.warn("interrupted"),
        "number": lambda: run.log({"a": 1.0}),
        "mark": lambda: run.mark("interrupted"),
        "bars": bars,
    }

    def probe():
        global count
        count += 1
        print(f"print {count}.")
        logger.info("log %d.", count)
        warnings.warn(f"warning {count}.")
        run.mark(f"mark {count}.")
        bar.advance()

    # An interrupt comes in where a function is entered, and where a call into C returns.
    def interrupt(after):
        left = after
        def look(frame, event, _):
            nonlocal left
            if event in ("call", "c_return") and re.search("/vedette/|contextlib", frame.f_code.co_filename):
                left -= 1
                if not left:
                    sys.setprofile(None)
                    raise KeyboardInterrupt
        return look

    BREAK
    places = 0
    for act in acts.values():
        act()  # what is imported late is imported now
        for after in range(1, 2000):
            try:
                sys.setprofile(interrupt(after))
                act()
                sys.setprofile(None)
                break
            except KeyboardInterrupt:  # while it is handled, all that it came through is still there
                places += 1
                probe()
                other = threading.Thread(target=probe, daemon=True)
                other.start()
                other.join(20)
                if other.is_alive():
                    os.write(2, b"another thread hangs")
                    os._exit(1)
    sys.stderr.write(f"PLACES {places} {count}\\n")
"""


def lost(home):
    """Return what the record lacks or has twice of all that was said after an interrupt."""
    [run] = read_runs(home)
    kinds = {"print": "output", "log": "log", "warning": "warning", "mark": "mark"}
    texts = {kind: " ".join(event.text for event in run.logs(kind=kind)) for kind in kinds.values()}
    # a print that was interrupted leaves its line open, in the terminal too: look inside the lines
    said = {
        kind: collections.Counter(re.findall(r"(?:print|log|warning|mark) \d+\.", text)) for kind, text in texts.items()
    }
    count = len(said["mark"])
    wrong = [
        f"{word} {number}."
        for word, kind in kinds.items()
        for number in range(1, count + 1)
        if said[kind][f"{word} {number}."] != 1
    ]
    [bar] = [bar for bar in run.progress() if bar.name == "bar"]
    return wrong + ([f"bar at {bar.done}, not {count}"] if bar.done != count else [])


@pytest.fixture
def finish_on_a_terminal(finish):
    """Run a script to its end with its output on a terminal, where a console is; return as `finish` does."""

    def run(code):
        ours, theirs = pty.openpty()
        shown = bytearray()
        reader = threading.Thread(target=lambda: [shown.extend(part) for part in iter(lambda: read(ours), b"")])
        reader.start()
        # `finish` makes pipes of its own: the script itself takes the terminal in their place
        take = f"import os; os.dup2({theirs}, 1); os.dup2({theirs}, 2); os.close({theirs})\n"
        done = finish(take + textwrap.dedent(code), timeout=120, pass_fds=[theirs], environ={"TERM": "xterm"})
        os.close(theirs)
        reader.join()
        os.close(ours)
        return done[0], "", shown.decode()

    return run


def read(fd):
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""


@pytest.mark.parametrize("where", ["finish", "finish_on_a_terminal"])
def test_an_interrupt_anywhere_leaves_the_record_whole(request, home, where):
    """KeyboardInterrupt at each of hundreds of places inside our code: all that is said after it is there, once."""
    code, _, err = request.getfixturevalue(where)(EVERYWHERE.replace("BREAK", ""))

    assert code == 0, err
    places, count = map(int, re.findall(r"PLACES (\d+) (\d+)", err)[0])
    assert places > 100
    assert count == 2 * places
    assert lost(home) == []
    assert ("`vedette watch" in err) == (where == "finish_on_a_terminal")


BROKEN = """
    from vedette.client.quiet import quiet
    def hush(on):
        quiet.on = on
    def handle(self, record, original=logging.Handler.handle):
        hush(True)
        try:
            return original(self, record)
        finally:
            hush(False)
    hush.__globals__["hush"] = hush
    handle.__code__ = handle.__code__.replace(co_filename="/vedette/")
    hush.__code__ = hush.__code__.replace(co_filename="/vedette/")
    logging.Handler.handle = handle
"""


def test_the_check_of_interrupts_sees_what_is_lost(finish, home):
    """The positive control: where a thread is hushed and heard again by a call, an interrupt silences it for good."""
    code, _, err = finish(EVERYWHERE.replace("BREAK", BROKEN.strip()), timeout=120)

    assert code == 0, err
    assert any(word.startswith("print") for word in lost(home))


LOCKS = """
    import os, signal, sys, threading, time
    import vedette

    run = vedette.init(name="locked")
    bars = [run.progress(None, str(number)) for number in range(3)]
    acts = {
        "print": (lambda: print("x", flush=True), lambda: print("y", flush=True)),
        "end": (bars[0].complete, bars[0].advance),
        "name": (lambda: bars[1].advance(1, "another"), bars[1].advance),
        "new": (lambda: run.progress(3, "new"), bars[2].advance),
    }
    told = os.dup(2)
    signal.alarm(20)
    for name, (theirs, handled) in acts.items():
        other = threading.Thread(target=theirs)
        with run._journal._lock:  # a signal comes while this thread says something, and another thread is at it too
            other.start()
            other.join(0.2)
            handled()
        other.join()
    os.write(told, b"FINE")
"""


@pytest.mark.parametrize("where", ["finish", "finish_on_a_terminal"])
def test_a_signal_handler_waits_for_no_thread_that_waits_for_its_own(request, home, where):
    """A handler may print, and move bars, while the thread that it interrupts and another one both say something."""
    code, _, err = request.getfixturevalue(where)(LOCKS)

    assert code == 0, err
    assert "FINE" in err


@pytest.mark.parametrize("end", ["run.finish('failed')", "run.__exit__(ValueError, ValueError('no'), None)"])
def test_ctrl_c_while_a_run_ends(home, hub, finish, end):
    """Ctrl-C while the console is closed, or a handler that raises there, does not lose the end that was given."""
    code, out, _ = finish(
        f"""
        import signal, vedette
        run = vedette.init(name="ended")
        closed = []
        run._on_end += [lambda: closed.append("other"), lambda: signal.raise_signal(signal.SIGINT)]
        try:
            {end}
        except KeyboardInterrupt:
            pass
        print(closed)
        """
    )

    assert (code, out) == (0, "['other']\n")
    [run] = eventually(lambda: [run for run in read_runs(home) if run.end_t])
    assert run.state == "failed"
