"""The points that a notebook's charts show."""

import os

from tests.rooms.conftest import Maker
from vedette.access.home_access import HomeAccess
from vedette.attached.points import PointReader
from vedette.store.sqlite import SqliteStore


def test_nothing_is_said_of_points_that_no_hub_has_read(home):
    """While a hub is being started there is no answer, rather than that there are no points."""
    home.prepare()
    os.mkdir(os.path.join(home.spool, "o1"))
    store = SqliteStore(home.store)
    Maker(store).run("r1", "alpha")
    reader = PointReader(HomeAccess(home), "r1")
    assert reader.read() is None
    os.rmdir(os.path.join(home.spool, "o1"))
    assert reader.read() == ([], 0)


def test_it_is_read_once_for_all_charts(home):
    """However many charts ask, the store is read once a second."""
    home.prepare()
    make = Maker(SqliteStore(home.store))
    make.run("r1", "alpha")
    make.points("r1", "loss", [3.0, 1.0])
    reader = PointReader(HomeAccess(home), "r1")
    first = reader.read()

    assert [tile.last for tile in first[0]] == [1.0]
    assert reader.read() is first
