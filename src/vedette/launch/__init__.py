"""A command as a run, on this machine: what it prints is passed on as it is, and put on record.

`child` starts it (descriptors, terminal, fork and exec), `gate` holds one back until it may begin. `local` stays with
it until its end: signals, keys, time limit. `pump` moves bytes, `terminal` is the one that we stand in, `record` makes
events of what is printed, and `ending` gathers what is known of its end.
"""
