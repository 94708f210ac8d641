"""Masks secrets in the facts of programs: lines, exceptions, and the causes of ends (decisions/036).

The hub does it before a fact is committed or shipped, never the user's process. The same fact gives the same result
wherever and however often it is masked.
"""

from collections.abc import Callable

from msgspec import structs

from vedette import manifest
from vedette.hub.turn.line_masks import mask_line
from vedette.masks import MASK, means_else
from vedette.model import Event, Fact, Span, Value
from vedette.secret_names import is_secret

Masking = Callable[[Fact], Fact]

# Attributes of events that hold no words of a program; `ansi` has those of the text once more.
_PLAIN = frozenset("logger file line function thread pid stream printed unasked ansi cell n masked count".split())
_SPOKEN = ("exit_text", "mishap", "msg")  # attributes of spans that hold words of a program; `msg` is of a bar


def masking(*, on: bool) -> Masking:
    """Return the function by which a hub masks facts; if it is not `on`, one that leaves them as they are."""
    return masked if on else _leave


def masked(fact: Fact) -> Fact:
    """Return a fact without the secrets in what a program has said. What a user has typed stays: names, notes, tags."""
    if isinstance(fact, Event):
        return _event(fact)
    if isinstance(fact, Span) and (fact.cause or any(key in fact.attrs for key in _SPOKEN)):
        return _span(fact)
    return fact


def _leave(fact: Fact) -> Fact:
    return fact


def _event(event: Event) -> Event:
    text = mask_line(event.text)
    if text is event.text and _PLAIN.issuperset(event.attrs):
        return event
    if event.kind == manifest.CELL:  # it is code, which was cleaned before it was recorded
        return event
    attrs = {key: _value(value, key) for key, value in event.attrs.items()}
    if text is not event.text:
        attrs.pop("ansi", None)  # the secret is in there, too, with codes of colours in it
    return structs.replace(event, text=text, attrs=attrs)


def _span(span: Span) -> Span:
    spoken = {key: _value(span.attrs[key]) for key in _SPOKEN if key in span.attrs}
    name = mask_line(span.name) if "msg" in spoken else span.name
    return structs.replace(span, cause=mask_line(span.cause), name=name, attrs={**span.attrs, **spoken})


def _value(value: Value, key: str = "") -> Value:
    if key in _PLAIN:
        return value
    if isinstance(value, str):
        secret = value and key and is_secret(key) and not means_else(key, value)
        return MASK if secret else mask_line(value)
    if isinstance(value, list | tuple):
        return [_value(item, key) for item in value]
    if isinstance(value, dict):
        return {name: _value(item, name) for name, item in value.items()}
    return value
