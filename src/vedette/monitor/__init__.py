"""What watches a program from beside it: sensors on a schedule, into sinks, in a thread or in a process of its own."""

from vedette.monitor.watch import Monitor as Monitor
