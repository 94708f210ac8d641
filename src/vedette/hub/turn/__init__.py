"""The hub's turn: one pass reads what is new, keeps or passes it on, flushes, and frees. No threads and no sockets.

`keeper` does the pass, `commits` commits what it read, `heartbeats` says who lives. `requests` is what it is asked
between two turns. `spool_reader` reads one origin. `own` writes what the hub says itself. `orders` carries out
commands, `questions` hands answers to who waits for them, `edits` turns a user's word into facts. `sweeper` removes
runs that are due, `blob_collector` removes blobs that nothing names, `takein` imports homes, spools and archives.
`quota` limits what one origin may bring.
"""
