"""From the records of the study of robustness to costs, and to regrets against the best constant learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..report.group import Method
from ..report.source import Entry
from . import robustness_methods as m
from .reading import Results
from .robustness_methods import Family
from .robustness_tasks import SIZES, TASKS, Task

TUNING = "tuning"  # the grid whose runs only choose a rate


@dataclass(frozen=True)
class Row:
    """A method as a table shows it.

    Args:
        name: of it.
        costs: of its runs on a task from an initial rate; [] if there are none.
    """

    name: str
    costs: Callable[[Task, float], list[float]]


@dataclass(frozen=True)
class Place:
    """A task and an initial rate, with the mean cost of a method there.

    Args:
        task: the task.
        rate: the initial rate.
        cost: the mean over runs.
        regret: the cost, divided by that of the best constant rate of Adam on the same task.
    """

    task: Task
    rate: float
    cost: float
    regret: float

    @property
    def within(self) -> bool:
        """Half a point, or 2 % of the loss, around the best constant rate; or better than it."""
        return self.cost <= self.task.allowed(self.cost / self.regret) * (1 + 1e-12)


class Scores:
    """What the records say.

    Args:
        found: the results of the plan.
    """

    def __init__(self, found: Results) -> None:
        self._cells: dict[tuple[str, str], Method] = {}
        self._tuning: dict[tuple[str, str], Method] = {}
        for (grid, title), task in found.tasks.items():
            cells = self._tuning if grid == TUNING else self._cells
            cells.update({(title, method.label): method for method in task.methods})
        self._best: dict[str, tuple[float, float] | None] = {}

    def tasks(self, among: Sequence[Task] = TASKS) -> list[Task]:
        """Those with runs of every rate of Adam, that is with a reference."""
        return [task for task in among if self.best(task) is not None]

    def rates(self, task: Task) -> list[float]:
        """The initial rates of the study on a task, at this scale."""
        return [rate for rate in m.RATES if (task.title, m.DEFAULT.label(rate)) in self._cells]

    def costs(self, task: Task, family: Family, rate: float) -> list[float]:
        """Of every finished run; a run that diverged knows nothing."""
        return _costs(task, self._cells.get((task.title, family.label(rate))))

    def best(self, task: Task) -> tuple[float, float] | None:
        """The best constant rate of Adam and its mean cost; None as long as a rate has no run."""
        if task.title not in self._best:
            kept = [rate for rate in m.ADAM.rates if (task.title, m.ADAM.label(rate)) in self._cells]
            found = [(mean(self.costs(task, m.ADAM, rate)), rate) for rate in kept]
            complete = bool(found) and not any(math.isnan(cost) for cost, _ in found)
            self._best[task.title] = min(found)[::-1] if complete else None
        return self._best[task.title]

    def reference(self, task: Task) -> float:
        """The mean cost of the best constant rate; nan if it is not known yet."""
        found = self.best(task)
        return found[1] if found else math.nan

    def row(self, family: Family) -> Row:
        """A family, at the rate that is asked for."""
        return Row(family.name, lambda task, rate: self.costs(task, family, rate))

    def averaged(self, family: Family) -> Row:
        """The same runs at averaged weights, as far as they say it: records of earlier versions do not."""

        def costs(task: Task, rate: float) -> list[float]:
            return _costs(task, self._cells.get((task.title, family.label(rate))), task.averaged_metric)

        return Row(f"{family.name}, averaged weights", costs)

    def tuned(self, family: Family) -> Row:
        """A family at the rate that is best with the seed of the tuning, whatever rate is asked for."""

        def costs(task: Task, rate: float) -> list[float]:
            tried = [
                (mean(_costs(task, self._tuning.get((task.title, family.label(one))))), one) for one in family.rates
            ]
            known = [(cost, one) for cost, one in tried if not math.isnan(cost)]
            return self.costs(task, family, min(known)[1]) if len(known) == len(tried) else []

        return Row(f"{family.name}, tuned", costs)

    @cached_property
    def ours(self) -> list[Row]:
        """The default, at its last weights and at averaged ones, as far as there are runs."""
        return self._known([self.row(m.DEFAULT), self.averaged(m.DEFAULT)])

    @cached_property
    def opponents(self) -> list[Row]:
        """All of which there is a run."""
        return self._known([*(self.row(one) for one in m.OPPONENTS), *(self.tuned(one) for one in m.SCHEDULED)])

    @property
    def rows(self) -> list[Row]:
        """The default, then all opponents."""
        return [*self.ours, *self.opponents]

    def _known(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if any(True for _ in self.places(row, (*TASKS, *SIZES)))]

    def places(self, row: Row, among: Sequence[Task] = TASKS) -> Iterator[Place]:
        """Where a method has runs and a reference to be compared with."""
        for task in self.tasks(among):
            for rate in self.rates(task):
                cost = mean(row.costs(task, rate))
                if not math.isnan(cost):
                    yield Place(task, rate, cost, cost / self.reference(task))

    def common(self, first: Row, second: Row, among: Sequence[Task] = TASKS) -> list[tuple[Place, Place]]:
        """Places at which both have runs."""
        others = {(place.task.title, place.rate): place for place in self.places(second, among)}
        keys = ((place, (place.task.title, place.rate)) for place in self.places(first, among))
        return [(place, others[key]) for place, key in keys if key in others]

    def advantage(self, first: Row, second: Row, among: Sequence[Task] = TASKS) -> dict[str, float]:
        """By task, the mean over initial rates of ln(second cost / first cost): above 0, the first method wins."""
        found: dict[str, list[float]] = {}
        for one, other in self.common(first, second, among):
            found.setdefault(one.task.title, []).append(math.log(other.cost / one.cost))
        return {title: sum(values) / len(values) for title, values in found.items()}


def mean(values: Sequence[float]) -> float:
    """Nan of nothing."""
    return sum(values) / len(values) if values else math.nan


def geometric(values: Sequence[float]) -> float:
    """The geometric mean; nan of nothing.

    >>> geometric([1.0, 4.0])
    2.0
    """
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def middle(values: Sequence[float]) -> float:
    """The median; nan of nothing.

    >>> middle([3.0, 1.0, 2.0]), middle([1.0, 2.0])
    (2.0, 1.5)
    """
    if not values:
        return math.nan
    order, half = sorted(values), len(values) // 2
    return order[half] if len(values) % 2 else (order[half - 1] + order[half]) / 2


def _costs(task: Task, method: Method | None, metric: str = "") -> list[float]:
    """Of the runs that say what they are judged by; those that diverged need not."""
    metric = metric or task.metric
    runs = [run for run in method.counted if run.status == "diverged" or metric in run.final] if method else []
    return [_cost(task, run, metric) for run in runs]


def _cost(task: Task, run: Entry, metric: str) -> float:
    return task.cost(math.nan if run.status == "diverged" else run.final[metric])
