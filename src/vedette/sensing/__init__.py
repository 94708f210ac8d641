"""The parts that sensors and sinks are built from.

`sensor` is the specification of a sensor, `probe` has a file that stays open and a counter, `cgroup` reads limits,
`energy` adds up power, `schedule` says when to measure.
"""
