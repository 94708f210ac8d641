"""What heflwr's clients send, read: `POST /simple_log` and `POST /log`, form-encoded log messages.

Nothing that comes here is believed: fields are few and short, numbers are looked at before they are made, and a message
that is not made of the known numbers is a line of a log.
"""

import math
import re
import urllib.parse
from typing import NamedTuple

from vedette.errors import FormatError
from vedette.sinks.plain import KEYS

PATHS = ("/simple_log", "/log")
MOST_BYTES = 64 << 10  # of a body
_MOST_FIELDS = 64
_MOST_IDENTIFIER, _MOST_MESSAGE, _MOST_WORD = 200, 32_000, 200
_YEAR_NS = 366 * 24 * 3600 * 10**9
_HOUR_NS = 3600 * 10**9

LABELS = dict(  # what a message calls the plain numbers
    zip(
        KEYS,
        ("Cpu Usage", "Memory Usage", "Bytes Sent", "Bytes Recv", "VDD In", "VDD cpu_gpu_cv", "VDD soc"),
        strict=True,
    )
)
_KEYS = {label.lower(): key for key, label in LABELS.items()}
_ITEM = re.compile(r"([A-Za-z_ ]{1,20}): ([-+]?[0-9.]{1,30}(?:e[-+]?[0-9]{1,3})?|nan|inf)%?(?:, |,?$)", re.ASCII)
_NAMES = {KEYS[0]: "cpu_percent", KEYS[1]: "memory_share_percent"}  # what we call the same number
_MOMENT = re.compile(r"([0-9a-z]{1,32}) ([0-9]{1,18}) ([0-9]{1,19})", re.ASCII)


class Form(NamedTuple):
    """One message of a client."""

    identifier: str
    message: str
    level: int
    t: int | None  # None: it does not tell
    numbers: dict[str, float]  # the plain numbers, by their keys; none: it is a line of a log
    where: dict[str, str | int]  # of a line: logger, file, line, pid


class Moment(NamedTuple):
    """Which of a sender's messages it is, so that one that comes twice counts once, and when that was."""

    sender: str
    n: int
    t: int


def parse(body: bytes, now: int) -> Form:
    """Read the body of a request; raise FormatError in a sentence when it is none of these forms."""
    if len(body) > MOST_BYTES:
        raise FormatError(f"a body has {MOST_BYTES} bytes at most")
    try:
        pairs = urllib.parse.parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS
        )
    except UnicodeDecodeError:
        raise FormatError("the body is not form-encoded") from None
    except ValueError:
        raise FormatError(f"a form has {_MOST_FIELDS} fields at most") from None
    fields = dict(pairs)
    identifier = fields.get("identifier", "").strip()
    if not identifier or "message" not in fields:
        raise FormatError("a form has the fields identifier and message")
    if len(identifier) > _MOST_IDENTIFIER or not identifier.isprintable():
        raise FormatError(f"an identifier has up to {_MOST_IDENTIFIER} characters, which can be printed")
    message = fields["message"]
    if len(message) > _MOST_MESSAGE:
        raise FormatError(f"a message has {_MOST_MESSAGE} characters at most")
    if (trace := fields.get("exc_text", "None")) != "None":
        message = f"{message}\n{trace}"[:_MOST_MESSAGE]
    level = _whole(fields.get("levelno", "20"))
    created = _time(fields.get("created", ""))
    return Form(
        identifier,
        message,
        level if level is not None and level <= 100 else 20,
        created if created is not None and now - _YEAR_NS < created < now + _HOUR_NS else None,
        numbers_in(message),
        _where(fields),
    )


def moment(text: str) -> Moment | None:
    """Read the header by which a sender of ours names a message; None when it is something else."""
    found = _MOMENT.fullmatch(text)
    if found is None or int(found[3]) >= 1 << 63:
        return None
    return Moment(found[1], int(found[2]), int(found[3]))


def numbers_in(message: str) -> dict[str, float]:
    """Return the plain numbers that a message is made of, by their keys; none, if there is anything else in it."""
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
    """Return what a run keeps of the plain numbers: each by its key, and by our own name where we have one."""
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
        if text := fields.get(name, "")[:_MOST_WORD]:
            found[key] = text
    for key, name in (("line", "lineno"), ("pid", "process")):
        if (number := _whole(fields.get(name, ""))) is not None:
            found[key] = number
    return found
