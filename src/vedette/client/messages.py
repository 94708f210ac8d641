"""Turns a log record into text: by `%` formatting if that works, else by joining its parts; objects of rich are drawn.

Nothing here raises, whatever the objects do; only an error from the user's signal handler passes through.
"""

from itertools import islice
from typing import Any

from vedette.client.rendering import MAX_CHARS, is_rich, render
from vedette.interrupts import let_through
from vedette.sources.colours import colourless

_CUT = " (cut)"
_SIMPLE = frozenset((str, int, float, bool, type(None)))
_CONTAINERS = frozenset((list, tuple, set, frozenset, dict, bytes, bytearray))
_MAX_ITEMS = 20_000  # a larger container is written only in part


class _FixedText:
    """Takes the place of an argument in `%` formatting; its text is fixed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def compose(msg: Any, args: Any) -> tuple[str, str]:
    """Return the text of a record, and the same with colour codes (empty if it has none)."""
    if type(msg) is str and not args:
        text = msg
    elif (
        type(msg) is str
        and type(args) is tuple
        and _SIMPLE.issuperset(map(type, args))
        and (formatted := _format(msg, args)) is not None
    ):
        text = formatted
    else:
        plain, coloured = _compose_any(msg, args)
        return clean_text(colourless(plain)), clean_text(coloured) if coloured != plain or "\x1b" in plain else ""
    if "\x1b" in text or "\x9b" in text:
        return clean_text(colourless(text)), clean_text(text)
    return clean_text(text), ""


def holds_rich(msg: Any, args: Any) -> bool:
    """Tell whether a record contains an object of rich."""
    if type(msg) not in _SIMPLE and is_rich(msg):
        return True
    return any(type(arg) not in _SIMPLE and is_rich(arg) for arg in args) if type(args) is tuple else is_rich(args)


def clean_text(text: str) -> str:
    """Return a text that can be stored: cut to the maximum length, and without lone surrogates."""
    if len(text) > MAX_CHARS:
        text = text[:MAX_CHARS] + _CUT
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def spell(value: Any) -> str:
    """Return the text of any value, never raise; a very large container is written only in part."""
    if type(value) is str:
        return value
    try:
        if type(value) in _CONTAINERS and len(value) > _MAX_ITEMS:
            return _spell_part(value)
        return str.__str__(str(value))
    except Exception as error:
        let_through(error)
        return f"<{_name_of(type(value))}, which has no text: {_name_of(type(error))}>"


def _spell_part(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        part = repr(bytes(value[:_MAX_ITEMS]))
    elif isinstance(value, dict):
        part = repr(dict(islice(value.items(), 100)))
    else:
        part = repr(list(islice(value, 100)))
    return f"{part} ({type(value).__name__} of {len(value)}, cut)"


def _name_of(kind: type) -> str:
    try:
        return str(kind.__name__)[:100]
    except Exception as error:  # raised by a metaclass
        let_through(error)
        return "object"


def _format(msg: str, args: Any) -> str | None:
    """Format a message as `logging` does; return None if the arguments do not fit its placeholders."""
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
        formatted = _format(spell(msg), _bounded(args)) if rest else None
        text = _join([spell(part) for part in (msg, *rest)]) if formatted is None else formatted
        return text, text
    drawn = [_draw(part) for part in (msg, *rest)]
    plain, coloured = (_format_drawn(msg, rest, [pair[side] for pair in drawn]) for side in (0, 1))
    return plain, coloured


def _bounded(args: Any) -> Any:
    """Return the arguments, very large containers replaced by a part of their text."""
    if type(args) is not tuple:
        return args
    return tuple(
        _FixedText(_spell_part(arg)) if type(arg) in _CONTAINERS and len(arg) > _MAX_ITEMS else arg for arg in args
    )


def _draw(part: Any) -> tuple[str, str]:
    """Return a part of a message as plain text, and as text with colour codes."""
    if is_rich(part):
        try:
            return render(part)
        except Exception as error:
            let_through(error)
    text = spell(part)
    return text, text


def _format_drawn(msg: Any, args: tuple[Any, ...], texts: list[str]) -> str:
    shown = tuple(_FixedText(text) if is_rich(arg) else arg for arg, text in zip(args, texts[1:], strict=True))
    formatted = None if is_rich(msg) else _format(texts[0], shown)
    return _join(texts) if formatted is None else formatted


def _join(parts: list[str]) -> str:
    """Join parts by a space, or by a newline if one of the two neighbours has several lines."""
    joined = parts[0]
    many = "\n" in parts[0]
    for part in parts[1:]:
        joined += ("\n" if many or "\n" in part else " ") + part
        many = "\n" in part
    return joined
