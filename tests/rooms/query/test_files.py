"""The files of a run, as they are asked for, and what bytes are."""

import pytest

from vedette.errors import NotFoundError
from vedette.media import HEAD_BYTES, media_of
from vedette.model import Blob
from vedette.query.files import file, files
from vedette.query.runs import view

T = 1_790_000_000 * 10**9


def test_of_several_by_one_name_the_newest_stands(store, make):
    """Files are by name; the newest of a name stands, whatever the order in which they came."""
    make.run("r1")
    make.facts("r1", Blob("r1", T + 5, "a", "new", 1), Blob("r1", T + 1, "a", "old", 2), Blob("r1", T, "b", "x", 3))
    make.facts("r1", Blob("r1/1/p", T + 9, "a", "newest", 4, "text/plain"), Blob("r2", T, "c", "y", 5))
    found = files(store, "r1")
    assert [(one.name, one.digest, one.size, one.media, one.t) for one in found] == [
        ("a", "newest", 4, "text/plain", T + 9),
        ("b", "x", 3, "", T),
    ]
    assert view(store, "r1").files() == found
    assert file(store, "r1", "b").digest == "x"
    with pytest.raises(NotFoundError, match="it has a, b"):
        file(store, "r1", "c")


@pytest.mark.parametrize(
    ("data", "media"),
    [
        (b"", "text/plain"),
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a\0", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVE", "application/octet-stream"),
        (b'<?xml version="1.0"?><svg onload="alert(1)"/>', "text/plain"),
        (b"<html><script>alert(1)</script>", "text/plain"),
        ("größer\n".encode(), "text/plain"),
        ("größer".encode("latin-1"), "application/octet-stream"),
        (b"\x1b[31mred\x1b[0m\r\n\ttabbed\f", "text/plain"),
        (b"nul\0", "application/octet-stream"),
        (b"bell\x07", "application/octet-stream"),
        (b' {"a": [1, 2]}', "application/json"),
        (b'{"a": NaN', "text/plain"),
        (b"[" * 100_000, "text/plain"),
        (b"%PDF-1.7\n%\xe2\xe3", "application/octet-stream"),
        (b"\x7fELF", "application/octet-stream"),
    ],
)
def test_bytes_are_judged_by_themselves(data, media):
    """Few things are images or text; what can run something is text at most."""
    assert media_of(data) == media


def test_a_letter_that_is_cut_at_the_end_of_what_is_looked_at():
    """Long text is text, wherever it is cut; the same as a whole is not."""
    cut = ("ä" * HEAD_BYTES).encode()[: HEAD_BYTES - 1]
    assert media_of(cut, whole=False) == "text/plain"
    assert media_of(cut, whole=True) == "application/octet-stream"
    assert media_of(b"text \xff\xff\xff\xff", whole=False) == "application/octet-stream"
