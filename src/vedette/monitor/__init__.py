"""Monitors: sensors are read on a schedule, and the samples go to sinks; in a thread or in a process of its own.

- `watch`: the class `Monitor`
- `decorator`: `vedette.monitored`: a monitor around some code
- `plan`: what a monitor shall do, checked
- `rounds`: the body of the loop: read sensors, write to sinks
- `guarded_sinks`: the sinks of a monitor, each behind a guard
- `record`: the last moments, and sums over all of them
- `liveness`: whether a process is still alive
- `thread_form`: a monitor in a thread
- `process_form`: a monitor in a process of its own, seen from the user's process
- `channel`: the messages between these two processes
- `__main__`: the monitor's process
"""

from vedette.monitor.watch import Monitor as Monitor
