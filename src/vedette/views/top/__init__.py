"""`vedette top`: all runs and hosts on one screen of the terminal, drawn by textual.

- `app`: the program: which screen is shown, and what its keys do
- `main`: the first screen: hosts above, runs below
- `run`: the screen of one run
- `feed`: a thread that reads, so that the screen never waits
- `table`: the table of runs
- `columns`: its columns, and which of them a width has room for
- `log`: the lines of a run
- `paint`: words and numbers as painted text
- `dialogs`: questions, help and choices in front of a screen
"""
