"""The points of runs as one long table with a row for each point: run, name, tags, step, t and value."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from vedette.errors import MissingError
from vedette.store import Points, Reader

_GROUP_ROWS = 1 << 17


class Stretch(Struct, frozen=True, eq=False):
    """Consecutive rows with the same run, name and tags; tags are JSON."""

    run: str
    name: str
    tags: str
    points: Points


def stretches(store: Reader, runs: Sequence[str]) -> Iterator[Stretch]:
    """Yield the points of runs, series by series, a bounded number of rows at a time."""
    for run in runs:
        for series in store.series([run]):
            tags = json.dumps(series.tags, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
            for points in store.stretches(series.id):
                for at in range(0, len(points), _GROUP_ROWS):
                    part = slice(at, at + _GROUP_ROWS)
                    yield Stretch(run, series.name, tags, Points(points.step[part], points.t[part], points.value[part]))


def to_arrow(store: Reader, runs: Sequence[str]) -> Any:
    """Return the table as a pyarrow.Table; raise MissingError when pyarrow is not installed."""
    arrow = _arrow()
    return arrow.Table.from_batches([_batch(arrow, stretch) for stretch in stretches(store, runs)], _schema(arrow))


def to_pandas(store: Reader, runs: Sequence[str]) -> Any:
    """Return the table as a DataFrame; raise MissingError when pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingError("this needs pandas, which is not installed: pip install pandas") from None
    frames = [
        pd.DataFrame(
            {
                "run": stretch.run,
                "name": stretch.name,
                "tags": stretch.tags,
                "step": stretch.points.step,
                "t": pd.to_datetime(stretch.points.t, unit="ns", utc=True),
                "value": stretch.points.value.astype(float),
            }
        )
        for stretch in stretches(store, runs)
    ]
    if frames:
        return pd.concat(frames, ignore_index=True)
    return pd.DataFrame({"run": [], "name": [], "tags": [], "step": [], "t": [], "value": []})


def to_polars(store: Reader, runs: Sequence[str]) -> Any:
    """Return the table as a polars DataFrame; raise MissingError when polars is not installed."""
    try:
        import polars as pl
    except ImportError:
        raise MissingError("this needs polars, which is not installed: pip install 'vedette[polars]'") from None
    kinds: Any = {
        "run": pl.String, "name": pl.String, "tags": pl.String, "step": pl.Int64,
        "t": pl.Datetime("ns", "UTC"), "value": pl.Float64,
    }  # fmt: skip
    frames = [pl.DataFrame(schema=kinds)]
    for stretch in stretches(store, runs):
        points = stretch.points
        columns = {"step": points.step, "t": points.t, "value": points.value.astype(float)}
        same = [
            pl.lit(text).alias(name)
            for name, text in zip(("run", "name", "tags"), (stretch.run, stretch.name, stretch.tags), strict=True)
        ]
        frame = pl.DataFrame(columns).with_columns(
            *same, pl.col("t").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
        )
        frames.append(frame.select(list(kinds)))
    return pl.concat(frames)


def write_parquet(store: Reader, runs: Sequence[str], path: str, about: str) -> int:
    """Write the table as a Parquet file, a row group at a time; return the number of rows.

    `about`: a description of the runs, as JSON; it goes into the file's metadata as `vedette.runs`.
    """
    arrow = _arrow()
    from pyarrow import parquet

    schema = _schema(arrow).with_metadata({"vedette.runs": about})
    rows = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        held: list[Any] = []
        for stretch in stretches(store, runs):
            held.append(_batch(arrow, stretch))
            rows += len(stretch.points)
            if sum(len(batch) for batch in held) >= _GROUP_ROWS:
                writer.write_table(arrow.Table.from_batches(held).cast(schema))
                held = []
        if held:
            writer.write_table(arrow.Table.from_batches(held).cast(schema))
    return rows


def _arrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingError("this needs pyarrow, which is not installed: pip install 'vedette[parquet]'") from None
    return pa


def _schema(arrow: Any) -> Any:
    text = arrow.string()
    time = arrow.timestamp("ns", tz="UTC")
    return arrow.schema(
        [
            ("run", text),
            ("name", text),
            ("tags", text),
            ("step", arrow.int64()),
            ("t", time),
            ("value", arrow.float64()),
        ]
    )


def _batch(arrow: Any, stretch: Stretch) -> Any:
    points = stretch.points
    same = [arrow.repeat(text, len(points)) for text in (stretch.run, stretch.name, stretch.tags)]
    columns = [
        *same,
        arrow.array(points.step),
        arrow.array(points.t).cast(arrow.timestamp("ns", tz="UTC")),
        arrow.array(points.value.astype(float)),
    ]
    return arrow.RecordBatch.from_arrays(columns, schema=_schema(arrow))
