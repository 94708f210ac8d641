"""Values as JSON that SQLite can query."""

import json
import math

from vedette.model import Value


def to_json(value: Value) -> str:
    """Return JSON that SQLite can query; NaN and infinity become text, and a value nested too deep becomes {}."""
    try:
        return _dump(value)
    except RecursionError:
        return "{}"


def _dump(value: Value) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


def _finite(value: Value) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
