"""Conditions on spans, as SQL. Values are always bound, and names are quoted: a user's text never becomes SQL."""

import json
from typing import Any

from vedette.errors import WhereError
from vedette.labels import parted, statistic
from vedette.store import Both, Compare, Either, Not, Where
from vedette.store.sqlite_json import to_json

_COLUMNS = {"id", "kind", "name", "parent", "state", "cause"}
_TIMES = {
    "start": "start_t / 1e9",
    "end": "end_t / 1e9",
    "duration": "max(0, coalesce(end_t / 1e9, (julianday('now') - 2440587.5) * 86400) - start_t / 1e9)",
}
_OPERATORS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def to_sql(where: Where) -> tuple[str, list[Any]]:
    """Return a condition on the table `spans` and the values that it binds."""
    if isinstance(where, Compare):
        return _compare(where)
    if isinstance(where, Not):
        sql, values = to_sql(where.part)
        return f"NOT coalesce({sql}, 0)", values
    assert isinstance(where, Both | Either)
    return _join(" AND " if isinstance(where, Both) else " OR ", [to_sql(part) for part in where.parts])


def _join(word: str, parts: list[tuple[str, list[Any]]]) -> tuple[str, list[Any]]:
    """Join conditions as a balanced tree: SQLite limits the depth of an expression."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    (left, bound), (right, more) = _join(word, parts[:half]), _join(word, parts[half:])
    return f"({left}{word}{right})", [*bound, *more]


def _compare(where: Compare) -> tuple[str, list[Any]]:
    column, bound = _column(where.field)
    if where.op == "in" and where.field == "id":  # perhaps thousands
        return "id IN (SELECT value FROM json_each(?))", [json.dumps(list(where.value))]
    if where.op == "in":
        return _among(where)
    if where.op == "~":
        return f"instr(lower({column}), lower(?)) > 0", [*bound, str(where.value)]
    if where.op not in _OPERATORS:
        raise WhereError(f"there is no operator {where.op!r}")
    operator = _OPERATORS[where.op]
    value = where.value
    if value is None:
        if where.field in _COLUMNS or where.field in _TIMES:
            return f"{column} IS {'NOT ' if operator == '<>' else ''}NULL", bound
        return f"json_type(attrs, ?) {operator} 'null'", [_path(where.field)]
    return f"(typeof({column}) IN {_types(value)} AND {column} {operator} ?)", [*bound, *bound, _bindable(value)]


def _among(where: Compare) -> tuple[str, list[Any]]:
    """Return a condition that a field is one of some values. It is read a few times, and not once for each of them."""
    column, bound = _column(where.field)
    parts: list[tuple[str, list[Any]]] = []
    by_types: dict[str, list[Any]] = {}
    for value in where.value:
        if value is not None:
            by_types.setdefault(_types(value), []).append(_bindable(value))
        elif not parts:
            parts.append(_compare(Compare(where.field, "=", None)))
    for types, values in by_types.items():
        sql = f"(typeof({column}) IN {types} AND {column} IN ({', '.join('?' * len(values))}))"
        parts.append((sql, [*bound, *bound, *values]))
    return _join(" OR ", parts)


def _types(value: Any) -> str:
    """Return of which types a field is that is compared with a value: SQLite sorts every text above every number."""
    return "('text')" if isinstance(value, str) else "('integer', 'real')"


def _bindable(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return float(value) if abs(value) < 1 << 1023 else float("inf") * (1 if value > 0 else -1)
    return value


def _last(text: str) -> tuple[str, list[Any]]:
    """Return the last value of a series; `text` is its name, with or without tags, or ends in `.last`.

    If the name alone stands for several series, the one without tags counts, else the one with the newest point.
    """
    name, tags = parted(text)
    series, what = statistic(text)
    wanted = [(text, {}), *([(name, tags)] if tags else []), *([parted(series)] if what == "last" else [])]
    found, bound = [], []
    for one, with_tags in wanted:
        matches = "".join(" AND json_extract(series.tags, ?) = ?" for _ in with_tags)
        found.append(
            f"(SELECT last FROM series WHERE series.span = spans.id AND series.name = ?{matches}"
            " ORDER BY series.tags <> ?, last_t DESC LIMIT 1)"
        )
        bound += [one, *(word for key, value in with_tags.items() for word in (_path(key), value)), to_json(with_tags)]
    return (f"coalesce({', '.join(found)})" if len(found) > 1 else found[0]), bound


def _column(field: str) -> tuple[str, list[Any]]:
    if field in _COLUMNS:
        return field, []
    if field in _TIMES:
        return f"({_TIMES[field]})", []
    if field.startswith("metric."):  # the last value of the series, or what the run put into its summary itself
        last, bound = _last(field.removeprefix("metric."))
        return f"coalesce({last}, json_extract(attrs, ?))", [*bound, _path("summary." + field.removeprefix("metric."))]
    if field.startswith("summary."):  # the other way round
        last, bound = _last(field.removeprefix("summary."))
        return f"coalesce(json_extract(attrs, ?), {last})", [_path(field), *bound]
    return "json_extract(attrs, ?)", [_path(field)]


def to_order(order: tuple[str, ...]) -> tuple[str, list[Any]]:
    """Return the ORDER BY terms, and the values they bind; rows without a value come last, numbers before text."""
    parts, values = [], []
    for field in order:
        column, bound = _column(field.removeprefix("-"))
        direction = " DESC" if field.startswith("-") else ""
        parts.append(f"{column} IS NULL OR {column} = 'nan', {column}{direction}")  # NaN is stored as text: last, too
        values += [*bound, *bound, *bound]
    return ", ".join([*parts, "start_t DESC", "id DESC"]), values


def _path(field: str) -> str:
    return "$." + json.dumps(field, ensure_ascii=False)
