"""Why two runs differ: a list of everything that is different, ranked by how likely it caused other results.

A rule is a small function in RULES: it looks at the case and yields suspects. The functions in WEIGHINGS then look at
the results, and raise or lower each suspect's weight. A weight is between 0 and 1; it is a rank, not a probability.
The same case always gives the same weights. `knobs` has the tables of names.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vedette.model import Value
from vedette.query.code import CodeChange
from vedette.query.diff import Made, Pair, Sections, differing, shown
from vedette.query.knobs import LITTLE, judge, judge_package, judge_variable, words
from vedette.query.outcome import Outcome

_KINDS = ("data", "config", "code", "seed", "packages", "hardware", "command", "environment")
_WORD = "argument"
_LATE = 10  # equal points at the start, from which on a divergence is late
_FASTER = 1.25
_HARDWARE = {"gpu.names": 0.6, "cpu.model": 0.45, "gpu.driver": 0.35, "cpu.count": 0.3, "os": 0.15, "memory_bytes": 0.1}
_CODE = {"settings": 0.5, "other": 0.3, "tests": 0.04, "comments": 0.03, "documents": 0.02}
_CHANGES = {
    "comments": "differs only in comments, spaces or docstrings",
    "tests": "differs, but is a test",
    "documents": "differs, but is not code",
}


class Suspect(Struct, frozen=True):
    """One thing that differs, and how likely it is the cause; the weighings look at its `sort`."""

    kind: str  # config, code, packages, hardware, command, data, seed or environment
    key: str
    a: Value
    b: Value
    weight: float
    text: str
    sort: str = ""


class Case(Struct, frozen=True):
    """Two runs, what differs between them, and their results."""

    a: Made
    b: Made
    sections: Sections
    outcome: Outcome
    imports: set[str]  # modules that the code imports; empty when that is not known

    @property
    def late(self) -> bool:
        """Whether the metrics changed but were equal for many steps, and diverged only later."""
        moved = [one for one in self.outcome.diverged if one.common]
        return bool(moved) and moved[0].telling and moved[0].equal_before >= _LATE

    @property
    def unmoved(self) -> bool:
        """Whether there are numbers to compare, and they are all the same."""
        return not self.outcome.diverged and any(one.common for one in self.outcome.metrics)


def rank(case: Case) -> list[Suspect]:
    """Return all suspects, the most likely first."""
    found = [suspect for rule in RULES for suspect in rule(case)]
    for weighing in WEIGHINGS:
        found = [weighing(case, suspect) for suspect in found]
    found += chance(case, max((one.weight for one in found), default=0.0))
    found = [replace(one, weight=round(min(1.0, one.weight), 4)) for one in found]
    return sorted(found, key=lambda one: (-one.weight, _KINDS.index(one.kind), one.key))


def data(case: Case) -> Iterator[Suspect]:
    """Input data whose digest differs."""
    for pair in differing(case.sections.data):
        if pair.only:
            text = f"data {pair.key} was used only in {'A' if pair.only == 'a' else 'B'}"
        else:
            text = f"data {pair.key} differs: {shown(pair.a)} in A and {shown(pair.b)} in B"
        yield Suspect("data", pair.key, pair.a, pair.b, 0.8 if pair.only else 0.93, text, "data")


def config(case: Case) -> Iterator[Suspect]:
    """Keys of the config, weighed by their names."""
    known_data = bool(case.a.data) and bool(case.b.data) and not differing(case.sections.data)
    for pair in differing(case.sections.config):
        rating = judge(pair.key, pair.a, pair.b)
        weight = rating.weight
        if rating.sort == "input" and known_data:
            weight = 0.08  # the path differs, but the data are the same
        elif weight > LITTLE:
            weight += -0.02 if pair.only else _distance_bonus(pair.a, pair.b)
        kind = "seed" if rating.sort == "seed" else "config"
        yield Suspect(
            kind, f"config.{pair.key}", pair.a, pair.b, weight, _sentence(f"config.{pair.key}", pair), rating.sort
        )


def code(case: Case) -> Iterator[Suspect]:
    """Files that differ; if the list of files is missing, the digest or the commit."""
    for change in case.sections.code:
        weight = _weigh_code(case, change)
        text = _code_sentence(change)
        yield Suspect("code", change.path, _side(change, "a"), _side(change, "b"), weight, text, "code")
    listed = case.a.code is not None and case.b.code is not None
    a, b = case.a.code_digest, case.b.code_digest
    if not listed and a and b and a != b:
        yield Suspect("code", "code.digest", a, b, 0.7, "the code differs, but its files are not here", "code")
    for pair in differing(case.sections.git):
        known = listed or (a and a == b)
        weight = {"git.commit": 0.7, "git.dirty": 0.4}.get(pair.key, 0.03) if not known else 0.02
        yield Suspect("code", pair.key, pair.a, pair.b, weight, _sentence(pair.key, pair), "code")


def packages(case: Case) -> Iterator[Suspect]:
    """Versions of packages: numeric libraries weigh most, then packages that the code imports."""
    for pair in differing(case.sections.packages):
        weight = judge_package(pair.key, pair.a, pair.b, case.imports) * (0.9 if pair.only else 1)
        yield Suspect("packages", pair.key, pair.a, pair.b, weight, _sentence(pair.key, pair), "packages")
    a, b = case.a.packages_digest, case.b.packages_digest
    if a and b and a != b and (case.a.packages is None or case.b.packages is None):
        text = "the installed packages differ, but their list is not here"
        yield Suspect("packages", "packages.digest", a, b, 0.4, text, "packages")


def hardware(case: Case) -> Iterator[Suspect]:
    """The machine, its GPUs and its Python."""
    known = all("cpu.model" in made.hardware for made in (case.a, case.b))
    for pair in differing(case.sections.hardware):
        if pair.key == "host":
            weight = 0.04 if known else 0.25
        elif pair.key == "python":
            weight = 0.15 if _minor(pair.a) == _minor(pair.b) else 0.4
        else:
            weight = _HARDWARE.get(pair.key, 0.1) * (0.6 if pair.only else 1)
        yield Suspect("hardware", pair.key, pair.a, pair.b, weight, _sentence(pair.key, pair), "hardware")


def command(case: Case) -> Iterator[Suspect]:
    """Options and words of the command line; those that the config also has weigh little here."""
    a, b = case.a.argv, case.b.argv
    if not a or not b or a == b:
        return
    in_config = {" ".join(words(key.rpartition(".")[2])) for key in (*case.a.config, *case.b.config)}
    explained = {(_as_text(pair.a), _as_text(pair.b)) for pair in differing(case.sections.config)}
    explained.add((case.a.name, case.b.name))
    flags = _flags(a), _flags(b)
    for key in sorted({*flags[0], *flags[1]}):
        x, y = flags[0].get(key), flags[1].get(key)
        if x == y:
            continue
        only = "a" if key not in flags[1] else "b" if key not in flags[0] else ""
        pair = Pair(key, x, y, True, only)
        known = (x, y) in explained or " ".join(words(key)) in in_config
        if key.startswith(_WORD):
            weight = 0.03 if known else _weigh_word(x, y)
            yield Suspect("command", key, x, y, weight, _sentence(key, pair), "command")
        else:
            rating = judge(key.lstrip("-+"), x, y)
            weight = 0.03 if known else rating.weight * 0.97
            kind = "seed" if rating.sort == "seed" and not known else "command"
            yield Suspect(kind, key, x, y, weight, _sentence(f"option {key}", pair), rating.sort)


def environment(case: Case) -> Iterator[Suspect]:
    """Environment variables, the working directory, and whether a run was resumed."""
    for pair in differing(case.sections.environment):
        key = f"env.{pair.key}"
        yield Suspect("environment", key, pair.a, pair.b, judge_variable(pair.key), _sentence(key, pair), "environment")
    if case.a.cwd != case.b.cwd and case.a.cwd and case.b.cwd:
        pair = Pair("cwd", case.a.cwd, case.b.cwd, True)
        text = _sentence("the working directory", pair)
        yield Suspect("environment", "cwd", pair.a, pair.b, 0.02, text, "environment")
    if case.a.tries != case.b.tries:
        text = f"it took {_tries(case.a.tries)} in A and {_tries(case.b.tries)} in B: it was resumed"
        yield Suspect("environment", "tries", case.a.tries, case.b.tries, 0.5, text, "resume")


RULES: list[Callable[[Case], Iterator[Suspect]]] = [data, config, code, packages, hardware, command, environment]


def by_time(case: Case, suspect: Suspect) -> Suspect:
    """If the metrics diverged late, lower everything that acts from the first step on."""
    if not case.late:
        return suspect
    factors = {"seed": 0.3, "knob": 0.5, "device": 0.8, "code": 0.9, "packages": 1.15, "hardware": 1.25, "resume": 1.7}
    return replace(suspect, weight=suspect.weight * factors.get(suspect.sort, 1.0))


def by_sameness(case: Case, suspect: Suspect) -> Suspect:
    """If all numbers are equal, lower everything; one run may only have run for longer."""
    if not case.unmoved:
        return suspect
    longer = any(one.a_steps != one.b_steps for one in case.outcome.metrics)
    if longer and suspect.sort == "length":
        return replace(suspect, weight=0.97, text=suspect.text + "; the steps that both have are equal")
    return replace(suspect, weight=suspect.weight * 0.3)


def by_speed(case: Case, suspect: Suspect) -> Suspect:
    """If the numbers are equal but the speed differs, raise everything that affects speed."""
    ratio = case.outcome.speed.ratio
    if not case.unmoved or ratio is None or 1 / _FASTER < ratio < _FASTER:
        return suspect
    threads = suspect.sort == "environment" and "THREADS" in suspect.key
    if suspect.sort == "speed" or threads or suspect.key in ("gpu.names", "cpu.model", "cpu.count"):
        weight = 0.6 + _HARDWARE.get(suspect.key, 0.3) / 4
        return replace(suspect, weight=weight, text=f"{suspect.text}; B was {ratio:.3g} times as fast")
    return suspect


WEIGHINGS: list[Callable[[Case, Suspect], Suspect]] = [by_time, by_sameness, by_speed]


def chance(case: Case, heaviest: float) -> Iterator[Suspect]:
    """If the numbers differ and no suspect weighs much, suspect chance."""
    if not case.outcome.diverged or heaviest >= 0.25:
        return
    step = case.outcome.diverged[0].first_step
    seeded = any(judge(key, None, None).sort == "seed" for key in (*case.a.config, *case.b.config))
    if case.late:
        text = f"all was equal up to step {step}: something is not deterministic, such as threads, GPUs or time"
        yield Suspect("environment", "nondeterminism", None, None, 0.3, text, "chance")
    elif seeded:
        text = "the seed is the same, and nothing important differs: something random does not use the seed"
        yield Suspect("seed", "", None, None, 0.3, text, "chance")
    else:
        text = "nothing important differs, and the config has no seed: this can be chance"
        yield Suspect("seed", "", None, None, 0.3, text, "chance")


def _sentence(what: str, pair: Pair) -> str:
    if pair.only:
        value = pair.a if pair.only == "a" else pair.b
        one, other = ("A", "B") if pair.only == "a" else ("B", "A")
        return f"{what} is {shown(value)} in {one}, and not set in {other}"
    return f"{what} is {shown(pair.a)} in A and {shown(pair.b)} in B"


def _distance_bonus(a: Value, b: Value) -> float:
    """Return a small extra weight for two numbers, more when they are further apart."""
    numbers = [
        value for value in (a, b) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    ]
    return min(0.03, 0.01 * abs(math.log10(numbers[0] / numbers[1]))) if len(numbers) == 2 else 0.0


def _weigh_code(case: Case, change: CodeChange) -> float:
    if change.sort == "code":
        if not change.reached:
            return 0.15 if change.change == "added" else 0.45
        return 0.88 + min(0.01, change.lines / 10_000)
    if change.sort == "settings" and case.a.config and not differing(case.sections.config):
        return 0.3  # the run's config is recorded, and does not differ
    return _CODE.get(change.sort, 0.3)


def _code_sentence(change: CodeChange) -> str:
    if change.change != "changed":
        return f"{change.path} is only in {'A' if change.change == 'removed' else 'B'}"
    if change.sort in _CHANGES:
        return f"{change.path} {_CHANGES[change.sort]}"
    line, before, after = change.first
    if not change.lines:
        return f"{change.path} differs"
    head = f"{change.path} differs in {change.lines} {'line' if change.lines == 1 else 'lines'}"
    if not before and not after:
        return head
    what = [
        f"`{_short(before)}` in A" if before else "nothing in A",
        f"`{_short(after)}` in B" if after else "nothing in B",
    ]
    return f"{head}, first at line {line}: {what[0]} and {what[1]}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _side(change: CodeChange, side: str) -> Any:
    if change.change == "changed":
        return change.first[1 if side == "a" else 2] or None
    return change.path if (change.change == "removed") == (side == "a") else None


def _minor(text: Value) -> list[str]:
    return str(text).split(".")[:2]


def _tries(count: int) -> str:
    return "one try" if count == 1 else f"{count} tries"


def _flags(argv: list[str]) -> dict[str, str]:
    """Return the options of a command line by name, and its other words by position."""
    found: dict[str, str] = {}
    position, option = 0, ""
    for word in argv:
        if re.match(r"--?[A-Za-z]|\+{0,2}[A-Za-z_][\w.]*=", word):
            name, equals, value = word.partition("=")
            found[name] = value if equals else "set"
            option = "" if equals else name
        elif option:
            found[option] = word
            option = ""
        else:
            found[f"{_WORD} {position}"] = word
            position += 1
    return found


def _as_text(value: Value) -> str:
    return value if isinstance(value, str) else shown(value)


def _weigh_word(a: str | None, b: str | None) -> float:
    """Weigh a word of a command: another script weighs much, the same file at another path weighs little."""
    if a is None or b is None:
        return 0.5
    first, second = (text.rstrip("/").rpartition("/")[2] for text in (a, b))
    if first == second or (first.startswith("python") and second.startswith("python")):
        return 0.04
    if first.endswith(".py") and second.endswith(".py"):
        return 0.9
    return 0.2 if "/" in a and "/" in b else 0.6
