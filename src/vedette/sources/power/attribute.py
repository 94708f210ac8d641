"""Attributes in /sys: a number that is read again and again, or a word.

A value that cannot be read or parsed is None or empty; nothing here raises.
"""

import os
import re

from vedette.sensing.probe import OpenFile

_NUMBER = re.compile(rb"\s*[+-]?[0-9]{1,18}\s*")  # more digits are an error of the driver
_UNSAFE = re.compile(r"[^A-Za-z0-9_.:+/-]+")
_MOST_BYTES = 256
_MOST_CHARS = 48


class Number:
    """One attribute that is a whole number. Its file stays open; after an error it is opened again."""

    def __init__(self, path: str) -> None:
        """The file is opened at the first read."""
        self._file = OpenFile(path, _MOST_BYTES)

    def read(self) -> int | None:
        """Return the present number."""
        text = self._file.read()
        return int(text) if _NUMBER.fullmatch(text) else None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def word(path: str) -> str:
    """Return the text of an attribute, without surrounding spaces."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return ""
    try:
        return os.read(fd, _MOST_BYTES).decode(errors="replace").strip("\0 \t\r\n")
    except OSError:
        return ""
    finally:
        os.close(fd)


def names(folder: str) -> list[str]:
    """Return the names in a folder, sorted."""
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def tag(text: str) -> str:
    """Return a hardware's name in a form that is safe in a tag: short, and of plain letters."""
    return _UNSAFE.sub("_", text)[:_MOST_CHARS]
