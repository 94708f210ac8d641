"""Pure functions over a store: what the data mean (law 6). Each is asked by commands, the page and notebooks alike.

Runs and what is in them:
- `finding`: which run is meant by an id, a prefix or a name, and which runs are hidden
- `runs`: lists of runs, and one run as an object
- `tries`: the tries of a run, and which of their points count
- `series`: the points of series, and their last values
- `unsealed`: points that the hub has and the store does not have yet
- `table`: points of runs as one long table
- `logs`: the lines of a run
- `new_lines`: the lines of a run as they come, each once
- `files`: the files of a run, the newest of each name
- `progress`: bars: how far, how fast, until when
- `usage`: what the processes of a run used
- `questions`: questions that nobody has answered yet
- `losses`: what did not get into the store, and why
- `signs`: when a run last said something, logged a point, and used CPU
- `silence`: what was not heard of for too long, and is lost
- `where`: the language of `--where`
- `conditions`: conditions that the store cannot check by itself
- `statistics`: minimum, maximum, mean and last value of a metric in many runs
- `columns`: columns of a list, by the names that people type, and its order
- `retention`: which runs are due to be removed
- `weight`: how many bytes runs take
- `edits`: what an edit of a run may say
- `given`: what the command line gave, beside the config
- `recipe`: how to run a run again
- `cells`: the cells of a notebook, as a file of its code

What screens show:
- `listing`: a long list of runs, filtered, sorted, in pages
- `overview`: all runs and hosts, a line each
- `closeup`: one run with its newest lines, bars and usage
- `live`: what is new since the last look
- `curves`: series for so many pixels
- `means`: series in buckets, from all points, and smoothed
- `buckets`: what a bucket has, and how buckets are merged
- `trend`: a whole series in a few means, for a sparkline
- `downsample`: fewer points that look the same
- `notebook`: results as HTML

Why runs differ:
- `compare`: many runs beside each other
- `diff`: what two runs are made of, side by side
- `code`: the code of two runs
- `outcome`: what came out of two runs
- `suspects`: the likely causes, by a list of rules
- `knobs`: what names of keys and packages tell
- `explain`: all of that, the most likely causes first
"""
