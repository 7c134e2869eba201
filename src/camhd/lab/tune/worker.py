"""A process's share of a study: one trial after another, until the study has all of its trials."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from . import space as spaces
from .storage import package, settled, try_again, unwarned
from .task import Task
from .trial import ERROR, PAUSE, POINT, Ended, Objective, Onlooker

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

TRIALS = 50


def limit_of(task: Task, trials: int | None) -> int:
    """How many trials the study is to have: as many as asked for, and no more than a grid has points."""
    if trials is not None and trials < 1:
        raise ValueError(f"'trials' must be 1 or more, got {trials}.")
    points = task.points
    return (trials or TRIALS) if points is None else min(trials or points, points)


def work(
    task: Task,
    study: Study,
    folder: Path,
    limit: int,
    onlooker: Onlooker,
    until: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Carry out trials until the study has so many, whoever did them.

    When others are at the last ones, it waits, and takes over what a process that died has left.

    Args:
        task: what is tuned.
        study: that has been opened.
        folder: for the records.
        limit: how many trials the study is to have.
        onlooker: is told how it goes.
        until: no trial is begun after this time.
        clock: that says the time.
    """
    objective = Objective(task, folder, limit, onlooker)
    queue = _Queue(task, study)
    missed: set[int] = set()
    while clock() < until:
        trials = _look(study)
        done = settled(trials)
        onlooker.count(len(done), best_loss(done))
        if len(done) >= limit:
            return
        if not queue.ready(trials, limit - len(done)):
            _miss(study, trials, missed)
            time.sleep(PAUSE)
            continue
        _one(study, objective, onlooker)


def best_loss(trials: list[FrozenTrial]) -> float | None:
    """The least loss of those that were judged."""
    complete = package().trial.TrialState.COMPLETE
    return min((trial.value for trial in trials if trial.state == complete and trial.value is not None), default=None)


class _Queue:
    """Whether there is something to begin, and which point of a grid comes next."""

    def __init__(self, task: Task, study: Study) -> None:
        self._task, self._study = task, study
        self._order = list(range(task.points or 0))
        random.Random(task.seed).shuffle(self._order)  # a part of a grid should look like the whole

    def ready(self, trials: list[FrozenTrial], missing: int) -> bool:
        states = package().trial.TrialState
        if any(trial.state == states.WAITING for trial in trials):
            return True
        running = [trial for trial in trials if trial.state == states.RUNNING]
        if len(running) >= missing:
            return False
        if self._order:
            taken = {trial.user_attrs.get(POINT) for trial in [*running, *settled(trials)]}
            number = next(number for number in self._order if number not in taken)
            self._study.enqueue_trial(spaces.point(self._task.space, number), user_attrs={POINT: number})
        return True


def _look(study: Study) -> list[FrozenTrial]:
    """All trials; those of processes that have died are put into the queue again."""
    with unwarned():
        package().storages.fail_stale_trials(study)
    return study.get_trials(deepcopy=False)


def _miss(study: Study, trials: list[FrozenTrial], missed: set[int]) -> None:
    """A process that died before its first sign of life would be waited for in vain: give the sign for it, once."""
    running = package().trial.TrialState.RUNNING
    for trial in trials:
        if trial.state == running and trial.number not in missed:
            missed.add(trial.number)
            study._storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]


def _one(study: Study, objective: Objective, onlooker: Onlooker) -> None:
    """One trial, from its proposal to its end."""
    states = package().trial.TrialState
    objective.number = -1
    try:
        study.optimize(objective, n_trials=1, catch=(Exception,))
    except KeyboardInterrupt:
        if objective.number >= 0 and (trial := _trial(study, objective.number)).state == states.FAIL:
            try_again(study, trial, math.inf)  # it is the first one when the study goes on
        raise objective.stopped or KeyboardInterrupt from None
    except Exception:
        # What the trial itself raises has been caught; Optuna refuses the end of one that others took for dead.
        if objective.number < 0 or _trial(study, objective.number).state != states.FAIL:
            raise
        return
    done = settled(study.get_trials(deepcopy=False))
    for one in done:
        if one.number == objective.number:  # none if it was surplus
            error = str(one.user_attrs.get(ERROR, ""))
            onlooker.ended(Ended(one.number, one.state.name.lower(), one.value, one.params, error, len(done)))


def _trial(study: Study, number: int) -> FrozenTrial:
    return study.get_trials(deepcopy=False)[number]
