"""The language of `--where`: `config.lr > 0.1 and (state = failed or tag.best)`.

    expression  = term {("and" | "or") term}, `and` binds closer; `not term`; parentheses
    term        = field operator value | field "in" "(" value {"," value} ")" | field
    operator    = "=" "==" "!=" "<" "<=" ">" ">=" "~" (contains)
    value       = number | true | false | null | word | "text" | 'text'
    field       = state, name, id, cause, project, experiment, notes, script, start, end, duration,
                  parent, star, description, host, python, os, cwd, capture,
                  config.KEY, arg.NAME (an option of its command line), asked.KEY (by `vedette run --config`),
                  summary.KEY, tag.NAME, metric.NAME (its last value), metric.NAME.min, .max and .mean,
                  metric.NAME[TAG=VALUE], git.KEY, code.KEY, cpu.KEY, gpu.KEY, env.NAME, packages.KEY

Times are dates (`start > 2026-11-01`), durations numbers of seconds or with a unit (`duration > 10m`).
A condition on a field that a run does not have is false. An expression has 100,000 characters at most, by a link 2,000.
"""

import re
from datetime import datetime, tzinfo
from typing import Any

from vedette.errors import WhereError
from vedette.store import Both, Compare, Either, Not, Where

FIELDS = (
    "state", "name", "id", "cause", "project", "experiment", "notes", "script", "start", "end", "duration", "parent",
    "description", "host", "python", "os", "cwd", "capture",
)  # fmt: skip
_FLAGS = ("star",)
_TIMES = ("start", "end", "duration")  # the other fields are text
FAMILIES = (
    "config.", "arg.", "asked.", "summary.", "tag.", "metric.", "git.", "code.", "cpu.", "gpu.", "env.", "packages.",
)  # fmt: skip

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<op><=|>=|==|!=|=|<|>|~)|(?P<sign>[(),])"""
    r"""|(?P<word>(?:\[[^\[\]=]*=[^\[\]]*\]|[^\s()<>=!~,"'])+))"""
)
MOST_CHARS, MOST_BY_LINK = 100_000, 2000  # an argument of a command has 128 KiB at most
MOST_CONDITIONS = 1000  # for more, a store takes seconds to find out how to look for them
_SHOWN = 300  # characters of it in an error
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse(text: str, zone: str = "") -> Where:
    """Parse an expression; raise WhereError, which says where, when it is not valid or too long.

    `zone`: of dates that name none, such as Europe/Berlin; without it, that of this machine.
    """
    check_length(text)
    if not text.isascii() and text.encode(errors="replace").decode() != text:
        raise WhereError("the expression is not UTF-8 text")
    return _Parser(text, zone).parse()


def check_length(text: str, *, by_link: bool = False) -> None:
    """Raise WhereError when a filter is too long; `by_link`: it may come from anybody with a link."""
    if by_link and len(text) > MOST_BY_LINK:
        raise WhereError(
            f"the filter has {len(text)} characters, and a link takes {MOST_BY_LINK} at most: shorten it, or select the"
            " runs themselves"
        )
    if len(text) > MOST_CHARS:
        raise WhereError(f"the filter has {len(text)} characters, and takes {MOST_CHARS} at most: ask in several parts")


def check_conditions(count: int) -> None:
    """Raise WhereError when a filter has too many conditions."""
    if count > MOST_CONDITIONS:
        raise WhereError(
            f"the filter has more than {MOST_CONDITIONS} conditions: write FIELD in (VALUE, VALUE), or ask in several"
            " parts"
        )


class _Parser:
    def __init__(self, text: str, zone: str) -> None:
        self._text = text
        self._zone = zone
        self._tokens: list[tuple[str, str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise WhereError(f"cannot read {_cut(text[at:].strip())} in --where {_cut(text)}")
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind], match.start(kind)))
            at = match.end()
        self._at = 0
        self._depth = 0
        self._conditions = 0

    def parse(self) -> Where:
        where = self._either()
        if self._at < len(self._tokens):
            raise self._error("expected 'and', 'or' or the end")
        return where

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at][:2] if self._at < len(self._tokens) else ("end", "")

    def _takes(self, word: str) -> bool:
        kind, text = self._peek()
        if kind in ("word", "sign") and text.lower() == word:
            self._at += 1
            return True
        return False

    def _error(self, what: str) -> WhereError:
        where = "the end of" if self._at >= len(self._tokens) else f"{_cut(self._text[self._tokens[self._at][2] :])} in"
        return WhereError(f"{what} at {where} --where {_cut(self._text)}")

    def _either(self) -> Where:
        parts = [self._both()]
        while self._takes("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _both(self) -> Where:
        parts = [self._term()]
        while self._takes("and"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _term(self) -> Where:
        self._depth += 1
        if self._depth > 50:
            raise self._error("nested too deeply")
        try:
            if self._takes("not"):
                return Not(self._term())
            if self._takes("("):
                where = self._either()
                if not self._takes(")"):
                    raise self._error("expected ')'")
                return where
            return self._condition()
        finally:
            self._depth -= 1

    def _condition(self) -> Where:
        kind, name = self._peek()
        self._conditions += 1
        check_conditions(self._conditions)
        if kind != "word":
            raise self._error("expected a field such as state or config.lr")
        field = _field(name)
        self._at += 1
        if self._takes("in"):
            if not self._takes("("):
                raise self._error("expected '(' after 'in'")
            values = [self._value(field)]
            while self._takes(","):
                values.append(self._value(field))
            if not self._takes(")"):
                raise self._error("expected ')'")
            return Compare(field, "in", tuple(values))
        kind, operator = self._peek()
        if kind != "op":
            return Compare(field, "=", True)
        self._at += 1
        return Compare(field, "=" if operator == "==" else operator, self._value(field))

    def _value(self, field: str) -> Any:
        kind, text = self._peek()
        if kind not in ("word", "text"):
            raise self._error("expected a value")
        self._at += 1
        if kind == "text":
            text = re.sub(r"\\(.)", r"\1", text[1:-1])
        bare = kind == "word"
        if field in _TIMES:
            if bare and text.lower() in ("null", "none"):
                return None
            return _seconds(text) if field == "duration" else _time(text, self._zone)
        return text if not bare or field in FIELDS else _word(text)


def _cut(text: str) -> str:
    """Return the beginning of a text, as an error shows it."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def _field(name: str) -> str:
    if name in FIELDS or name in _FLAGS or name.startswith(FAMILIES):
        return name
    import difflib

    known = (*FIELDS, *_FLAGS)
    near = difflib.get_close_matches(name, known, 1)
    hint = near[0] if near else f"config.{name[:_SHOWN]}"
    raise WhereError(f"there is no field {_cut(name)}: did you mean {hint}? Fields are {', '.join(known)}, config.KEY, "
                     "arg.NAME, summary.KEY, tag.NAME and metric.NAME")  # fmt: skip


def _word(text: str) -> Any:
    special = {"true": True, "false": False, "null": None, "none": None}
    if text.lower() in special:
        return special[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _time(text: str, zone: str) -> float:
    try:
        asked = datetime.fromisoformat(text)
        if zone and asked.tzinfo is None:
            asked = asked.replace(tzinfo=_zone(zone))
        return asked.astimezone().timestamp()
    except (ValueError, OverflowError):
        raise WhereError(f"{_cut(text)} is not a date such as 2026-11-01 or '2026-11-01 14:30'") from None


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise WhereError(
            f"this machine does not know the time zone {name!r}: give times with an offset, as 2026-11-01T14:30+01:00"
        ) from None


def _seconds(text: str) -> float:
    unit = _UNITS.get(text[-1:], 0)
    try:
        return float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        raise WhereError(f"{_cut(text)} is not a duration such as 90, 10m or 1.5h") from None
