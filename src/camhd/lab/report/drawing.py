"""The figures themselves, for matplotlib: the same curves, heat maps and weights as on the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .curves import curves as averaged
from .curves import finite
from .group import Method, Metric, Task
from .rates import Level, View, Weights
from .section import Chart
from .text import apart

# As many lines as can be told apart.
LINES = 9
# As on the page, in its light theme.
_COLOURS = ("#0072b2", "#d55e00", "#008a63", "#b3538a", "#20242a", "#a97400", "#3e8fbf", "#7a5230")
_DASHES = ((), (4, 2), (1, 1.5), (5, 1.5, 1, 1.5), (7, 2), (2.5, 1, 0.5, 1), (0.5, 2), (3, 1, 3, 3))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def curves(task: Task) -> Figure:
    """All metrics by epoch: the mean over runs, and a band of one standard error to either side."""
    metrics = [metric for metric in task.metrics if metric.key != "train_accuracy"]
    figure = Figure(figsize=(4.2 * len(metrics), 3.9), layout="constrained")
    shown = _best(task)
    for axis, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        for index in shown:
            _curve(axis, index, task.methods[index], metric)
        if not metric.higher and axis.lines and all(min(line.get_ydata(), default=1) > 0 for line in axis.lines):
            _log(axis)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        _label(axis, "epoch", metric.title + (", %" if metric.percent else ""))
    names = [_text(task.methods[index].name) for index in shown]
    figure.legend(figure.axes[0].lines, names, loc="outside lower center", ncols=3, frameon=False, handlelength=4)
    more = (
        f" (the first and the {len(shown) - 1} best of {len(task.methods)} methods)"
        if len(shown) < len(task.methods)
        else ""
    )
    figure.suptitle(_text(task.name) + more)
    return figure


def _best(task: Task) -> list[int]:
    """The first method and the best of the others."""
    main = task.metrics[0]
    means = [finite(method.finals(main.key)).mean for method in task.methods]
    worth = [-math.inf if math.isnan(mean) else mean if main.higher else -mean for mean in means]
    others = sorted(range(1, len(means)), key=lambda i: -worth[i])
    return [0, *sorted(others[: LINES - 1])]


def _curve(axis: Axes, index: int, method: Method, metric: Metric) -> None:
    found = averaged(method, [metric])
    factor = 100 if metric.percent else 1
    mean = numpy.array([one.mean for one in found.values[metric.key]]) * factor
    error = numpy.nan_to_num([one.error for one in found.values[metric.key]]) * factor
    axis.plot(found.epochs, mean, **_style(index, len(mean)))
    axis.fill_between(found.epochs, mean - error, mean + error, color=_COLOURS[index % 8], alpha=0.16, linewidth=0)


def chart(made: Chart) -> Figure:
    """The lines of a chart, with bands of one standard error to either side."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    _chart(figure.subplots(), made)
    if made.series:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, handlelength=4)
    return figure


def panels(title: str, charts: Sequence[Chart]) -> Figure:
    """Charts side by side, three in a row; one legend where their lines have the same names."""
    columns = min(3, len(charts))
    rows = -(-len(charts) // columns)
    shared = len({tuple(one.name for one in made.series) for made in charts}) == 1
    figure = Figure(figsize=(4.2 * columns, 3.5 * rows + 0.6), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, made in zip(axes, charts, strict=False):
        _chart(axis, made)
        axis.title.set_fontsize(9)
        if not shared:
            axis.legend(frameon=False, fontsize=7, handlelength=4)
    for axis in axes[len(charts) :]:
        axis.set_axis_off()
    if shared and charts[0].series:
        lines = axes[0].lines
        names = [str(line.get_label()) for line in lines]
        figure.legend(lines, names, loc="outside lower center", ncols=3, frameon=False, handlelength=4)
    figure.suptitle(_text(title))
    return figure


def _chart(axis: Axes, made: Chart) -> None:
    factor = 100 if made.percent else 1
    for index, one in enumerate(made.series):
        ys = numpy.array(one.ys, dtype=float) * factor
        axis.plot(one.xs, ys, label=_text(one.name), **_style(index, len(ys)))
        if one.errors is not None:
            error = numpy.nan_to_num(numpy.array(one.errors, dtype=float)) * factor
            axis.fill_between(one.xs, ys - error, ys + error, color=_COLOURS[index % 8], alpha=0.16, linewidth=0)
    if made.log_x:
        axis.set_xscale("log")
    if made.log_y and any(y > 0 for one in made.series for y in one.ys):
        _log(axis)
    _label(axis, made.x, made.y + (", %" if made.percent else ""))
    axis.set_title(_text(made.title))


def times(task: Task) -> Figure:
    """Milliseconds per step: the median over runs, and from the fastest to the slowest run."""
    methods = [(i, m) for i, m in enumerate(task.methods) if any("step_ms" in run.time for run in m.counted)][:40]
    figure = Figure(figsize=(7, 1.3 + 0.32 * len(methods)), layout="constrained")
    axis = figure.subplots()
    for row, (index, method) in enumerate(methods):
        values = [run.time["step_ms"] for run in method.counted if "step_ms" in run.time]
        middle = median(values)
        reach = [[middle - min(values)], [max(values) - middle]]
        axis.barh(row, middle, color=_COLOURS[index % 8], alpha=0.85, xerr=reach, ecolor="black", capsize=3)
    axis.set_yticks(range(len(methods)), [_text(method.name) for _, method in methods])
    axis.invert_yaxis()
    _label(axis, "milliseconds per optimizer step", "")
    axis.set_title(_text(task.name))
    return figure


def _log(axis: Axes) -> None:
    """A logarithmic axis with plain numbers; those between the powers of ten only where there are few of these."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    between = (1, 2, 5) if 3 * low < high < 30 * low else range(1, 10) if high < 30 * low else ()
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(
        FuncFormatter(lambda value, _: f"{value:.6g}" if int(f"{value:e}"[0]) in between else "")
    )


def rates(view: View, task: str, method: str) -> Figure:
    """The rates of every level over time, and the weights γ between the levels."""
    heights = [_height(level) for level in view.levels] + _weights_height(view.weights)
    figure = Figure(figsize=(9, 0.8 + sum(heights)), layout="constrained")
    axes = list(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    for axis, level in zip(axes, view.levels, strict=False):
        _level(figure, axis, level, view.steps)
        axis.set_title(
            f"level {_text(level.name)}, {level.count:,} rate{'' if level.count == 1 else 's'}", loc="left", fontsize=10
        )
    if view.weights is not None and len(view.weights.levels) > 1:
        _weights(figure, axes[-1], view.weights, view.steps)
    axes[-1].set_xlabel("step")
    figure.suptitle(f"{_text(task)}: learning rates of {_text(method)} ({_text(view.name)})")
    return figure


def _height(level: Level) -> float:
    return 1.8 if level.groups is None or len(level.groups) == 1 else 0.6 + max(0.17 * len(level.groups), 0.8)


def _weights_height(weights: Weights | None) -> list[float]:
    """Of one panel, if there are weights to be seen."""
    if weights is None or len(weights.levels) < 2:
        return []
    return [2.0 if weights.layers is None else 0.6 + max(0.17 * len(weights.layers), 0.8)]


def _level(figure: Figure, axis: Axes, level: Level, steps: list[int]) -> None:
    values = numpy.array(level.values)
    if level.groups is not None and len(level.groups) > 1:
        known = values[numpy.isfinite(values) & (values > 0)]
        low, high = (float(known.min()), float(known.max())) if known.size else (1.0, 1.0)
        low, high = (low, high) if high > 1.00001 * low else (low * 0.98, high * 1.02)
        _heat(figure, axis, values, level.groups, steps, LogNorm(low, high))
        return
    positive = numpy.where(values > 0, values, numpy.nan)
    if level.groups is not None:
        axis.plot(steps, positive[0], **_style(0, len(steps)))
        if level.errors is not None:
            error = numpy.nan_to_num(level.errors[0])
            axis.fill_between(
                steps, positive[0] - error, positive[0] + error, color=_COLOURS[0], alpha=0.16, linewidth=0
            )
    else:
        for outer, ink in ((0, 0.14), (1, 0.22), (2, 0.36)):
            axis.fill_between(steps, positive[outer], positive[6 - outer], color=_COLOURS[0], alpha=ink, linewidth=0)
        axis.plot(steps, positive[3], color=_COLOURS[0])
    if numpy.nanmax(positive, initial=0) > 3 * numpy.nanmin(positive, initial=math.inf):
        _log(axis)
    _label(axis, "", "rate")


def _weights(figure: Figure, axis: Axes, weights: Weights, steps: list[int]) -> None:
    values = numpy.array(weights.values)
    if weights.layers is not None:
        # Of the first level; on the page the others can be chosen.
        own = values[:: len(weights.levels)]
        _heat(figure, axis, own, weights.layers, steps, Normalize(float(numpy.nanmin(own)), float(numpy.nanmax(own))))
        axis.set_title(f"weight γ of level {_text(weights.levels[0])}, by layer", loc="left", fontsize=10)
        return
    for index, name in enumerate(weights.levels):
        axis.plot(steps, values[index], label=_text(name), **_style(index, len(steps)))
        if weights.errors is not None:
            error = numpy.nan_to_num(weights.errors[index])
            axis.fill_between(
                steps, values[index] - error, values[index] + error, color=_COLOURS[index % 8], alpha=0.16, linewidth=0
            )
    axis.legend(frameon=False, fontsize=8, handlelength=4)
    axis.set_title("weights γ of the levels", loc="left", fontsize=10)
    _label(axis, "", "γ")


def _heat(
    figure: Figure, axis: Axes, values: numpy.ndarray, names: Sequence[str], steps: list[int], norm: Normalize
) -> None:
    masked = numpy.ma.masked_invalid(numpy.where(values > 0, values, numpy.nan))
    mesh = axis.pcolormesh(
        steps, range(len(names)), masked, norm=norm, cmap="viridis", shading="nearest", rasterized=True
    )
    axis.set_facecolor("0.5")
    axis.set_yticks(range(len(names)), [_text(name) for name in names], fontsize=7)
    axis.invert_yaxis()
    bar = figure.colorbar(mesh, ax=axis, pad=0.01, aspect=12)
    if isinstance(norm, LogNorm) and norm.vmin is not None and norm.vmax is not None:
        bar.ax.yaxis.set_major_formatter("{x:g}")
        if norm.vmax < 30 * norm.vmin:  # hardly a power of ten to mark
            marks = [float(value) for value in numpy.geomspace(norm.vmin, norm.vmax, 4)]
            bar.set_ticks(marks, labels=apart(marks))
            bar.minorticks_off()


def _style(index: int, points: int) -> dict[str, Any]:
    """Colour, dash and marker of the line with this number."""
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "dashes": _DASHES[index % len(_DASHES)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "markersize": 4,
        "markevery": max(1, points // 8),
    }


def _label(axis: Axes, x: str, y: str) -> None:
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(alpha=0.3)


def _text(text: str) -> str:
    """Text in which nothing is mathematics, and which no legend leaves out."""
    plain = text.replace("$", r"\$")
    return f" {plain}" if plain.startswith("_") else plain
