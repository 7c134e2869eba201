"""What the report of the study of robustness shows besides: lost places, levels, sizes, scales of the loss, tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..report import Cell, Column, Section, Table
from ..report.text import NOTHING, probability
from ..statistics import welch
from . import robustness_methods as m
from .reading import Results
from .robustness_scores import Row, Scores, geometric, mean
from .robustness_sections import METHOD, TASK, at, cell, regret
from .robustness_tasks import ALL, SCALED, SCALES, SIZES, TASKS, Task


def lost(found: Results) -> Section | None:
    """Every place at which an opponent is better."""
    scores = Scores(found)
    ours, averaged = scores.row(m.DEFAULT), scores.averaged(m.DEFAULT)
    rows = []
    for row in scores.opponents:
        for mine, theirs in scores.common(ours, row):
            if theirs.cost < mine.cost:
                rows.append((mine.cost / theirs.cost, _lost(mine.task, mine.rate, row, ours, averaged)))
    rows.sort(key=lambda pair: -pair[0])
    columns = [
        TASK,
        Column("rate", "Initial rate"),
        Column("who", "Opponent", numeric=False),
        Column("theirs", "Theirs"),
        Column("ours", "Ours"),
        Column("averaged", "Ours, averaged", "At averaged weights; ! better than theirs."),
        Column("ratio", "Ratio", "Our error or loss, divided by theirs."),
        Column("p", "p", "Welch's test on the errors or losses of the runs, two-sided, not corrected."),
    ]
    note = "Accuracies in percent, or losses: means over runs. The largest ratio first."
    table = Table("Where an opponent is better", columns, [row for _, row in rows], note)
    return Section("Every place where an opponent is better", (), [table]) if scores.rows else None


def _lost(task: Task, rate: float, row: Row, ours: Row, averaged: Row) -> list[Cell]:
    theirs, mine, other = row.costs(task, rate), ours.costs(task, rate), mean(averaged.costs(task, rate))
    better = " !" if other < mean(theirs) else ""
    p = welch(mine, theirs)
    return [
        Cell(task.title),
        Cell(f"{rate:g}", rate),
        Cell(row.name),
        Cell(task.shown(mean(theirs)), mean(theirs)),
        Cell(task.shown(mean(mine)), mean(mine)),
        Cell(NOTHING if math.isnan(other) else f"{task.shown(other)}{better}", other),
        regret(mean(mine) / mean(theirs)),
        Cell(probability(p), p),
    ]


def levels(found: Results) -> Section | None:
    """One level, two, three: the geometric mean of the regret over initial rates, by task."""
    scores = Scores(found)
    rows = [scores.row(m.ONE_LEVEL), scores.row(m.DEFAULT), scores.row(m.THREE_LEVELS)]
    titles = ("One level", "Two levels (the default)", "Three levels")
    columns = [TASK, *(Column(title, title) for title in titles)]
    table_rows, all_of_them = [], []
    for task in scores.tasks():
        rates = [rate for rate in m.ENDS if all(row.costs(task, rate) for row in rows)]
        if rates:
            values = [geometric([at(scores, row, task, rate) for rate in rates]) for row in rows]
            all_of_them.append(values)
            table_rows.append([Cell(task.title), *_marked(values)])
    if not table_rows:
        return None
    table_rows.append(
        [Cell("geometric mean"), *_marked([geometric(column) for column in zip(*all_of_them, strict=True)])]
    )
    note = "Regret, geometric mean over the initial rates 1e-6, 1e-3 and 1. ★ the best of its row."
    return Section("Several levels against one", (), [Table("Levels", columns, table_rows, note)])


def _marked(values: Sequence[float]) -> list[Cell]:
    return [Cell(f"{value:.3f}", value, "best" if value == min(values) else "") for value in values]


def sizes(found: Results) -> Section | None:
    """Other batches and lengths, and other scales of the loss: nothing is set anew."""
    scores = Scores(found)
    tables = []
    if scores.tasks(SIZES):
        tables.append(_sizes(scores))
    scaled = [row for task in SCALED for row in _scaled(scores, task)]
    if scaled:
        columns = [TASK, METHOD, Column("rate", "Initial rate"), Column("one", "Loss × 1"), *_SCALED]
        note = "Accuracy in percent, or the loss itself without its factor: mean ± standard error over runs (n)."
        tables.append(Table("Scales of the loss", columns, scaled, note))
    return Section("Batches, lengths, scales of the loss", (), tables) if tables else None


_SCALED = [Column(f"times{scale:g}", f"Loss × {scale:g}") for scale in SCALES]


def _sizes(scores: Scores) -> Table:
    ours = scores.row(m.DEFAULT)
    columns = [TASK, Column("best", "Best constant Adam"), *(Column(f"rate{rate:g}", f"{rate:g}") for rate in m.RATES)]
    rows = []
    for task in scores.tasks(SIZES):
        best = scores.best(task)
        assert best is not None
        cells = [cell(task, ours.costs(task, rate), best[1]) for rate in m.RATES]
        rows.append([Cell(task.title), Cell(f"{task.shown(best[1])} ({best[0]:g})", best[1]), *cells])
    note = "camhd Adam by initial rate; ! outside 0.5 points, or 2 % of the loss, of the best constant rate of Adam."
    return Table("Batches and lengths", columns, rows, note)


def _scaled(scores: Scores, task: Task) -> list[list[Cell]]:
    """One row for a method and an initial rate; of a task and its scales, the first scale makes the rows."""
    if task.problem.loss_scale != SCALES[0]:
        return []
    plain = next(one for one in TASKS if one.title == task.of)
    same = [one for one in SCALED if one.of == task.of]
    rows = []
    for family, rates in ((m.DEFAULT, m.ENDS), (m.SGDN_DEFAULT, (1e-2,)), (m.SGDN, (1e-2,))):
        for rate in rates:
            cells = [cell(one, scores.costs(one, family, rate)) for one in (plain, *same)]
            if any(cell.text != NOTHING for cell in cells[1:]):
                rows.append([Cell(task.of), Cell(family.name), Cell(f"{rate:g}", rate), *cells])
    return rows


def tasks(found: Results) -> Section:
    """What was trained; in brackets, what the full study trains where that differs."""
    columns = [
        TASK,
        Column("model", "Model", numeric=False),
        Column("data", "Data", numeric=False),
        Column("batch", "Batch", numeric=False),
        Column("epochs", "Epochs", numeric=False),
        Column("judged", "Judged by", numeric=False),
        Column("fresh", "Held out", "No constant of the rule was chosen by looking at it.", numeric=False),
    ]
    trained = {problem.title: problem for grid in found.grids for problem in grid.problems}
    rows = []
    for title, problem in trained.items():
        task = ALL[title]
        names = ("model", "data", "batch_size", "epochs")
        pairs = [(str(getattr(problem, name)), str(getattr(task.problem, name))) for name in names]
        cells = [Cell(here if here == full else f"{here} ({full})") for here, full in pairs]
        judged = "test accuracy" if task.accuracy else "test loss"
        rows.append([Cell(title), *cells, Cell(judged), Cell("yes" if task.fresh else "no")])
    note = (
        "In brackets: what the full study trains. The test set that judges is the one that is shown; no run was chosen "
        "by it but that of the best constant rate of Adam."
    )
    return Section("The tasks", (), [Table("Tasks", columns, rows, note)])
