-- Version 2: each sample's own place, so that two stores that have parts of the same origin can be united exactly.
-- It is packed, and NULL in what version 1 has sealed.
ALTER TABLE axes ADD COLUMN n BLOB;
