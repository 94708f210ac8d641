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


def numbers_in(
    values: Mapping[Any, Any], prefix: str = "", above: tuple[int, ...] = ()
) -> Iterator[tuple[str, float | int | bool | None]]:
    """Yield (name, number) for all that `values` holds, nested names joined by `/`; a refused value comes as None.

    `above` are the ids of the dicts that this one lies in: one that holds itself is refused.
    """
    above = (*above, id(values))
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and id(value) not in above and len(above) < _MOST_DEPTH:
            yield from numbers_in(value, f"{name}/", above)
            continue
        try:
            yield name, to_number(value)
        except Exception:  # whatever the value's own methods raise
            yield name, None


def plain(value: Any, above: tuple[int, ...] = ()) -> Value:
    """Return a value that can be kept as an attribute: itself, its parts, or as a last resort its text."""
    if value is None or type(value) in (bool, float):
        return value
    if type(value) is int:
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, str):
        return str(value)[:_MOST_TEXT].encode("utf-8", "replace").decode()  # lone surrogates cannot be written
    if id(value) not in above and len(above) < _MOST_DEPTH:
        above = (*above, id(value))
        if isinstance(value, Mapping):
            return {plain(_text(key)): plain(inner, above) for key, inner in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [plain(inner, above) for inner in value]
        if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
            return {name: plain(getattr(value, name, None), above) for name in value.__dataclass_fields__}
        if type(value).__name__ == "Namespace":
            return {name: plain(inner, above) for name, inner in vars(value).items()}
    try:
        return to_number(value)
    except Exception:
        return plain(_text(value))


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
