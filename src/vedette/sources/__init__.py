"""What speaks: one file for each source. A source knows nobody who listens.

Those that measure have a sensor (see `sensor.py`), and stand in this table; a package of somebody else's adds one by an
entry point of the group `vedette.sensors`, whose value is a module of the same shape.
"""

SENSORS: dict[str, str] = {
    "process": "vedette.sources.process",
    "host": "vedette.sources.host",
    "pressure": "vedette.sources.pressure",
    "disks": "vedette.sources.disks",
    "network": "vedette.sources.network",
    "gpu": "vedette.sources.gpu",
    "power": "vedette.sources.power",
}
