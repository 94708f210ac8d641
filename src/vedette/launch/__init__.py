"""Runs a command on this machine as a run: passes on what it prints, unchanged, and records it.

`child` starts the command (descriptors, terminal, fork and exec); `gate` starts one that waits until it may begin.
`local` stays with it until its end: signals, keys, time limit. `pump` moves bytes. `terminal` handles the terminal that
we were started in. `record` turns output into events, `metrics` into numbers; `joined`: does the program
log its own? `ending` gathers what is known about the end.
"""
