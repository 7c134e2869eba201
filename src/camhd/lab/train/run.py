"""Carrying out a job: from the seed to the result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ... import report
from ..records import FORMAT, CheckpointError, DiskError, InFolder, InMemory, Record, Run, environment
from . import amx, subnormals
from .interrupt import Interrupt
from .job import Data, Job, MakeOptimizer, Model, prepare
from .loop import Loop, Parts
from .parallel import Alone
from .parallel import team as team_of
from .seeds import seeded, seeded_apart
from .settings import Settings
from .watch import Watcher

MINUTES = 5.0  # between two checkpoints


def train(
    model: Model,
    data: Data,
    optimizer: MakeOptimizer,
    *,
    epochs: int = 10,
    batch_size: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    label: str | None = None,
    split: str = "full",
    augment: str | None = None,
    schedule: str | None = None,
    patience: int | None = None,
    loss_scale: float = 1.0,
    dtype: str = "float32",
    device: str = "cpu",
    rates_every: int | None = None,
    paper: bool = False,
    stop_loss: float | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_minutes: float = MINUTES,
    watcher: Watcher | None = None,
    parallel: str | None = None,
) -> Run:
    """Train a model on a data set with an optimizer, and give the record of it.

    Model, data and optimizer are names, or functions of your own.

    Args:
        model: a name such as "ffnn:100,100", or a function that makes a model, from the data set if it takes one.
        data: a name such as "digits", a data set (`camhd.lab.data.from_tensors`), or a function that makes one.
        optimizer: a name such as "adam-cam-hd-2", or a function that makes an optimizer from a model.
        epochs: passes over the training set.
        batch_size: examples in a step; None for 64, or the paper's batch size.
        seed: decides initial weights, order of examples, augmentation and dropout.
        options: of the optimizer, in place of its defaults, such as `{"lr": 1e-3}`.
        label: what tables call the optimizer.
        split: "full" (all of the training set; validation on the test set), "fold:2/5" or "fraction:0.1".
        augment: None, "crop-flip" or "crop-flip-cutout".
        schedule: None, "cosine", "warmup-cosine" or "drop:150" (to a tenth after epoch 150).
        patience: stop after so many epochs without a better validation loss; None: never.
        loss_scale: a factor on the loss before its gradient is taken.
        dtype: "float32", "float64", or "bfloat16" for float32 weights under autocast.
        device: as torch calls it.
        rates_every: steps between two lines of rates; None for about a hundred lines in a run.
        paper: take the paper's settings for this model where it has some.
        stop_loss: stop after the first step whose training loss is at most this; None: never.
        folder: where the run gets its folder; None keeps no record on disk.
        resume: go on with this run where it was interrupted; a finished one is given as it is.
        overwrite: begin again, whatever is there.
        checkpoint_minutes: between two checkpoints.
        watcher: is told how it goes.
        parallel: None, or how several processes (torchrun's) share the run: "ddp" or "fsdp".

    Example:
        >>> run = train("ffnn:16", "digits", "adam-cam-hd-2", epochs=2, seed=1)
        >>> run.status, len(run.epochs), run.final["valid_accuracy"] > 0.5
        ('finished', 2, True)
    """
    settings = Settings(
        epochs=epochs,
        batch_size=batch_size,
        split=split,
        augment=augment,
        schedule=schedule,
        patience=patience,
        loss_scale=loss_scale,
        dtype=dtype,
        device=device,
        rates_every=rates_every,
        paper=paper,
        stop_loss=stop_loss,
    )
    job = prepare(model, data, optimizer, settings, seed=seed, options=options, label=label)
    return execute(job, folder, resume, overwrite, checkpoint_minutes, watcher, parallel)


def execute(
    job: Job,
    folder: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    checkpoint_minutes: float = MINUTES,
    watcher: Watcher | None = None,
    parallel: str | None = None,
) -> Run:
    """Carry out a job.

    Ctrl-C (or SIGTERM) ends it after the step that is under way, with a checkpoint to resume from. An error before the
    first checkpoint leaves no record behind.

    Args:
        job: what to do.
        folder: where the run gets its folder; None keeps no record on disk.
        resume: go on with this run where it was interrupted; a finished one is given as it is.
        overwrite: begin again, whatever is there.
        checkpoint_minutes: between two checkpoints.
        watcher: is told how it goes.
        parallel: None, or how several processes (torchrun's) share the run: "ddp" or "fsdp". The first one writes.
    """
    if resume and overwrite:
        raise ValueError("'resume' and 'overwrite' contradict each other; give one of them.")
    if not 0 <= checkpoint_minutes < math.inf:
        raise ValueError(f"'checkpoint_minutes' must be 0 or more, and finite, got {checkpoint_minutes}.")
    watcher = watcher or Watcher()
    if job.config.dtype == "bfloat16":
        amx.leave_alone_if_broken()
    with team_of(parallel, job.config.device) as team, ExitStack() as open_record:
        record: Record = InMemory(job.config)
        seconds = math.inf
        if folder is not None:
            wanted = InFolder(folder, job.config, resume, overwrite)
            finished = _begin(team, wanted, open_record)
            if finished is not None:
                watcher.ended(finished)
                return finished
            seconds = 60 * checkpoint_minutes
            record = wanted if team.leads else record
        try:
            return _train(job, record, watcher, seconds, team)
        except DiskError:
            raise  # what is there is whole, and may be all that is left of the work
        except Exception:
            if isinstance(record, InFolder):
                record.forget()
            raise


def _begin(team: Alone, record: InFolder, open_record: ExitStack) -> Run | None:
    """Open the record, in the process that writes it; all of them hear of a finished run, and of what is wrong."""
    found: Run | Exception | None = None
    if team.leads:
        try:
            open_record.enter_context(record)
            found = record.run() if record.finished else None
        except Exception as error:
            found = error
    found = team.tell(found)
    if isinstance(found, Exception):
        raise found
    return found


def _train(job: Job, record: Record, watcher: Watcher, checkpoint_seconds: float, team: Alone) -> Run:
    with seeded(job.config.seed), subnormals.taken_for_zero(), Interrupt() as interrupt:
        parts = job.parts(team)
        seeded_apart(job.config.seed, team.rank)
        loop = Loop(job.config, parts, record, watcher, interrupt, checkpoint_seconds, team)
        state = team.tell(record.restore())
        if state is None:
            record.append(_start(job, parts))
        else:
            _go_on(loop, state)
        watcher.begun(loop)
        status = loop.run()
        record.finish(_result(status, loop, team))
        run: Run = team.tell(record.run())
        watcher.ended(run)
        if interrupt:
            interrupt.raise_now()
    return run


def _go_on(loop: Loop, state: dict[str, Any]) -> None:
    try:
        loop.load(state)
    except Exception as error:  # whatever is wrong with it: the file may come from anywhere
        raise CheckpointError(
            f"The checkpoint of {loop.config.id!r} does not fit the run, so it cannot go on; give 'overwrite' to begin "
            f"again. ({type(error).__name__}: {error})"
        ) from error


def _start(job: Job, parts: Parts) -> dict[str, Any]:
    """The first line of the history: what is known before the first step."""
    return {
        "kind": "start",
        "parameters": sum(p.numel() for p in parts.model.parameters()),
        "steps_per_epoch": len(parts.train),
        "task": parts.task.name,
        "metric": parts.task.metric,
        "examples": {"train": len(job.source.train), "valid": len(job.source.valid)},
        "note": job.source.dataset.note,
        "groups": report.groups(parts.driver.optimizer, whole=True),
    }


def _result(status: str, loop: Loop, team: Alone) -> dict[str, Any]:
    shared = {} if team.kind is None else {"parallel": {"kind": team.kind, "processes": team.world}}
    return {
        "format": FORMAT,
        "status": status,
        "epochs": loop.epoch - 1,
        "steps": loop.step,
        "final": loop.final,
        "best": loop.best,
        "time": loop.clock.run(),
        "environment": {**environment(), **shared},
    }
