"""One trial: a run for every fold, each with an ordinary record, told to the study epoch by epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

from .. import records
from ..records import Run, RunConfig, RunLockedError
from ..train import Job, Progress, Watcher, execute
from .storage import SURPLUS, package, settled
from .task import Task

if TYPE_CHECKING:
    from optuna.trial import Trial

# Attributes of trials.
POINT, RUNS, SPENT, BEST_EPOCHS, ERROR = "point", "runs", "spent", "best_epochs", "error"
WORST = 1e30  # stands for a loss that is not finite, where a median is taken
PAUSE = 0.5  # seconds between two looks at what others are doing


class Abandoned(BaseException):
    """A run is given up as hopeless. No `Exception`, so that its record is kept as that of an interrupted run is."""


class LostError(RuntimeError):
    """Others took this process for dead, and the trial is theirs now."""


class SurplusError(RuntimeError):
    """There are enough trials without this one."""


@dataclass(frozen=True)
class Ended:
    """A trial that has just ended.

    Args:
        number: in the study.
        state: `complete`, `pruned` or `fail`.
        loss: by which it is judged; None if it is not.
        found: what it took.
        error: why it failed.
        done: so many trials of the study have had their turn now, here or elsewhere.
    """

    number: int
    state: str
    loss: float | None
    found: Mapping[str, Any]
    error: str
    done: int


class Onlooker(Protocol):
    """Is told how a study goes."""

    def epoch(self, trial: int, config: RunConfig, epoch: int, loss: float) -> None:
        """An epoch ended; the loss is that of the trial so far."""

    def ended(self, trial: Ended) -> None:
        """A trial ended."""

    def count(self, done: int, best: float | None) -> None:
        """So many trials of the study have had their turn, here or elsewhere; the least loss among them."""


class Nobody:
    """Looks on and does nothing."""

    def epoch(self, trial: int, config: RunConfig, epoch: int, loss: float) -> None:
        """Nothing."""

    def ended(self, trial: Ended) -> None:
        """Nothing."""

    def count(self, done: int, best: float | None) -> None:
        """Nothing."""


@dataclass
class Spent:
    """On the runs of a trial, in all."""

    epochs: int = 0
    seconds: float = 0.0


class Objective:
    """What a trial does.

    Args:
        task: what is tuned.
        folder: for the records.
        limit: how many trials the study is to have.
        onlooker: is told how it goes.
    """

    def __init__(self, task: Task, folder: Path, limit: int, onlooker: Onlooker) -> None:
        self._task, self._folder, self._limit, self._onlooker = task, folder, limit, onlooker
        self.stopped: BaseException | None = None  # by a signal
        self.number = -1

    def __call__(self, trial: Trial) -> float:
        """The mean loss over the folds."""
        optuna = package()
        self.number = trial.number
        spent = Spent()
        try:
            loss = self._mean_loss(trial, spent)
            trial.set_user_attr(SPENT, [spent.epochs, spent.seconds])
            return loss
        except Abandoned:
            trial.set_user_attr(SPENT, [spent.epochs, spent.seconds])
            raise optuna.TrialPruned() from None
        except (KeyboardInterrupt, SystemExit) as stopped:
            self.stopped = stopped
            raise KeyboardInterrupt from stopped  # which is what Optuna knows
        except (LostError, SurplusError):
            raise
        except Exception as error:
            trial.set_user_attr(ERROR, f"{type(error).__name__}: {error}"[:2000])
            raise

    def _mean_loss(self, trial: Trial, spent: Spent) -> float:
        if self._is_surplus(trial):
            trial.set_user_attr(SURPLUS, True)
            raise SurplusError
        found = {one.name: one.ask(trial) for one in self._task.space}
        losses: list[float] = []
        runs: list[str] = []
        best_epochs: list[int] = []
        for split in self._task.splits:
            job = self._task.job(found, split)
            runs.append(job.config.id)
            trial.set_user_attr(RUNS, runs)
            reporter = _Reporter(self._task, trial, self._folder, losses, spent, self._onlooker)
            run = self._run(job, reporter)
            if reporter.lost:
                raise LostError
            losses.append(math.inf if run.status == "diverged" else self._task.loss(run.epochs))
            if losses[-1] == math.inf:
                break  # the mean will be no other
            best_epochs.append(min(run.epochs, key=lambda line: float(line["valid_loss"]))["epoch"])
        trial.set_user_attr(BEST_EPOCHS, best_epochs)
        return fmean(losses)

    def _is_surplus(self, trial: Trial) -> bool:
        """Whether two processes began the last trial, or the same point of the grid, at the same moment."""
        states = package().trial.TrialState
        trials = trial.study.get_trials(deepcopy=False)
        turn = {one.number for one in settled(trials)}
        before = [
            one
            for one in trials
            if one.number < trial.number and (one.number in turn or one.state in (states.RUNNING, states.WAITING))
        ]
        point = trial.user_attrs.get(POINT)
        return len(before) >= self._limit or (
            point is not None and any(one.user_attrs.get(POINT) == point for one in before)
        )

    def _run(self, job: Job, reporter: _Reporter) -> Run:
        while True:
            try:
                return execute(job, self._folder, resume=True, watcher=reporter)
            except RunLockedError:
                time.sleep(PAUSE)  # another trial asks the same; its record will be the answer


class _Reporter(Watcher):
    """Tells the study of every epoch, and gives up what is hopeless."""

    def __init__(
        self, task: Task, trial: Trial, folder: Path, before: list[float], spent: Spent, onlooker: Onlooker
    ) -> None:
        self._task, self._trial, self._folder, self._before = task, trial, folder, before
        self._spent, self._onlooker = spent, onlooker
        self._epochs: list[Mapping[str, Any]] = []
        self.lost = False

    def begun(self, progress: Progress) -> None:
        if progress.step:  # it goes on after an interruption
            for line in records.read(self._folder / progress.config.id).epochs:
                self._report(line)

    def epoch_ended(self, progress: Progress, epoch: Mapping[str, Any]) -> None:
        loss = self._report(epoch)
        self._onlooker.epoch(self._trial.number, progress.config, epoch["epoch"], loss)
        # One that diverges ends by itself.
        if not self.lost and loss < math.inf and self._trial.should_prune():
            raise Abandoned

    def ended(self, run: Run) -> None:
        for line in run.epochs[len(self._epochs) :]:  # from its record
            self._report(line)

    def _report(self, line: Mapping[str, Any]) -> float:
        self._epochs.append(line)
        self._spent.epochs += 1
        self._spent.seconds += line["time"]["seconds"]
        loss = fmean([*self._before, self._task.loss(self._epochs)])
        if not self.lost:
            step = len(self._before) * self._task.settings.epochs + int(line["epoch"])
            try:
                self._trial.report(min(loss, WORST), step)
            except package().exceptions.UpdateFinishedTrialError:
                # The run goes on nevertheless: whoever has the trial now waits for its record.
                self.lost = True
        return loss
