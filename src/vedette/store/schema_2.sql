-- Version 2: what a hub that keeps other hosts' runs knows of their clocks.
ALTER TABLE origins ADD COLUMN skew_s REAL;  -- how far its clock is ahead of the hub's, where that was measured
