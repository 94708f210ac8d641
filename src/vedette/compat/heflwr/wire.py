"""Parses what heflwr's clients send: `POST /simple_log` and `POST /log`, form-encoded log messages.

No input is trusted: the number and length of fields are limited, and numbers are checked before they are converted.
A message that does not consist of the known numbers is a log line.
"""

import math
import re
import urllib.parse
from typing import NamedTuple

from vedette.errors import FormatError
from vedette.sinks.plain import KEYS

PATHS = ("/simple_log", "/log")
MOMENT_HEADER = "Vedette-Moment"  # of the sink `form`: names a moment, so that one that is sent again counts once
MAX_BYTES = 64 << 10  # bytes of a body
_MAX_FIELDS = 64
_MAX_IDENTIFIER, _MAX_MESSAGE, _MAX_WORD = 200, 32_000, 200
_YEAR_NS = 366 * 24 * 3600 * 10**9
_HOUR_NS = 3600 * 10**9

LABELS = dict(  # the names of the plain numbers in a message
    zip(
        KEYS,
        ("Cpu Usage", "Memory Usage", "Bytes Sent", "Bytes Recv", "VDD In", "VDD cpu_gpu_cv", "VDD soc"),
        strict=True,
    )
)
_KEYS = {label.lower(): key for key, label in LABELS.items()}
_ITEM = re.compile(r"([A-Za-z_ ]{1,20}): ([-+]?[0-9.]{1,30}(?:e[-+]?[0-9]{1,3})?|nan|inf)%?(?:, |,?$)", re.ASCII)
_NAMES = {KEYS[0]: "cpu_percent", KEYS[1]: "memory_share_percent"}  # our own names of the same numbers
_MOMENT = re.compile(r"([0-9a-z]{1,32}) ([0-9]{1,18}) ([0-9]{1,19})", re.ASCII)


class ClientMessage(NamedTuple):
    """One message of a client."""

    identifier: str
    message: str
    level: int
    t: int | None  # None: not given
    numbers: dict[str, float]  # the plain numbers by their keys; empty: it is a log line
    where: dict[str, str | int]  # of a log line: logger, file, line, pid


class Moment(NamedTuple):
    """Which of a sender's messages it is, so that a repeated one counts once, and its time."""

    sender: str
    n: int
    t: int


def parse(body: bytes, now: int) -> ClientMessage:
    """Read the body of a request; raise FormatError, with a sentence, if it is malformed."""
    if len(body) > MAX_BYTES:
        raise FormatError(f"a body has {MAX_BYTES} bytes at most")
    try:
        pairs = urllib.parse.parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="replace", max_num_fields=_MAX_FIELDS
        )
    except UnicodeDecodeError:
        raise FormatError("the body is not form-encoded") from None
    except ValueError:
        raise FormatError(f"a form has {_MAX_FIELDS} fields at most") from None
    fields = dict(pairs)
    identifier = fields.get("identifier", "").strip()
    if not identifier or "message" not in fields:
        raise FormatError("a form has the fields identifier and message")
    if len(identifier) > _MAX_IDENTIFIER or not identifier.isprintable():
        raise FormatError(f"an identifier has up to {_MAX_IDENTIFIER} printable characters")
    message = fields["message"]
    if len(message) > _MAX_MESSAGE:
        raise FormatError(f"a message has {_MAX_MESSAGE} characters at most")
    if (trace := fields.get("exc_text", "None")) != "None":
        message = f"{message}\n{trace}"[:_MAX_MESSAGE]
    level = _whole(fields.get("levelno", "20"))
    created = _time(fields.get("created", ""))
    return ClientMessage(
        identifier,
        message,
        level if level is not None and level <= 100 else 20,
        created if created is not None and now - _YEAR_NS < created < now + _HOUR_NS else None,
        numbers_in(message),
        _where(fields),
    )


def moment(text: str) -> Moment | None:
    """Read the header with which vedette numbers a message; None if it is something else."""
    found = _MOMENT.fullmatch(text)
    if found is None or int(found[3]) >= 1 << 63:
        return None
    return Moment(found[1], int(found[2]), int(found[3]))


def numbers_in(message: str) -> dict[str, float]:
    """Return the plain numbers of a message by their keys; an empty dict if it contains anything else."""
    numbers: dict[str, float] = {}
    at = 0
    while at < len(message):
        item = _ITEM.match(message, at)
        if item is None or item.end() == at:
            return {}
        key = _KEYS.get(item[1].lower())
        try:
            value = float(item[2])
        except ValueError:
            return {}
        if key is None:
            return {}
        numbers[key] = value
        at = item.end()
    return numbers


def values_of(numbers: dict[str, float]) -> dict[str, float | int | bool]:
    """Return the values to store: each plain number by its key, and also by our own name if it has one."""
    return {name: value for key, value in numbers.items() for name in (_NAMES.get(key), key) if name is not None}


def _whole(text: str) -> int | None:
    return int(text) if len(text) <= 10 and text.isascii() and text.isdigit() else None


def _time(text: str) -> int | None:
    try:
        seconds = float(text[:40])
    except ValueError:
        return None
    return int(seconds * 1e9) if math.isfinite(seconds) and 0 <= seconds < 9e9 else None


def _where(fields: dict[str, str]) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for key, name in (("logger", "name"), ("file", "filename"), ("function", "funcName"), ("thread", "threadName")):
        if text := fields.get(name, "")[:_MAX_WORD]:
            found[key] = text
    for key, name in (("line", "lineno"), ("pid", "process")):
        if (number := _whole(fields.get(name, ""))) is not None:
            found[key] = number
    return found
