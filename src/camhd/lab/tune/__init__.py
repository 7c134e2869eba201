"""Tuning on Optuna: which learning rate, which hyper-gradient rate, which batch size?

`tune` does all of it. What is where, in order: `space` says what is searched, `task` what is tuned and how it is
judged, `storage` where studies are kept, `sampler` what is proposed, `trial` what one trial does, `worker` what one
process does, `crew` several of them, `result` what came out, `page` the report.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..train import Settings
from . import storage as storages
from .crew import Order, alone, together
from .result import Result, Row, result
from .space import PAPER, Choices, Dimension, Range, parse
from .storage import GRACE, StudyError
from .task import HELD_OUT, PROTOCOLS, Task, task, usual_settings
from .trial import Ended, Nobody, Onlooker
from .worker import TRIALS, limit_of

__all__ = [
    "GRACE",
    "HELD_OUT",
    "PAPER",
    "PROTOCOLS",
    "TRIALS",
    "Choices",
    "Dimension",
    "Ended",
    "Nobody",
    "Onlooker",
    "Range",
    "Result",
    "Row",
    "Settings",
    "StudyError",
    "Task",
    "limit_of",
    "parse",
    "task",
    "tune",
    "usual_settings",
]


def tune(
    task: Task,
    folder: str | Path = "tuning",
    *,
    trials: int | None = None,
    timeout: float | None = None,
    workers: int = 1,
    storage: str | None = None,
    study: str | None = None,
    grace: int = GRACE,
    threads: int | None = None,
    onlooker: Onlooker | None = None,
    make: Callable[[], Task] | None = None,
) -> Result:
    """Search for the best settings of an optimizer on a problem.

    The same call goes on with a study where it was interrupted, and several of them at once share it. Every run of
    every trial is an ordinary one with a record, `folder/<study>/<id>`. Beside the records, `best.json` and
    `report.html` are written.

    Args:
        task: what is tuned, made by `camhd.lab.tune.task`.
        folder: for studies and records.
        trials: how many the study is to have, those that are in it included; None for 50, or for the whole grid.
        timeout: seconds after which no trial is begun.
        workers: processes on this machine.
        storage: an SQLAlchemy URL such as `postgresql+psycopg://user@host/database`, for many machines; None for an
            SQLite file in the folder.
        study: its name; None for a name made from the task.
        grace: seconds without a sign of life, after which a process counts as dead and its trial is run again.
        threads: of torch in each process; None for torch's choice.
        onlooker: is told how it goes.
        make: gives the task in another process, for several workers; None to send it there as it is.

    Raises:
        StudyError: the storage was lost, or all workers died.

    Example:
        >>> how = Settings(epochs=2, batch_size=128, split="fraction:0.2")
        >>> some = task("logistic", "digits", "adam", how, search=["lr=0.0001,0.1"], protocol="paper", folds=1)
        >>> found = tune(some, folder=getfixture("tmp_path"))
        >>> len(found.trials), found.config.split, found.best.found
        (2, 'full', {'lr': 0.1})
    """
    limit = limit_of(task, trials)
    if workers < 1:
        raise ValueError(f"'workers' must be 1 or more, got {workers}.")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"'timeout' must be above zero, got {timeout}.")
    name = storages.checked_name(study or task.name())
    place = Path(folder) / name
    place.mkdir(parents=True, exist_ok=True)
    url = storage or storages.default_url(folder)
    order = Order(make or partial(_itself, task), url, name, place, limit, timeout or math.inf, grace, threads)
    with storages.quiet(), storages.connected(url, grace) as connection:
        opened = storages.open_study(task, connection, name)  # what is wrong is said before anything is begun
        if workers == 1:
            alone(order, task, opened, onlooker or Nobody())
        else:
            together(order, workers, onlooker or Nobody())
        return result(task, opened, place)


def _itself(task: Task) -> Task:
    return task
