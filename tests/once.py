"""A service that tests share: started once per run of pytest, by the worker that needs it first; it ends with the run.

@pytest.fixture(scope="session")
def server(tmp_path_factory):
return once("server", tmp_path_factory, begin)   # what `begin` told, whichever worker called it
"""

import fcntl
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# The service ends with the process that has begun the tests, however that ends.
_WITH_THE_RUN = '"$@" & service=$!; tail --pid="$0" -f /dev/null; kill $service'


def once(name: str, factory: pytest.TempPathFactory, begin: Callable[[Path], Any]) -> Any:
    """Return what `begin(folder)` told, in this worker or in another: words that JSON can carry."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"once-{name}"
    folder.mkdir(exist_ok=True)
    with open(folder / "told.json", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (text := file.read()):
            text = json.dumps(begin(folder))
            file.write(text)
    return json.loads(text)


def with_the_run(*argv: str) -> None:
    """Start a program that ends when the tests do."""
    run = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    subprocess.Popen(
        ["sh", "-c", _WITH_THE_RUN, str(run), *argv],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
