"""The figures of a study, as SVG that takes its colours from the page: light, dark, print."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from .result import Row
from .space import Choices, Dimension

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 260, 62, 12, 10, 44
BEYOND = 100.0  # times the median loss, above which a trial is drawn at the edge
# From little loss to much; viridis, which is readable in grey and to the colour-blind.
RAMP = ("#fde725", "#addc30", "#5ec962", "#28ae80", "#21918c", "#2c728e", "#3b528b", "#472d7b", "#440154")
STYLE = """
.drawn { display: block; width: 100%; height: auto; max-width: 46rem; }
.drawn text { font-size: 12px; fill: var(--muted); font-variant-numeric: tabular-nums; }
.drawn .grid { stroke: var(--grid); }
.drawn .dot { fill: var(--s0); fill-opacity: .7; }
.drawn .top { fill: var(--s1); stroke: var(--card); }
.drawn .ring { fill: none; stroke: var(--none); stroke-width: 1.5; }
.drawn .bar { fill: var(--s0); }
.drawn .least { fill: none; stroke: var(--s1); stroke-width: 2; }
.drawn .at { fill: var(--card); stroke: var(--text); }
"""


@dataclass(frozen=True)
class Axis:
    """From values to places between 0 and 1.

    Args:
        name: what it shows.
        low: at 0; of the logarithm if it is logarithmic.
        high: at 1.
        log: whether it is logarithmic.
        ticks: values to be marked, and their text.
        words: if its values are no numbers, where each of them stands.
    """

    name: str
    low: float
    high: float
    log: bool
    ticks: tuple[tuple[Any, str], ...]
    words: Mapping[str, float] | None = None

    def place(self, value: Any) -> float:
        """Between 0 and 1; what is beyond an end stands there."""
        number = self.words[str(value)] if self.words is not None else float(value)
        number = math.log10(number) if self.log else number
        part = (number - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return min(max(part, 0.0), 1.0)


def axis_of(one: Dimension) -> Axis:
    """The axis of what is searched."""
    if isinstance(one, Choices):
        values = one.values
        if not all(type(value) in (int, float) and value > 0 for value in values):
            words = {str(value): float(i) for i, value in enumerate(values)}
            return Axis(one.name, -0.5, len(values) - 0.5, False, tuple((v, spelled(v)) for v in values), words)
        ends = math.log10(min(values)), math.log10(max(values))
        margin = 0.08 * (ends[1] - ends[0]) or 0.5
        marks = sorted(values)[:: math.ceil(len(values) / 6)]
        return Axis(one.name, ends[0] - margin, ends[1] + margin, True, tuple((v, f"{v:g}") for v in marks))
    if one.log:
        return _logarithmic(one.name, one.low, one.high)
    marks = [one.low + part * (one.high - one.low) / 4 for part in range(5)]
    return Axis(one.name, one.low, one.high, False, tuple((v, f"{v:.3g}") for v in marks))


def loss_axis(losses: Sequence[float]) -> Axis:
    """Of losses that are finite; those far above the others are left beyond its end."""
    low, high = min(losses), min(max(losses), BEYOND * abs(median(losses)))
    if low <= 0:
        high = high if high > low else low + 1
        return Axis("loss", low, high, False, tuple((v, f"{v:.3g}") for v in (low, (low + high) / 2, high)))
    return _logarithmic("loss", low / 1.05, high * 1.05)


def _logarithmic(name: str, low: float, high: float) -> Axis:
    ends = math.log10(low), math.log10(high)
    powers = range(math.ceil(ends[0] - 1e-9), math.floor(ends[1] + 1e-9) + 1)
    marks = [10.0**power for power in powers][:: max(1, math.ceil(len(powers) / 6))]
    if len(marks) < 3:
        marks = [10 ** (ends[0] + part * (ends[1] - ends[0]) / 3) for part in range(4)]
    return Axis(name, *ends, True, tuple((v, f"{v:.3g}") for v in marks))


def frame(x: Axis, y: Axis, inside: str, label: str, width: int = WIDTH, height: int = HEIGHT) -> str:
    """A figure with its axes.

    Args:
        x: the horizontal axis.
        y: the vertical axis.
        inside: what is drawn, in pixels of the figure.
        label: for those who do not see it.
        width: in pixels.
        height: in pixels.
    """
    parts = []
    for value, text in x.ticks:
        at = right(x.place(value), width)
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        parts.append(f'<text x="{at}" y="{height - BOTTOM + 16}" text-anchor="middle">{html.escape(text)}</text>')
    for value, text in y.ticks:
        at = down(y.place(value), height)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{html.escape(text)}</text>')
    middle = (LEFT + width - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{height - 6}" text-anchor="middle">{html.escape(x.name)}</text>')
    parts.append(
        f'<text transform="rotate(-90 12 {height / 2})" x="12" y="{height / 2}" text-anchor="middle">'
        f"{html.escape(y.name)}</text>"
    )
    return svg("".join([*parts, inside]), label, width, height)


def svg(inside: str, label: str, width: int, height: int) -> str:
    """A figure."""
    return (
        f'<svg class="drawn" viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(label)}">{inside}</svg>'
    )


def slices(space: Sequence[Dimension], rows: Sequence[Row], best: Row) -> list[str]:
    """The loss against each of what is searched, one dot for each trial."""
    y = loss_axis([row.loss for row in rows])
    found = []
    for one in space:
        x = axis_of(one)
        dots = [_dot(x.place(row.found[one.name]), y.place(row.loss), row, row is best) for row in _last(rows, best)]
        found.append(frame(x, y, "".join(dots), f"Loss of {len(rows)} trials against {one.name}"))
    return found


def history(rows: Sequence[Row], best: Row) -> str:
    """The loss of each trial in turn, and the least so far."""
    y = loss_axis([row.loss for row in rows])
    last = max(row.number for row in rows) + 1
    stride = max(1, math.ceil(last / 6))
    x = Axis("trial", 0, last, False, tuple((n, str(n)) for n in range(0, last + 1, stride)))
    least, corners = math.inf, []
    for row in rows:
        if row.state == "complete" and row.loss < least:
            corners += [] if least == math.inf else [f"H{right(x.place(row.number), 720)}"]
            least = row.loss
            corners.append(f"{'V' if corners else f'M{right(x.place(row.number), 720)} '}{down(y.place(least))}")
    corners.append(f"H{right(1, 720)}")
    dots = [_dot(x.place(row.number), y.place(row.loss), row, row is best, 720) for row in _last(rows, best)]
    line = f'<path class="least" d="{"".join(corners)}"/>'
    return frame(x, y, line + "".join(dots), "Loss of each trial, and the least so far", 720)


def importances(shares: Mapping[str, float]) -> str:
    """A bar for each of what was searched."""
    parts = []
    for number, (name, share) in enumerate(sorted(shares.items(), key=lambda pair: -pair[1])):
        top = 8 + 30 * number
        parts.append(f'<text x="112" y="{top + 15}" text-anchor="end">{html.escape(name)}</text>')
        parts.append(f'<rect class="bar" x="120" y="{top}" width="{max(1.0, 520 * share):.1f}" height="20" rx="3"/>')
        parts.append(f'<text x="{126 + 520 * share:.1f}" y="{top + 15}">{100 * share:.0f} %</text>')
    label = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items())
    return svg("".join(parts), f"Importance: {label}", 720, 12 + 30 * len(shares))


def _last(rows: Sequence[Row], best: Row) -> list[Row]:
    """The best one is drawn last, above all others."""
    return [*(row for row in rows if row is not best), best]


def _dot(x: float, y: float, row: Row, best: bool, width: int = WIDTH) -> str:
    kind = "top" if best else "dot" if row.state == "complete" else "ring"
    return f'<circle class="{kind}" cx="{right(x, width)}" cy="{down(y)}" r="{5 if best else 3.5}">{tip(row)}</circle>'


def tip(row: Row) -> str:
    """What a pointer over it is told."""
    words = ", ".join(f"{name} {spelled(value)}" for name, value in row.found.items())
    how = "" if row.state == "complete" else f" ({row.state})"
    return f"<title>{html.escape(f'trial {row.number}{how}: loss {row.loss:.4g}; {words}')}</title>"


def right(part: float, width: int = WIDTH) -> float:
    """Pixels from the left."""
    return round(LEFT + part * (width - LEFT - RIGHT), 1)


def down(part: float, height: int = HEIGHT) -> float:
    """Pixels from the top."""
    return round(height - BOTTOM - part * (height - TOP - BOTTOM), 1)


def spelled(value: object) -> str:
    """A value for people."""
    if isinstance(value, (list, tuple)):
        return "+".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
