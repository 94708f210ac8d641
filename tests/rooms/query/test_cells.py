"""The cells of a notebook as one file of the run's code."""

import ast
import hashlib

import pytest

from tests.rooms.conftest import BORN
from vedette import manifest
from vedette.model import Event
from vedette.query.cells import Cells
from vedette.query.explain import explain
from vedette.query.recipe import recipe
from vedette.query.runs import view

FIRST = {1: "import model", 3: "lr = 0.1\nmodel.train(lr)"}


@pytest.fixture
def notebook(make):
    """Make a run of a notebook with these cells, by their numbers."""

    def begin(name, cells, **attrs):
        make.run(name, notebook="/w/x.ipynb", capture="done", **attrs)
        make.facts(name, *(Event(name, BORN + n, "cell", 10, text, {"n": n}) for n, text in cells.items()))

    return begin


def test_cells_are_one_file_with_their_numbers(store, notebook):
    """Cells come in order below their numbers; magics are comments, so that the file is Python."""
    notebook("a", {1: "%load_ext x\nimport os", 2: "%%bash\nls", 4: "!pip list\nx = 5 % 3\n"})
    cells = Cells(view(store, "a"))
    assert cells.data.decode() == (
        "# %% [1]\n# %load_ext x\nimport os\n\n# %% [2]\n# %%bash\n# ls\n\n# %% [4]\n# !pip list\nx = 5 % 3\n"
    )
    assert (cells.count, cells.magics, cells.entry.path) == (3, 3, "notebook.py")
    assert cells.entry.digest == hashlib.sha256(cells.data).hexdigest()


@pytest.mark.parametrize(
    ("cell", "python", "magics"),
    [
        ('m = ("%d"\n    % 3)', 'm = ("%d"\n    % 3)', 0),
        ('t = """\n%time\n!ls\n"""', 't = """\n%time\n!ls\n"""', 0),
        ("if x:\n    %matplotlib inline", "if x:\n    pass  # %matplotlib inline", 1),
        ("df?\ny = 1", "# df?\ny = 1", 1),
        ("files = !ls\nn = %timeit -o f()", "# files = !ls\n# n = %timeit -o f()", 2),
        ("%%time\n%cd x\ny = 1", "# %%time\n# %cd x\ny = 1", 2),
        ("%%capture out\nfit()", "# %%capture out\nfit()", 1),
        ("%%html\n<b>", "# %%html\n# <b>", 1),
        ("await get()", "await get()", 0),
        ("for (", "# for (", 0),
        ("x = [\n  %a?\n]", "# x = [\n#   pass  # %a?\n# ]", 1),
        ("", "", 0),
    ],
)
def test_magics_become_comments_and_nothing_else_does(store, notebook, cell, python, magics):
    """What IPython runs as Python stays as it is, and what is left is Python."""
    notebook("a", {1: cell})
    cells = Cells(view(store, "a"))
    compile(cells.data, "notebook.py", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert (cells.data.decode(), cells.magics) == (f"# %% [1]\n{python}\n", magics)


HOSTILE = (
    "../x.py",
    "a/../../x.py",
    "/etc/x.py",
    "a//x.py",
    "./x.py",
    ".git/config",
    "x\0.py",
    "..",
    "x" * 5000,
)


@pytest.mark.parametrize("script", [*HOSTILE, "books/x.py"], ids=lambda script: script[:20])
def test_the_name_of_the_file_leads_nowhere_else(store, notebook, script):
    """A run may come from anybody: a name that no file of a package can have is not taken, nor by the command."""
    notebook("a", {1: "x = 1"}, code={"script": script, "root": "/w"})
    seen = view(store, "a")
    path = "notebook.py" if script in HOSTILE else script
    assert Cells(seen).entry.path == path
    shown = recipe("a", "a", seen.attrs, {}, [path], {}, {}).texts["run.sh"].splitlines()[-1]
    assert shown.endswith(f' {path} "$@"')


@pytest.mark.parametrize("n", [7, "7]\nimport os", True, [7], None, 7.5])
def test_what_is_no_number_is_not_written_as_one(store, make, n):
    """Only a whole number stands above a cell: a text could have lines of its own."""
    make.run("a", notebook="/w/x.ipynb")
    make.facts("a", Event("a", BORN, "cell", 10, "x = 1", {} if n is None else {"n": n}))
    assert Cells(view(store, "a")).data.decode() == f"# %% [{7 if n == 7 else '?'}]\nx = 1\n"


def test_a_run_without_a_notebook_has_none(store, make):
    """A script's run has no such file."""
    make.run("a")
    assert Cells(view(store, "a")).add_to([]) == []


def test_diff_shows_the_lines_of_cells_that_differ(store, notebook):
    """A changed line of a cell is a difference of the code; cells that only ran as other numbers are not one."""
    notebook("a", FIRST)
    notebook("b", {1: "import model", 3: "lr = 0.2\nmodel.train(lr)"})
    notebook("c", {1: "import model", 7: FIRST[3]})
    [change] = explain(view(store, "a"), view(store, "b"), lambda _digest: None).sections.code
    assert (change.path, change.sort) == ("notebook.py", "code")
    assert "-lr = 0.1\n+lr = 0.2" in change.diff
    [same] = explain(view(store, "a"), view(store, "c"), lambda _digest: None).sections.code
    assert same.sort == "comments"


def test_the_file_stands_beside_the_modules_of_the_package(store, notebook):
    """Modules of the manifest and the cells are one package; a module that has the name already keeps it."""
    listed = manifest.write([manifest.Entry("model.py", "a" * 64, 3)])
    digest = hashlib.sha256(listed).hexdigest()
    notebook("a", FIRST, code={"digest": digest, "script": "books/notebook.py"})
    notebook("b", {1: "y = 1"}, code={"digest": digest, "script": "books/notebook.py"})
    found = explain(view(store, "a"), view(store, "b"), {digest: listed}.get)
    assert [change.path for change in found.sections.code] == ["books/notebook.py"]
    assert manifest.free_name("books/notebook.py", {"books/notebook.py"}) == "books/_notebook.py"
