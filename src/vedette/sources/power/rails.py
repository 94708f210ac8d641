"""Power rails of a Jetson board, measured by its INA3221 chips and read from /sys without root.

JetPack 5 and later show voltage and current as hwmon; JetPack 4 shows power as iio.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from vedette.sensing.sensor import Absent, Metric, Reading, Target
from vedette.sources.power.attribute import Number, names, tag, word
from vedette.sources.power.board import METRICS, Board

_CHIP = "ina3221"
_LABEL = re.compile(r"in([0-9]{1,3})_label")
_RAIL_NAME = re.compile(r"rail_name_([0-9]{1,3})")
_SUM = 7  # this hwmon channel is not a rail: it is the sum of the shunt voltages


class Channel(NamedTuple):
    """One rail: the attributes whose product is its power, and the scale that turns the product into watts."""

    rail: str
    factors: tuple[Number, ...]
    scale: float

    def read_w(self) -> float | None:
        """Return the present power; a negative value is noise of an idle rail, and counts as 0."""
        product = self.scale
        for factor in self.factors:
            number = factor.read()
            if number is None:
                return None
            product *= number
        return max(0.0, product)


class Rails:
    """The rails of this board."""

    metrics: Mapping[str, Metric] = METRICS

    def __init__(self, channels: list[Channel], clock: Callable[[], float] = time.monotonic) -> None:
        """Read these channels."""
        self._channels = channels
        self._clock = clock
        self._board = Board(_CHIP)

    def look(self) -> list[Reading]:
        """Return the present power of each rail and group."""
        at_s = self._clock()
        powers = {}
        for channel in self._channels:
            power_w = channel.read_w()
            if power_w is not None:
                powers[channel.rail] = power_w
        self._board.take(powers, at_s)
        return self._board.readings(at_s)

    def close(self) -> None:
        """Close the files."""
        for channel in self._channels:
            for factor in channel.factors:
                factor.close()


def sensor(target: Target, clock: Callable[[], float] = time.monotonic) -> Rails | Absent:
    """Return the rails of this board, if any can be read."""
    channels = _find(target.sys)
    readable = [channel for channel in channels if channel.read_w() is not None]
    for channel in channels:
        if channel not in readable:
            for factor in channel.factors:
                factor.close()
    if readable:
        return Rails(readable, clock)
    return Absent("the rails of this board cannot be read" if channels else "no INA3221 below /sys/bus/i2c")


def _find(sys: str) -> list[Channel]:
    channels: dict[str, Channel] = {}
    devices = f"{sys}/bus/i2c/devices"
    for device in names(devices):
        folders = [
            f"{devices}/{device}/{name}" for name in names(f"{devices}/{device}") if name.startswith("iio:device")
        ]
        monitors = f"{devices}/{device}/hwmon"
        folders += [f"{monitors}/{name}" for name in names(monitors)]
        for folder in folders:
            if _is_chip(folder):
                _find_in(folder, channels)
    return list(channels.values())


def _find_in(folder: str, channels: dict[str, Channel]) -> None:
    for name in names(folder):
        if (found := _LABEL.fullmatch(name)) and int(found[1]) != _SUM:
            factors = Number(f"{folder}/in{found[1]}_input"), Number(f"{folder}/curr{found[1]}_input")
            _add(channels, word(f"{folder}/{name}"), factors, 1e-6)
        elif found := _RAIL_NAME.fullmatch(name):
            _add(channels, word(f"{folder}/{name}"), (Number(f"{folder}/in_power{found[1]}_input"),), 1e-3)


def _is_chip(folder: str) -> bool:
    """Tell whether a folder is an INA3221: other chips have voltages too. A driver without a name counts as one."""
    name = word(f"{folder}/name")
    return not name or name.startswith(_CHIP)


def _add(channels: dict[str, Channel], label: str, factors: tuple[Number, ...], scale: float) -> None:
    rail = tag(label)
    if rail and rail.upper() != "NC" and rail not in channels:
        channels[rail] = Channel(rail, factors, scale)
