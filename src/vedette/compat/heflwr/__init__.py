"""heflwr's monitors and its log: the same imports, calls and answers, by the monitors of ours. And its wire.

`monitor` has the six monitors, `log` its logger. `wire` reads what its clients send, `receiver` makes runs of it,
`listener` is the port at which they are heard; `form` is the sink that sends as they do.
"""
