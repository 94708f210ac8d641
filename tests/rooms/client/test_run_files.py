"""`run.save` and `run.use`: what is copied, what is only named, and what is refused with a sentence."""

import hashlib
import os

import pytest

import vedette
from tests.rooms.told_hub import ToldHub
from vedette.blobs import Blobs
from vedette.client import faults, files


@pytest.fixture
def run(home, monkeypatch, tmp_path):
    """A run whose hub keeps quiet; the working directory is empty."""
    monkeypatch.chdir(tmp_path)
    with ToldHub(home):
        yield vedette.init()
        vedette.finish()


def test_a_file_is_copied(home, run, tmp_path):
    """The copy has the bytes of that moment, whatever becomes of the file."""
    path = tmp_path / "model.bin"
    path.write_bytes(b"weights")
    digest = run.save(path)
    path.write_bytes(b"other")

    assert digest == hashlib.sha256(b"weights").hexdigest()
    with Blobs(home).open(digest) as file:
        assert file.read() == b"weights"


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_bytes_need_a_name(run, data, capsys, monkeypatch):
    """Bytes are saved under a name, and refused without one."""
    monkeypatch.setattr(faults, "_said", set())
    assert run.save(data, "data") == hashlib.sha256(b"abc").hexdigest()
    assert run.save(data) is None
    assert "needs a name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("out/a.txt", "out/a.txt"), ("./out/../a.txt", "a.txt"), ("../above/a.txt", "a.txt"), ("/abs/a.txt", "a.txt"),
        (b"raw.txt", "raw.txt"),
    ],
)  # fmt: skip
def test_names(path, name):
    """A file below the working directory is named by its path there, any other by its last part."""
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    assert files.name_of(path, None) == name
    assert files.name_of(path, "chosen") == "chosen"


@pytest.mark.parametrize("name", ["", "x" * 501])
def test_names_that_are_refused(name):
    """An empty name, or one without end, is none."""
    with pytest.raises(files.CannotBeKeptError, match="characters"):
        files.name_of(b"", name)


@pytest.mark.parametrize("source", ["missing.txt", "nul\0.txt", "/", 7])
def test_what_cannot_be_saved_is_said(run, source, capsys):
    """No error reaches the program: there is no digest, and one sentence."""
    assert run.save(source) is None
    assert capsys.readouterr().err.count("\n") <= 1


def test_an_input_is_named_and_not_copied(home, run, tmp_path):
    """Of a file that is used size and digest are on record; the bytes stay where they are."""
    path = tmp_path / "data.csv"
    path.write_bytes(b"1,2\n")
    run.use(path)

    assert not [name for _, _, names in os.walk(os.path.join(home.root, "blobs")) for name in names]
    assert run.use("nowhere.csv") is None


def test_a_large_input_is_read_by_a_thread(run, tmp_path, monkeypatch):
    """The call returns at once; the digest follows."""
    monkeypatch.setattr(files, "_READ_IN_CALL_BYTES", 10)
    done = []
    monkeypatch.setattr(run._journal, "set", lambda _span, attrs: done.append(attrs))
    (tmp_path / "large").write_bytes(b"x" * 100)
    run.use("large")
    for thread in [t for t in files.threading.enumerate() if t.name == "vedette data"]:
        thread.join(60)

    assert done == [{"data_bytes.large": 100}, {"data.large": hashlib.sha256(b"x" * 100).hexdigest()}]
