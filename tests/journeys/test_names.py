"""An address without a port is a Unix socket: a hub by a name or a path, for jobs of other homes on this machine."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from tests.conftest import end_hub
from tests.journeys.conftest import eventually, read_runs
from vedette import address
from vedette.home import Home

JOB = "import vedette\nrun = vedette.init(name='elsewhere')\nfor step in range(100): run.log({'x': step}, step=step)"


@pytest.fixture
def other():
    """Another home of the same user."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        yield Home(root)
        end_hub(Home(root))


def hub(home, *args):
    return subprocess.run(
        [sys.executable, "-m", "vedette", "hub", "--home", home.asked, *args],
        text=True, capture_output=True, timeout=30, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("with_path", [False, True], ids=["name", "path"])
def test_a_hub_by_its_name(home, other, finish, tmp_path, with_path):
    """Jobs of another home reach a hub by a name or a path; when it ends, both are gone."""
    name = os.path.join(other.root, "x.sock") if with_path else f"test-{os.getpid()}"
    path = address.parse(name).path
    process = subprocess.Popen(
        [sys.executable, "-m", "vedette", "hub", "--home", other.asked, "--address", name],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        eventually(lambda: os.path.exists(path), 20)
        code, _, err = finish(JOB, environ={"VEDETTE_HUB": name})

        assert (code, err) == (0, "")
        [run] = eventually(lambda: [r for r in read_runs(other) if r.end_t and [s.count for s in r.series()] == [100]])
        assert run.name == "elsewhere"
        assert run.history("x").value.tolist() == list(range(100))
        assert read_runs(home) == []
    finally:
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[0]
    assert f"VEDETTE_HUB={path}" in said
    assert not os.path.lexists(path)


def test_a_name_that_is_taken_by_something_else(other, tmp_path):
    """A path at which something else lies is refused in a sentence, and that stays as it was."""
    taken = tmp_path / "precious"
    taken.write_text("data")
    done = hub(other, "--address", str(taken))

    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
    assert "give another" in done.stderr
    assert taken.read_text() == "data"
