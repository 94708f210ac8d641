"""What records of spans must add up to, written another way than `fold`, and the check that holds a fold to it.

The oracle keeps every record and sorts; it shares nothing with the fold but the tables of the model.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from vedette.model import KINDS, UNKNOWN_KIND, Span

Record = tuple[str, int, Span]  # origin, n, what it said
Delivery = Sequence[Sequence[Record]]  # parts that arrive one after the other


class Example(NamedTuple):
    """What was said, and ways in which it arrived: each in some order, in some parts, some of it repeatedly."""

    records: Sequence[Record]
    deliveries: Sequence[Delivery]


class Row(NamedTuple):
    """A span as it should be shown."""

    kind: str
    name: str
    parent: str
    state: str
    cause: str
    start_t: int | None
    end_t: int | None
    done: float | None
    attrs: dict[str, Any]


def right(records: Iterable[Record]) -> dict[str, Row]:
    """Return every span as the law has it, by sorting all that was ever said."""
    said: dict[str, list[tuple[int, str, int, Span]]] = {}
    for (origin, n), span in {(origin, n): span for origin, n, span in records}.items():
        said.setdefault(span.id, []).append((span.t, origin, n, span))
    rows = {}
    for id_, words in said.items():
        words.sort(key=lambda word: word[:3])
        attrs = _last_written(words)
        kind, name, parent = (attrs.pop(key, "") for key in ("kind", "name", "parent"))
        rows[id_] = Row(kind, name, parent, *_own_end(kind, words), _how_far(words), dict(sorted(attrs.items())))
    settled = dict(rows)
    for id_, row in rows.items():
        tries = sorted((_number(rows[t].attrs), t) for t in rows if rows[t].kind == "try" and rows[t].parent == id_)
        if tries and row.state != "purged":
            last = rows[tries[-1][1]]
            start_t = min((t for t in (row.start_t, last.start_t) if t is not None), default=None)
            settled[id_] = row._replace(state=last.state, cause=last.cause, start_t=start_t, end_t=last.end_t)
    return settled


def _last_written(words: list[tuple[int, str, int, Span]]) -> dict[str, Any]:
    """Apply each record to what stood before it: a value takes the place of a branch, and a branch that of a value."""
    attrs: dict[str, Any] = {}
    for *_, span in words:
        said: dict[str, Any] = {}
        todo: list[tuple[tuple[str, ...], Any]] = [((key,), value) for key, value in span.attrs.items()]
        while todo:
            path, value = todo.pop(0)
            if isinstance(value, dict) and value:
                todo = [((*path, key), inner) for key, inner in value.items()] + todo
            else:
                said[".".join(path)] = value
        said = {key: value for key, value in said.items() if key.split(".")[0] not in ("kind", "parent")}
        said |= {key: getattr(span, key) for key in ("kind", "name", "parent") if getattr(span, key)}
        for old in list(attrs):
            if any(old.startswith(f"{new}.") or new.startswith(f"{old}.") for new in said):
                del attrs[old]
        attrs |= said
    return attrs


def _own_end(kind: str, words: list[tuple[int, str, int, Span]]) -> tuple[str, str, int | None, int | None]:
    table = KINDS.get(kind, UNKNOWN_KIND)
    claims = [(t, origin, span.state, span.cause, span.by) for t, origin, _, span in words if span.state]
    if not claims:
        return "", "", None, None
    start_t = min(claims)[0]
    states = {claim[2] for claim in claims}
    last_words = {"purged"} if "purged" in states else states & set(table.ends)
    last_words = last_words - {"ended"} or last_words
    if not last_words:
        for state in reversed(table.climbing):
            if state in states:
                return state, "", start_t, None
        return max(states), "", start_t, None
    heard = []  # the ends, the most trusted voice first, and of each voice its last word first
    for voice in ("owner", "hub", "launcher", "user"):
        heard += sorted((c for c in claims if c[2] in last_words and c[4] == voice), reverse=True)
    heard += sorted((c for c in claims if c[2] in last_words and c not in heard), reverse=True)
    causes = [claim[3] for claim in heard if claim[3]]
    return heard[0][2], causes[0] if causes else "", start_t, heard[0][0]


def _how_far(words: list[tuple[int, str, int, Span]]) -> float | None:
    words = [word for word in words if word[3].at is not None or word[3].add is not None]
    if not words:
        return None
    reached = sorted(span.at for *_, span in words if span.at is not None)
    said = sorted((span.of or origin, span.add) for _, origin, _, span in words if span.add is not None)
    added = dict(said)  # the most that was said of each comes last
    return (reached[-1] if reached else 0.0) + sum(added.values())


def _number(attrs: dict[str, Any]) -> int:
    return attrs["n"] if isinstance(attrs.get("n"), int) else 0


def add_up(fold: Any, delivery: Delivery, chance: random.Random) -> dict[str, Row]:
    """Return every span as a fold has it, put away and taken out again after each part, in any order."""
    spans: dict[str, Any] = {}
    for part in delivery:
        for origin, n, span in part:
            spans.setdefault(span.id, fold.Folded()).fold(span, origin, n)
        for id_, kept in spans.items():
            kept.attrs()
            claims, writes = _shuffled(sorted(kept.claims), chance), _shuffled(kept.writes.values(), chance)
            spans[id_] = fold.Folded(claims, writes, dict(_shuffled(kept.progress.items(), chance)))
    rows, own = {}, {}
    for id_, kept in spans.items():
        attrs = kept.attrs()
        kind, name, parent = (attrs.pop(key, "") for key in ("kind", "name", "parent"))
        if chance.random() < 0.5:
            own[id_] = kept.span_state(kind)
        else:  # a set's own order hides ties within a process
            own[id_] = fold.judge(fold.KINDS.get(kind, fold.UNKNOWN_KIND), _shuffled(sorted(kept.claims), chance))
        rows[id_] = Row(kind, name, parent, *own[id_], kept.done(), attrs)
    for id_, row in rows.items():
        tries = [(_number(r.attrs), t, own[t]) for t, r in rows.items() if r.kind == "try" and r.parent == id_]
        state, cause, start_t, end_t = fold.settle(own[id_], _shuffled(tries, chance))
        rows[id_] = row._replace(state=state, cause=cause, start_t=start_t, end_t=end_t)
    return rows


def _shuffled(items: Iterable[Any], chance: random.Random) -> list[Any]:
    items = list(items)
    chance.shuffle(items)
    return items


def violations(fold: Any, examples: Iterable[Example]) -> list[str]:
    """Return a sentence for each delivery after which a fold (the module, or one like it) is not right."""
    chance = random.Random(5)
    found = []
    for records, deliveries in examples:
        want = right(records)
        for delivery in deliveries:
            got = add_up(fold, delivery, chance)
            found += [
                f"{id_} should be {want.get(id_)}, and is {got.get(id_)}: {delivery}"
                for id_ in sorted(want.keys() | got.keys())
                if repr(want.get(id_)) != repr(got.get(id_))
            ]
    return found
