"""The console inside a run's own process, or beside a command. It uses views and the store; the client may not.

`console` is its thread, and how it makes room for what the program prints; `run_lines` is what it shows: the lines of
its own process and of others, and open questions.
"""
