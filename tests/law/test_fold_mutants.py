"""The check of the fold is itself checked: each of these folds is wrong in one way, and must be told so.

Many of them converge: they give one state in any order, and not the right one. Only an oracle sees that.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from vedette import fold
from vedette.fold import Claim, Folded, OriginProgress, SpanState, Write
from vedette.model import Kind

from .oracle import violations
from .sayings import repeatable_examples

Change = tuple[object, str, Any]  # what to set, where, to what
MUTANTS: dict[str, list[Change]] = {}

_judge, _fold, _attrs, _settle, _weight = fold.judge, Folded.fold, Folded.attrs, fold.settle, fold.weight


def mutant(place: object, name: str) -> Callable[[Any], Any]:
    """Take the function below as a mutant of the one that has this name."""

    def take(changed: Any) -> Any:
        MUTANTS[changed.__name__] = [(place, name, changed)]
        return changed

    return take


@mutant(fold, "weight")
def no_trust(claim: Claim):
    return _weight(claim)[1:]


@mutant(fold, "weight")
def trust_upside_down(claim: Claim):
    return -_weight(claim)[0], *_weight(claim)[1:]


@mutant(fold, "weight")
def first_word_instead_of_last(claim: Claim):
    return _weight(claim)[0], -claim.t, *_weight(claim)[2:]


@mutant(fold, "weight")
def origin_before_time(claim: Claim):
    return _weight(claim)[0], claim.origin, claim.t, claim.state, claim.cause


@mutant(fold, "weight")
def ends_tie_on_origin(claim: Claim):
    return _weight(claim)[0], claim.t, claim.state, claim.cause


@mutant(fold, "weight")
def ends_tie_on_state(claim: Claim):
    return _weight(claim)[:3]


@mutant(fold, "weight")
def ends_tie_on_cause(claim: Claim):
    return _weight(claim)[:4]


@mutant(fold, "_rank")
def no_rank(kind: Kind, state: str):
    return 0


@mutant(fold, "_rank")
def unknown_states_rank_highest(kind: Kind, state: str):
    return kind.climbing.index(state) if state in kind.climbing else 99


@mutant(fold, "judge")
def newest_state_instead_of_highest(kind: Kind, claims: Any):
    claims = list(claims)
    judged = _judge(kind, claims)
    if judged.end_t is None and claims:
        return judged._replace(state=max(claims, key=lambda claim: (claim.t, claim.origin, claim.state)).state)
    return judged


@mutant(fold, "judge")
def cause_of_the_winner_alone(kind: Kind, claims: Any):
    claims = list(claims)
    judged = _judge(kind, claims)
    ends = [c for c in claims if c.state == judged.state and c.t == judged.end_t]
    best = max(ends, key=_weight, default=None)
    return judged._replace(cause=best.cause if best else "")


@mutant(fold, "judge")
def end_of_the_first_end(kind: Kind, claims: Any):
    claims = list(claims)
    judged = _judge(kind, claims)
    ends = [claim.t for claim in claims if claim.state == judged.state]
    return judged if judged.end_t is None else judged._replace(end_t=min(ends))


@mutant(fold, "judge")
def start_of_the_climbing_alone(kind: Kind, claims: Any):
    claims = list(claims)
    climbing = [claim.t for claim in claims if claim.state in kind.climbing]
    return _judge(kind, claims)._replace(start_t=min(climbing, default=None))


@mutant(fold, "settle")
def tries_by_id_alone(own: SpanState, tries: Any):
    return _settle(own, [(0, id_, state) for _, id_, state in tries])


@mutant(fold, "settle")
def tries_by_number_alone(own: SpanState, tries: Any):
    tries = list(tries)
    best = max(tries, default=None, key=lambda item: item[0])
    return _settle(own, [] if best is None else [best])


@mutant(fold, "settle")
def tries_do_not_count(own: SpanState, tries: Any):
    return own


@mutant(fold, "settle")
def a_try_undoes_a_purge(own: SpanState, tries: Any):
    return _settle(own._replace(state="" if own.state == "purged" else own.state), tries)


@mutant(fold, "settle")
def start_of_the_last_try(own: SpanState, tries: Any):
    tries = list(tries)
    return _settle(own._replace(start_t=None) if tries and own.state != "purged" else own, tries)


@mutant(Folded, "fold")
def none_means_nothing_said(self: Folded, span: Any, origin: str, n: int):
    attrs = {key: value for key, value in span.attrs.items() if value is not None}
    _fold(self, fold.Span(**{f: getattr(span, f) for f in span.__struct_fields__} | {"attrs": attrs}), origin, n)


@mutant(Folded, "fold")
def one_claim_per_origin(self: Folded, span: Any, origin: str, n: int):
    if span.state:
        self.claims = {claim for claim in self.claims if claim.origin != origin}
    _fold(self, span, origin, n)


@mutant(Folded, "fold")
def claims_without_a_voice(self: Folded, span: Any, origin: str, n: int):
    _fold(self, fold.Span(**{f: getattr(span, f) for f in span.__struct_fields__} | {"by": "owner"}), origin, n)


@mutant(Folded, "fold")
def nothing_after_a_purge(self: Folded, span: Any, origin: str, n: int):
    if not any(claim.state == "purged" for claim in self.claims):
        _fold(self, span, origin, n)


@mutant(Folded, "fold")
def progress_by_arrival(self: Folded, span: Any, origin: str, n: int):
    self.progress.pop(origin, None) if span.at is not None or span.add is not None else None
    _fold(self, span, origin, n)


@mutant(Folded, "fold")
def progress_of_the_speaker(self: Folded, span: Any, origin: str, n: int):
    _fold(self, msgspec.structs.replace(span, of=""), origin, n)


@mutant(OriginProgress, "join")
def progress_by_the_newest_n(self: OriginProgress, other: OriginProgress | None):
    return self if other is None or self.n >= other.n else other


@mutant(OriginProgress, "join")
def progress_by_the_clock(self: OriginProgress, other: OriginProgress | None):
    return self if other is None or self.t >= other.t else other


@mutant(OriginProgress, "join")
def progress_as_a_pair(self: OriginProgress, other: OriginProgress | None):
    return self if other is None else max(self, other, key=lambda p: (p.add or 0.0, p.at or 0.0, p.n, p.t))


@mutant(Folded, "fold")
def writes_named_by_n_alone(self: Folded, span: Any, origin: str, n: int):
    _fold(self, span, origin, n)
    if (origin, n) in self.writes:
        self.writes = {key: write for key, write in self.writes.items() if key[1] != n} | {
            (origin, n): self.writes[origin, n]
        }


@mutant(Folded, "attrs")
def attrs_by_arrival(self: Folded):
    attrs = {}
    for write in self.writes.values():
        attrs |= write.attrs
    return dict(sorted(attrs.items()))


def _attrs_by(order: Callable[[Write], Any]) -> Callable[[Folded], dict[str, Any]]:
    def attrs(self: Folded):
        found = {}
        for write in sorted(self.writes.values(), key=order):
            found |= write.attrs
        return dict(sorted(found.items()))

    return attrs


MUTANTS["attrs_by_time_alone"] = [(Folded, "attrs", _attrs_by(lambda write: write.t))]
MUTANTS["attrs_by_origin_first"] = [(Folded, "attrs", _attrs_by(lambda write: (write.origin, write.t, write.n)))]
MUTANTS["attrs_by_n_before_origin"] = [(Folded, "attrs", _attrs_by(lambda write: (write.t, write.n, write.origin)))]
MUTANTS["attrs_of_the_first_writer"] = [
    (Folded, "attrs", _attrs_by(lambda write: (-write.t, [-ord(c) for c in write.origin], -write.n)))
]


@mutant(Folded, "attrs")
def forgets_all_but_the_newest_write(self: Folded):
    attrs = _attrs(self)
    newest = max(self.writes.values(), default=None, key=lambda write: write[:3])
    self.writes = {} if newest is None else {(newest.origin, newest.n): newest}
    return attrs


@mutant(Folded, "done")
def done_is_the_sum_of_places(self: Folded):
    values = self.progress.values()
    return sum((p.at or 0.0) + (p.add or 0.0) for p in values) if values else None


@mutant(Folded, "done")
def done_is_the_furthest_of_all(self: Folded):
    values = self.progress.values()
    return max((p.at or 0.0) + (p.add or 0.0) for p in values) if values else None


@mutant(fold, "flatten")
def flatten_one_level_only(attrs: Any, prefix: str = ""):
    flat = {}
    for key, value in attrs.items():
        flat |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) and value else {key: value}
    return flat


@mutant(fold, "flatten")
def empty_dicts_vanish(attrs: Any, prefix: str = ""):
    flat = {}
    for key, value in attrs.items():
        flat |= fold.flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


@mutant(fold, "_standing")
def a_value_stands_beside_its_branch(last: Any):
    return set(last)


@mutant(fold, "_standing")
def a_branch_never_gives_way(last: Any):
    return {key for key in last if not any(other.startswith(f"{key}.") for other in last)}


@mutant(fold, "_standing")
def a_value_never_gives_way(last: Any):
    return {key for key in last if not any(key.startswith(f"{other}.") for other in last)}


MUTANTS["purge_is_no_end"] = [(fold, "PURGED", "no such state")]
MUTANTS["kinds_do_not_matter"] = [(fold, "KINDS", {})]
MUTANTS["no_kind_has_no_states"] = [(fold, "UNKNOWN_KIND", Kind((), ()))]
MUTANTS["user_above_launcher"] = [(fold, "VOICES", ("owner", "hub", "user", "launcher"))]

EXAMPLES = repeatable_examples(seed=2, count=600)


def test_the_fold_as_it_is_passes():
    """What the mutants are held against holds for the fold itself."""
    assert violations(fold, EXAMPLES) == []


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch):
    """A fold that is wrong in one way is caught by the check that the fold passes."""
    for place, attribute, changed in MUTANTS[name]:
        monkeypatch.setattr(place, attribute, changed)

    assert any(violations(fold, [example]) for example in EXAMPLES)
