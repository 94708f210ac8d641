"""Directories of our own in public places: another user who takes the name first gains nothing."""

import os
import stat

import pytest

from vedette import own_directory
from vedette.errors import StrangerError

NOBODY = 65534
NAME = "vedette-0-abc"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN MAKE DIRECTORIES OF ANOTHER USER")


@pytest.fixture
def parent(tmp_path):
    """A directory that everybody may write to."""
    tmp_path.chmod(0o1777)
    return str(tmp_path)


def plant(path, kind="directory"):
    """Take a name, as another user."""
    if kind == "link":
        os.symlink("/", path)
    elif kind == "file":
        open(path, "w").close()
    else:
        os.mkdir(path, 0o777)
    os.lchown(path, NOBODY, NOBODY)


def test_the_first_name_is_taken_if_it_is_free(parent):
    """Without anybody in the way it is the plain name, closed to others; to look for it makes nothing."""
    path = os.path.join(parent, NAME)
    assert own_directory.find(parent, NAME) == path
    assert os.listdir(parent) == []
    assert [own_directory.make(parent, NAME) for _ in range(2)] == [path, path]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    os.chmod(path, 0o755)
    own_directory.make(parent, NAME)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


@pytest.mark.parametrize("kind", ["directory", "link", "file"])
def test_a_name_that_another_user_took_is_passed_over(parent, kind):
    """The next name is used, by all processes, and still after the other user has gone away or come back."""
    first, second = own_directory.names(parent, NAME)[:2]
    plant(first, kind)
    assert own_directory.make(parent, NAME) == second
    (os.rmdir if kind == "directory" else os.unlink)(first)
    assert own_directory.find(parent, NAME) == own_directory.make(parent, NAME) == second
    plant(first, kind)
    assert own_directory.make(parent, NAME) == second


def test_another_user_comes_after_us(parent):
    """Who takes the later names, once ours is there, changes nothing."""
    first, *others = own_directory.names(parent, NAME)
    own_directory.make(parent, NAME)
    for other in others:
        plant(other)

    assert own_directory.make(parent, NAME) == own_directory.find(parent, NAME) == first


def test_all_names_are_taken(parent):
    """Where another user has all of them, that is an error with a sentence, and nothing of that user's is used."""
    for name in own_directory.names(parent, NAME):
        plant(name)

    with pytest.raises(StrangerError, match="other users have taken"):
        own_directory.make(parent, NAME)
    assert not own_directory.is_own(own_directory.find(parent, NAME))


def test_a_name_that_is_taken_while_we_look(parent, monkeypatch):
    """A user who is quicker between our look and our making of it gains nothing, either."""
    first, second, third = own_directory.names(parent, NAME)[:3]
    mkdir = os.mkdir

    def late(path, mode):
        if path in (first, second):  # twice another user was there before us
            mkdir(path, 0o777)
            os.chown(path, NOBODY, NOBODY)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", late)
    assert own_directory.make(parent, NAME) == third


def test_two_processes_of_ours_agree(parent, monkeypatch):
    """If two take different names at the same moment, because another user came and went, one gives way."""
    first, second = own_directory.names(parent, NAME)[:2]
    mkdir = os.mkdir

    def late(path, mode):
        mkdir(path, mode)
        if not os.path.exists(second):
            mkdir(second, 0o700)  # by another process, which has seen the first name taken

    monkeypatch.setattr(os, "mkdir", late)
    assert own_directory.make(parent, NAME) == second
    assert not os.path.exists(first)


def test_root_finds_the_directory_of_another_user(parent):
    """Who looks for what another user has finds that, and neither a third user's nor its own."""
    first, second, third = own_directory.names(parent, NAME)[:3]
    plant(first)
    os.mkdir(second)
    os.mkdir(third)
    os.chown(third, 12345, -1)

    assert own_directory.find(parent, NAME, 12345) == third
