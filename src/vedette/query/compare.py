"""Any number of runs side by side: their config and other attributes, which of these differ, and their metrics."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from vedette.errors import MissingError, NotFoundError
from vedette.labels import label
from vedette.model import Value
from vedette.query.diff import shown, token
from vedette.query.given import ARG, is_repeated
from vedette.query.notebook import Grid, html
from vedette.query.runs import RunView, series_of
from vedette.query.silence import LOST
from vedette.store import SeriesRow

_MOST_VALUES = 100  # a property with more distinct values is no use as a filter
_NOT_PREFIXES = ("summary.", "vedette.", "code.bytes", "code.changed", "code.left_out", "code.masked")
_NOT_COMPARED = {"removed", "name", "description", "notes", "star", "capture"}


class Key(Struct, frozen=True):
    """A key, with one value for each run. A run that lacks the key has None, and its index is in `missing`."""

    key: str
    differs: bool
    values: list[Value]
    missing: list[int]
    types: list[str]  # of the values: number, text, true or false, none, list, dict


class Metric(Struct, frozen=True):
    """A metric, how many of the runs have it, and its last value in each; a series with tags is one of its own."""

    name: str
    runs: int
    last: list[float | int | None]
    tags: dict[str, str] = {}

    @property
    def label(self) -> str:
        """Its name, with its tags in brackets."""
        return label(self.name, self.tags)


class Property(Struct, frozen=True):
    """A key in which runs differ, and its distinct values, sorted, numbers first."""

    key: str
    values: list[Value]


class Comparison(Struct, frozen=True):
    """Runs side by side; every list of values is in the order of `runs`."""

    runs: list[RunView]
    keys: list[Key]
    metrics: list[Metric]
    properties: list[Property]
    summary: list[Key] = []  # what the runs put into their summaries themselves

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON; times are milliseconds since 1970."""
        return {
            "runs": [brief(view) for view in self.runs],
            "keys": [asdict(one) for one in self.keys],
            "summary": [asdict(one) for one in self.summary],
            "metrics": [asdict(one) for one in self.metrics],
            "properties": [asdict(one) for one in self.properties],
        }

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for each run, and a column for each key and each metric's last value."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingError("this needs pandas, which is not installed: pip install pandas") from None
        return pd.DataFrame(self._columns(), index=pd.Index([view.id for view in self.runs], name="run"))

    def to_polars(self) -> Any:
        """Return the same as a DataFrame of polars, with a column `run`."""
        try:
            import polars as pl
        except ImportError:
            raise MissingError("this needs polars, which is not installed: pip install 'vedette[polars]'") from None
        mixed = {one.key for one in (*self.keys, *self.summary) if len(set(one.types) - {"none"}) > 1}
        columns = {
            name: [None if value is None else shown(value) for value in values]
            if name in mixed or any(isinstance(value, dict | list) for value in values)
            else values
            for name, values in self._columns().items()
        }
        return pl.DataFrame({"run": [view.id for view in self.runs], **columns}, strict=False)

    def _columns(self) -> dict[str, list[Value]]:
        found: dict[str, list[Value]] = {"name": [view.name for view in self.runs]}
        found["state"] = [view.state for view in self.runs]
        found |= {key.key: key.values for key in (*self.keys, *self.summary)}  # noqa: PD011 - not a DataFrame
        return found | {f"metric.{one.label}": one.last for one in self.metrics}

    def _repr_html_(self) -> str:
        headers = ["", *(view.name for view in self.runs)]
        ordered = sorted(self.keys, key=lambda one: not one.differs)
        keys = Grid(
            "", headers, [[one.key, *cells(one)] for one in ordered],
            frozenset(index for index, one in enumerate(ordered) if not one.differs),
        )  # fmt: skip
        summary = Grid("summary", headers, [[one.key.removeprefix("summary."), *cells(one)] for one in self.summary])
        metrics = Grid("last values", headers, [[one.label, *one.last] for one in self.metrics])
        return html(f"{len(self.runs)} runs", [], [keys, summary, metrics])

    def __repr__(self) -> str:
        return f"<vedette comparison of {len(self.runs)} runs: {sum(one.differs for one in self.keys)} keys differ>"


def compare(views: Sequence[RunView]) -> Comparison:
    """Put runs side by side; raise NotFoundError when there are none."""
    if not views:
        raise NotFoundError("there is no run to compare")
    runs = list({view.id: view for view in views}.values())
    keys = _keys([_compared(view.attrs) for view in runs])
    own = {
        "state": [view.state for view in runs],
        "name": [view.name for view in runs],
        "tags": [", ".join(view.tags) for view in runs],
    }
    filters = [*keys, *(_key(name, values, []) for name, values in own.items())]
    properties = [Property(one.key, _distinct(one)) for one in filters if one.differs]
    own_words = [{key: value for key, value in view.attrs.items() if key.startswith("summary.")} for view in runs]
    return Comparison(
        runs, keys, _metrics(runs, series_of(runs)), [one for one in properties if len(one.values) <= _MOST_VALUES],
        _keys(own_words),
    )  # fmt: skip


def brief(view: RunView) -> dict[str, Any]:
    """Return a run as a dictionary of plain values; times are milliseconds since 1970."""
    return {
        "id": view.id,
        "name": view.name,
        "project": view.project,
        "experiment": view.attrs.get("experiment"),
        "state": view.state,
        "cause": view.cause,
        "alive": view.end_t is None and view.state != LOST,
        "start_t": None if view.start_t is None else view.start_t / 1e6,
        "end_t": None if view.end_t is None else view.end_t / 1e6,
        "duration_s": view.duration_s,
        "tags": view.tags,
        "star": bool(view.attrs.get("star")),
        "description": view.attrs.get("description") or "",
    }


def cells(key: Key) -> list[str]:
    """Return a key's values as text, empty for a run that lacks the key."""
    gone = set(key.missing)
    readable = [
        " ".join(map(str, one)) if key.key == "argv" and isinstance(one, list) else one
        for one in key.values  # noqa: PD011 - not a DataFrame
    ]
    return ["" if index in gone else shown(value) for index, value in enumerate(readable)]


def _compared(attrs: Mapping[str, Value]) -> dict[str, Value]:
    return {
        key: value
        for key, value in attrs.items()
        if key not in _NOT_COMPARED
        and not key.startswith(_NOT_PREFIXES)
        and not key.startswith("tag.")
        and not is_repeated(attrs, key)
    }


def _keys(attrs: Sequence[Mapping[str, Value]]) -> list[Key]:
    """Return every key of any run: config, options, then the rest, each in the order in which keys appear."""
    names = dict.fromkeys(name for one in attrs for name in one)
    ordered = sorted(names, key=lambda name: 0 if name.startswith("config.") else 1 if name.startswith(ARG) else 2)
    found = []
    for name in ordered:
        missing = [index for index, one in enumerate(attrs) if name not in one]
        found.append(_key(name, [one.get(name) for one in attrs], missing))
    return found


def _key(name: str, values: list[Value], missing: list[int]) -> Key:
    gone = set(missing)
    there = [value for index, value in enumerate(values) if index not in gone] if gone else values
    first = token(there[0]) if there else None
    differs = bool(missing) or any(token(value) != first for value in there)
    return Key(name, differs, values, missing, sorted({_type(value) for value in there}))


def _type(value: Value) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "list" if isinstance(value, list) else "dict"


def _distinct(key: Key) -> list[Value]:
    """Return a key's distinct values; None also stands for runs that lack the key."""
    found = list({token(value): value for value in key.values}.values())  # noqa: PD011 - not a DataFrame
    return sorted(found, key=_order)


def _order(value: Value) -> tuple[int, float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, float(value) if value == value else 0.0, ""  # noqa: PLR0124 - a NaN cannot be sorted
    return (2 if value is None else 1), 0.0, shown(value)


def _metrics(runs: Sequence[RunView], series: Mapping[str, Iterable[SeriesRow]]) -> list[Metric]:
    lasts: dict[str, dict[int, SeriesRow]] = {}
    for index, view in enumerate(runs):
        for row in series.get(view.id, ()):
            lasts.setdefault(row.label, {})[index] = row
    found = []
    for known in lasts.values():
        one = next(iter(known.values()))
        last = [known[index].last if index in known else None for index in range(len(runs))]
        found.append(Metric(one.name, len(known), last, one.tags))
    return sorted(found, key=lambda one: (bool(one.tags), -one.runs, one.label))
