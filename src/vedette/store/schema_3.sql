-- Version 3: what is removed for good, and numbers that are never given out twice.

CREATE TABLE purges (       -- what was removed for good: a tombstone each, which absorbs whatever comes later
  span     TEXT PRIMARY KEY,
  left     INTEGER NOT NULL DEFAULT 1   -- whether something of it may still be here
) WITHOUT ROWID;
CREATE INDEX purges_left ON purges (span) WHERE left;
INSERT INTO purges (span) SELECT DISTINCT span FROM claims WHERE state = 'purged';

-- A follower has seen all events up to an id, and a reader asks for the points of a series by its id: once rows
-- can be deleted, an id must not come again. AUTOINCREMENT promises that, and a table must be made anew to have it.
DROP VIEW runs;
DROP VIEW logs;
DROP TRIGGER events_indexed;
DROP TRIGGER events_removed;

ALTER TABLE events RENAME TO events_before;
CREATE TABLE events (       -- what happened: marks, exceptions, warnings
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  span     TEXT NOT NULL,
  t        INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  level    INTEGER NOT NULL,
  text     TEXT NOT NULL,
  attrs    TEXT NOT NULL DEFAULT '{}',
  origin   INTEGER NOT NULL,
  n        INTEGER NOT NULL
);
INSERT INTO events SELECT id, span, t, kind, level, text, attrs, origin, n FROM events_before ORDER BY id;
DROP TABLE events_before;
CREATE UNIQUE INDEX events_name ON events (origin, n);
CREATE INDEX events_span ON events (span, id);
CREATE TRIGGER events_indexed AFTER INSERT ON events BEGIN
  INSERT INTO events_text (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER events_removed AFTER DELETE ON events BEGIN
  INSERT INTO events_text (events_text, rowid, text) VALUES ('delete', old.id, old.text);
END;

ALTER TABLE series RENAME TO series_before;
CREATE TABLE series (       -- what samples add up to; last, min, max as of the newest chunk
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  span     TEXT NOT NULL,
  name     TEXT NOT NULL,
  tags     TEXT NOT NULL DEFAULT '{}',
  count    INTEGER NOT NULL DEFAULT 0,
  min      REAL,
  max      REAL,
  last,
  last_step INTEGER,
  last_t   INTEGER,
  UNIQUE (span, name, tags)
);
INSERT INTO series SELECT id, span, name, tags, count, min, max, last, last_step, last_t FROM series_before;
DROP TABLE series_before;
CREATE INDEX series_name ON series (name, span);

CREATE VIEW runs AS SELECT  -- tombstones are no runs any more
  id, name, state, cause,
  json_extract(attrs, '$.project') AS project,
  json_extract(attrs, '$.experiment') AS experiment,
  datetime(start_t / 1000000000, 'unixepoch') AS started,
  max(0, coalesce(end_t / 1e9, (julianday('now') - 2440587.5) * 86400) - start_t / 1e9) AS duration_s,
  attrs
FROM spans WHERE kind = 'run' AND state <> 'purged';

CREATE VIEW logs AS SELECT
  events.span AS run, datetime(events.t / 1000000000, 'unixepoch') AS at, events.kind, events.level, events.text,
  origins.host, origins.pid
FROM events LEFT JOIN origins ON origins.id = events.origin;
