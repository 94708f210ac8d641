"""Curves of runs, drawn with characters: in colours on a terminal, a letter for each curve in a pipe."""

import itertools
from collections.abc import Sequence

import numpy as np
import plotext
from msgspec import Struct
from numpy.typing import NDArray

from vedette.query.buckets import exponential
from vedette.query.downsample import downsample
from vedette.views.ansi import bare
from vedette.views.text import clean, number

_COLOURS = (12, 208, 10, 9, 13, 14, 11, 7)  # of the 256 that terminals have
_TICKS = 5
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PLAIN = 40  # powers of two: plotext writes values without exponents, and fails where it must reckon with larger ones
_LEAST_WIDTH, _LEAST_HEIGHT, _LEAST_LEGEND = 30, 8, 4
_MOST_WIDTH, _MOST_HEIGHT = 200, 40

Floats = NDArray[np.float64]


class Curve(Struct, frozen=True, eq=False):
    """One series of one run: what it is called, where its points are, and their values."""

    label: str
    x: Floats
    y: Floats
    last: float | None


def smoothed(y: Floats, weight: float) -> Floats:
    """Return the exponential average of `buckets.exponential`; `weight`: of what was before, from 0 to below 1."""
    if weight <= 0:
        return y
    there = np.isfinite(y)
    return exponential(there.astype(np.int64), np.where(there, (1 - weight) * y, 0.0), weight)


def draw(curves: Sequence[Curve], title: str, x_title: str, width: int, height: int, *, colours: bool) -> list[str]:
    """Return the lines of a chart with its legend; without finite points only the legend."""
    width, height = min(max(width, _LEAST_WIDTH), _MOST_WIDTH), min(max(height, _LEAST_HEIGHT), _MOST_HEIGHT)
    legend = _legend(curves, width, colours=colours)
    most = max(_LEAST_LEGEND, height - _LEAST_HEIGHT)
    if len(legend) > most:
        legend = [*legend[: most - 1], f"and {len(legend) - most + 1} more"]
    return [*_chart(curves, title, x_title, width, max(_LEAST_HEIGHT, height - len(legend)), colours=colours), *legend]


def _chart(curves: Sequence[Curve], title: str, x_title: str, width: int, height: int, *, colours: bool) -> list[str]:
    plotext.clear_figure()  # it has one for the whole process
    plotext.plotsize(width, height)
    plotext.theme("clear")
    plotext.title(clean(title, one_line=True))
    plotext.xlabel(x_title)
    ends: list[float] = []
    heights = np.concatenate([np.empty(0), *(curve.y[np.isfinite(curve.x) & np.isfinite(curve.y)] for curve in curves)])
    power = int(np.frexp(np.abs(heights).max(initial=0.0))[1])
    power = 0 if abs(power) <= _PLAIN else power
    for curve, colour, letter in zip(curves, itertools.cycle(_COLOURS), itertools.cycle(_LETTERS), strict=False):
        finite = np.isfinite(curve.x) & np.isfinite(curve.y)
        x, y = downsample(curve.x[finite], curve.y[finite], 2 * width)
        if len(x):
            ends += [float(x.min()), float(x.max())]
            marker = "braille" if colours or len(curves) == 1 else letter
            plotext.plot(
                x.tolist(), np.ldexp(y, -power).tolist(), marker=marker, color=colour if colours else "default"
            )
    if not ends:
        return [f"{clean(title, one_line=True)}: {_why_empty(sum(len(curve.y) for curve in curves))}"]
    if x_title == "step" and min(ends) < max(ends):
        ticks = np.unique(np.linspace(min(ends), max(ends), _TICKS).round()).tolist()
        plotext.xticks(ticks, [f"{tick:.0f}" for tick in ticks])
    if power:
        low, high = np.ldexp([heights.min(), heights.max()], -power).tolist()
        ticks = np.unique(np.linspace(low, high, _TICKS))
        plotext.yticks(ticks.tolist(), [number(value) for value in np.ldexp(ticks, power).tolist()])
    text = str(plotext.build())
    if not colours:
        text = bare(text)
    return [line.rstrip() for line in text.splitlines()]


def _why_empty(points: int) -> str:
    if points < 2:
        return "its only point is not a finite number" if points else "no points yet"
    return f"none of its {points} points is a finite number"


def _legend(curves: Sequence[Curve], width: int, *, colours: bool) -> list[str]:
    """Return a line for each curve: its sign, its name, its last value."""
    lines = []
    for index, curve in enumerate(curves):
        last = "no points yet" if curve.last is None else f"last {number(curve.last)}"
        name = clean(curve.label, one_line=True)
        room = max(8, width - len(last) - 4)
        name = name if len(name) <= room else name[: room - 1] + "…"
        sign = f"\x1b[38;5;{_COLOURS[index % len(_COLOURS)]}m■\x1b[0m" if colours else _LETTERS[index % len(_LETTERS)]
        lines.append(f"{sign} {name}  {last}")
    return lines
