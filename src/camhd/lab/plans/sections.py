"""Sections that several plans share: the paper's table, γ over time, accuracy along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..report import Cell, Chart, Column, Section, Series, Table
from ..report.curves import finite
from ..report.rates import together
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
    errors = made.errors or [None] * len(made.levels)  # type: ignore[list-item]
    series = [
        Series(f"γ of {level}", view.steps, values, error)
        for level, values, error in zip(made.levels, made.values, errors, strict=True)
    ]
    return [Chart(f"Weights γ, {problem}, {label}", "step", "weight γ", series, note=view.name)]


def final_weight(found: Results, grid: str, problem: str, label: str, level: str) -> list[float]:
    """The weight of a level at the end of every run of a cell."""
    method = found.method(grid, problem, label)
    runs = [run for run in method.counted if run.snapshots] if method else []
    return [float(run.snapshots[-1]["weights"][level]) for run in runs if run.snapshots[-1].get("weights")]


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
