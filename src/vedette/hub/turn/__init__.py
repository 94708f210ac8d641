"""The hub's turn: one pass reads what is new, commits or ships it, flushes, and frees. It knows no socket.

Its one thread is that of `blob_collector`, which flushes blobs.

- `keeper`: does the pass
- `spool_reader`: reads one spool: both lanes, and samples that wait to be sealed
- `seal_wish`: somebody waits until all that was logged is in the store
- `tidying`: merges short chunks, a little at a time
- `turns`: whose turn it is, where there is not time for everybody
- `about_process`: what a process has said of itself
- `ends`: what must be in the store before an end is shown
- `commits`: commits what was read, in the store or by shipping it
- `masking`: masks secrets in what programs say, before it is committed
- `line_masks`: finds the secrets in a line
- `heartbeats`: notes who is alive
- `requests`: what the keeper is asked between two turns
- `orders`: carries out commands for processes
- `rank_tries`: ends the tries of several ranks with the last of them
- `edits`: turns a user's edit into facts
- `quota`: the limits of one origin
- `sweeper`: removes runs by rules, and deletes purged data
- `blob_collector`: flushes and counts blobs, and removes those that nothing names
- `takein`: takes homes, spools and archives of other machines in
"""
