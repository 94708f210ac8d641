"""Conditions on spans, as SQL. Values are always bound, and names are quoted: nothing a user types is ever SQL."""

import json
from typing import Any

from vedette.errors import WhereError
from vedette.store import Both, Compare, Either, Not, Where

_COLUMNS = {"id", "kind", "name", "parent", "state", "cause"}
_TIMES = {
    "start": "start_t / 1e9",
    "end": "end_t / 1e9",
    "duration": "(coalesce(end_t, unixepoch() * 1000000000) - start_t) / 1e9",
}
FIELDS = sorted({*_COLUMNS, *_TIMES})
_OPERATORS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def to_sql(where: Where) -> tuple[str, list[Any]]:
    """Return a condition on the table `spans` and the values that it binds."""
    if isinstance(where, Compare):
        return _compare(where)
    if isinstance(where, Not):
        sql, values = to_sql(where.part)
        return f"NOT coalesce({sql}, 0)", values
    word = " AND " if isinstance(where, Both) else " OR "
    assert isinstance(where, Both | Either)
    parts = [to_sql(part) for part in where.parts]
    return "(" + word.join(sql for sql, _ in parts) + ")", [value for _, values in parts for value in values]


def _compare(where: Compare) -> tuple[str, list[Any]]:
    column, bound = _column(where.field)
    if where.op == "in":
        parts = [_compare(Compare(where.field, "=", value)) for value in where.value]
        return "(" + " OR ".join(sql for sql, _ in parts) + ")", [v for _, values in parts for v in values]
    if where.op == "~":
        return f"instr(lower({column}), lower(?)) > 0", [*bound, str(where.value)]
    if where.op not in _OPERATORS:
        raise WhereError(f"there is no operator {where.op!r}")
    operator = _OPERATORS[where.op]
    value = where.value
    if value is None:
        return f"{column} IS {'NOT ' if operator == '<>' else ''}NULL", bound
    if isinstance(value, bool):
        value = int(value)
    # SQLite sorts every text above every number: compare like with like only.
    types = "('text')" if isinstance(value, str) else "('integer', 'real')"
    return f"(typeof({column}) IN {types} AND {column} {operator} ?)", [*bound, *bound, value]


def _column(field: str) -> tuple[str, list[Any]]:
    if field in _COLUMNS:
        return field, []
    if field in _TIMES:
        return f"({_TIMES[field]})", []
    if field.startswith("metric."):
        return "(SELECT last FROM series WHERE series.span = spans.id AND series.name = ? LIMIT 1)", [field[7:]]
    return "json_extract(attrs, ?)", ["$." + json.dumps(field)]
