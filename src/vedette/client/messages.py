"""What a log record says, as text: classic `%` first, several messages joined, objects of rich drawn.

Nothing here raises, whatever the objects do, but for what a signal handler of the user's raised meanwhile.
"""

from itertools import islice
from typing import Any

from vedette.client.faults import let_through
from vedette.client.rendering import MOST, is_rich, render
from vedette.sources.colours import colourless

_CUT = " (cut)"
_SIMPLE = frozenset((str, int, float, bool, type(None)))
_HOLDERS = frozenset((list, tuple, set, frozenset, dict, bytes, bytearray))
_MANY = 20_000  # parts of a thing that is not spelled out to its end


class _Shown:
    """Stands for an argument that is shown by another text than its own."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def compose(msg: Any, args: Any) -> tuple[str, str]:
    """Return what a record says: as plain text, and with colour codes where it has any, else an empty text."""
    if type(msg) is str and not args:
        text = msg
    elif (
        type(msg) is str
        and type(args) is tuple
        and _SIMPLE.issuperset(map(type, args))
        and (filled := _fill(msg, args)) is not None
    ):
        text = filled
    else:
        plain, coloured = _compose_any(msg, args)
        return sound(colourless(plain)), sound(coloured) if coloured != plain or "\x1b" in plain else ""
    if "\x1b" in text or "\x9b" in text:
        return sound(colourless(text)), sound(text)
    return sound(text), ""


def holds_rich(msg: Any, args: Any) -> bool:
    """Tell whether a record has an object of rich in it."""
    if type(msg) not in _SIMPLE and is_rich(msg):
        return True
    return any(type(arg) not in _SIMPLE and is_rich(arg) for arg in args) if type(args) is tuple else is_rich(args)


def sound(text: str) -> str:
    """Return a text that can be kept: not too long, and without lone surrogates."""
    if len(text) > MOST:
        text = text[:MOST] + _CUT
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def spell(value: Any) -> str:
    """Return a value's text, whatever it does; what holds very much is spelled out in part."""
    if type(value) is str:
        return value
    try:
        if type(value) in _HOLDERS and len(value) > _MANY:
            return _spell_part(value)
        return str.__str__(str(value))
    except Exception as error:
        let_through(error)
        return f"<{_name_of(type(value))}, which has no text: {_name_of(type(error))}>"


def _spell_part(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        part = repr(bytes(value[:_MANY]))
    elif isinstance(value, dict):
        part = repr(dict(islice(value.items(), 100)))
    else:
        part = repr(list(islice(value, 100)))
    return f"{part} ({type(value).__name__} of {len(value)}, cut)"


def _name_of(kind: type) -> str:
    try:
        return str(kind.__name__)[:100]
    except Exception:  # of a metaclass
        return "object"


def _fill(msg: str, args: Any) -> str | None:
    """Fill a message in as `logging` does it; return None where it has no place for just these arguments."""
    if "%" not in msg:
        return None
    try:
        return str(msg % args)
    except Exception as error:
        let_through(error)
        return None


def _compose_any(msg: Any, args: Any) -> tuple[str, str]:
    rest = args if type(args) is tuple else (args,) if args else ()
    if not holds_rich(msg, rest):
        filled = _fill(spell(msg), _bounded(args)) if rest else None
        text = _join([spell(part) for part in (msg, *rest)]) if filled is None else filled
        return text, text
    looks = [_look(part) for part in (msg, *rest)]
    plain, coloured = (_fill_looks(msg, rest, [look[side] for look in looks]) for side in (0, 1))
    return plain, coloured


def _bounded(args: Any) -> Any:
    """Return arguments with what holds very much replaced by a part of its text."""
    if type(args) is not tuple:
        return args
    return tuple(_Shown(_spell_part(arg)) if type(arg) in _HOLDERS and len(arg) > _MANY else arg for arg in args)


def _look(part: Any) -> tuple[str, str]:
    """Return what a part of a message looks like: plain, and with colour codes."""
    if is_rich(part):
        try:
            return render(part)
        except Exception as error:
            let_through(error)
    text = spell(part)
    return text, text


def _fill_looks(msg: Any, args: tuple[Any, ...], texts: list[str]) -> str:
    shown = tuple(_Shown(text) if is_rich(arg) else arg for arg, text in zip(args, texts[1:], strict=True))
    filled = None if is_rich(msg) else _fill(texts[0], shown)
    return _join(texts) if filled is None else filled


def _join(parts: list[str]) -> str:
    """Join messages: by a space, or by a new line where one of two has several lines."""
    joined = parts[0]
    many = "\n" in parts[0]
    for part in parts[1:]:
        joined += ("\n" if many or "\n" in part else " ") + part
        many = "\n" in part
    return joined
