"""Log records, warnings and printed lines, taken down in the process: what is kept, and that nothing else changes."""

import contextlib
import logging
import logging.config
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import time
import warnings
from logging.handlers import QueueHandler, QueueListener

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.logging import RichHandler
from rich.panel import Panel
from rich.table import Table
from rich.tree import Tree

import vedette
from tests.journeys.conftest import read_runs
from tests.soak import times
from vedette.client import faults, logs, messages, rendering
from vedette.client.messages import compose, spell
from vedette.sources.colours import colourless

pytestmark = pytest.mark.usefixtures("hub", "fresh_logging")


@pytest.fixture
def log(request):
    """A logger that no other test has."""
    return logging.getLogger(f"test.{request.node.name}")


def test_what_nobody_asked_a_library_for(taken, tmp_path, log):
    """INFO of a library is marked where only we wanted it; the user's own, and what somebody asked for, is not."""
    path = tmp_path / "site-packages" / "lib.py"
    path.parent.mkdir()
    path.write_text("import logging\nlog = logging.getLogger('lib')\n")
    library = {}
    exec(compile(path.read_text(), str(path), "exec"), library)
    speak = compile("log.info('of the library'); log.warning('loud')", str(path), "exec")
    exec(speak, library)
    library["log"].setLevel(logging.INFO)
    exec(speak, library)
    log.info("my own")

    marked = [(event.text, event.attrs.get("unasked", False)) for event in taken("log")]
    assert marked == [
        ("of the library", True), ("loud", False), ("of the library", False), ("loud", False), ("my own", False),
    ]  # fmt: skip


def texts(events):
    return [event.text for event in events]


def bare():
    """Take away the handlers that pytest itself hangs on the root logger for the length of a test."""
    logging.getLogger().handlers[:] = []


class Catch(logging.Handler):
    """A handler of the user's: what it got, formatted."""

    def __init__(self, level=0):
        super().__init__(level)
        self.got = []
        self.failed = 0

    def emit(self, record):
        try:
            self.got.append(self.format(record))
        except Exception:
            self.failed += 1


class Broken:
    """Has no text."""

    def __str__(self):
        raise ValueError("no text")

    __repr__ = __format__ = __str__


class BrokenRich(Broken):
    """Cannot be drawn either."""

    def __rich_console__(self, console, options):
        raise ValueError("no picture")


class Endless:
    """Is drawn for ever."""

    def __rich_console__(self, console, options):
        while True:
            yield "again and again"


class Deep:
    """Recurs for ever."""

    def __str__(self):
        return f"{self}"


class Meta(type):
    """A class without a name."""

    @property
    def __name__(cls):
        raise ValueError("no name")


class Nameless(metaclass=Meta):
    """Has no text, of a class that has no name."""

    def __str__(self):
        raise ValueError


class BadError(Exception):
    """An exception whose own text fails."""

    def __str__(self):
        raise BadError


class RaisesBad:
    """Fails by an exception that fails."""

    def __str__(self):
        raise BadError


def table():
    found = Table("col1", "col2")
    found.add_row("one", "[red]two[/]")
    return found


def test_a_record_has_all_that_logging_knows(taken, log):
    """A record's text, level, logger, file, line, function, thread, process and exception are on record."""
    handler = Catch()
    log.addHandler(handler)
    line = sys._getframe().f_lineno + 1
    log.warning("loss is %s after %d", 0.5, 3)
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        log.exception("oh")

    warning, error = taken("log")
    assert (warning.text, warning.level) == ("loss is 0.5 after 3", 30)
    assert warning.attrs == {
        "logger": log.name, "file": __file__, "line": line, "thread": "MainThread", "pid": os.getpid(),
        "function": "test_a_record_has_all_that_logging_knows",
    }  # fmt: skip
    assert error.level == 40
    assert error.attrs["exception"].endswith("ZeroDivisionError: division by zero\n")
    assert handler.got[0] == "loss is 0.5 after 3"


def test_several_messages_in_one_call(taken, log):
    """Several messages are joined, for us and for the user's own handlers, and nobody prints a traceback."""
    handler = Catch()
    log.addHandler(handler)
    log.warning("a", "b", "c")
    log.warning("loss %d", "many", 3)
    log.warning("100%", 5)
    log.warning("a", {"k": 1})

    assert texts(taken("log")) == ["a b c", "loss %d many 3", "100% 5", "a {'k': 1}"]
    assert handler.got == ["a b c", "loss %d many 3", "100% 5", "a"]  # the last as logging itself has it
    assert handler.failed == 0


def test_objects_of_rich(taken, log):
    """Tables, panels and trees are on record as they look, plain and with colours; the user's handlers get the text."""
    handler = Catch()
    log.addHandler(handler)
    tree = Tree("root")
    tree.add("leaf")
    log.warning("title of table", table())
    log.warning(Panel("inside", title="top"))
    log.warning("%s and %d", tree, 3)
    log.warning("a", tree, "b")

    events = taken("log")
    assert events[0].text.splitlines()[0] == "title of table"
    assert "│ one  │ two  │" in events[0].text
    assert "\x1b[31mtwo" in events[0].attrs["ansi"]
    assert colourless(events[0].attrs["ansi"]) == events[0].text
    assert "inside" in events[1].text
    assert events[2].text == "root\n└── leaf and 3"
    assert events[3].text == "a\nroot\n└── leaf\nb"
    assert handler.got == texts(events)
    assert all("\x1b" not in event.text for event in events)


def test_an_endless_picture_is_cut():
    """What is drawn by rich has at most 64 KiB, even if it would be drawn for ever."""
    plain, coloured = rendering.render(Endless())

    assert len(plain) < rendering.MAX_CHARS + 100
    assert len(coloured) < rendering.MAX_CHARS + 100


HOSTILE = [
    Broken(), BrokenRich(), Deep(), Nameless(), RaisesBad(), b"\xff\x00", "\udcff", "\x00", 10**5000, [Broken()],
    {"a": Broken()}, object, Table, type("Odd", (), {"__rich__": 3})(), float("nan"), "%", "%s %s", "%(a)s", None, ...,
    {"a": 1}, (1, 2), "x" * 100_000, [0] * 30_000, bytes(30_000), dict.fromkeys(range(30_000)),
]  # fmt: skip
anything = st.sampled_from(HOSTILE) | st.text() | st.integers() | st.binary() | st.floats() | st.none()


@given(msg=anything, args=st.lists(anything, max_size=4).map(tuple))
@settings(deadline=None, max_examples=times(100))
def test_a_text_is_made_of_anything(msg, args):
    """Whatever a record is made of, it has a text that is not too long and can be written, and nothing raises."""
    record = logging.LogRecord("a", 20, "<string>", 1, msg, args, None)
    for text in compose(record.msg, record.args):
        assert text.encode().decode() == text
        assert len(text) <= messages.MAX_CHARS + 10


def test_nothing_that_is_logged_raises(taken, log):
    """Hostile objects, as message and as arguments, reach the record and the user's handlers without an error."""
    handler = Catch()
    log.addHandler(handler)
    log.propagate = False  # pytest's own handlers would report what cannot be written
    before = faults.swallowed
    for value in HOSTILE:
        log.warning(value)
        log.warning("x %s", value)
        log.warning("x", value, value)
        log.warning(value, value)
    calls = 4 * len(HOSTILE)

    assert (len(handler.got), handler.failed) == (calls, 0)
    assert faults.swallowed == before
    assert len(taken("log")) == calls


def test_records_from_anywhere(taken, log):
    """A record with odd fields (no file, exc_info that is none, a level that is no number) does no harm."""
    log.addHandler(logging.NullHandler())
    log.propagate = False
    for odd in (
        {"pathname": None, "lineno": None}, {"pathname": "<string>"}, {"pathname": "rel/a.py", "lineno": -5},
        {"exc_info": True}, {"exc_info": (None, None, None)}, {"exc_info": ValueError("x")}, {"exc_info": "odd"},
        {"name": None}, {"threadName": 5}, {"stack_info": 7}, {"exc_text": b"x"}, {"levelno": "high"}, {"args": 5},
        {"levelno": None}, {"funcName": Broken()}, {"lineno": 10**30},
    ):  # fmt: skip
        record = logging.makeLogRecord({"levelno": 30, "msg": "odd", **odd})
        with contextlib.suppress(TypeError):  # logging itself compares the level
            log.handle(record)

    assert len(taken("log")) == 14


def test_a_record_that_is_made_while_one_is_taken_down(taken, log):
    """A `__str__` that logs is no loop, and what it logs is on record too."""
    bare()

    class Talks:
        def __str__(self):
            log.warning("from inside")
            return "talk"

    class Loops:
        def __str__(self):
            log.warning("%s", self)
            return "loop"

    log.addHandler(logging.NullHandler())
    log.warning("%s", Talks())
    log.warning("%s", Loops())

    found = texts(taken("log"))
    assert found[:2] == ["from inside", "talk"]
    assert found[2:] == ["loop"] * 3


def test_an_interrupt_passes(taken, log):
    """What a signal handler raises while a record is taken down is the user's, and passes."""

    class Late(Exception):
        pass

    def ring(number, frame):
        raise Late

    class Slow:
        def __str__(self):
            os.kill(os.getpid(), signal.SIGALRM)
            time.sleep(1)
            return "slow"

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Late):
            log.warning("%s", Slow())
    finally:
        signal.signal(signal.SIGALRM, before)


def test_info_is_taken_down_and_goes_no_further(taken, log):
    """With the root logger at its default INFO is on record, and the user's handlers do not get it."""
    handler = Catch()
    logging.getLogger().addHandler(handler)
    log.info("for the record")
    log.debug("for nobody")
    log.warning("for all")
    assert log.getEffectiveLevel() == logging.WARNING

    assert texts(taken("log")) == ["for the record", "for all"]
    assert handler.got == ["for all"]


def test_levels_that_the_user_has_set_hold(taken, log):
    """A level on a logger, a root logger above WARNING, `disable` and `disabled` hold for us too, set at any time."""
    child = log.getChild("child")
    root = logging.getLogger()
    child.info("1")
    log.setLevel(logging.ERROR)
    child.info("no")
    child.warning("no")
    log.setLevel(logging.NOTSET)
    child.info("2")
    root.setLevel(logging.ERROR)
    child.info("no")
    root.setLevel(logging.WARNING)
    logging.disable(logging.INFO)
    child.info("no")
    logging.disable(logging.NOTSET)
    child.disabled = True
    child.info("no")
    child.disabled = False
    child.info("3")

    assert texts(taken("log")) == ["1", "2", "3"]


def test_loggers_that_do_not_propagate(taken, log):
    """A logger that keeps its records to itself is heard as well; a filter of a logger holds."""
    handler = Catch()
    log.propagate = False
    log.addHandler(handler)
    log.addFilter(lambda record: "secret" not in record.getMessage())
    log.info("info")
    log.error("error")
    log.error("secret")

    assert texts(taken("log")) == ["info", "error"]
    assert handler.got == ["error"]


def test_handling_a_record_by_hand_is_as_ever(taken, log):
    """`logger.handle` passes a record on whatever its level, as it does without us."""
    handler = Catch()
    log.addHandler(handler)
    log.handle(logging.makeLogRecord({"levelno": 20, "msg": "by hand"}))
    log._log(20, "by its inside", ())

    assert handler.got == ["by hand", "by its inside"]
    assert texts(taken("log")) == ["by hand", "by its inside"]


def test_configuring_after_init(capsys, taken, log):
    """`basicConfig` and `dictConfig` after init do what they do without us."""
    vedette.init()
    bare()
    logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
    assert len(logging.getLogger().handlers) == 1
    log.warning("one")
    log.info("two")
    config = {
        "version": 1, "disable_existing_loggers": False,
        "handlers": {"h": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}},
        "root": {"level": "INFO", "handlers": ["h"]},
    }  # fmt: skip
    logging.config.dictConfig(config)
    log.info("three")

    assert capsys.readouterr().out == "WARNING one\nthree\n"
    events = taken()
    assert texts(events) == ["one", "two", "three"]
    assert [event.attrs.get("printed") for event in events] == [True, None, True]
    logging.getLogger().handlers[:] = []


def test_the_last_resort_speaks(capsys, taken, log):
    """Where there is no handler, the handler of last resort prints as ever, and the record says that it is printed."""
    vedette.finish()
    vedette.init()
    bare()
    log.warning("nobody listens")
    log.info("nobody at all")

    assert capsys.readouterr().err == "nobody listens\n"
    assert [event.attrs.get("printed") for event in taken()] == [True, None]


def test_what_handlers_print_is_not_taken_down_twice(capsys, taken, log):
    """A StreamHandler, rich's own handler, one behind a queue: one event each, marked as printed where we can know."""
    vedette.finish()
    vedette.init()
    bare()
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(RichHandler())
    log.info("by rich")
    log.handlers[:] = []
    passing = queue.Queue()
    listener = QueueListener(passing, logging.StreamHandler(sys.stderr))
    listener.start()
    log.addHandler(QueueHandler(passing))
    log.info("by a queue", "and more")
    listener.stop()

    printed = capsys.readouterr()
    assert "by rich" in printed.out
    assert printed.err == "by a queue and more\n"
    assert [(event.kind, event.text) for event in taken()] == [("log", "by rich"), ("log", "by a queue and more")]


def worker_of_queue(records, go, name):
    """Log to a queue, as a worker of multiprocessing does, once it may."""
    go.wait(60)
    log = logging.getLogger(name)
    log.handlers[:] = [QueueHandler(records)]
    log.warning("by %s", multiprocessing.current_process().name)


def test_a_record_of_a_worker_is_recorded_once(home, log):
    """A record that comes from a worker is recorded by it, or, if it began before the run, by who handles the record.

    One that comes from elsewhere is recorded, too.
    """
    fork = multiprocessing.get_context("fork")
    records, go = fork.Queue(), fork.Event()
    workers = [fork.Process(target=worker_of_queue, args=(records, go, log.name), name="early")]
    workers[0].start()
    vedette.init()
    workers.append(fork.Process(target=worker_of_queue, args=(records, go, log.name), name="late"))
    workers[1].start()
    go.set()
    for _ in workers:
        log.handle(records.get(timeout=60))
    for worker in workers:
        worker.join()
    log.handle(logging.makeLogRecord({"levelno": 30, "msg": "far", "process": 1, "processName": "MainProcess"}))
    vedette.finish()

    assert sorted(texts(read_runs(home)[-1].logs(kind="log"))) == ["by early", "by late", "far"]


def test_all_is_put_back(home):
    """After the run `logging`, `warnings` and the streams are what they were, and nothing is taken down."""
    methods = [
        (logging.Logger, "isEnabledFor"), (logging.Logger, "makeRecord"), (logging.Logger, "callHandlers"),
        (logging.LogRecord, "getMessage"), (logging.Handler, "handle"), (warnings, "showwarning"),
    ]  # fmt: skip
    before = [vars(owner)[name] for owner, name in methods]
    finders = sys.meta_path[:]
    out, own = sys.stdout, dict(vars(sys.stdout))
    for _ in range(2):
        vedette.init()
        assert all(vars(owner)[name] is not was for (owner, name), was in zip(methods, before, strict=True))
        assert sys.stdout is out
        vedette.finish()
        assert [vars(owner)[name] for owner, name in methods] == before
        assert vars(out) == own
        assert sys.meta_path == finders
    print("after it")
    logging.getLogger("x").warning("after it")

    assert [texts(run.logs()) for run in read_runs(home)] == [[], []]


def test_what_somebody_has_wrapped_stays(home, capsys):
    """What another tool has put on top of ours is left alone, ours does nothing then, and a new run is heard once."""
    bare()
    vedette.init()
    ours = logging.Logger.callHandlers
    seen = []

    def on_top(self, record):
        seen.append(record)
        ours(self, record)

    logging.Logger.callHandlers = on_top
    try:
        vedette.finish()
        logging.getLogger("x").warning("between")
        vedette.init()
        logging.getLogger("x").warning("again")
    finally:
        logging.Logger.callHandlers = ours
        vedette.finish()

    assert len(seen) == 2
    assert [texts(run.logs(kind="log")) for run in read_runs(home)] == [[], ["again"]]
    assert capsys.readouterr().err == "between\nagain\n"


@pytest.mark.parametrize(
    ("variable", "value", "kinds"),
    [
        ("VEDETTE_LOGS_ENABLE", "false", ["output", "output"]),
        ("VEDETTE_LOGS_OUTPUT", "false", ["log", "log"]),
        ("VEDETTE_LOGS_LEVEL", "30", ["log", "output"]),
        ("VEDETTE_LOGS_LEVEL", "10", ["log", "log", "log", "output"]),
    ],
)
def test_settings_hold(home, monkeypatch, variable, value, kinds):
    """`logs.enable`, `logs.level` and `logs.output` say what is taken down."""
    bare()
    monkeypatch.setenv(variable, value)
    vedette.init()
    log = logging.getLogger("test.settings")
    log.debug("debug")
    log.info("info")
    log.warning("warning")
    print("printed")
    vedette.finish()

    assert [event.kind for event in read_runs(home)[0].logs()] == kinds


def test_spelling_is_bounded():
    """What holds very much is spelled out in part; an ordinary list is as ever."""
    assert spell([1, 2]) == "[1, 2]"
    assert len(spell([0] * 10**7)) < 1000
    assert len(spell(bytes(10**8))) < 200_000
    assert len(compose("x %s", ([0] * 10**7,))[0]) < 1000


def test_init_loads_no_rich(home):
    """Rich is loaded where an object of it is logged, not before."""
    code = "import vedette, logging, sys; vedette.init(); logging.warning('a', 1); print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)

    assert done.stdout == "False\n"


def test_the_check_of_what_is_put_back_sees_a_leftover(home):
    """The positive control: a part that is not put back is seen by the same comparison."""
    original = logging.Handler.handle
    vedette.init()
    ours = logs._originals.pop((logging.Handler, "handle"))
    vedette.finish()

    assert logging.Handler.handle is not original
    logs._originals[logging.Handler, "handle"] = ours
    logs._put_back()
    assert logging.Handler.handle is original


def test_warnings_are_heard_after_a_run_in_catch_warnings(home):
    """A run that began inside `catch_warnings`, which takes our hook away at its end, leaves later runs their ears."""
    with warnings.catch_warnings():
        vedette.init(name="inside")
    vedette.finish()
    vedette.init(name="later")
    warnings.warn_explicit("heard", UserWarning, "file.py", 1)
    vedette.finish()

    assert texts(read_runs(home)[-1].logs(kind="warning")) == ["heard"]
