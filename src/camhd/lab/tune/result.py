"""What came out of a study: its trials, the best of them, and what mattered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..records import RunConfig
from ..records.files import write
from .storage import package, settled, unwarned
from .task import Task
from .trial import BEST_EPOCHS, ERROR, RUNS, SPENT, WORST

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

BEST, REPORT = "best.json", "report.html"
ENOUGH = 4  # judged trials, without which nothing is said of importance


@dataclass(frozen=True)
class Row:
    """One trial.

    Args:
        number: in the study, from 0.
        state: `complete`, `pruned` (stopped as hopeless) or `failed`.
        found: what was searched, and what this trial took.
        loss: by which it is judged, the mean over the folds; `inf` where a run diverged, `nan` where there is none.
        epochs: of its runs in all.
        seconds: of its runs in all.
        runs: names of their folders.
        error: why it failed.
    """

    number: int
    state: str
    found: Mapping[str, Any]
    loss: float = math.nan
    epochs: int = 0
    seconds: float = math.nan
    runs: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Result:
    """A study.

    Args:
        task: what was tuned.
        name: of the study.
        folder: with its records, `best.json` and `report.html`.
        trials: those that have had their turn, in the order of their numbers.
        config: the best trial's, to train on the whole training set; None while no trial was judged.
        importances: of what was searched, by fANOVA; empty while there are too few trials.
    """

    task: Task
    name: str
    folder: Path
    trials: tuple[Row, ...]
    config: RunConfig | None = None
    importances: Mapping[str, float] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the data."""
        return [self.task.data.note] if self.task.data.note else []

    @property
    def ranked(self) -> list[Row]:
        """The judged ones, best first."""
        judged = [row for row in self.trials if row.state == "complete" and math.isfinite(row.loss)]
        return sorted(judged, key=lambda row: (row.loss, row.number))

    @property
    def best(self) -> Row | None:
        """The one with the least loss."""
        return next(iter(self.ranked), None)


def result(task: Task, study: Study, folder: Path) -> Result:
    """Read a study, and write its best configuration and its report."""
    from .page import write_page

    trials = settled(study.get_trials(deepcopy=False))
    rows, best_epochs = [], {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        epochs, seconds = trial.user_attrs.get(SPENT, (0, math.nan))
        values = {one.name: one.value(trial.params[one.name]) for one in task.space if one.name in trial.params}
        best_epochs[trial.number] = trial.user_attrs.get(BEST_EPOCHS, [])
        rows.append(
            Row(
                number=trial.number,
                state={"FAIL": "failed"}.get(trial.state.name, trial.state.name.lower()),
                found=values,
                loss=math.nan if trial.value is None else math.inf if trial.value >= WORST else trial.value,
                epochs=epochs,
                seconds=seconds,
                runs=tuple(trial.user_attrs.get(RUNS, [])),
                error=str(trial.user_attrs.get(ERROR, "")) if trial.state.name == "FAIL" else "",
            )
        )
    importances = _importances(study, [one.name for one in task.space], rows)
    made = Result(task, study.study_name, folder, tuple(rows), None, importances)
    if made.best is not None:
        config = task.best_config(made.best.found, best_epochs[made.best.number])
        made = replace(made, config=config)
        write(folder / BEST, config.to_json())
    write_page(made, folder / REPORT)
    return made


def _importances(study: Study, names: Sequence[str], rows: Sequence[Row]) -> dict[str, float]:
    """Each name's share of the variance of the logarithm of the loss, as fANOVA tells it."""
    judged = [row for row in rows if row.state == "complete" and math.isfinite(row.loss)]
    varied = [name for name in names if len({str(row.found.get(name)) for row in judged}) > 1]
    if len(judged) < ENOUGH or len({row.loss for row in judged}) < 2 or not varied:
        return {}
    evaluator = package().importance.FanovaImportanceEvaluator(seed=0)
    positive = all(row.loss > 0 for row in judged)

    def target(trial: FrozenTrial) -> float:
        return math.log(trial.value) if positive and trial.value else trial.value or 0.0

    with unwarned():
        found = package().importance.get_param_importances(study, evaluator=evaluator, params=varied, target=target)
    return {name: float(value) for name, value in found.items()}
