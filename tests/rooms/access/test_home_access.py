"""Reading a home: a hub is started where something waits unread, and nowhere else."""

import os
import signal

import pytest

import vedette
from tests.conftest import end_hub
from tests.journeys.conftest import eventually
from tests.rooms.conftest import call, python
from vedette.access.home_access import HomeAccess
from vedette.home import Home
from vedette.model import Sample, Span
from vedette.settings import Hub, Settings
from vedette.store.sqlite import SqliteStore
from vedette.voice import Voice, origin_here

JOB = "import vedette; run = vedette.init(name='alpha'); run.log({'loss': 0.5}); run.log({'loss': 0.25})"


@pytest.fixture
def left(home, measured, hub):
    """A home whose last job is over, and whose hub has left."""
    assert python(JOB).returncode == 0
    eventually(lambda: vedette.get("alpha").state == "done" or None)
    end_hub(home, signal.SIGTERM)
    return home


@pytest.fixture
def quiet(home):
    """A home with a store that is empty, in which nothing waits."""
    home.prepare()
    SqliteStore(home.store).close()
    return home


def traces(home):
    """Return what a hub would change in a home."""
    found = {}
    for name in (home.lock, home.log, home.waking, home.socket, home.store):
        status = os.stat(name) if os.path.exists(name) else None
        found[name] = status and (status.st_mtime_ns, status.st_size)
    return found


def test_no_hub_where_nothing_waits(left):
    """When the last hub has left, nothing of a spool stays, and readers see all that was logged without a hub."""
    assert os.listdir(left.spool) == []
    before = traces(left)

    assert [view.summary for view in vedette.runs()] == [{"loss": 0.25}]
    assert vedette.get("alpha").history("loss").value.tolist() == [0.5, 0.25]
    assert "loss=0.25" in call("ls").stdout
    assert "done" in call("show", "alpha").stdout
    assert call("ls", "--where", "name = nobody").stdout == "no run matches\n"
    assert "alpha" in call("top", "--once", "--all").stdout
    assert left.hub_pid() is None
    assert traces(left) == before


def test_a_hub_where_something_waits(quiet):
    """A word that no hub has read, though its process is dead to us, has a reader start one, and is shown."""
    with open(quiet.waking, "w"):  # as if a hub were starting: the voice starts none
        pass
    voice = Voice(quiet, lambda: origin_here("o-late", span="late", process="late/1/o-late"))
    voice.say(Span("late", 1_790_000_000 * 10**9, "created", kind="run", name="late"))
    voice.sample(Sample(1_790_000_000 * 10**9, 0, {"loss": 3.0}, "late", {}))
    voice.close()
    os.unlink(quiet.waking)
    assert quiet.hub_pid() is None

    assert vedette.get("late").summary == {"loss": 3.0}
    assert quiet.hub_pid() is not None


def test_what_a_hub_is_needed_for(quiet):
    """An inbox of another hub, a store that is not there yet, and a hub that serves others need one."""
    access = HomeAccess(quiet)
    assert not access.needs_hub()
    os.makedirs(os.path.join(quiet.inbox, "1"))
    assert access.needs_hub()
    os.rmdir(os.path.join(quiet.inbox, "1"))
    assert not access.needs_hub()
    assert HomeAccess.of(Settings(home=quiet.asked, hub=Hub(address=":9000"))).needs_hub()
    assert HomeAccess.of(Settings(home=quiet.asked, hub=Hub(heflwr=":5000"))).needs_hub()
    assert HomeAccess(Home(os.path.join(quiet.root, "new"))).needs_hub()
