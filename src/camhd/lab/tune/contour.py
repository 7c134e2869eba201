"""The loss over two of what was searched: a map between the trials, with contour lines."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from . import drawing
from .drawing import RAMP, Axis
from .result import Row
from .space import Choices, Dimension

WIDTH, HEIGHT, CELLS = 720, 440, 80
PAIR = ("lr", "hyper_lr")


def pair(space: Sequence[Dimension], shares: dict[str, float]) -> tuple[Dimension, Dimension] | None:
    """Which two: lr and the hyper-gradient lr, or else the two numbers that matter most; None if there are no two."""
    numeric = {one.name: one for one in space if _is_numeric(one)}
    if all(name in numeric for name in PAIR):
        return numeric[PAIR[0]], numeric[PAIR[1]]
    ranked = sorted(numeric, key=lambda name: (name != "lr", -shares.get(name, 0.0)))[:2]
    return (numeric[ranked[0]], numeric[ranked[1]]) if len(ranked) == 2 else None


def contour(one: Dimension, other: Dimension, rows: Sequence[Row], best: Row) -> str:
    """The map; where there are no trials around, there is none.

    Args:
        one: to the right.
        other: upwards.
        rows: judged trials, all with a finite loss.
        best: of them.
    """
    x, y = drawing.axis_of(one), drawing.axis_of(other)
    least: dict[tuple[float, float], Row] = {}
    for row in sorted(rows, key=lambda row: -row.loss):  # the least is what stays
        least[x.place(row.found[one.name]), y.place(row.found[other.name])] = row
    losses = sorted(row.loss for row in least.values())
    levels = sorted({losses[round(part * (len(losses) - 1) / len(RAMP))] for part in range(len(RAMP) + 1)})
    scale = math.log if losses[0] > 0 else float
    map_ = _filled(list(least), [scale(row.loss) for row in least.values()], [scale(level) for level in levels])
    dots = []
    for (right, up), row in least.items():
        kind, size = ("top", 6) if row is best else ("at", 3)
        place = f'cx="{drawing.right(right, WIDTH)}" cy="{drawing.down(up, HEIGHT)}"'
        dots.append(f'<circle class="{kind}" {place} r="{size}">{drawing.tip(row)}</circle>')
    label = f"Least loss over {one.name} and {other.name}"
    return drawing.frame(x, y, map_ + "".join(dots), label, WIDTH, HEIGHT) + _legend(levels)


def _filled(places: Sequence[tuple[float, float]], losses: Sequence[float], levels: Sequence[float]) -> str:
    """One path for each band between two levels, linear between the trials."""
    import numpy

    points = numpy.array(places)
    if len(levels) < 2 or len(points) < 3 or numpy.linalg.matrix_rank(points - points[0], tol=1e-9) < 2:
        return ""  # they do not span an area
    from contourpy import FillType, contour_generator
    from matplotlib.tri import LinearTriInterpolator, Triangulation

    sides = [numpy.linspace(points[:, i].min(), points[:, i].max(), CELLS) for i in (0, 1)]
    between = LinearTriInterpolator(Triangulation(points[:, 0], points[:, 1]), numpy.array(losses))
    heights = between(*numpy.meshgrid(*sides))
    found = contour_generator(x=sides[0], y=sides[1], z=heights, fill_type=FillType.OuterOffset)
    bands = []
    for number, (low, high) in enumerate(pairwise(levels)):
        edges = (-math.inf if number == 0 else low, math.inf if number == len(levels) - 2 else high)
        shapes, offsets = found.filled(*edges)[:2]
        path = "".join(_path(shape, offset) for shape, offset in zip(shapes, offsets, strict=True))
        bands.append(f'<path fill="{_colour(number, len(levels) - 1)}" fill-rule="evenodd" d="{path}"/>')
    return "".join(bands)


def _path(shape: Any, offsets: Any) -> str:
    pieces = []
    for begin, end in pairwise(offsets):
        corners = [f"{drawing.right(a, WIDTH)} {drawing.down(b, HEIGHT)}" for a, b in shape[begin:end].tolist()]
        pieces.append(f"M{'L'.join(corners)}Z")
    return "".join(pieces)


def _legend(levels: Sequence[float]) -> str:
    if len(levels) < 2:
        return ""
    count = len(levels) - 1
    parts = [f'<rect x="{20 + 56 * i}" y="2" width="56" height="12" fill="{_colour(i, count)}"/>' for i in range(count)]
    parts += [
        f'<text x="{20 + 56 * i}" y="28" text-anchor="middle">{html.escape(f"{level:.3g}")}</text>'
        for i, level in enumerate(levels)
    ]
    return drawing.svg("".join(parts), "Colours of the loss", WIDTH, 32)


def _colour(number: int, count: int) -> str:
    return RAMP[round(number * (len(RAMP) - 1) / max(1, count - 1))]


def _is_numeric(one: Dimension) -> bool:
    axis: Axis = drawing.axis_of(one)
    return axis.words is None and not (isinstance(one, Choices) and len(one.values) < 2)
