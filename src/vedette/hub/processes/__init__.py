"""The processes of this host: whether they live, how far they are, and what they use.

- `watcher`: watches processes by pidfds, and writes how they ended
- `death_clock`: notes at once when a process dies
- `terminals`: erases the bars of a console that was killed
- `progress`: reads the progress bars of processes
- `metering`: tells the meter which processes to measure
- `wishes`: the messages to the meter
- `orphans`: finds what a try has left behind
- `meter`: the helper process that measures
- `machine`: what is recorded of the whole machine
"""
