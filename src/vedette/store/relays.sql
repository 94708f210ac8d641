-- Version 3: what a relay has shipped is its own; another one cannot go on with it, or end it.

CREATE TABLE relays (       -- the hubs that have relayed to this one
  id       TEXT PRIMARY KEY,  -- a digest of its public key
  holder   TEXT NOT NULL,   -- whose token it uses; '' is the owner's
  host     TEXT NOT NULL,
  since_t  INTEGER NOT NULL,  -- when it first came
  heard_t  INTEGER NOT NULL,  -- when it was last heard of
  facts    INTEGER NOT NULL DEFAULT 0,  -- how much it has shipped
  points   INTEGER NOT NULL DEFAULT 0,
  refused  INTEGER NOT NULL DEFAULT 0   -- records of runs and processes that are not its own
) WITHOUT ROWID;

CREATE TABLE shippers (     -- which relay an origin comes from; '?' where that is not known; none for those read here
  origin   TEXT PRIMARY KEY,
  relay    TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE beginners (    -- which relay has begun a run or a host; none for those that were begun here
  span     TEXT PRIMARY KEY,
  relay    TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO shippers SELECT name, '?' FROM origins;
