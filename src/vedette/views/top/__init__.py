"""`vedette top`: all runs and hosts on one screen of the terminal, drawn by textual.

- `app`: the program: which screen is shown, and what its keys do
- `main`: the first screen: hosts above, runs below
- `run`: the screen of one run
- `feed`: a thread that reads the store, so that the screen never waits
- `table`: the table of runs
- `columns`: its columns, and which of them fit a width
- `log`: the lines of a run
- `paint`: hosts, bars and processes as coloured text
- `dialogs`: a confirmation, the help and a choice, in front of a screen
"""
