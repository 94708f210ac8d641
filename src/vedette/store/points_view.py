"""Points as an SQL table: a temporary view that unpacks chunks as they are read."""

import json
import sqlite3


def add_points_view(connection: sqlite3.Connection) -> None:
    """Add the view `points` (run, name, tags, step, t, value) to a connection; t in nanoseconds."""
    connection.create_function("unpack_points", 3, _unpack, deterministic=True)
    connection.execute(
        "CREATE TEMP VIEW points AS SELECT series.span AS run, series.name AS name, series.tags AS tags,"
        " json_extract(point.value, '$[0]') AS step, json_extract(point.value, '$[1]') AS t,"
        " json_extract(point.value, '$[2]') AS value"
        " FROM series JOIN chunks ON chunks.series = series.id JOIN axes ON axes.id = chunks.axis,"
        " json_each(unpack_points(axes.step, axes.t, chunks.value)) AS point"
    )


def _unpack(step: bytes, t: bytes, value: bytes) -> str:
    from vedette.store.chunks import unpack

    columns = unpack(step).tolist(), (unpack(t) * 1000).tolist(), unpack(value).tolist()
    rows = [[s, at, v if v == v and abs(v) != float("inf") else str(v)] for s, at, v in zip(*columns, strict=True)]  # noqa: PLR0124
    return json.dumps(rows)
