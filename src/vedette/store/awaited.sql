-- Version 2: a run is shown as ended when all that its processes said is here.

CREATE TABLE awaited (      -- ends that are not shown yet, and what must be here first
  span     TEXT NOT NULL,
  origin   TEXT NOT NULL,
  lane     TEXT NOT NULL,
  place    INTEGER NOT NULL,
  PRIMARY KEY (span, origin, lane)
) WITHOUT ROWID;
