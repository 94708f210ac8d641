"""How much of a span is kept: each new record of it reads all of that, so it must not grow with their number.

Of claims those are kept that decide, in whatever order they came. Of progress and attributes there is a most, far above
what programs need; what comes first has the room, so that nobody can push out what is here. The rest is left out
without a word: there is no count of it that a reader would look for.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable

from vedette.fold import Claim, Folded, weight
from vedette.model import PURGED, UNKNOWN_KIND

_MOST_PLAIN = 1_000  # attributes of a span whose keys have no dot, such as `project` or `tags`
_MOST_DOTTED = 19_000  # all others
_MOST_IN_FAMILY = 10_000  # those of them that begin alike, up to the first dot, such as `config.`
_MOST_PROGRESS = 20_000  # processes that tell the progress of one bar
_MOST_OTHER_STATES = 64  # that no kind has: a later version may know them
_KNOWN = frozenset((*UNKNOWN_KIND.climbing, *UNKNOWN_KIND.ends))
_ALWAYS = ("kind", "name", "parent")


def standing(claims: Iterable[Claim]) -> set[Claim]:
    """Return the claims that decide a state, its start, end and cause, whatever claims are added to them.

    Of each state these are the first, the weightiest, and the weightiest that has a cause. Ranks by the thousand say
    of one run that it is running. All words that something was removed for good stay: what is below is told them.
    """
    by_state: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_state[claim.state].append(claim)
    if not by_state:
        return set()
    kept = {min((min(said, key=_time) for said in by_state.values()), key=_time)}
    others = sorted(by_state.keys() - _KNOWN - {PURGED})[-_MOST_OTHER_STATES:]  # of these the last one is shown
    for state in (_KNOWN & by_state.keys()).union(others):
        said = by_state[state]
        kept |= {min(said, key=_time), max(said, key=_order)}
        if caused := [claim for claim in said if claim.cause]:
            kept.add(max(caused, key=_order))
    return kept.union(by_state.get(PURGED, ()))


def knows(ours: Folded, theirs: Folded) -> bool:
    """Tell whether another fold of a span has nothing that would be kept here."""
    theirs.claims &= standing(ours.claims | theirs.claims)
    both = Folded(writes=[*theirs.writes.values(), *ours.writes.values()])
    both.attrs()  # it drops what can never win again
    theirs.writes = {name: write for name, write in theirs.writes.items() if name in both.writes}
    return ours.knows(theirs)


def bound(state: Folded, written: Container[tuple[str, int]], told: Container[str]) -> None:
    """Leave out of a span what is too much, but nothing that is here: `written` by these, `told` by these origins."""
    state.claims = standing(state.claims)
    if len(state.progress) > _MOST_PROGRESS:
        new = sorted(origin for origin in state.progress if origin not in told)
        for origin in new[len(new) - (len(state.progress) - _MOST_PROGRESS) :]:
            del state.progress[origin]
    if sum(len(write.attrs) for write in state.writes.values()) > _MOST_PLAIN:  # else there is room for all
        here = {key for name, write in state.writes.items() if name in written for key in write.attrs}
        over = _over(here, {key for write in state.writes.values() for key in write.attrs} - here - set(_ALWAYS))
        for name, write in state.writes.items():
            if not over.isdisjoint(write.attrs):
                left = {key: value for key, value in write.attrs.items() if key not in over}
                state.writes[name] = write._replace(attrs=left)


def _over(here: set[str], new: set[str]) -> set[str]:
    """Return those of the new keys for which there is no room, beside those that are here.

    A config of any size leaves room for what a run says of itself, and for what its user says of it later.
    """
    families = Counter(map(_family, here))
    dotted = families.total() - families[""]
    over = set()
    for key in sorted(new):
        family = _family(key)
        if family:
            is_full = families[family] >= _MOST_IN_FAMILY or dotted >= _MOST_DOTTED
        else:
            is_full = families[""] >= _MOST_PLAIN
        if is_full:
            over.add(key)
        else:
            families[family] += 1
            dotted += family != ""
    return over


def _family(key: str) -> str:
    """Return a key up to its first dot: `config.` of `config.lr`; "" of one that has none."""
    return key[: key.find(".") + 1]


def _time(claim: Claim) -> tuple[int, Claim]:
    return claim.t, claim


def _order(claim: Claim) -> tuple[tuple[int, int, str, str, str], str]:
    return weight(claim), claim.by
