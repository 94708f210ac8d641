"""What people see. `query/` decides what data mean; the views only show it.

- `text`: text, numbers, times and durations, formatted for people
- `ansi`: makes untrusted text safe for a terminal, with or without colours
- `console`: the console: lines of all processes, and progress bars below
- `lines`: one event, one bar, one end, as lines
- `area`: a terminal with lines that scroll, and a few rows below that change
- `asking`: a question on the console, and the answer that is typed
- `notebook`: a run, its bars and charts, as HTML below a cell
- `usage`: what a run used, as charts in a terminal
- `usage_page`: the same as one page of HTML
- `plot`: curves of runs, as a chart in a terminal
- `rows`: what a monitor measures, as rows of a terminal
- `spark`: small charts and bars made of characters
- `top`: the screen of `vedette top`
- `web`: the HTTP API and the page of `vedette ui`
"""
