"""The records of a plan, sorted into its problems and methods; nothing else is read, and nothing is trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..records import Run
from ..report.group import Method, Task
from ..report.source import Entry, entries
from . import measuring
from .grid import Grid, Problem, key, key_of
from .measuring import Measured
from .plan import Plan


@dataclass
class Results:
    """What there is of a plan at a scale.

    Args:
        plan: the plan.
        scale: its scale.
        grids: of that scale.
        tasks: by grid and problem; methods without any record are in them too, without runs.
        problems: runs that are not finished, or could not be read.
        measured: the measurements.
    """

    plan: Plan
    scale: str
    grids: tuple[Grid, ...]
    tasks: dict[tuple[str, str], Task]
    problems: list[Entry] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)

    def method(self, grid: str, problem: str, label: str) -> Method | None:
        """The runs of a cell; None if the scale leaves it out."""
        task = self.tasks.get((grid, problem))
        return next((method for method in task.methods if method.label == label), None) if task else None

    def finals(self, grid: str, problem: str, label: str, metric: str = "valid_accuracy") -> list[float]:
        """The metric at the end of every run of a cell."""
        method = self.method(grid, problem, label)
        return method.finals(metric) if method else []

    def limit(self, grid: str, problem: str) -> int:
        """The most steps that a run of a problem may take; 0 if there is no run yet."""
        methods = self.tasks[grid, problem].methods
        found = [run for method in methods for run in method.runs if run.start.get("steps_per_epoch")]
        return int(found[0].start["steps_per_epoch"]) * int(found[0].config["epochs"]) if found else 0

    def of(self, kind: str) -> list[Measured]:
        """The measurements of a kind, in the plan's order."""
        return [one for one in self.measured if one.measurement.kind == kind]

    def grid(self, name: str) -> Grid:
        """By name."""
        return next(grid for grid in self.grids if grid.name == name)

    def seeds(self, name: str, title: str) -> int:
        """How many a problem of a grid is to have."""
        grid = self.grid(name)
        return next(len(grid.seeds_of(problem)) for problem in grid.problems if problem.title == title)

    @property
    def count(self) -> int:
        """Runs (unfinished ones too) and measurements that are there."""
        runs = {run.where for task in self.tasks.values() for method in task.methods for run in method.runs}
        return len(runs) + len(self.measured)

    @property
    def missing(self) -> int:
        """Runs and measurements that the plan asks for and that are not there."""
        wanted = len(self.plan.items(self.scale)) + len(self.plan.measurements.get(self.scale, ()))
        runs = {run.where for task in self.tasks.values() for method in task.methods for run in method.counted}
        return wanted - len(runs) - len(self.measured)


def results(plan: Plan, scale: str, source: str | Path | Sequence[Run], also: Sequence[Measured] = ()) -> Results:
    """Read the records of a plan; those of other plans and scales that lie there are left alone.

    Args:
        plan: the plan.
        scale: its scale.
        source: the folder of the records, or runs that have been read.
        also: measurements that have been read; those in the folder, if it is one, are read beside them.
    """
    grids = plan.at(scale)
    often = Counter(problem.title for _, problem in _cells(grids))
    tasks = {
        (grid.name, one.title): Task(
            one.model, one.data, "full", title=one.title if often[one.title] == 1 else f"{one.title}, {grid.name}"
        )
        for grid, one in _cells(grids)
    }
    places = _places(grids, tasks)
    problems: list[Entry] = []
    for entry in sorted(entries(source), key=lambda one: (int(one.config.get("seed", 0)), one.where)):
        cells = places.get(key(entry.config), []) if entry.config else []
        for method in cells:
            method.config = method.config or {k: v for k, v in entry.config.items() if k not in ("id", "seed", "label")}
            method.runs.append(entry)
        if (cells or not entry.config) and (entry.reason or entry.status not in ("finished", "stopped")):
            problems.append(entry)
    _check_one_data(tasks)
    wanted = [one.id for one in plan.measurements.get(scale, ())]
    lying = measuring.read(source) if isinstance(source, (str, Path)) else []
    found = {one.measurement.id: one for one in (*also, *lying)}
    return Results(plan, scale, grids, tasks, problems, [found[name] for name in wanted if name in found])


def _cells(grids: tuple[Grid, ...]) -> Iterator[tuple[Grid, Problem]]:
    for grid in grids:
        yield from ((grid, problem) for problem in grid.problems)


def _places(grids: tuple[Grid, ...], tasks: Mapping[tuple[str, str], Task]) -> dict[str, list[Method]]:
    """Where a run with a given configuration belongs."""
    places: dict[str, list[Method]] = {}
    for grid, problem in _cells(grids):
        task = tasks[grid.name, problem.title]
        for row in grid.methods:
            method = Method(row.label, {}, name=row.label)
            task.methods.append(method)
            for seed in grid.seeds_of(problem):
                places.setdefault(key_of(grid.item(problem, row, seed)), []).append(method)
    return places


def _check_one_data(tasks: Mapping[tuple[str, str], Task]) -> None:
    for (_, title), task in tasks.items():
        prints = {str(run.config.get("fingerprint")) for method in task.methods for run in method.runs}
        if len(prints) > 1:
            raise ValueError(
                f"the records of {title!r} are of {len(prints)} different copies of the data {task.data!r}; put them "
                "into folders of their own."
            )
