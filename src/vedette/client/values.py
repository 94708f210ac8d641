"""Converts the user's values to numbers and plain values, without importing numpy, torch or jax."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from vedette.interrupts import let_through
from vedette.model import Value

_MAX_TEXT = 10_000
_MAX_DEPTH = 20


def to_number(value: Any) -> float | int | bool:
    """Return the number in a scalar of any library; raise TypeError if it is not a number."""
    number: Any = value
    if type(value) not in (float, int, bool):
        item = getattr(value, "item", None)  # numpy, torch, jax, cupy: one element, as Python's own
        if item is not None:
            number = item()
        if isinstance(number, int) and not isinstance(number, bool):  # an IntEnum, say
            number = int(number)
        elif type(number) not in (float, bool) and hasattr(number, "__float__"):  # Fraction, longdouble
            number = float(number)
    if type(number) not in (float, int, bool):
        raise TypeError(f"{type(value).__name__} is not a number")
    if type(number) is int and not -(1 << 63) <= number < 1 << 63:
        try:
            return float(number)
        except OverflowError:
            return math.inf if number > 0 else -math.inf
    return number  # type: ignore[no-any-return]


encode_sample = msgspec.msgpack.Encoder(enc_hook=to_number, decimal_format="number").encode


class Budget:
    """Limits how many parts of a value we look at: containers that hold each other could take for ever."""

    def __init__(self, items: int = 1_000_000) -> None:
        self.left = items

    def take(self) -> bool:
        """Count one part; tell whether the limit is not reached yet."""
        self.left -= 1
        return self.left >= 0


def numbers_in(
    values: Mapping[Any, Any], prefix: str = "", parents: tuple[int, ...] = (), budget: Budget | None = None
) -> Iterator[tuple[str, float | int | bool | None]]:
    """Yield (name, number) for each value in `values`, nested names joined by `/`; None means a refused value.

    `parents` are the ids of the dicts around this one: a dict that contains itself is refused.
    """
    parents = (*parents, id(values))
    budget = budget or Budget()
    for key, value in values.items():
        if not budget.take():
            yield f"{prefix}(and more)", None
            return
        name = prefix + text_of(key)
        if isinstance(value, Mapping) and id(value) not in parents and len(parents) < _MAX_DEPTH:
            try:
                yield from numbers_in(value, f"{name}/", parents, budget)
            except Exception as error:  # whatever the mapping's own methods raise
                let_through(error)
                yield name, None
            continue
        try:
            yield name, to_number(value)
        except Exception as error:  # whatever the value's own methods raise
            let_through(error)
            yield name, None


def plain(value: Any, parents: tuple[int, ...] = (), budget: Budget | None = None) -> Value:
    """Return a value that can be stored as an attribute: the value itself, its parts, or else its text."""
    try:
        return _plain(value, parents, budget or Budget())
    except Exception as error:  # whatever the value's own methods raise
        let_through(error)
        return text_of(value)


def _plain(value: Any, parents: tuple[int, ...], budget: Budget) -> Value:
    if value is None or type(value) in (bool, float):
        return value
    if type(value) is int:
        return value if -(1 << 63) <= value < 1 << 63 else text_of(value)
    if isinstance(value, str):
        return text_of(value)
    if budget.take() and id(value) not in parents and len(parents) < _MAX_DEPTH:
        parents = (*parents, id(value))
        if isinstance(value, Mapping):
            return {text_of(key): _item(value, key, parents, budget) for key in value}
        if (names := _field_names(value)) is not None:
            return {text_of(name): _part(value, name, parents, budget) for name in names}
        if isinstance(value, list | tuple | set | frozenset):
            return [plain(inner, parents, budget) for inner in value]
        if type(value).__module__.partition(".")[0] == "omegaconf" and hasattr(value, "__len__"):
            return [_item(value, at, parents, budget) for at in range(len(value))]
    elif isinstance(value, Mapping | list | tuple | set | frozenset):
        return f"<{type(value).__name__}>"  # its text could be very large
    try:
        return to_number(value)
    except Exception as error:
        let_through(error)
        return text_of(value)


_NAMESPACES = ("Namespace", "SimpleNamespace")
_FIELDS = ("__dataclass_fields__", "model_fields", "__pydantic_fields__", "__fields__", "__struct_fields__", "_fields")


def _field_names(value: Any) -> list[str] | None:
    """Return the names of a value's fields; None if it has no fields.

    We recognise a dataclass, a pydantic model, a msgspec struct, a named tuple, an attrs class and a namespace by
    their attributes, and import none of these libraries.
    """
    kind = type(value)
    if isinstance(value, type):
        return None
    for field in _FIELDS:
        names = getattr(kind, field, None)
        if isinstance(names, dict | tuple) and all(isinstance(name, str) for name in names):
            return list(names)
    by_attrs = getattr(kind, "__attrs_attrs__", None)
    if isinstance(by_attrs, tuple):
        return [field.name for field in by_attrs]
    if kind.__name__ in _NAMESPACES:
        return list(vars(value))
    return None


def _part(value: Any, name: str, parents: tuple[int, ...], budget: Budget) -> Value:
    try:
        return plain(getattr(value, name, None), parents, budget)
    except Exception as error:  # whatever a property raises
        let_through(error)
        return f"<{type(error).__name__}>"


def _item(value: Any, key: Any, parents: tuple[int, ...], budget: Budget) -> Value:
    """Return one item of a container, or the name of the error if it raises (`???` of omegaconf)."""
    try:
        inner = value[key]
    except Exception as error:
        let_through(error)
        return f"<{type(error).__name__}>"
    return plain(inner, parents, budget)


def as_config(value: Any) -> dict[str, Value]:
    """Return a config as it is stored: a dict of plain values, whatever the user gave."""
    values = plain(value)
    if values is None:
        return {}
    return values if isinstance(values, dict) else {"value": values}


def text_of(value: Any) -> str:
    """Return a value's text, cut to the maximum length and valid as UTF-8; never raise."""
    try:
        text = str.__str__(value) if isinstance(value, str) else str(value)
        return text[:_MAX_TEXT].encode("utf-8", "replace").decode()  # lone surrogates cannot be written
    except Exception as error:
        let_through(error)
        return f"<{type(value).__name__}>"
