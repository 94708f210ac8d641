"""Blobs: files by digest under a home."""

import contextlib
import hashlib
import os
import resource
import stat
import threading
import time

import pytest

from vedette.blobs import NO_LIMITS, Blobs, is_digest
from vedette.errors import BlobError, NotFoundError
from vedette.home import Home
from vedette.settings import Limits

BAD_DIGESTS = [
    "", "..", "../../etc/passwd", "/etc/passwd", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "a" * 63 + "\n",
    "a" * 63 + "\0",
    "..%2f" + "a" * 59, "%2e%2e/" + "a" * 57, "..\\" + "a" * 61, "#" + "a" * 63, "a" * 31 + "/" + "a" * 32, "٣" * 64,
    "a" * 62 + "é", " " + "a" * 63, "sha256:" + "a" * 57, "\udc80" * 64,
]  # fmt: skip


@pytest.fixture
def blobs(tmp_path):
    return Blobs(Home(str(tmp_path / "home")))


def leftovers(blobs):
    return os.listdir(os.path.join(blobs.root, "new"))


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, (3 << 20) + 17])
def test_bytes_and_files_are_kept_under_the_digest_of_their_bytes(blobs, tmp_path, size):
    """What was kept is found by its sha256, whole, for its owner alone, once, however it was handed over."""
    data = os.urandom(size)
    path = tmp_path / "file"
    path.write_bytes(data)
    expected = hashlib.sha256(data).hexdigest(), size
    assert [blobs.keep(data), blobs.keep(path), blobs.keep(str(path)), blobs.keep(bytearray(data))] == [expected] * 4
    with blobs.open(expected[0]) as file:
        assert file.read() == data
    where = blobs.path(expected[0])
    assert where == os.path.join(blobs.root, expected[0][:2], expected[0][2:])
    assert stat.S_IMODE(os.stat(where).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(blobs.root).st_mode) == stat.S_IMODE(os.stat(os.path.dirname(where)).st_mode) == 0o700
    assert [(found.digest, found.size) for found in blobs.all()] == [expected]
    assert blobs.verify(expected[0])
    assert not leftovers(blobs)


def test_a_later_write_to_the_file_does_not_change_what_was_kept(blobs, tmp_path):
    """Neither writing into the file nor replacing it reaches the copy."""
    path = tmp_path / "checkpoint"
    path.write_bytes(b"a" * (2 << 20))
    digest, _ = blobs.keep(path)
    with path.open("r+b") as file:
        file.write(b"changed")
    assert blobs.verify(digest)


@pytest.mark.parametrize("digest", BAD_DIGESTS)
def test_no_text_but_a_digest_becomes_a_path(blobs, digest):
    """Whatever is no digest is refused before a path is made of it."""
    assert not is_digest(digest)
    for ask in (blobs.path, blobs.open, blobs.size, blobs.remove):
        with pytest.raises(BlobError):
            ask(digest)


def test_a_link_in_place_of_a_blob_is_not_followed(blobs, tmp_path):
    """A symbolic link under a digest is neither opened nor counted."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    digest, _ = blobs.keep(b"x")
    os.unlink(blobs.path(digest))
    os.symlink(secret, blobs.path(digest))
    with pytest.raises((OSError, NotFoundError)):
        blobs.open(digest)
    assert list(blobs.all()) == []
    assert blobs.size(digest) is None
    assert blobs.keep(b"x") == (digest, 1)  # and what is kept takes its place
    assert blobs.open(digest).read() == b"x"
    assert secret.read_text() == "secret"


def test_what_is_no_file_is_refused_at_once(blobs, tmp_path):
    """A directory, a pipe that nobody writes to, a device and a link that is not to be followed are refused."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    os.symlink(tmp_path / "file", tmp_path / "link")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(BlobError, match="is not a file"):
            blobs.keep(path)
    with pytest.raises(OSError, match="symbolic"):
        blobs.keep(tmp_path / "link", follow=False)
    assert blobs.keep(tmp_path / "link")[1] == 1
    with pytest.raises(FileNotFoundError):
        blobs.keep(tmp_path / "none")


def test_what_is_over_a_limit_is_refused_by_its_name(tmp_path):
    """A file, and all files of a home together, have a limit; what is here already costs nothing."""
    blobs = Blobs(str(tmp_path), Limits(blob_bytes=100, blobs_bytes=150))
    big = tmp_path / "big"
    big.write_bytes(b"x" * (2 << 20))
    for source in (b"x" * 101, big):
        with pytest.raises(BlobError) as caught:
            blobs.keep(source)
        assert caught.value.limit == "limits.blob_bytes"
    blobs.keep(b"a" * 100)
    blobs.keep(b"a" * 100)
    with pytest.raises(BlobError) as caught:
        blobs.keep(b"b" * 51)
    assert caught.value.limit == "limits.blobs_bytes"
    blobs.count(100)
    with pytest.raises(BlobError):
        Blobs(str(tmp_path), blobs.limits).keep(b"b" * 51)
    assert Blobs(str(tmp_path), blobs.limits).keep(b"b" * 50)[1] == 50


def test_what_the_hub_has_counted_is_not_counted_again(tmp_path):
    """Bytes that a client has kept are in the hub's next count, and from then on only there."""
    hub, limits = Blobs(str(tmp_path)), Limits(blob_bytes=0, blobs_bytes=250)
    hub.count(0)
    client = Blobs(str(tmp_path), limits)
    for n in range(1, 3):
        client.keep(bytes([n]) * 100)
        assert client.total() == 100 * n
        hub.count(100 * n)
        assert client.total() == 100 * n
    client.keep(b"c" * 50)
    assert client.total() == 250
    with pytest.raises(BlobError):
        client.keep(b"d")


def test_what_was_kept_before_one_has_looked_is_counted(tmp_path):
    """A count of the hub's that was there before does not have what is kept after it."""
    Blobs(str(tmp_path)).count(100)
    other = Blobs(str(tmp_path), NO_LIMITS)
    other.keep(b"x" * 10)
    assert other.total() == 110


def test_a_manifest_that_cannot_be_read_now_lists_nothing_surely(blobs):
    """Who must know what a manifest lists is told when it cannot be read; one that is none lists nothing."""
    manifest, _ = blobs.keep(f'[{{"digest": "{"a" * 64}"}}]'.encode())
    other, _ = blobs.keep(b"no manifest")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        assert blobs.listed(manifest) == []
        with pytest.raises(OSError, match="Too many open files"):
            blobs.listed(manifest, surely=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert blobs.listed(manifest, surely=True) == ["a" * 64]
    assert blobs.listed(other, surely=True) == blobs.listed("b" * 64, surely=True) == []
    os.unlink(blobs.path(other))
    os.symlink(blobs.path(manifest), blobs.path(other))
    assert blobs.listed(other, surely=True) == []


def test_a_blob_that_was_saved_of_late_is_not_removed(blobs):
    """Saving bytes that are here makes them young, and a young blob stays."""
    digest, _ = blobs.keep(b"x")
    assert not blobs.remove(digest)
    os.utime(blobs.path(digest), (0, 0))
    blobs.keep(b"x")
    assert not blobs.remove(digest)
    os.utime(blobs.path(digest), (0, 0))
    assert blobs.remove(digest)
    assert blobs.size(digest) is None


class Careless:
    """Removes a blob that was old a moment ago, as `remove` must not; it lets another save it in between."""

    def __init__(self):
        self.looked, self.saved, self.removed = (threading.Event() for _ in range(3))

    def __call__(self, blobs, digest):
        if not self.removed.is_set() and any(found.saved < time.time() - 60 for found in blobs.all()):
            self.looked.set()
            self.saved.wait(30)
            os.unlink(blobs.path(digest))
            self.removed.set()

    def between(self, blobs):
        self.looked.wait(30)
        blobs.keep(DATA)
        self.saved.set()
        self.removed.wait(30)


DATA = b"contended"


def contend(blobs, remove, save, rounds):
    """Save the same old bytes again and again while another removes what is old; return how often they were lost."""
    digest, _ = blobs.keep(DATA)
    over = threading.Event()

    def sweep():
        while not over.is_set():
            with contextlib.suppress(OSError):
                remove(blobs, digest)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    lost = 0
    try:
        for _ in range(rounds):
            with contextlib.suppress(OSError):
                os.utime(blobs.path(digest), (0, 0))  # as if saved long ago
            save(blobs)
            patience = time.monotonic() + 2  # it may be away for a blink, on its way back
            while (here := blobs.size(digest)) is None and time.monotonic() < patience:
                time.sleep(0.001)
            lost += here is None
    finally:
        over.set()
        sweeper.join()
    return lost


def test_saving_and_removing_at_once_never_lose_what_was_saved(blobs):
    """Whoever has saved bytes finds them afterwards, though another removes what is old; a careless one is caught."""
    assert contend(blobs, lambda blobs, digest: blobs.remove(digest), lambda blobs: blobs.keep(DATA), 100) == 0
    careless = Careless()
    assert contend(blobs, careless, careless.between, 1) == 1


def test_what_a_dead_hub_was_about_to_remove_comes_back_and_old_leftovers_go(blobs):
    """A blob that was put away is put back; what somebody who died was writing is removed once it is old."""
    digest, _ = blobs.keep(b"x")
    os.makedirs(os.path.join(blobs.root, "going"))
    os.rename(blobs.path(digest), os.path.join(blobs.root, "going", digest))
    for name in ("old", "young"):
        with open(os.path.join(blobs.root, "new", name), "w") as file:
            file.write("half")
    os.utime(os.path.join(blobs.root, "new", "old"), (0, 0))
    blobs.tidy()
    assert blobs.verify(digest)
    assert leftovers(blobs) == ["young"]


def test_a_part_becomes_a_blob_only_if_its_bytes_are_right(blobs):
    """What came in pieces is looked at before it can be seen, and is gone if it is something else."""
    data = b"in pieces"
    digest = hashlib.sha256(data).hexdigest()
    for written, right in ((b"in pieceZ", False), (data, True)):
        path = blobs.part(digest, "../../another home")
        assert os.path.dirname(path) == os.path.join(blobs.root, "parts")
        with open(path, "wb") as file:
            file.write(written)
        assert blobs.size(digest) is None
        assert blobs.adopt(path, digest) is right
        assert not os.path.exists(path)
    assert blobs.verify(digest)
