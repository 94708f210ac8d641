"""The console inside a run's own process, or beside a command. The client knows neither views nor store; this does.

`console` is the console as the program meets it: its thread, and how it makes room for what the program prints;
`run_lines` is what it shows: the lines of its own process and of others, and the questions that wait.
"""
