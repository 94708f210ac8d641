"""A notebook in a real kernel: what is kept of it, what it shows, and how its end is named."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from tests.conftest import PROGRAMS, begin_hub, end_hub
from tests.journeys.conftest import eventually, read_runs
from tests.rooms.conftest import QUICK, call
from vedette import app, manifest
from vedette.blobs import Blobs
from vedette.home import Home
from vedette.query.cells import Cells

HOSTILE = "<script>alert(1)</script>"


class Kernel:
    """A kernel as a notebook's editor drives it."""

    def __init__(self, folder, environ):
        self._manager = KernelManager()
        self._manager._kernel_spec = KernelSpec(  # else one would have to be installed
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="python",
            language="python",
        )
        self._manager.start_kernel(cwd=str(folder), env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(60)
        self.connection_file = self._manager.connection_file
        self.asked = []
        self.last = {}  # the last state of each display, whichever cell ran then

    def run(self, code, *, types="", interrupted=False):
        """Run a cell; return the displays below it by id, each with all its states, and the status of the cell."""
        shown = {}

        def take(message):
            content = message["content"]
            if message["msg_type"] in ("display_data", "update_display_data"):
                id_ = content["transient"].get("display_id")
                shown.setdefault(id_, []).append(content["data"])
                self.last[id_] = content["data"]
            elif message["msg_type"] == "stream":
                shown.setdefault(content["name"], []).append(content["text"])
            elif message["msg_type"] == "execute_input" and interrupted:
                threading.Timer(0.3, self._manager.interrupt_kernel).start()

        def answer(message):
            self.asked.append(message["content"])
            self._client.input(types)

        reply = self._client.execute_interactive(
            code, output_hook=take, stdin_hook=answer, allow_stdin=True, timeout=60, stop_on_error=False
        )
        return shown, reply["content"]["status"]

    def restart(self):
        """Restart, as the button does."""
        self._manager.restart_kernel()
        self._client.wait_for_ready(60)

    def close(self):
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel()


class Story:
    """One notebook from its first cell to its end, and what it left."""


@pytest.fixture(scope="module")
def story():
    """Run the cells once for all tests: each cell of a kernel costs little, a kernel does not."""
    told = Story()
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True))
        told.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nb-"))
        told.home = Home(root)
        _files(told.folder)
        runtime = os.path.join(told.folder, "runtime")
        environ = {**os.environ, **QUICK, **dict.fromkeys(PROGRAMS, "false"), "VEDETTE_HOME": root}
        environ |= {"JUPYTER_RUNTIME_DIR": runtime, "IPYTHONDIR": os.path.join(root, "ipython")}
        environ |= {"JPY_SESSION_NAME": os.path.join(told.folder, "work.ipynb"), "VEDETTE_CAPTURE_ENABLE": "true"}
        begin_hub(told.home)
        stack.callback(end_hub, told.home)
        kernel = told.kernel = Kernel(told.folder, environ)
        stack.callback(kernel.close)
        with open(kernel.connection_file) as file:
            told.key = json.load(file)["key"]
        _tell(told, kernel)
        told.runs = {run.name: run for run in read_runs(told.home)}
        yield told


def _files(folder):
    os.mkdir(os.path.join(folder, "runtime"))
    os.mkdir(os.path.join(folder, "lib"))
    for name, text in {
        "lib/model.py": "SCALE = 3\n", "late.py": "X = 1\n", "unused.py": "Y = 1\n", "notes.txt": "private\n",
        "runtime/jpserver-1.json": '{"token": "keyofserver"}', "kernel-7.json": '{"key": "keyofkernel"}',
    }.items():  # fmt: skip
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


def _tell(told, kernel):
    kernel.run("import os, time\nfrom lib import model")
    told.path, _ = kernel.run(
        "__vsc_ipynb_file__ = '/v/s.ipynb'\nfrom vedette.client import notebook\nprint(notebook.path())\n"
        "del __vsc_ipynb_file__"
    )
    told.first, _ = kernel.run(
        f"import vedette\napi_key = 'sk-0123456789abcdef0123456789abcdef'\nrun = vedette.init(name='a{HOSTILE}')"
    )
    os.environ["VEDETTE_HOME"] = told.home.asked
    told.bars, _ = kernel.run(
        "for i in vedette.track(range(3), 'out<b>er'):\n    for j in vedette.track(range(40), 'inner'):\n"
        "        run.log({'loss': 1 / (40 * i + j + 1), 'acc<i>': j}, step=40 * i + j); time.sleep(0.002)"
    )
    told.chart, _ = kernel.run("run")
    told.error, _ = kernel.run("def fail():\n    1 / 0\nfail()")
    told.answer, _ = kernel.run("print(vedette.ask('who?', password=True))", types="ada")
    kernel.run("%time import late")

    def captured():
        found = app.get(f"a{HOSTILE}", home=told.home.asked).attrs
        return found if found.get("code.files") == 2 and found.get("capture") == "done" else None

    eventually(captured)
    kernel.run("os.environ['VEDETTE_CAPTURE_ENABLE'] = 'false'; config = {'lr': 1}")
    told.again_dir = os.path.join(told.folder, "again")
    told.reproduced = call("reproduce", "a", "--dir", told.again_dir, home=told.home.asked)
    told.second, _ = kernel.run("run = vedette.init(name='b', config=config)")
    told.interrupt, _ = kernel.run("with run:\n    time.sleep(30)", interrupted=True)
    for _ in range(2):
        kernel.run("import asyncio\nawait asyncio.sleep(0)\nagain = vedette.init(name='again', resume=False)")
    told.again = [run for run in read_runs(told.home) if run.name == "again"]
    told.many, _ = kernel.run("for n in range(25): vedette.init(name=f'loop{n}').finish()")
    kernel.run("run = vedette.init(name='c')")
    kernel.restart()
    kernel.run("import vedette\nvedette.log({'x': 1})\n1 / 0")


def test_the_key_of_a_kernel_is_kept_nowhere(story):
    """No connection file is in the home, whatever its name and place; the kernel's key is nowhere in it."""
    assert len(story.key) > 20
    places = [os.path.join(at, name) for at, _, names in os.walk(story.home.root) for name in names]
    assert len(places) > 5
    for place in places:
        with contextlib.suppress(OSError), open(place, "rb") as file:  # sockets
            data = file.read()
            assert story.key.encode() not in data
            assert b"keyofserver" not in data
            assert b"keyofkernel" not in data


def test_of_a_notebook_cells_and_imported_modules_are_kept(story):
    """Modules that cells imported before and after `init` are kept, and the cells in order, without secrets."""
    run = story.runs[f"a{HOSTILE}"]
    blobs = Blobs(story.home)
    listed = manifest.read(blobs.open(run.attrs["code.digest"]).read())
    assert [entry.path for entry in listed] == ["late.py", "lib/model.py"]
    assert run.attrs["notebook"] == os.path.join(story.folder, "work.ipynb")
    assert (run.attrs["script"], run.attrs["code.script"]) == ("work.ipynb", "notebook.py")
    assert "argv" not in run.attrs
    source = Cells(run).data.decode()
    assert [line for line in source.split("\n") if line.startswith("# %%")] == [f"# %% [{n}]" for n in range(1, 11)]
    assert source.index("from lib import model") < source.index("vedette.init") < source.index("# %time import late")
    assert "api_key = '***'" in source
    compile(source, "notebook.py", "exec")


def test_a_notebook_is_written_out_as_a_program(story):
    """`reproduce` writes cells and modules as files, and a command that runs them; it counts what is gone."""
    assert (story.reproduced.returncode, story.reproduced.stderr) == (0, "")
    assert "missing: 1 magic of IPython" in story.reproduced.stdout
    code = os.path.join(story.again_dir, "code")
    assert sorted(os.listdir(code)) == ["late.py", "lib", "notebook.py"]
    with open(os.path.join(story.again_dir, "run.sh")) as file:
        assert '"${PYTHON:-python3}" notebook.py' in file.read()


def test_vs_code_tells_the_path_in_its_own_way(story):
    """The path that VS Code leaves among the variables of the notebook is the notebook's."""
    assert story.path["stdout"] == ["/v/s.ipynb\n"]


def test_a_cell_that_begins_many_runs_shows_some(story):
    """A loop that begins 25 runs shows 20 of them, and says that there are more."""
    assert len([states for states in story.many.values() if "loop" in states[0]["text/plain"]]) == 20
    assert sum("more runs begin in this cell" in states[0]["text/plain"] for states in story.many.values()) == 1


def test_init_shows_the_run_and_track_a_bar(story):
    """`init` shows name, state and how to open the page; bars of a cell are one display, which ends at 100 %."""
    [states] = story.first.values()
    assert "running" in states[0]["text/plain"]
    assert f"vedette ui {story.runs[f'a{HOSTILE}'].id}" in states[0]["text/html"]
    [states] = [states for name, states in story.bars.items() if "<progress" in states[0]["text/html"]]
    assert states[-1]["text/plain"].split("\n")[0].startswith("out<b>er: 100% 3/3")
    assert states[-1]["text/plain"].count("inner: 100% 40/40") == 3


def test_a_run_as_last_expression_is_a_chart_of_all_its_points(story):
    """The last expression `run` draws each metric; its numbers are those of all points."""
    [chart] = [story.kernel.last[id_] for id_ in story.chart if "<svg" in story.kernel.last[id_]["text/html"]]
    assert "loss: 0.00833333 (0.00833333 to 1, 120 points)" in chart["text/plain"]
    assert chart["text/html"].count("<svg") == 2


def test_nothing_hostile_reaches_the_notebook(story):
    """Names and messages are text in every display, never markup."""
    pages = [
        state["text/html"]
        for shown in (story.first, story.bars, story.chart, story.second)
        for states in shown.values()
        for state in states
        if isinstance(state, dict)
    ]
    assert len(pages) > 4
    assert any("&lt;script&gt;" in page for page in pages)
    assert any("out&lt;b&gt;er" in page for page in pages)
    assert not any(word in page for page in pages for word in ("<script", "<b>er", "acc<i>"))


def test_a_failed_cell_is_an_error_of_the_run(story):
    """A cell that raises is an event with its traceback, by the numbers of cells; the run goes on."""
    run = story.runs[f"a{HOSTILE}"]
    [event] = run.logs(kind="exception")
    assert (event.level, event.attrs["cell"], event.attrs["type"]) == (40, 6, "ZeroDivisionError")
    assert 'File "In[6]", line 2, in fail' in event.text
    assert "interactiveshell" not in event.text


def test_a_question_is_an_input_in_the_notebook(story):
    """`ask` opens an input field of the notebook, hidden for a password, and returns what is typed."""
    assert story.kernel.asked == [{"prompt": "who?", "password": True}]
    assert story.answer["stdout"] == ["ada\n"]


def test_the_ends_of_runs_name_what_happened_to_the_kernel(story):
    """A cell that begins a run ends the one before; interrupts, restarts and a failed last cell are named."""
    ended = {name: (run.state, run.cause) for name, run in story.runs.items()}
    assert ended[f"a{HOSTILE}"] == ("done", "")
    assert ended["b"] == ("cancelled", "the kernel was interrupted while it ran cell 11")
    assert ended["c"] == ("cancelled", "the kernel was restarted")
    assert story.runs["work"].series()[0].name == "x"
    assert [run.state for run in story.again] == ["done", "running"]


def test_what_later_cells_print_is_recorded(story):
    """IPython puts the streams back after each cell; what the cells after that of `init` print is recorded, too."""
    assert "ada" in [line.text for line in story.runs[f"a{HOSTILE}"].logs() if line.kind == "output"]
