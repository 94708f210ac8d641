"""What the contracts of stores share: the list of them, and one to write to."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from vedette.store import Reader, Store
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import open_reader


class Make(NamedTuple):
    """How a store is opened at a path, to write and to read."""

    write: Callable[[str], Store]
    read: Callable[[str], Reader]


STORES = {
    "sqlite": Make(SqliteStore, open_reader),
}


@pytest.fixture(params=STORES)
def make(request: pytest.FixtureRequest) -> Make:
    """How the store under test is opened."""
    return STORES[request.param]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where it lies."""
    return str(tmp_path / "store.db")


@pytest.fixture
def store(make: Make, path: str) -> Iterator[Store]:
    """An empty store, opened to write."""
    opened = make.write(path)
    yield opened
    opened.close()
