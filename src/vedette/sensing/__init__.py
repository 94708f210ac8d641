"""What measuring is made of, below every sensor and every sink.

`sensor` is the specification of a sensor, `probe` has what most of them are made of, `cgroup` reads limits, `energy`
adds up power, `schedule` has the moments at which something is measured.
"""
