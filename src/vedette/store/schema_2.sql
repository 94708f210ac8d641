-- Version 2: what a hub that keeps other hosts' runs knows of their clocks.
ALTER TABLE origins ADD COLUMN skew_s REAL;  -- how far its clock is ahead of the hub's, where that was measured
ALTER TABLE origins ADD COLUMN main INTEGER NOT NULL DEFAULT 0;  -- its end is the end of the try
ALTER TABLE origins ADD COLUMN voice TEXT NOT NULL DEFAULT 'owner';  -- a hub's own may speak for others

CREATE TABLE refusals (     -- points that were over a limit
  origin   INTEGER NOT NULL,
  what     TEXT NOT NULL,   -- the setting that says how many there may be
  count    INTEGER NOT NULL,
  PRIMARY KEY (origin, what)
) WITHOUT ROWID;
