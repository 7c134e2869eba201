"""The page's data: everything the report shows, as one JSON document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import rates
from .curves import POINTS, curves
from .group import Method, Task, flat, shown
from .pack import pack
from .rates import Level, View
from .section import as_data, table_data
from .source import COLUMNS, Entry
from .study import Study
from .summary import Published, headline, table
from .text import number

# A page holds at most so many points of curves and so many rates: about 5 MB.
CURVE_POINTS = 300_000
RATE_CELLS = 1_200_000


def data(study: Study) -> dict[str, Any]:
    """The JSON document that the page's program reads."""
    environments = Environments()
    count = sum(len(task.methods) * len(task.metrics) for task in study.tasks)
    points = max(20, min(POINTS, CURVE_POINTS // max(count, 1)))
    views = Views(study.tasks)
    return {
        "title": study.title,
        "remarks": list(study.remarks),
        "sections": [as_data(section) for section in study.sections],
        "tasks": [_task(task, study.published, points, views, environments) for task in study.tasks],
        "problems": [_problem(run) for run in study.problems],
        "environments": environments.found,
        "points": points,
        "columns": COLUMNS,
        "left_out": views.left_out,
    }


def _task(
    task: Task, published: Sequence[Published], points: int, views: Views, environments: Environments
) -> dict[str, Any]:
    notes = dict.fromkeys(
        str(run.start.get("note")) for method in task.methods for run in method.runs if run.start.get("note")
    )
    return {
        "name": task.name,
        "headline": headline(task),
        "model": task.model,
        "data": task.data,
        "split": task.split,
        "notes": list(notes),
        "metrics": [vars(metric) for metric in task.metrics],
        "table": table_data(table(task, published)),
        "differing": task.differing,
        "methods": [_method(task, method, points, views, environments) for method in task.methods],
    }


def _method(task: Task, method: Method, points: int, views: Views, environments: Environments) -> dict[str, Any]:
    found = curves(method, task.metrics, points)
    main = task.metrics[0].key if task.metrics else ""
    return {
        "name": method.name,
        "unfinished": not method.counted,
        "epochs": found.epochs,
        "seconds": [number(second, 4) for second in found.seconds],
        "curves": {
            key: {
                "mean": [number(one.mean) for one in values],
                "error": [number(one.error, 3) for one in values],
                "count": [one.count for one in values],
            }
            for key, values in found.values.items()
        },
        "finals": [number(value) for value in method.finals(main)],
        "step_ms": [number(run.time.get("step_ms", math.nan), 4) for run in method.counted],
        "share": [number(_share(run), 4) for run in method.counted],
        "config": {key: shown(value) for key, value in flat(method.config).items()},
        "runs": [_run(run, main, environments) for run in method.runs],
        "rates": [_view(view) for view in views.of(method)],
    }


def _share(run: Entry) -> float:
    """The share of the optimizer in the time of training."""
    seconds = sum(row["train_seconds"] for row in run.epochs)
    return sum(row["optimizer_seconds"] for row in run.epochs) / seconds if seconds else math.nan


def _run(run: Entry, main: str, environments: Environments) -> dict[str, Any]:
    return {
        "id": str(run.config.get("id", run.where)),
        "seed": shown(run.config.get("seed")),
        "split": shown(run.config.get("split")),
        "status": run.status,
        "epochs": len(run.epochs),
        "final": number(run.final.get(main, math.nan)),
        "best": number(run.best.get(main, math.nan)),
        "seconds": number(run.time.get("seconds", math.nan), 4),
        "environment": environments.number(run.environment),
    }


def _problem(run: Entry) -> dict[str, Any]:
    return {
        "where": run.where,
        "status": run.status,
        "reason": run.reason,
        "label": shown(run.config.get("label") or run.config.get("optimizer", "")),
        "seed": shown(run.config.get("seed", "")),
    }


class Environments:
    """The different machines and versions, each once."""

    def __init__(self) -> None:
        self.found: list[dict[str, str]] = []

    def number(self, environment: Mapping[str, Any]) -> int | None:
        """The position of one among those found so far."""
        values = {key: shown(value) for key, value in flat(environment).items()}
        if not values:
            return None
        if values not in self.found:
            self.found.append(values)
        return self.found.index(values)


class Views:
    """The rates that go into the page: first the mean of every method, then single runs, until it is full."""

    def __init__(self, tasks: Sequence[Task], room: int = RATE_CELLS) -> None:
        self.left_out = {"methods": 0, "runs": 0}
        self._views: dict[int, list[View]] = {}
        methods = [method for task in tasks for method in task.methods]
        for method, run in self._wanted(methods):
            view = None
            if room > 0:
                view = rates.together(method) if run is None else rates.single(run)
            if view is None:
                self.left_out["methods" if run is None else "runs"] += room <= 0
                continue
            room -= view.size
            self._views.setdefault(id(method), []).append(view)

    @staticmethod
    def _wanted(methods: Sequence[Method]) -> Iterator[tuple[Method, Entry | None]]:
        recorded = {id(method): [run for run in method.shown if run.snapshots] for method in methods}
        yield from ((method, None) for method in methods if recorded[id(method)])
        for turn in range(max(map(len, recorded.values()), default=0)):
            for method in methods:
                runs = recorded[id(method)]
                if len(runs) > 1 and turn < len(runs):
                    yield method, runs[turn]

    def of(self, method: Method) -> list[View]:
        """Those of one method; the mean first."""
        return self._views.get(id(method), [])


def _view(view: View) -> dict[str, Any]:
    made: dict[str, Any] = {"name": view.name, "steps": view.steps, "levels": [_level(one) for one in view.levels]}
    if view.weights is not None and len(view.weights.levels) > 1:
        weights = view.weights
        made["weights"] = {
            "levels": weights.levels,
            "layers": weights.layers,
            "values": pack(weights.values, log=False),
        }
        if weights.errors is not None:
            made["weights"]["errors"] = pack(weights.errors, log=False)
    return made


def _level(level: Level) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": level.name,
        "count": level.count,
        "groups": level.groups,
        "values": pack(level.values, log=True),
    }
    if level.errors is not None and level.groups is not None:
        made["errors"] = pack(level.errors, log=True)
    if level.histogram is not None:
        made["histogram"] = pack(level.histogram, log=False)
        made["low"], made["high"] = level.low, level.high
    return made
