"""Why two runs differ: their inputs and results side by side, and the most likely causes first."""

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from vedette.errors import MissingError
from vedette.query.cells import Cells
from vedette.query.code import imported
from vedette.query.compare import brief
from vedette.query.diff import Pair, Read, Sections, diff, differing, made_of, shown
from vedette.query.knobs import LITTLE
from vedette.query.notebook import Grid, html
from vedette.query.outcome import Outcome, outcome
from vedette.query.runs import RunView
from vedette.query.suspects import Case, Suspect, rank


class Explanation(Struct, frozen=True):
    """Two runs and why they differ; the sentences call them A and B."""

    a: RunView
    b: RunView
    causes: list[Suspect]
    sections: Sections
    outcome: Outcome

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON; times are milliseconds since 1970."""
        found = self.sections
        return {
            "a": brief(self.a),
            "b": brief(self.b),
            "causes": [
                {"kind": one.kind, "key": one.key, "a": one.a, "b": one.b, "weight": one.weight, "text": one.text}
                for one in self.causes
            ],
            "sections": {
                "config": _plain(found.config, "key"),
                "code": [
                    {"path": one.path, "change": one.change, "diff": one.diff, "sort": one.sort, "reached": one.reached}
                    for one in found.code
                ],
                "packages": _plain(found.packages, "name"),
                "hardware": _plain(found.hardware, "key"),
                "git": _plain(found.git, "key"),
                "command": {"a": found.command.a, "b": found.command.b},
                "environment": _plain(found.environment, "key"),
                "data": _plain(found.data, "key"),
                "unread": found.unread,
            },
            "outcome": {
                "metrics": [
                    asdict(one)
                    | {"first_t": None if one.first_t is None else one.first_t / 1e6, "ends_first": one.ends_first}
                    for one in self.outcome.metrics
                ],
                "only_a": self.outcome.only_a,
                "only_b": self.outcome.only_b,
                "left_out": self.outcome.left_out,
                "speed": asdict(self.outcome.speed),
                "usage": {one.name: {key: value for key, value in asdict(one).items() if key != "name"}
                          for one in self.outcome.usage},
                "end": {side: {"state": view.state, "cause": view.cause, "duration_s": view.duration_s}
                        for side, view in (("a", self.a), ("b", self.b))},
            },
        }  # fmt: skip

    def to_pandas(self) -> Any:
        """Return the causes as a DataFrame, the most likely first; raise MissingError when pandas is not installed."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingError("this needs pandas, which is not installed: pip install pandas") from None
        columns = ["kind", "key", "a", "b", "weight", "text"]
        return pd.DataFrame([[getattr(one, name) for name in columns] for one in self.causes], columns=columns)

    def _repr_html_(self) -> str:
        found = self.sections
        sides = ["A", "B"]
        causes = Grid(
            "most likely causes", ["weight", "kind", ""], [[one.weight, one.kind, one.text] for one in self.causes],
            frozenset(index for index, one in enumerate(self.causes) if one.weight < LITTLE),
        )  # fmt: skip
        lists = {
            "config": found.config, "packages": found.packages, "hardware": found.hardware, "data": found.data,
            "environment": found.environment,
        }  # fmt: skip
        parts = [
            Grid(title, ["", *sides], [[one.key, shown(one.a), shown(one.b)] for one in differing(pairs)])
            for title, pairs in lists.items()
        ]
        files = Grid("code", ["file", ""], [[one.path, one.change] for one in found.code])
        metrics = Grid(
            "what came out", ["metric", "first diverged at step", *sides],
            [[one.name, one.first_step, one.a_last, one.b_last] for one in self.outcome.metrics],
        )  # fmt: skip
        facts = [
            (side, f"{view.name} ({view.id}): {view.state}") for side, view in zip(sides, (self.a, self.b), strict=True)
        ]
        return html("two runs", facts, [causes, *parts, files, metrics])

    def __repr__(self) -> str:
        first = self.causes[0].text if self.causes else "nothing recorded differs"
        return f"<vedette diff of {self.a.name} and {self.b.name}: {first}>"


def explain(a: RunView, b: RunView, read: Read) -> Explanation:
    """Explain how `b` differs from `a`; `read` returns the bytes of a digest, or None."""
    cells_a, cells_b = Cells(a), Cells(b)
    read = cells_a.reading(cells_b.reading(read))
    made_a, made_b = made_of(a, read, cells_a), made_of(b, read, cells_b)
    sections = diff(made_a, made_b, read)
    came_out = outcome(a, b)
    others = differing(sections.packages)
    imports = imported({**(made_a.code or {}), **(made_b.code or {})}, read) if others else set()
    causes = rank(Case(made_a, made_b, sections, came_out, imports))
    return Explanation(a, b, causes, sections, came_out)


def _plain(pairs: list[Pair], name: str) -> list[dict[str, Any]]:
    return [{name: one.key, "a": one.a, "b": one.b} for one in differing(pairs)]
