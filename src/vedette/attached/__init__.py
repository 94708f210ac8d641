"""What shows a run inside its own process, or beside a command. It uses views and the store; the client may not.

On a terminal: `console` is a thread that draws, and makes room for what the program prints; `run_lines` is what it
shows: the lines of its own process and of others, and open questions.

In a notebook:
- `notebook`: the kernel of this process: what is recorded and shown there, and how its end is named
- `cells`: records each cell as an event of the open runs
- `display`: the thread that keeps the displays up to date
- `panels`: the displays: a run's name and state, bars, charts
- `points`: the points of a run, for charts
- `input`: the input field of `vedette.ask`
"""
