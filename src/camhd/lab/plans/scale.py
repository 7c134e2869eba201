"""The scales of a plan: what `cpu` and `smoke` do differently from the paper, and saying so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .grid import Grid, Method, Problem

SCALES = ("smoke", "cpu", "paper")
MANY = 4  # more than these are counted and not named


@dataclass(frozen=True)
class Change:
    """What a scale does differently from the paper; what is not named stays the paper's.

    Mappings are by the title of a problem, with "" for all others. Those of models and data are by the title or by the
    paper's own.

    Args:
        seeds: how many.
        more_seeds: another number of them, by problem.
        epochs: by problem.
        batch_size: by problem.
        models: the paper's model to another.
        data: the paper's data set to another.
        problems: titles of those that are kept.
        methods: labels of those that are kept.
        schedules: the paper's schedule to another.
        augment: False for none.
        dtype: of all problems.
    """

    seeds: int | None = None
    more_seeds: Mapping[str, int] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    batch_size: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    schedules: Mapping[str, str] = field(default_factory=dict)
    augment: bool = True
    dtype: str | None = None

    def apply(self, grid: Grid) -> Grid:
        """The grid at this scale."""
        problems = [self._problem(one) for one in grid.problems if self.problems is None or one.title in self.problems]
        methods = [self._method(one) for one in grid.methods if self.methods is None or one.label in self.methods]
        return replace(
            grid,
            problems=tuple(problems),
            methods=tuple(methods),
            seeds=self.seeds or grid.seeds,
        )

    def _problem(self, problem: Problem) -> Problem:
        return replace(
            problem,
            model=self.models.get(problem.title, self.models.get(problem.model, problem.model)),
            data=self.data.get(problem.title, self.data.get(problem.data, problem.data)),
            epochs=_of(self.epochs, problem.title, problem.epochs),
            batch_size=_of(self.batch_size, problem.title, problem.batch_size),
            augment=problem.augment if self.augment else None,
            dtype=self.dtype or problem.dtype,
            seeds=_of(self.more_seeds, problem.title, problem.seeds),
        )

    def _method(self, method: Method) -> Method:
        return replace(method, schedule=self.schedules.get(method.schedule or "", method.schedule))


def _of(values: Mapping[str, Any], title: str, otherwise: Any) -> Any:
    return values.get(title, values.get("", otherwise))


def differences(paper: Grid, grid: Grid) -> list[str]:
    """What was reduced or exchanged, in words: the two grids are compared, nothing is written twice."""
    if paper.problems and not grid.problems:
        return ["left out"]
    found = []
    if grid.seeds != paper.seeds:
        found.append(f"{grid.seeds} seed{'s' * (grid.seeds != 1)} instead of {paper.seeds}")
    found += _left_out("problem", [one.title for one in paper.problems], [one.title for one in grid.problems])
    found += _left_out("method", [one.label for one in paper.methods], [one.label for one in grid.methods])
    originals = {one.title: one for one in paper.problems}
    for name, words in _WORDS.items():
        changed: dict[tuple[Any, Any], list[str]] = {}
        for problem in grid.problems:
            before, after = getattr(originals[problem.title], name), getattr(problem, name)
            if before != after:
                changed.setdefault((before, after), []).append(problem.title)
        for (before, after), titles in changed.items():
            where = "" if len(titles) == len(grid.problems) else f" ({', '.join(titles)})"
            said = words.format(before=_shown(name, before), after=_shown(name, after))
            found.append(said.replace("1 epochs ", "1 epoch ") + where if after == 1 else said + where)
    schedules = {one.label: one.schedule for one in paper.methods}
    found += list(
        dict.fromkeys(
            f"schedule {one.schedule or 'none'} instead of {schedules[one.label] or 'none'}"
            for one in grid.methods
            if one.schedule != schedules[one.label]
        )
    )
    return found


_WORDS = {
    "model": "model {after} instead of {before}",
    "data": "data {after} instead of {before}",
    "epochs": "{after} epochs instead of {before}",
    "batch_size": "batches of {after} instead of {before}",
    "augment": "augmentation {after} instead of {before}",
    "dtype": "{after} instead of {before}",
    "seeds": "{after} seeds",
}


def _left_out(what: str, all_of_them: Sequence[str], kept: Sequence[str]) -> list[str]:
    missing = [name for name in all_of_them if name not in kept]
    if len(missing) > MANY:
        return [f"{len(kept)} of {len(all_of_them)} {what}s"]
    return [f"without the {what}{'s' * (len(missing) > 1)} {', '.join(missing)}"] if missing else []


def _shown(name: str, value: Any) -> str:
    return {"batch_size": "the paper's size"}.get(name, "none") if value is None else str(value)
