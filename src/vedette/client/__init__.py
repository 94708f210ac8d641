"""What runs inside the user's process: it appends records to the spool of that process, and does nothing else (law 2).

What the user calls:
- `current`: the current run, and the verbs that act on it: `vedette.init`, `vedette.log`
- `open_runs`: the runs that are open here, and which of them a call, a log record or a printed line means
- `with_block`: whether `init` stands in the head of a `with`
- `ranks`: which rank of a parallel job this process is
- `run`: a run, as a process that takes part in it sees it
- `series`: a bound handle for one series
- `progress`: bars
- `attrs`: `run.config` and `run.summary`
- `asked`: what `vedette run --config` asks for, instead of what the program gives to `init`
- `files`: what a run saves and uses
- `ask`: questions to whoever watches the run
- `usage`: marks on the timeline of the measurements
- `values`: converts the user's values to numbers and plain values
- `names`: names for runs without one
- `off`: the run of `VEDETTE_MODE=off`
- `journal`: writes the process's records about one run and about itself
- `faults`: the one place where our own errors stop

What it records by itself:
- `hooks`: switches all of it on and off
- `logs`: records of the module `logging`
- `messages`: what a log record says, as text
- `rendering`: objects of rich, as text
- `warned`: warnings
- `streams`: what the program prints
- `quiet`: a flag per thread: what it prints now is not recorded
- `exits`: how the process ends, and forks
- `raised`: an exception that ends something, as evidence
- `pools`: which worker of a process pool was killed
- `stacks`: where the program was when it died
- `children`: workers of `multiprocessing`
- `arguments`: options of a command line, as names and values
- `capturing`: starts the program that records what a run is made of
- `notebook`: the notebook that this process runs
- `capture_program`: that program, which serves all runs of the process
- `screen`: the terminal, while a console draws on it
"""
