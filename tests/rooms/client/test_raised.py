"""Exceptions of the user's own process, as they end a run or a bar."""

import pytest

from vedette.client.raised import evidence_of
from vedette.deaths.verdict import verdict


class Mute(Exception):  # noqa: N818 - it says nothing
    def __str__(self):
        raise RuntimeError("no word")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("bad"), ("failed", "ValueError: bad")),
        (ValueError("two\nlines"), ("failed", "ValueError: two\nlines")),
        (OSError("plain"), ("failed", "OSError: plain")),
        (OSError(28, "No space left on device", "/x/model"),
         ("failed", "disk full (/x/model): OSError: [Errno 28] No space left on device: '/x/model'")),
        (OSError(122, "Disk quota exceeded"), ("failed", "disk full: OSError: [Errno 122] Disk quota exceeded")),
        (OSError(2, "No such file or directory", b"/x"),
         ("failed", "FileNotFoundError: [Errno 2] No such file or directory: b'/x'")),
        (KeyboardInterrupt(), ("cancelled", "KeyboardInterrupt (Ctrl-C)")),
        (SystemExit(), ("done", "")),
        (SystemExit(0), ("done", "")),
        (SystemExit(3), ("failed", "exit code 3")),
        (SystemExit(-1), ("failed", "exit code 255")),
        (SystemExit("no config"), ("failed", "exit code 1: no config")),
        (SystemExit(143), ("cancelled", "exit code 143: probably SIGTERM killed what it had started")),
    ],
    ids=repr,
)  # fmt: skip
def test_an_exception_is_judged_as_an_end(error, told):
    """Its last line is the cause; a full disk, Ctrl-C and an exit code are called so."""
    end = verdict(evidence_of(error))
    assert (end.state, end.cause) == told


def test_an_exception_that_has_no_text():
    """One whose text cannot be had is known by its type."""
    assert verdict(evidence_of(Mute())).cause.endswith("Mute: <exception str() failed>")
