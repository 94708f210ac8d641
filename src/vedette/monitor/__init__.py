"""Monitors: sensors on a schedule, into sinks, beside a program, in a thread or in a process of their own.

- `watch`: the monitor as a user holds it
- `around`: `vedette.monitored`: a monitor around a piece of code
- `plan`: what a monitor is to do, checked
- `rounds`: the body of the loop: look at sensors, hand over to sinks
- `outlets`: the sinks of a monitor, each behind a guard
- `record`: the last moments, and sums over all of them
- `life`: whether a process is still there
- `inside`: the thread form
- `beside`: the process form, as seen by who started it
- `talk`: what these two processes say to each other
- `__main__`: the process form, as a program
"""

from vedette.monitor.watch import Monitor as Monitor
