"""What people see. Nothing here decides what data mean: that is asked of `query/`.

- `text`: text, numbers, times and durations, safe for a terminal
- `ansi`: other people's text, safe for a terminal, with or without colours
- `console`: the console: lines of all processes, and bars below
- `lines`: one event, one bar, one end, as lines
- `area`: a terminal with lines that stay above and a few that change below
- `asking`: a question on the console, and the line that is typed
- `usage`: what a run used, as charts in a terminal
- `usage_page`: the same as one page of HTML
- `rows`: what a monitor sees, as rows of a terminal
- `spark`: small charts and bars made of characters
- `top`: the screen of `vedette top`
- `web`: the HTTP API and the page of `vedette ui`
"""
