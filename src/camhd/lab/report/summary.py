"""The table of a task: what each method reached, how sure that is, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..statistics import Summary, welch
from .curves import finite
from .group import Method, Metric, Task
from .text import NOTHING, duration, mean_and_error, probability

# Below this a difference is marked. The page says that p-values are not corrected for their number.
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Published:
    """A number of somebody else's, to be put beside ours.

    Args:
        model: As in the runs' configuration.
        data: As in the runs' configuration.
        method: A label or an optimizer's name, as in the runs' configuration.
        mean: Of the task's first metric, in the unit of the records (0.9812, not 98.12).
        error: Its standard error, if known.
        source: Who says so; the title of the column.
    """

    model: str
    data: str
    method: str
    mean: float
    error: float = math.nan
    source: str = "paper"


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, what it means, and whether it holds numbers."""

    key: str
    title: str
    note: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Cell:
    """What stands in a table, and what it is sorted by.

    `mark` is `best` in its column, `better` or `worse` than the first row beyond chance, or nothing.
    """

    text: str
    value: float = math.nan
    mark: str = ""


Maker = Callable[[Method], Cell]


ABOUT = "Mean ± standard error over n runs; p of Welch's test against the first row."


@dataclass(frozen=True)
class Table:
    """The summary of a task, or a table of one's own; `note` is said below it."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    note: str = ABOUT


def table(task: Task, published: Sequence[Published] = ()) -> Table:
    """One row per method, in the task's order."""
    makers: list[tuple[Column, Maker]] = [
        (Column("method", "Method", numeric=False), lambda method: Cell(method.name)),
        (Column("n", "n", "Runs that count: seeds or folds."), _count),
        *_metrics(task),
        *_published(task, published),
        (Column("step_ms", "ms/step", "Time of the optimizer's step: the median of each run, averaged."), _step),
        (Column("seconds", "Time", "Time of a whole run, averaged."), _time),
    ]
    columns = [column for column, _ in makers]
    rows = [[maker(method) for _, maker in makers] for method in task.methods]
    higher = {f"{kind}:{metric.key}": metric.higher for metric in task.metrics for kind in ("final", "best")}
    for i, column in enumerate(columns):
        if column.key in higher:
            _mark_best(rows, i, higher[column.key])
    return Table(task.name, columns, rows)


def headline(task: Task) -> str:
    """The outcome in a sentence or two: who did best, by how much, and whether chance explains it."""
    if not task.metrics:
        return ""
    main = task.metrics[0]
    means = [(finite(method.finals(main.key)), method) for method in task.methods]
    ranked = [(summary, method) for summary, method in means if summary.count]
    if not ranked:
        return "No run has finished yet."
    summary, best = (max if main.higher else min)(ranked, key=lambda one: one[0].mean)
    unit = " %" if main.percent else ""
    what = main.title
    if len(ranked) > 1:
        what = f"{'Highest' if main.higher else 'Lowest'} {what[0].lower()}{what[1:]}"
    said = f"{what} at the end: {best.name}, {mean_and_error(summary, main.percent)}{unit} (n = {summary.count})."
    first = task.methods[0]
    if len(ranked) < 2:
        return said
    if best is first:
        return f"{said} No other method is {'above' if main.higher else 'below'} it."
    p = welch(best.finals(main.key), first.finals(main.key))
    away = abs(summary.mean - finite(first.finals(main.key)).mean) * (100 if main.percent else 1)
    gap = (f"{away:.2f} points" if main.percent else f"{away:.3g}") + (" above " if main.higher else " below ")
    if math.isnan(p):
        return f"{said} That is {gap}{first.name}; there are too few runs to tell it from chance."
    # The best of several was picked, so its p-value is corrected for their number (Bonferroni).
    others = len(ranked) - 1
    verdict = "more than chance explains" if p * others < SIGNIFICANT else "which may be chance"
    note = f"; {probability(min(1.0, p * others))} corrected for {others} comparisons" if others > 1 else ""
    return f"{said} That is {gap}{first.name}, {verdict} (p {'' if p < 1e-4 else '= '}{probability(p)}{note})."


def _metrics(task: Task) -> list[tuple[Column, Maker]]:
    """The first metric at the end and in its best epoch, the p-value, and losses."""
    if not task.metrics or not task.methods:
        return []
    main, first = task.metrics[0], task.methods[0]
    unit = ", %" if main.percent else ""
    end = f"{main.title} after the last epoch, mean ± standard error over runs."
    best = f"{main.title} in the best epoch of each run, mean ± standard error over runs."
    against = f"Welch's test: how likely a difference from {first.name!r} at least as large would be by chance alone."
    found: list[tuple[Column, Maker]] = [
        (Column(f"final:{main.key}", f"{main.title}{unit}", end), lambda m: _mean(m, m.finals(main.key), main)),
        (Column(f"best:{main.key}", "Best epoch", best), lambda m: _mean(m, m.bests(main.key), main)),
        (Column("p", "p", against), lambda m: _chance(m, first, main)),
    ]
    for metric in task.metrics[1:]:
        if metric.key in ("valid_loss", "train_loss") or metric.key == "valid_accuracy":
            note = f"{metric.title} after the last epoch, mean ± standard error over runs."
            title = metric.title + (", %" if metric.percent else "")
            found.append((Column(f"final:{metric.key}", title, note), _final(metric)))
    return found


def _final(metric: Metric) -> Maker:
    return lambda method: _mean(method, method.finals(metric.key), metric)


def _mean(method: Method, values: list[float], metric: Metric) -> Cell:
    summary = finite(values)
    text = mean_and_error(summary, metric.percent)
    if 0 < summary.count < len(values):
        text += f" ({summary.count} of {len(values)})"
    return Cell(text, summary.mean)


def _chance(method: Method, first: Method, metric: Metric) -> Cell:
    if method is first:
        return Cell(NOTHING)
    own, theirs = method.finals(metric.key), first.finals(metric.key)
    p = welch(own, theirs)
    if not p < SIGNIFICANT:
        return Cell(probability(p), p)
    better = (finite(own).mean > finite(theirs).mean) == metric.higher
    return Cell(probability(p), p, "better" if better else "worse")


def _count(method: Method) -> Cell:
    counted, diverged = len(method.counted), sum(run.status == "diverged" for run in method.counted)
    text = str(counted) if counted == len(method.runs) else f"{counted} of {len(method.runs)}"
    return Cell(text + (f" ({diverged} diverged)" if diverged else ""), counted)


def _step(method: Method) -> Cell:
    mean = finite([run.time["step_ms"] for run in method.counted if "step_ms" in run.time]).mean
    return Cell(NOTHING if math.isnan(mean) else f"{mean:.3g}" if mean < 100 else f"{mean:.0f}", mean)


def _time(method: Method) -> Cell:
    mean = finite([run.time["seconds"] for run in method.counted if "seconds" in run.time]).mean
    return Cell(duration(mean), mean)


def _published(task: Task, published: Sequence[Published]) -> list[tuple[Column, Maker]]:
    """Their number, and how far ours is from it, in standard errors of the difference."""
    mine = [found for found in published if (found.model, found.data) == (task.model, task.data)]
    if not task.metrics:
        return []
    main, unit = task.metrics[0], ", %" if task.metrics[0].percent else ""
    found: list[tuple[Column, Maker]] = []
    for source in dict.fromkeys(one.source for one in mine):
        theirs = {one.method: Summary(one.mean, one.error, 0) for one in mine if one.source == source}

        def number(method: Method, theirs: dict[str, Summary] = theirs) -> Cell:
            summary = _of(theirs, method)
            return Cell(mean_and_error(summary, main.percent), summary.mean)

        def distance(method: Method, theirs: dict[str, Summary] = theirs) -> Cell:
            ours, summary = finite(method.finals(main.key)), _of(theirs, method)
            errors = [error for error in (ours.error, summary.error) if math.isfinite(error)]
            spread = math.hypot(*errors)
            away = (ours.mean - summary.mean) / spread if spread > 0 else math.nan
            return Cell(NOTHING if math.isnan(away) else f"{away:+.1f}".replace("-", "−"), away)

        note = "Ours less theirs, in standard errors of that difference."
        found.append((Column(f"published:{source}", f"{source}{unit}", f"As given in: {source}."), number))
        found.append((Column(f"distance:{source}", f"− {source}, S.E.", note), distance))
    return found


def _of(theirs: dict[str, Summary], method: Method) -> Summary:
    return next((theirs[name] for name in method.names if name in theirs), Summary(math.nan, math.nan, 0))


def _mark_best(rows: list[list[Cell]], column: int, higher: bool) -> None:
    values = [row[column].value for row in rows if math.isfinite(row[column].value)]
    if len(values) > 1:
        best = max(values) if higher else min(values)
        for row in rows:
            if row[column].value == best:
                row[column] = replace(row[column], mark="best")
