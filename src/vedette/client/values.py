"""What a user hands over, made into numbers and plain values, without importing numpy, torch or jax."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from vedette.model import Value

_MOST_TEXT = 10_000
_MOST_DEPTH = 20


def to_number(value: Any) -> float | int | bool:
    """Return the number that a scalar of any library holds; raise TypeError when it holds none."""
    number: Any = value
    if type(value) not in (float, int, bool):
        item = getattr(value, "item", None)  # numpy, torch, jax, cupy: one element, as Python's own
        if item is not None:
            number = item()
        elif isinstance(value, int):  # an IntEnum, say
            number = int(value)
        elif hasattr(value, "__float__"):
            number = float(value)
    if type(number) not in (float, int, bool):
        raise TypeError(f"{type(value).__name__} is not a number")
    if type(number) is int and not -(1 << 63) <= number < 1 << 63:
        return float(number) if abs(number) < 1 << 1023 else math.copysign(math.inf, number)
    return number  # type: ignore[no-any-return]


encode_sample = msgspec.msgpack.Encoder(enc_hook=to_number, decimal_format="number").encode


def numbers_in(values: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield (name, number) for all that `values` holds, nested names joined by `/`; a refused value comes as None."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < _MOST_DEPTH:
            yield from numbers_in(value, f"{name}/", depth + 1)
            continue
        try:
            yield name, to_number(value)
        except Exception:  # whatever the value's own methods raise
            yield name, None


def plain(value: Any, depth: int = 0) -> Value:
    """Return a value that can be kept as an attribute: itself, its parts, or as a last resort its text."""
    if value is None or type(value) in (bool, float):
        return value
    if type(value) is int:
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, str):
        text = str(value)[:_MOST_TEXT]
        return text.encode("utf-8", "replace").decode()  # lone surrogates cannot be written
    if depth < _MOST_DEPTH:
        if isinstance(value, Mapping):
            return {str(plain(str(k))): plain(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [plain(v, depth + 1) for v in value]
        fields = getattr(value, "__dataclass_fields__", None)
        if fields is not None and not isinstance(value, type):
            return {name: plain(getattr(value, name, None), depth + 1) for name in fields}
        if type(value).__name__ == "Namespace":
            return plain(vars(value), depth)
    try:
        return to_number(value)
    except Exception:
        return plain(_text(value))


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
