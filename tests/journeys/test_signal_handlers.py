"""What a signal handler of the user raises reaches the user, wherever in our code the signal comes; nothing is lost."""

import ast
import glob
import json
import os
import textwrap

import pytest

import vedette
from tests.journeys.conftest import eventually, read_runs


@pytest.mark.parametrize("kind", ["ValueError", "TimeoutError"])
@pytest.mark.parametrize("call", ["run.log({'x': step}, step=step)", "x(float(step), step)", "run.mark(step)"])
def test_a_users_own_timeout_gets_out_of_a_logged_call(home, hub, finish, call, kind):
    """What a signal handler raises is taken neither for a full segment nor for a full disk: it gets out each time.

    What was logged by calls that returned is there, once.
    """
    code, out, err = finish(
        f"""
        import json, random, signal, vedette
        from vedette import spool
        spool._SIZES = (16 << 10,)  # many rolls
        class Late({kind}): pass
        rang = caught = step = returned = 0
        unsure = []  # steps whose call did not return
        def ring(*_):
            global rang
            rang += 1
            raise Late
        run = vedette.init(name="late")
        x = run.series("x")
        run.mark(0)
        signal.signal(signal.SIGALRM, ring)
        for _ in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 5e-3))
                before = rang
                while rang == before:
                    step += 1
                    {call}
                    returned = step
            except Late:
                caught += 1
                if returned != step:
                    unsure.append(step)
        print(json.dumps([rang, caught, step, unsure]))
        """
    )

    assert (code, err) == (0, "")
    rang, caught, last, unsure = json.loads(out)
    assert rang == caught == 100
    [run] = eventually(lambda: [run for run in read_runs(home) if run.state == "done"])
    kept = [int(event.text) for event in run.logs(kind="mark")][1:] or run.history("x").step.tolist()
    assert len(kept) == len(set(kept))
    assert set(range(1, last + 1)) - set(unsure) <= set(kept)


@pytest.mark.parametrize(
    ("prepare", "through"),
    [("journal.after_fork()", "stacks.py"), ("fill_segment()", "segment.py"), ("voice.wake_at = 0", "pidfds.py")],
    ids=["first record", "roll", "look after the hub"],
)
def test_a_handlers_error_gets_out_wherever_it_is_raised(home, hub, finish, prepare, through):
    """Each place in a logged call at which Python runs signal handlers lets the handler's error out.

    Python does so after each call of a C function, and at the start of each of its own.
    """
    code, out, err = finish(
        f"""
        import json, os, signal, sys, vedette
        from vedette import spool
        spool._SIZES = (16 << 10,)
        class Late(TimeoutError, ValueError): pass
        def ring(*_): raise Late
        run = vedette.init()
        x = run.series("x")
        x(0.0)
        journal, voice, lane = run._journal, run._journal.voice, run._journal.spool.samples
        signal.signal(signal.SIGALRM, ring)

        def fill_segment():
            while len(lane._segment) - lane._segment.tell() > 100:
                x(0.0)
            with os.scandir(journal.spool.directory) as files:  # as the hub does, so that all rolls are alike
                old = sorted(file.path for file in files if file.name.startswith("s."))[:-1]
            for path in old:
                os.unlink(path)

        def at_place(number):
            left = number
            def count(frame, event, arg):
                nonlocal left
                if event in ("call", "c_return"):
                    left -= 1
                    if left == 0:
                        places.add(os.path.basename(frame.f_code.co_filename))
                        signal.raise_signal(signal.SIGALRM)
            try:
                sys.setprofile(count)
                for _ in range(5):
                    x(0.0)
                return left > 0
            except Late:
                return None
            finally:
                sys.setprofile(None)

        places, swallowed, number, over = set(), [], 0, None
        while not over:
            number += 1
            {prepare}
            over = at_place(number)
            if over is False:
                swallowed.append(number)
        print(json.dumps([swallowed, sorted(places)]))
        """
    )

    assert (code, err) == (0, "")
    swallowed, places = json.loads(out)
    assert swallowed == []
    assert through in places


@pytest.mark.parametrize(
    "call",
    [
        "vedette.ask('x?', timeout_s=20)",
        "vedette.init()",
        "list(vedette.track(Slow()))",
        "vedette.Progress.new(Slow())",
    ],
)
def test_a_users_own_timeout_gets_out_of_everything(home, finish, call):
    """What a signal handler raises while we wait, or while code of the user's runs inside ours, reaches the user."""
    code, out, err = finish(
        f"""
        import os, signal, time, vedette
        class Late(Exception): pass
        class Slow:
            def __len__(self): return time.sleep(20)
            __float__ = __len__
            def __iter__(self): return iter([])
        def ring(*_): raise Late
        def slow_finish(self, *_): time.sleep(20)
        run = vedette.init()
        type(run).finish = slow_finish  # the second init ends the first one
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            {call}
        except Late:
            print("late", flush=True)
        os._exit(0)
        """
    )

    assert (code, out) == (0, "late\n"), err


HANDLERS = {
    "a function": "def ring(number, frame): raise Late",
    "one that is not registered any more": "def ring(*_): signal.signal(signal.SIGALRM, signal.SIG_DFL); raise Late",
    "an object": "class Ring:\n    def __call__(self, number, frame): raise Late\nring = Ring()",
    "a partial": "import functools\ndef late(by, number, frame, **_): raise Late\nring = functools.partial(late, 'me')",
}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_a_users_own_timeout_gets_out_of_slow_values(home, hub, finish, handler):
    """A watchdog that rings while a value is converted reaches the user, whatever kind of handler raises it."""
    code, out, err = finish(
        f"""
        import signal, time, vedette
        class Late(ValueError): pass
        {textwrap.indent(handler, " " * 8).strip()}
        class Slow:
            def item(self): time.sleep(5)
            __float__ = __int__ = __str__ = item
        run = vedette.init(config={{"lr": 0.1}})
        calls = [
            lambda: run.log({{"a": Slow()}}), lambda: run.log({{"a": {{"b": Slow()}}}}),
            lambda: run.log({{"a": 1}}, Slow()), lambda: run.metric("a", Slow()),
            lambda: run.config.update(a=Slow()), lambda: run.summary.update(a=[Slow()]),
            lambda: vedette.init(config={{"a": Slow()}}),
        ]
        swallowed = []
        for number, call in enumerate(calls):
            signal.signal(signal.SIGALRM, ring)
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            try:
                call()
                swallowed.append(number)
            except Late:
                pass
        print(swallowed)
        """
    )

    assert (code, out) == (0, "[]\n")
    assert "refused" not in err
    assert "failed" not in err


def test_every_broad_handler_of_the_client_lets_the_users_errors_through():
    """What runs in the user's process handles no error of any type without asking whose it is."""
    wrong = []
    for path in sorted(glob.glob(os.path.join(os.path.dirname(vedette.__file__), "client", "*.py"))):
        with open(path) as file:
            text = file.read()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name) and node.type.id == "Exception":
                first = ast.get_source_segment(text, node.body[0])
                if not first.startswith(("let_through(", "if is_of_handler(")):
                    wrong.append(f"{os.path.basename(path)}:{node.lineno}")

    assert wrong == []


def test_the_next_run_is_another_wherever_the_end_was_interrupted(home, hub, finish):
    """An error of a signal handler at any place in `finish` never makes the next `init` join the run that ended."""
    code, out, err = finish(
        """
        import os, signal, sys, vedette
        class Late(Exception): pass
        def ring(number, frame): raise Late
        signal.signal(signal.SIGALRM, ring)
        number, merged, over, keys = 0, [], False, set(os.environ)
        while not over:
            number += 1
            left = number
            def count(frame, event, arg):
                global left
                if event in ("call", "c_return"):
                    left -= 1
                    if left == 0:
                        signal.raise_signal(signal.SIGALRM)
            first = vedette.init(console=False)
            try:
                sys.setprofile(count)
                first.finish()
                over = left > 0
            except Late:
                pass
            finally:
                sys.setprofile(None)
            keys |= set(os.environ)
            with vedette.init(console=False) as second:
                if second.id == first.id:
                    merged.append(number)
        print(merged, keys - set(os.environ), number > 50)
        """,
        environ={"VEDETTE_LOGS_ENABLE": "false"},
    )

    assert (code, out) == (0, "[] set() True\n")
    assert "Traceback" not in err


def test_a_signal_handler_that_raises_while_everything_is_imported(home, hub, finish):
    """An error in the first `init`, while a module is imported, reaches the user, and the next `init` works."""
    code, out, err = finish(
        """
        import os, signal, sys
        imported = sys.argv[1]
        def ring(number, frame): raise TimeoutError
        signal.signal(signal.SIGALRM, ring)
        class Arm:
            def find_spec(self, name, path=None, target=None):
                if name == imported:
                    sys.meta_path.remove(self)
                    os.kill(os.getpid(), signal.SIGALRM)
        import vedette
        sys.meta_path.insert(0, Arm())
        try:
            vedette.init()
        except TimeoutError:
            print("late", flush=True)
        print(vedette.init(name="mine").name)
        """,
        "datetime",
    )

    assert (code, out, err) == (0, "late\nmine\n", "")
