"""All that a store tells, in a form that can be compared with what another one tells."""

from contextlib import closing

import msgspec

from vedette.query.losses import losses
from vedette.store import AHEAD, EventQuery, Mark, SpanQuery
from vedette.store.sqlite_file import open_reader


def told(path: str, *, heard: bool = True) -> dict:
    """All that a store can be asked, but for the numbers that it gives to rows and when its hub heard of whom."""
    with closing(open_reader(path)) as store:
        series = {row.id: row for row in store.series()}
        points = store.points(list(series))
        found = {
            "origins": sorted((row.origin.name, repr(row.origin), row.damaged, row.refused) for row in store.origins()),
            "spans": sorted(map(repr, store.spans(SpanQuery()))),
            "events": sorted((e.t, e.text, e.span, repr(e.attrs), e.host) for e in store.events(EventQuery())),
            "found": len(store.events(EventQuery(search="word101"))),
            "blobs": store.connection.execute("SELECT * FROM blobs ORDER BY span, name, origin, n").fetchall(),
            "series": sorted(
                (r.span, r.name, r.count, r.min, r.max, repr(float(r.last)), r.last_step, r.last_t)
                for r in series.values()
            ),
            "points": {
                (series[id_].span, series[id_].name): sorted(
                    zip(p.step.tolist(), p.t.tolist(), map(repr, p.value.astype(float).tolist()), strict=True)
                )
                for id_, p in points.items()
            },
            "losses": repr(losses(store)),
        }
        if heard:
            found["heard"] = sorted((row.origin.name, row.heard_t) for row in store.origins())
            found["marks"] = marks_of(store.marks())
        return found


def marks_of(marks):
    """Return marks by origin and lane, whether the store got there by itself or by what it has taken in."""
    joined = {}
    for (origin, lane), mark in marks.items():
        if lane != AHEAD and mark.offset:
            known = joined.get((origin, lane[0]), Mark())
            pairs = zip(msgspec.structs.astuple(known), msgspec.structs.astuple(mark), strict=True)
            joined[origin, lane[0]] = Mark(*map(max, pairs))
    return joined
