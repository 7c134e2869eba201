"""Sections that several plans share: the paper's table, γ over time, how far rates move, accuracy along an axis."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..report import Cell, Chart, Column, Section, Series, Table
from ..report.curves import finite
from ..report.group import Method
from ..report.rates import together
from ..report.source import Entry
from ..report.text import NOTHING, mean_and_error
from ..statistics import Summary
from .grid import Grid, Problem
from .numbering import said
from .reading import Results

Maker = Callable[[Results], Section | None]


def table(grid: str, place: str, title: str) -> Maker:
    """The paper's table: its rows in its order, our number, its number, and the distance in standard errors."""

    def make(found: Results) -> Section:
        own = found.grid(grid)
        columns = [Column("method", "Method", numeric=False)]
        for problem in own.problems:
            columns += _columns(found, problem)
        rows = [
            [Cell(method.label), *(cell for one in own.problems for cell in _cells(found, grid, one, method.label))]
            for method in own.methods
        ]
        for number, column in enumerate(columns):
            if column.key.startswith("ours:"):
                _mark(rows, number)
        note = "Test accuracy after the last epoch: mean ± standard error over runs (n). ★ the best of its column."
        return Section(f"{title}: {said(place)}", (), [Table(title, columns, rows, note)])

    return make


def _columns(found: Results, problem: Problem) -> list[Column]:
    where, source = problem.title, found.plan.source
    made = [
        Column(f"ours:{where}", f"{where}, %", "Mean ± standard error over runs (n)."),
        Column(f"theirs:{where}", source, f"As the {source} gives it: mean ± standard error."),
    ]
    if as_published(found, problem):
        made.append(
            Column(f"away:{where}", f"− {source}, S.E.", "Ours less theirs, in standard errors of that difference.")
        )
    return made


def _cells(found: Results, grid: str, problem: Problem, label: str) -> list[Cell]:
    values = found.finals(grid, problem.title, label)
    ours, theirs = finite(values), published(found, problem.title, label)
    text = f"{mean_and_error(ours, percent=True)} ({len(values)})" if ours.count else NOTHING
    made = [Cell(text, ours.mean), Cell(mean_and_error(theirs, percent=True), theirs.mean)]
    if as_published(found, problem):
        away = distance(ours, theirs)
        made.append(Cell(NOTHING if math.isnan(away) else f"{away:+.1f}".replace("-", "−"), away))
    return made


def published(found: Results, problem: str, label: str) -> Summary:
    """Their number; nan where there is none."""
    for number in found.plan.published:
        if (number.problem, number.method) == (problem, label):
            return Summary(number.mean, number.error, 0)
    return Summary(math.nan, math.nan, 0)


def distance(ours: Summary, theirs: Summary) -> float:
    """Ours less theirs, in standard errors of the difference."""
    errors = [error for error in (ours.error, theirs.error) if math.isfinite(error)]
    spread = math.hypot(*errors)
    return (ours.mean - theirs.mean) / spread if spread > 0 else math.nan


def as_published(found: Results, problem: Problem) -> bool:
    """Whether model and data are the paper's own: numbers of other problems are not compared."""
    originals = [one for grid in found.plan.grids for one in grid.problems if one.title == problem.title]
    return any((one.model, one.data) == (problem.model, problem.data) for one in originals)


def _mark(rows: list[list[Cell]], column: int) -> None:
    known = [row[column].value for row in rows if math.isfinite(row[column].value)]
    for row in rows:
        if len(known) > 1 and row[column].value == max(known):
            row[column] = Cell(row[column].text, row[column].value, "best")


def weights(grid: str, places: Sequence[str], title: str, labels: Sequence[str] | None = None) -> Maker:
    """The weights γ of the levels over time, one chart for each problem and method."""

    def make(found: Results) -> Section | None:
        charts = [
            chart
            for problem in _grid(found, grid).problems
            for method in _grid(found, grid).methods
            if labels is None or method.label in labels
            for chart in _weights(found, grid, problem.title, method.label)
        ]
        where = "; ".join(said(place) for place in places)
        text = "Mean over runs of the weight γ of each level by step; the band is one standard error to either side."
        return Section(f"{title}: {where}", (text,), (), charts) if charts else None

    return make


def _grid(found: Results, name: str) -> Grid:
    return found.grid(name)


def _weights(found: Results, grid: str, problem: str, label: str) -> list[Chart]:
    method = found.method(grid, problem, label)
    view = together(method) if method is not None and method.runs else None
    if view is None or view.weights is None or view.weights.layers is not None or len(view.weights.levels) < 2:
        return []
    made = view.weights
    series = [
        Series(f"γ of {level}", view.steps, values, made.errors[i] if made.errors else None)
        for i, (level, values) in enumerate(zip(made.levels, made.values, strict=True))
    ]
    return [Chart(f"Weights γ, {problem}, {label}", "step", "weight γ", series, note=view.name)]


def final_weight(found: Results, grid: str, problem: str, label: str, level: str) -> list[float]:
    """The weight of a level at the end of every run of a cell."""
    method = found.method(grid, problem, label)
    runs = [run for run in method.counted if run.snapshots] if method else []
    return [float(run.snapshots[-1]["weights"][level]) for run in runs if run.snapshots[-1].get("weights")]


def movement(*grids: str) -> Maker:
    """How far the learning rates went from where they began, level by level."""
    columns = [
        Column("what", "Data, method", numeric=False),
        Column("n", "n", "Runs."),
        Column("level", "Level", numeric=False),
        Column("count", "Rates", "How many the level has."),
        Column("median", "Median", "Of the level's rates at the end, as a multiple of the initial rate."),
        Column("least", "Smallest", "Likewise."),
        Column("most", "Largest", "Likewise."),
        Column("weight", "γ", "The level's weight at the end, the mean over its layers if they have their own."),
        Column("tau", "τ", "Of the last step."),
        Column("together", "In the last step", "τ Σ γ · median + 1 − τ: what multiple of the initial rate is left."),
    ]

    def make(found: Results) -> Section | None:
        rows = [
            row
            for grid in grids
            for problem in found.grid(grid).problems
            for method in found.grid(grid).methods
            for row in _movement(found, grid, problem.title, method.label)
        ]
        text = (
            "Learning rates at the end of a run as multiples of the initial one, the mean over runs: where all of them "
            "are near 1, the optimizer did what its base does with a constant rate. So it did where τ is near 0: the "
            "rate of a step is τ times that of the levels, weighted by γ, plus 1 − τ times the initial one."
        )
        note = (
            "Median, smallest and largest are of the level's own rates. A schedule comes on top. Without the runs that "
            "diverged."
        )
        return Section("How far the learning rates move", (text,), [Table("", columns, rows, note)]) if rows else None

    return make


def _movement(found: Results, grid: str, problem: str, label: str) -> list[list[Cell]]:
    """A row for every level that learns, of a cell that has runs; not of those that diverged."""
    method = found.method(grid, problem, label)
    runs = _learned(method) if method else []
    if method is None or not runs:
        return []
    tau, last = _tau(runs[0]), runs[0].snapshots[-1]
    rows = []
    for level, rates in last["rates"].items():
        least, median, most = (Cell(_factor(one.mean), one.mean) for one in map(finite, _shares(runs, level)))
        count, weight = int(rates["count"]), finite(_weights_of(runs, level)).mean
        if count == 1:
            least = most = Cell("")
        what = [Cell(f"{problem}, {label}"), Cell(str(len(runs)), len(runs)), Cell(level), Cell(f"{count:,}", count)]
        rows.append([*what, median, least, most, Cell(f"{weight:.2f}", weight), Cell(f"{tau:.2g}", tau), Cell("")])
    left = rate_left(method)
    rows[0][-1] = Cell(_factor(left), left)
    return rows


def rate_left(method: Method) -> float:
    """What multiple of the initial rate is left in the last step: τ Σ γ · median + 1 − τ, the mean over runs."""
    runs = _learned(method)
    if not runs:
        return math.nan
    together = 0.0
    for level in runs[0].snapshots[-1]["rates"]:
        median = _shares(runs, level)[1]
        together += finite([one * share for one, share in zip(_weights_of(runs, level), median, strict=True)]).mean
    tau = _tau(runs[0])
    return tau * together + 1 - tau


def _learned(method: Method) -> list[Entry]:
    """The runs of a method that learned rates and did not diverge."""
    runs = [run for run in method.counted if run.snapshots and "hyper_lr" in run.config["options"]]
    return [run for run in runs if run.status != "diverged"]


def _tau(run: Entry) -> float:
    return math.exp(-float(run.config["options"].get("decay") or 0.0) * int(run.snapshots[-1]["step"]))


def _shares(runs: Sequence[Entry], level: str) -> list[list[float]]:
    """Smallest, median and largest rate of a level at the end over its median at the start, for every run."""
    ends = [_spread(run.snapshots[-1]["rates"][level]) for run in runs]
    starts = [_spread(run.snapshots[0]["rates"][level])[1] for run in runs]
    return [[end[i] / start for end, start in zip(ends, starts, strict=True)] for i in range(3)]


def _weights_of(runs: Sequence[Entry], level: str) -> list[float]:
    return [_weight(run.snapshots[-1].get("weights"), level) for run in runs]


def _weight(weights: Mapping[str, Any] | None, level: str) -> float:
    """γ of a level in a line of rates; 1 where there is one level, the mean over layers where they have their own."""
    if not weights:
        return 1.0
    if level in weights:
        return float(weights[level])
    return statistics.fmean(layer[level] for layer in weights.values())


def _spread(rates: Mapping[str, Any]) -> tuple[float, float, float]:
    """The smallest, the median and the largest rate of a level in a line of rates."""
    values = sorted(rates["values"] if "values" in rates else rates["quantiles"])
    return float(values[0]), statistics.median(values), float(values[-1])


def _factor(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.4f}" if 0.01 <= abs(value) < 100 else f"{value:.3g}"


def along(
    title: str, x: str, lines: dict[str, list[tuple[float, list[float]]]], log_x: bool = False, note: str = ""
) -> Chart:
    """Test accuracy along an axis: each line is a list of places with the final accuracies there."""
    series = []
    for name, points in lines.items():
        summaries = [finite(values) for _, values in points]
        xs = [place for place, _ in points]
        series.append(Series(name, xs, [one.mean for one in summaries], [one.error for one in summaries]))
    return Chart(title, x, "test accuracy", series, log_x=log_x, percent=True, note=note)
