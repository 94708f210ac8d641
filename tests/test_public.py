"""The public surface: what there is, what it weighs, and that `off` has all of it."""

import inspect
import os
import subprocess
import sys
import tempfile

import pytest

import vedette
from tests.conftest import end_hub
from vedette.client.off import OffRun
from vedette.client.run import About, Run
from vedette.home import Home
from vedette.settings import Settings

HEAVY = ("numpy", "pcodec", "sqlite3", "rich", "argcomplete", "asyncio")
OURS = (
    "vedette.store",
    "vedette.query",
    "vedette.hub",
    "vedette.views",
    "vedette.cli",
    "vedette.app",
    "vedette.access",
)
AT_IMPORT = (
    *HEAVY, *OURS, "subprocess", "multiprocessing", "concurrent", "logging", "socket", "socketserver", "http", "ssl",
    "selectors", "threading", "msgspec", "tomllib", "difflib", "hashlib", "uuid", "json", "inspect",
)  # fmt: skip
AFTER_WORK = (*HEAVY, *OURS, "subprocess", "multiprocessing", "concurrent", "socketserver", "http", "ssl",
              "selectors", "socket", "tomllib", "difflib", "json")  # fmt: skip


def in_fresh_python(code, **environ):
    """Run code in a fresh Python; return what it printed."""
    environ = {**os.environ, "VEDETTE_HUB_IDLE_S": "5", **environ}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, text=True, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


MODULES = "\nimport sys\nprint(*sys.modules, sep='\\n')"


def loaded(code, unwanted, **environ):
    """Return which of the unwanted modules some code loads."""
    found = set(in_fresh_python(code + MODULES, **environ)) - set(in_fresh_python(MODULES))
    return {name for name in found if any(name == word or name.startswith(f"{word}.") for word in unwanted)}


def test_all_is_sorted_and_complete():
    """`__all__` is the surface as it is agreed on, sorted."""
    assert vedette.__all__ == [
        "Progress", "Usage", "ask", "compare", "diff", "finish", "get", "init", "log", "mark", "metric", "monitored",
        "runs", "save", "series", "track", "use",
    ]  # fmt: skip
    assert vedette.__all__ == sorted(vedette.__all__)


def test_dir_shows_what_there_is():
    """`dir(vedette)`, and so TAB in a shell, offers the public names and nothing that is lying about."""
    shown = in_fresh_python("import vedette\nprint(*dir(vedette), sep='\\n')")

    assert [name for name in shown if not name.startswith("_")] == sorted([*vedette.__all__, "config", "summary"])
    assert {"__version__", "__all__", "__doc__"} <= set(shown)


def test_every_name_is_there(home):
    """Each public name can be had, and one that is none is an AttributeError like any other."""
    code = "import vedette\nfor name in vedette.__all__: print(type(getattr(vedette, name)).__name__)"

    assert in_fresh_python(code, VEDETTE_MODE="off") == [
        "type" if name[0].isupper() else "function" for name in vedette.__all__
    ]
    with pytest.raises(AttributeError, match="nonsense"):
        _ = vedette.nonsense
    assert not hasattr(vedette, "__path_hooks__")


def test_looking_begins_no_run(home):
    """Looking at what there is, or importing all of it, begins no run: only a verb does."""
    in_fresh_python("import vedette\nfrom vedette import *\ndir(vedette)")

    assert os.listdir(home.root) == []


def test_import_is_light():
    """`import vedette` loads no library, no server and no room of ours: next to nothing."""
    assert loaded("import vedette", AT_IMPORT) == set()
    assert loaded("import vedette", ["vedette"]) == {"vedette", "vedette.version"}


def test_the_reader_of_a_home_is_light():
    """Access to a home loads neither the store nor a heavy library before something is read: commands begin with it."""
    unwanted = (*HEAVY, "vedette.store", "vedette.query", "hashlib", "getpass")
    assert loaded("import vedette.access.home_access", unwanted) == set()


WORK = """
import vedette
run = vedette.init(config={"lr": 0.1}, tags=["a"])
run.log({"a": 1.0})
vedette.log({"a": 2.0, "nested": {"b": 1}, "bad": "x"})
vedette.metric("m", 1, tags={"k": "v"})
vedette.series("s")(1.0)
vedette.mark("here")
list(vedette.track([1], "t"))
vedette.Progress.new(2, "p").advance()
vedette.Usage.checkpoint("here")
vedette.config["x"] = 1
vedette.summary["y"] = 1
vedette.finish()
"""


def test_a_user_s_process_stays_light(home):
    """A process that takes part in a run loads neither numpy, sqlite3, rich nor asyncio, nor any room of the hub's."""
    assert loaded(WORK, AFTER_WORK) == set()


MONITOR = """
import vedette, os, tempfile
with vedette.monitored(os.path.join(tempfile.mkdtemp(), "usage.jsonl"), interval_s=0.01) as monitor:
    pass
monitor.stats(), monitor.summary()
"""


def test_a_monitored_process_stays_light():
    """A monitor in a thread loads none of what is heavy either, nor what the process form needs."""
    assert loaded(MONITOR, [name for name in AFTER_WORK if name != "concurrent"]) == set()


def test_the_check_of_weight_finds_what_is_heavy(home):
    """The positive control: a process that reads a run does load them, and the check sees it."""
    heavy = loaded(WORK + "vedette.runs()[0].history('a')", (*HEAVY, *OURS))

    assert {"numpy", "sqlite3", "vedette.store", "vedette.query"} <= heavy


NOT_TO_LIST = ("numpy", "pcodec", "rich", "textual", "asyncio", "difflib", "html", "inspect", "typing_extensions",
               "vedette.hub", "vedette.client")  # fmt: skip
NOT_TO_HELP = (*NOT_TO_LIST, "msgspec", "sqlite3", "socket", "json", "tomllib", "argcomplete", "vedette.settings")


def command(*words):
    """Return code that is `vedette WORDS`, and goes on when that is over."""
    return (
        f"import os, sys\nos._exit = sys.exit\nsys.argv = {['vedette', *words]}\n"
        "from vedette.cli import main\ntry: main()\nexcept SystemExit: pass"
    )


def completed(line):
    """Return the environment in which a shell asks for what could follow a line."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stdout"}
    return asked | {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_what_needs_no_home_loads_next_to_nothing(word):
    """`vedette --version` and `--help` load the list of commands and none of them, nor any library."""
    assert loaded(command(word), NOT_TO_HELP) == set()
    assert loaded(command(word), ["vedette"]) <= {
        "vedette",
        "vedette.cli",
        "vedette.errors",
        "vedette.lean_start",
        "vedette.version",
    }


@pytest.fixture(scope="module")
def camp():
    """A home with a run."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        in_fresh_python(WORK.replace("init(", "init(name='alpha', "), VEDETTE_HOME=root)
        yield root
        end_hub(Home(root))


@pytest.mark.parametrize("words", [("ls",), ("ls", "--json"), ("show", "alpha"), ("logs", "alpha")], ids=" ".join)
def test_what_shows_no_points_loads_no_numpy(camp, words):
    """In a pipe, commands that show no points load neither numpy, rich nor asyncio, nor anything of a hub."""
    assert any("alpha" in line or "here" in line for line in in_fresh_python(command(*words), VEDETTE_HOME=camp))
    assert loaded(command(*words), (*NOT_TO_LIST, "argcomplete", "tomllib"), VEDETTE_HOME=camp) == set()


def test_completing_a_name_loads_no_numpy(camp):
    """Nor does a shell wait for them that completes a run's name."""
    environ = {"VEDETTE_HOME": camp, **completed("vedette show al")}

    assert "alpha" in in_fresh_python(command(), **environ)[0]
    assert loaded(command(), NOT_TO_LIST, **environ) == set()


def test_the_check_of_commands_finds_what_is_heavy(camp):
    """The positive control: a command that prints points loads numpy, and the check sees it."""
    assert {"numpy", "pcodec"} <= loaded(command("points", "alpha", "a"), NOT_TO_LIST, VEDETTE_HOME=camp)


NOT_IN_A_HUB = (
    "numpy",
    "pcodec",
    "cryptography",
    "uvicorn",
    "starlette",
    "textual",
    "rich",
    "yaml",
    "psutil",
    "pynvml",
    "prometheus_client",
    "typing_extensions",
    "vedette.sources.process",
    "multiprocessing",
    "vedette.client",
    "vedette.compat",
    "vedette.listeners",
    "vedette.views",
    "vedette.sinks.prometheus",
)


def test_a_hub_begins_light():
    """A hub loads no server of the page, no screen and no certificate's library, and numpy with the first points."""
    assert loaded("import vedette.hub.program, vedette.hub.listeners", NOT_IN_A_HUB) == set()


def test_numpy_comes_with_the_first_points(home):
    """A hub that answers has no numpy until it keeps points."""
    in_fresh_python(command("doctor"))
    before = maps(home)
    in_fresh_python(WORK)
    in_fresh_python(command("ls"))

    assert "numpy" not in before
    assert "numpy" in maps(home)


def maps(home):
    """Return what the hub of a home has mapped."""
    with open(f"/proc/{home.hub_pid()}/maps") as file:
        return file.read()


def test_off_is_light(home):
    """With VEDETTE_MODE=off nothing is loaded either, and nothing is written."""
    assert loaded(WORK, (*AFTER_WORK, "logging"), VEDETTE_MODE="off") == set()
    assert os.listdir(home.root) == []


@pytest.fixture
def run(home):
    """A run of this very process."""
    begun = Run._begin(Home(home.asked), Settings(), About("p", name="n", config={}))
    yield begun
    begun.finish()


def test_off_has_every_attribute_of_a_run(run):
    """What can be said to a Run can be said to the run of VEDETTE_MODE=off."""
    public = {name for name in dir(run) if not name.startswith("_")}

    assert public - set(dir(OffRun())) == set()


@pytest.mark.parametrize("name", ["log", "metric", "series", "mark", "progress", "finish"])
def test_off_takes_the_same_parameters(name):
    """With the same parameters, in the same order, with the same defaults."""

    def parameters(cls):
        return [
            (item.name, item.kind, item.default) for item in inspect.signature(getattr(cls, name)).parameters.values()
        ]

    assert parameters(Run) == parameters(OffRun)


def test_off_returns_the_same_kinds(run):
    """And returns things of the same kind: None, a handle that takes the same, itself in a `with`."""
    off = OffRun()
    for one in (run, off):
        assert one.log({"a": 1}, step=1) is None
        assert one.metric("m", 1, tags={"a": "b"}, step=1) is None
        assert one.series("s", tags={"a": "b"})(1.0, step=2) is None
        assert one.mark("a", 1) is None
        assert one.progress(3, "p").advance() is None
        assert isinstance(one.id, str)
        assert isinstance(one.name, str)
        assert one.url is None
        assert one.finished is False
        assert isinstance(one.summary, dict)
    with off as same:
        assert same is off
    assert off.finish("failed") is None


CONFIGS = """
import argparse, dataclasses, vedette
@dataclasses.dataclass
class Options:
    lr: float = 0.1
    deep: dict = dataclasses.field(default_factory=lambda: {"depth": 18})
deep = {"depth": 18}
configs = [None, {}, {"lr": 0.1, "deep": deep}, Options(), argparse.Namespace(lr=0.1, deep=deep), {1: 2}]
for config in configs:
    print(dict(vedette.init(config=config).config))
"""


def test_off_has_the_same_config(home):
    """A script that reads its run.config finds the same there, recorded or not."""
    assert in_fresh_python(CONFIGS, VEDETTE_MODE="off") == in_fresh_python(CONFIGS)
