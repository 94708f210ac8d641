"""The processes of this host: whether they live, how far they are, and what they use.

`watcher` holds a pidfd of each and says how it ended. `progress` reads the bars of others. `metering` says who is to be
measured (`wishes` is how), `meter` is the process that does it, and `machine` says what is kept of the whole host.
"""
