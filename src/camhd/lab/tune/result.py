"""What came out of a study: its trials, the best of them, and what mattered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import records
from ..records import Run, RunConfig
from ..records.files import write
from .storage import package, settled, unwarned
from .task import Task
from .trial import BEST_EPOCHS, ERROR, RUNS

if TYPE_CHECKING:
    from optuna.study import Study

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
        notes: what a reader must know of the data.
    """

    task: Task
    name: str
    folder: Path
    trials: tuple[Row, ...]
    config: RunConfig | None = None
    importances: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

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
    rows, notes, best_epochs = [], dict[str, None](), {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        found = _runs(folder, trial.user_attrs.get(RUNS, []))
        values = {one.name: one.value(trial.params[one.name]) for one in task.space if one.name in trial.params}
        best_epochs[trial.number] = trial.user_attrs.get(BEST_EPOCHS, [])
        notes |= dict.fromkeys(str(run.start["note"]) for run in found if run.start.get("note"))
        rows.append(
            Row(
                number=trial.number,
                state={"FAIL": "failed"}.get(trial.state.name, trial.state.name.lower()),
                found=values,
                loss=math.nan if trial.value is None else trial.value,
                epochs=sum(len(run.epochs) for run in found),
                seconds=sum(line["time"]["seconds"] for run in found for line in run.epochs) if found else math.nan,
                runs=tuple(trial.user_attrs.get(RUNS, [])),
                error=str(trial.user_attrs.get(ERROR, "")) if trial.state.name == "FAIL" else "",
            )
        )
    importances = _importances(study, [one.name for one in task.space], rows)
    made = Result(task, study.study_name, folder, tuple(rows), None, importances, tuple(notes))
    if made.best is not None:
        config = task.best_config(made.best.found, best_epochs[made.best.number])
        made = replace(made, config=config)
        write(folder / BEST, config.to_json())
    write_page(made, folder / REPORT)
    return made


def _runs(folder: Path, names: Sequence[str]) -> list[Run]:
    """The records that are here; those of another machine may be there."""
    return [records.read(folder / name) for name in names if (folder / name / "config.json").exists()]


def _importances(study: Study, names: Sequence[str], rows: Sequence[Row]) -> dict[str, float]:
    """Each name's share of the variance of the loss, as fANOVA tells it."""
    judged = [row for row in rows if row.state == "complete" and math.isfinite(row.loss)]
    varied = [name for name in names if len({str(row.found.get(name)) for row in judged}) > 1]
    if len(judged) < ENOUGH or len({row.loss for row in judged}) < 2 or not varied:
        return {}
    evaluator = package().importance.FanovaImportanceEvaluator(seed=0)
    with unwarned():
        found = package().importance.get_param_importances(study, evaluator=evaluator, params=varied)
    return {name: float(value) for name, value in found.items()}
