"""Sources of data: one file for each. A source does not know who reads its data.

A source that measures something has a sensor (see `sensing/sensor.py`) and is listed in this table. Another package
adds a sensor by an entry point of the group `vedette.sensors`; its value is a module of the same shape.

- `process` (a sensor): the tree of a process
- `host` (a sensor): cores, memory and load of the machine
- `pressure` (a sensor): how long tasks had to wait
- `disks` (a sensor): each disk
- `network` (a sensor): the network interfaces
- `gpu` (a sensor): GPUs
- `power` (a sensor): power and energy
- `sampler`: finds sensors by name, and reads them
- `output`: what a program prints, cut into lines
- `colours`: escape codes in what a program prints
- `numbers`: numbers in what a program prints, with their names and steps
- `bars`: progress bars that a program draws, as numbers
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
