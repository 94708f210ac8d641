"""What of a notebook is in its package: modules, and no file with keys of kernels and servers, whatever its name."""

import json
import os
import time

import msgspec
import pytest

from tests.rooms.capture.test_capture import LATER, call_git, write
from vedette import wire
from vedette.blobs import Blobs
from vedette.capture import package
from vedette.capture.__main__ import Program
from vedette.capture.tree import choose, choose_modules
from vedette.client.capturing import Brief
from vedette.home import Home
from vedette.model import LANE_FACTS, Blob, Span
from vedette.settings import Capture, Settings
from vedette.tail import Tail

CONNECTION = json.dumps({"shell_port": 1, "key": "0b9f-c0ffee", "signature_scheme": "hmac-sha256"})
FILES = {
    "train.py": "x = 1\n", "kernel-7.json": "{}", "kernel-v3f9.json": "{}", "jpserver-12.json": "{}",
    "jpserver-12-open.html": "<p>", "deep/jupyter/runtime/any.txt": "-", "renamed.json": CONNECTION,
    "mine/any.txt": "-", "jupyter_cookie_secret": "-",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory of code with everything that a careless Jupyter could leave there."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "code" / "mine"))
    write(tmp_path / "code", FILES)
    return tmp_path / "code"


def packed(files, tmp_path):
    """Return the paths in the package of these files."""
    kept = package.pack(files, "", Blobs(Home(str(tmp_path / "home"))), Capture(), [], LATER)
    return {entry.path for entry in kept.entries}


@pytest.mark.parametrize("by_git", [False, True])
def test_connection_files_are_in_no_package(folder, tmp_path, by_git):
    """Neither a walk nor git brings a connection file, a server's token or a runtime directory into a package."""
    if by_git:
        call_git(folder, "init", "-q")
        call_git(folder, "add", ".")
    assert packed(choose("", str(folder)), tmp_path) == {"train.py"}


def test_nor_as_a_module_of_a_notebook(folder, tmp_path):
    """A list of modules is no way around it."""
    listed = [str(folder / name) for name in FILES]
    assert packed(choose_modules(listed, str(folder)), tmp_path) == {"train.py"}


def test_a_build_without_the_guard_would_keep_them(folder, tmp_path, monkeypatch):
    """The control: without the three checks all of them are in the package."""
    monkeypatch.setattr(package, "is_secret_file", lambda _path: False)
    monkeypatch.setattr(package, "is_connection_file", lambda _data: False)
    monkeypatch.setattr(package, "_runtime_directories", lambda _environ: ())
    assert packed(choose("", str(folder)), tmp_path) == FILES.keys()


def test_the_later_list_of_modules_counts(home, tmp_path):
    """After two cells two programs capture a notebook; whichever is slower, the list that was made later counts."""
    write(tmp_path, {"a.py": "", "b.py": ""})
    home.prepare()
    begun = time.time_ns()
    for t, names in ((begun + 2, "ab"), (begun + 1, "a")):
        listed = [str(tmp_path / f"{name}.py") for name in names]
        brief = Brief("r", os.fsencode(home.asked), Settings(), str(tmp_path), [], "", "3.11", [], t)
        Program(msgspec.structs.replace(brief, notebook=str(tmp_path), modules=listed, only_code=True)).run()
    facts = []
    for name in os.listdir(home.spool):
        facts += [wire.decode_fact(data) for _, data in Tail(os.path.join(home.spool, name), LANE_FACTS).read()]
    newest = max((fact for fact in facts if isinstance(fact, Span)), key=lambda fact: fact.t)
    assert newest.attrs["code"]["files"] == 2
    assert {fact.digest for fact in facts if fact.t == newest.t and isinstance(fact, Blob)} == {
        newest.attrs["code"]["digest"]
    }


def test_modules_beside_the_notebook_are_kept_below_one_root(tmp_path):
    """A module in `../src` of the notebook's directory is kept; one far away is left out, and counted."""
    write(tmp_path, {"p/src/a.py": "", "p/books/b.py": "", "p/books/notebook.py": ""})
    names = ["p/src/a.py", "p/books/b.py"]
    near = choose_modules([str(tmp_path / name) for name in names], str(tmp_path / "p/books"))
    assert (near.root, near.paths) == (str(tmp_path / "p"), ["src/a.py", "books/b.py"])
    far = choose_modules([str(tmp_path / "p/books/b.py"), "/opt/other/c.py"], str(tmp_path / "p/books"))
    assert (far.root, far.paths, far.left_out) == (str(tmp_path / "p/books"), ["b.py"], {"outside": 1})
