"""What the report of the study of robustness shows first: regrets, tables by task, and the pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..report import Cell, Chart, Column, Section, Series, Table
from ..report.text import NOTHING, mean_and_error
from ..statistics import Summary, summarize
from . import robustness_methods as m
from .reading import Results
from .robustness_scores import Place, Row, Scores, geometric, mean, middle
from .robustness_tasks import TASKS, Task

FRESH = tuple(task for task in TASKS if task.fresh)
DRAWN = (
    "camhd Adam",
    "camhd Adam, averaged weights",
    "Adam",
    "Adam-HD",
    "Schedule-Free AdamW",
    "Prodigy",
    "D-Adapt Adam",
    "Mechanic (Adam)",
)
METHOD = Column("method", "Method", numeric=False)
TASK = Column("task", "Task", numeric=False)


def summary(found: Results) -> Section | None:
    """All methods in one table: how much worse than the best constant rate they are, over tasks and initial rates."""
    scores = Scores(found)
    if not scores.rows:
        return None
    tables = [_summary(scores, "Regret over all tasks", TASKS)]
    if scores.tasks(FRESH):
        tables.append(_summary(scores, "Regret over the tasks that were held out", FRESH))
    text = (
        "Regret is the test error (or test loss) of a method from an initial learning rate, divided by that of the "
        "best constant learning rate of Adam on the same task, which was found afterwards among ten: 1 is as good as "
        "tuning, less is better. A run that diverged, or ended worse than guessing, counts as guessing. Methods for "
        "which there is nothing to set have one row of runs, which stands for every initial rate."
    )
    return Section("How much worse than a tuned learning rate?", (text,), tables, _overview(scores))


def _summary(scores: Scores, title: str, among: Sequence[Task]) -> Table:
    columns = [
        METHOD,
        Column("n", "Places", "Tasks × initial rates with runs."),
        Column("geometric", "Regret", "Geometric mean over these places."),
        Column("ours", "camhd there", "The same of camhd Adam, at the same places."),
        Column("middle", "Median"),
        Column("worst", "Worst"),
        Column("where", "Worst at", numeric=False),
        Column("within", "Within, %", "Places within 0.5 points of accuracy or 2 % of the loss, or better."),
        Column("wins", "Better than camhd", "Places with a smaller mean cost than camhd Adam's."),
        Column("wins_averaged", "Better than averaged", "Places with a smaller one than at its averaged weights."),
    ]
    rows = [made for row in scores.rows if (made := _summary_row(scores, row, among))]
    known = scores.tasks(among)
    note = (
        f"{_tasks(known)}, {sum(task.fresh for task in known)} of them held out: no constant of the rule was chosen by "
        "looking at those. ‘tuned’: the rate that was best with another seed."
    )
    return Table(title, columns, rows, note)


def _summary_row(scores: Scores, row: Row, among: Sequence[Task]) -> list[Cell]:
    places = list(scores.places(row, among))
    if not places:
        return []
    regrets = [place.regret for place in places]
    worst = max(places, key=lambda place: place.regret)
    ours, averaged = scores.row(m.DEFAULT), scores.averaged(m.DEFAULT)
    pairs = scores.common(ours, row, among)
    within = 100 * sum(place.within for place in places) / len(places)
    own = geometric([mine.regret for mine, _ in pairs])
    return [
        Cell(row.name),
        _count(len(places)),
        regret(geometric(regrets)),
        regret(own),
        regret(middle(regrets)),
        regret(worst.regret),
        Cell(f"{worst.task.title}, {worst.rate:g}"),
        Cell(f"{within:.0f}", within),
        *(_wins(row, one, scores.common(one, row, among)) for one in (ours, averaged)),
    ]


def _wins(row: Row, ours: Row, pairs: Sequence[tuple[Place, Place]]) -> Cell:
    """At how many places another method is better than one of ours."""
    if row.name == ours.name or not pairs:
        return Cell(NOTHING)
    wins = sum(theirs.cost < mine.cost for mine, theirs in pairs)
    return Cell(f"{wins} of {len(pairs)}", wins / len(pairs))


def regret(value: float) -> Cell:
    """A cell with a regret."""
    return Cell(NOTHING if math.isnan(value) else f"{value:.3f}", value)


def _tasks(known: Sequence[Task]) -> str:
    return f"{len(known)} task{'s' * (len(known) != 1)}"


def _count(value: int) -> Cell:
    return Cell(str(value), value)


def _overview(scores: Scores) -> list[Chart]:
    """The picture: ours flat, others not."""
    rows = [row for row in scores.rows if row.name in DRAWN]
    tasks = scores.tasks()
    rates = [rate for rate in m.RATES if tasks and all(rate in scores.rates(task) for task in tasks)]
    complete = [row for row in rows if all(row.costs(task, rate) for task in tasks for rate in rates)]
    regrets = [
        Series(row.name, rates, [geometric([at(scores, row, task, rate) for task in tasks]) for rate in rates])
        for row in complete
    ]
    judged = [task for task in tasks if task.accuracy]
    accuracies = [
        Series(row.name, rates, [1 - mean([mean(row.costs(task, rate)) for task in judged]) for rate in rates])
        for row in complete
    ]
    note = f"Of the methods that have been run everywhere, over {_tasks(tasks)}."
    charts = [Chart("Regret against the initial rate", X, "regret", regrets, log_x=True, log_y=True, note=note)]
    if judged:
        note = f"The mean over the {len(judged)} tasks that are judged by an accuracy."
        title = "Accuracy against the initial rate"
        charts.append(Chart(title, X, "test accuracy", accuracies, log_x=True, percent=True, note=note))
    return [chart for chart in charts if chart.series and rates]


X = "initial learning rate"


def at(scores: Scores, row: Row, task: Task, rate: float) -> float:
    """The regret of a method at a place."""
    return mean(row.costs(task, rate)) / scores.reference(task)


def by_task(found: Results) -> Section | None:
    """One table and one picture for each task."""
    scores = Scores(found)
    tasks = scores.tasks()
    text = (
        "Test accuracy in percent, or test loss, after the last epoch: mean ± standard error over runs (n). ! outside "
        "0.5 points, or 2 % of the loss, of the best constant rate of Adam. ★ the best of its column."
    )
    tables = [_of_task(scores, task) for task in tasks]
    charts = [chart for task in tasks for chart in _chart(scores, task)]
    return Section("Task by task", (text,), tables, charts) if tasks else None


def _of_task(scores: Scores, task: Task) -> Table:
    rates = scores.rates(task)
    columns = [METHOD, *(Column(f"rate{rate:g}", f"{rate:g}") for rate in rates)]
    rows = [
        [Cell(row.name), *(cell(task, row.costs(task, rate), scores.reference(task)) for rate in rates)]
        for row in scores.rows
    ]
    rows = [row for row in rows if any(cell.text != NOTHING for cell in row[1:])]
    for number in range(1, len(columns)):
        _mark(rows, number)
    best = scores.best(task)
    held_out = "Held out. " if task.fresh else ""
    note = f"{held_out}The best constant rate of Adam: {best[0]:g}, {task.shown(best[1])}." if best else held_out
    return Table(task.title, columns, rows, note)


def cell(task: Task, costs: Sequence[float], reference: float = math.nan) -> Cell:
    """The mean over runs; with a ! if it is outside what is allowed around a reference."""
    if not costs:
        return Cell(NOTHING)
    found = summarize(costs)
    value = 1 - found.mean if task.accuracy else found.mean - task.floor
    text = mean_and_error(Summary(value, found.error, found.count), percent=task.accuracy)
    outside = " !" if found.mean > task.allowed(reference) else ""
    return Cell(f"{text} ({found.count}){outside}", found.mean)


def _mark(rows: list[list[Cell]], column: int) -> None:
    known = [row[column].value for row in rows if math.isfinite(row[column].value)]
    for row in rows:
        if len(known) > 1 and row[column].value == min(known):
            row[column] = Cell(row[column].text, row[column].value, "best")


def _chart(scores: Scores, task: Task) -> list[Chart]:
    rates = scores.rates(task)
    series = []
    for row in scores.rows:
        found = [summarize(row.costs(task, rate)) for rate in rates]
        if row.name in DRAWN and all(one.count for one in found):
            ys = [1 - one.mean if task.accuracy else one.mean - task.floor for one in found]
            series.append(Series(row.name, rates, ys, [one.error for one in found]))
    y = "test accuracy" if task.accuracy else "test loss"
    title = f"{task.title} against the initial rate"
    return [Chart(title, X, y, series, log_x=True, percent=task.accuracy)] if series else []
