-- The store, version 1. Every table can be read by any sqlite3; docs/schema.md explains the columns.
-- Times are nanoseconds UTC, except in chunks, where points keep microseconds.

CREATE TABLE origins (      -- who has spoken: one spool of one process each
  id       INTEGER PRIMARY KEY,
  name     TEXT NOT NULL UNIQUE,
  host     TEXT NOT NULL,
  boot     TEXT NOT NULL,
  pid      INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  span     TEXT NOT NULL,   -- the run
  process  TEXT NOT NULL,   -- the span of the process
  heard_t  INTEGER NOT NULL DEFAULT 0,  -- when the hub last knew it alive
  skew_s   REAL,            -- how far its clock is ahead of the hub's, where that was measured
  main     INTEGER NOT NULL DEFAULT 0,  -- its end is the end of the try
  voice    TEXT NOT NULL DEFAULT 'owner'  -- a hub's own may speak for others
);

CREATE TABLE marks (        -- how far each lane of each origin is in this store
  origin   INTEGER NOT NULL,
  lane     TEXT NOT NULL,
  place    INTEGER NOT NULL,
  damaged  INTEGER NOT NULL DEFAULT 0,  -- records that could not be read
  refused  INTEGER NOT NULL DEFAULT 0,  -- values that were no numbers
  PRIMARY KEY (origin, lane)
) WITHOUT ROWID;

CREATE TABLE refusals (     -- points that were over a limit
  origin   INTEGER NOT NULL,
  what     TEXT NOT NULL,   -- the setting that says how many there may be
  count    INTEGER NOT NULL,
  PRIMARY KEY (origin, what)
) WITHOUT ROWID;

CREATE TABLE spans (        -- what lives, as all that was heard of it adds up
  id       TEXT PRIMARY KEY,
  kind     TEXT NOT NULL DEFAULT '',
  name     TEXT NOT NULL DEFAULT '',
  parent   TEXT NOT NULL DEFAULT '',
  state    TEXT NOT NULL DEFAULT '',
  cause    TEXT NOT NULL DEFAULT '',
  start_t  INTEGER,
  end_t    INTEGER,
  done     REAL,            -- progress
  attrs    TEXT NOT NULL DEFAULT '{}'   -- JSON, one level: {"project": "x", "config.lr": 0.1}
) WITHOUT ROWID;
CREATE INDEX spans_kind ON spans (kind, start_t);
CREATE INDEX spans_parent ON spans (parent);

CREATE TABLE claims (       -- every word on a state; only grows
  span     TEXT NOT NULL,
  state    TEXT NOT NULL,
  t        INTEGER NOT NULL,
  voice    TEXT NOT NULL,
  origin   TEXT NOT NULL,
  cause    TEXT NOT NULL,
  PRIMARY KEY (span, state, t, voice, origin, cause)
) WITHOUT ROWID;

CREATE TABLE writes (       -- attributes by the record that set them; only those that still count
  span     TEXT NOT NULL,
  origin   TEXT NOT NULL,
  n        INTEGER NOT NULL,
  t        INTEGER NOT NULL,
  attrs    BLOB NOT NULL,   -- msgpack
  PRIMARY KEY (span, origin, n)
) WITHOUT ROWID;

CREATE TABLE progress (     -- how far each origin says it has got
  span     TEXT NOT NULL,
  origin   TEXT NOT NULL,
  n        INTEGER NOT NULL,
  t        INTEGER NOT NULL,
  at       REAL,
  added    REAL,
  PRIMARY KEY (span, origin)
) WITHOUT ROWID;

CREATE TABLE purges (       -- what was removed for good: a tombstone each, which absorbs whatever comes later
  span     TEXT PRIMARY KEY,
  left     INTEGER NOT NULL DEFAULT 1   -- whether something of it may still be here
) WITHOUT ROWID;
CREATE INDEX purges_left ON purges (span) WHERE left;

-- A follower has seen all events up to an id, and a reader asks for the points of a series by its id: since rows can
-- be deleted, an id must not come again, which AUTOINCREMENT promises.
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
CREATE UNIQUE INDEX events_name ON events (origin, n);
CREATE INDEX events_span ON events (span, id);
CREATE VIRTUAL TABLE events_text USING fts5 (text, content = 'events', content_rowid = 'id');
CREATE TRIGGER events_indexed AFTER INSERT ON events BEGIN
  INSERT INTO events_text (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER events_removed AFTER DELETE ON events BEGIN
  INSERT INTO events_text (events_text, rowid, text) VALUES ('delete', old.id, old.text);
END;

CREATE TABLE blobs (        -- files by digest; the key's columns come first, or the checks of SQLite 3.40 see NULLs
  span     TEXT NOT NULL,
  name     TEXT NOT NULL,
  origin   TEXT NOT NULL,
  n        INTEGER NOT NULL,
  digest   TEXT NOT NULL,
  size     INTEGER NOT NULL,
  media    TEXT NOT NULL,
  t        INTEGER NOT NULL,
  PRIMARY KEY (span, name, origin, n)
) WITHOUT ROWID;

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
CREATE INDEX series_name ON series (name, span);

CREATE TABLE axes (         -- times and steps of points that were logged together
  id       INTEGER PRIMARY KEY,
  origin   INTEGER NOT NULL,
  first_n  INTEGER NOT NULL,
  last_n   INTEGER NOT NULL,
  count    INTEGER NOT NULL,
  first_t  INTEGER NOT NULL,
  last_t   INTEGER NOT NULL,
  t        BLOB NOT NULL,   -- microseconds
  step     BLOB NOT NULL,
  n        BLOB NOT NULL    -- each sample's own place: two stores that have parts of one origin are united exactly
);
CREATE INDEX axes_origin ON axes (origin, first_n);

CREATE TABLE chunks (       -- the values of one series on one axis
  id       INTEGER PRIMARY KEY,
  series   INTEGER NOT NULL,
  axis     INTEGER NOT NULL,
  min      REAL,
  max      REAL,
  sum      REAL,
  value    BLOB NOT NULL
);
CREATE INDEX chunks_series ON chunks (series);
CREATE INDEX chunks_axis ON chunks (axis);

CREATE VIEW runs AS SELECT
  id, name, state, cause,
  json_extract(attrs, '$.project') AS project,
  json_extract(attrs, '$.experiment') AS experiment,
  datetime(start_t / 1000000000, 'unixepoch') AS started,
  max(0, coalesce(end_t / 1e9, (julianday('now') - 2440587.5) * 86400) - start_t / 1e9) AS duration_s,
  attrs
FROM spans WHERE kind = 'run' AND state <> 'purged';  -- tombstones are no runs any more

CREATE VIEW attrs AS SELECT spans.id AS span, item.key AS key, item.value AS value
FROM spans, json_each(spans.attrs) AS item;

CREATE VIEW logs AS SELECT
  events.span AS run, datetime(events.t / 1000000000, 'unixepoch') AS at, events.kind, events.level, events.text,
  origins.host, origins.pid
FROM events LEFT JOIN origins ON origins.id = events.origin;
