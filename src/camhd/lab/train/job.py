"""From names and functions to a job: a configuration, and what it takes to carry it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .. import data as datasets
from .. import models, optimizers
from ..data import Dataset, Examples
from ..optimizers import Driver, Entry
from ..records import RunConfig
from . import own
from .loop import Parts
from .parallel import Alone
from .schedule import scheduler
from .settings import DTYPES, Settings
from .tasks import TASKS


@dataclass(frozen=True)
class Source:
    """A data set that has been read and divided, for several runs."""

    dataset: Dataset
    split: str
    train: Examples
    valid: Examples


Model = str | Callable[[], nn.Module] | Callable[[Dataset], nn.Module]
Data = str | Dataset | Source | Callable[[], Dataset]
MakeOptimizer = str | Callable[..., torch.optim.Optimizer | Driver]


@dataclass(frozen=True)
class Job:
    """A run that can be carried out.

    Args:
        config: everything that decides it.
        source: the data.
        build_model: makes the model; called when the seed is set.
        build_driver: makes the optimizer for a model.
    """

    config: RunConfig
    source: Source
    build_model: Callable[[], nn.Module]
    build_driver: Callable[[nn.Module], Driver]

    def parts(self, team: Alone) -> Parts:
        """Build everything; the seed must be set."""
        config, device, dtype = self.config, team.device(self.config.device), DTYPES[self.config.dtype]
        share = (team.rank, team.world)
        # Without gradients there is room for larger batches.
        larger = max(config.batch_size, min(4 * config.batch_size, 1024))
        batches = datasets.Batches(
            self.source.train.to(device),
            config.batch_size,
            seed=config.seed,
            augment=config.augment,
            dtype=dtype,
            share=share,
        )
        model, forward = team.divide(self.build_model().to(device, dtype))
        driver = self.build_driver(model)
        team.check(driver)
        return Parts(
            model=model,
            forward=forward,
            driver=driver,
            scheduler=scheduler(config.schedule, driver.optimizer, config.epochs, len(batches)),
            train=batches,
            valid=datasets.Batches(self.source.valid.to(device), larger, shuffle=False, dtype=dtype, share=share),
            task=TASKS[self.source.dataset.task],
            classes=self.source.dataset.classes,
        )


def prepare(
    model: Model,
    data: Data,
    optimizer: MakeOptimizer,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    label: str | None = None,
) -> Job:
    """A job from names or functions; every name and number is checked here, before anything is trained.

    Args:
        model: a name such as "ffnn:100,100", or a function that makes a model, from the data set if it takes one.
        data: a name, a data set, or a function that makes one; or one that `open_data` has read already.
        optimizer: a name, or a function that makes an optimizer from a model.
        settings: how to train.
        seed: decides initial weights, order of examples, augmentation and dropout.
        options: of the optimizer, in place of its defaults.
        label: what tables call the optimizer; None for its usual label, and what was set here.
    """
    settings = settings or Settings()
    source = open_data(data, settings.split)
    dataset = source.dataset
    entry = _entry(optimizer, label)
    resolved = entry.resolve(options, optimizers.task_of(model) if settings.paper and isinstance(model, str) else None)
    batch_size = settings.examples(model if isinstance(model, str) else "", dataset.name)
    steps = settings.epochs * len(datasets.Batches(source.train, batch_size, augment=settings.augment))
    config = RunConfig(
        model=model.strip().lower() if isinstance(model, str) else own.name_of(model),
        data=dataset.name,
        optimizer=entry.name,
        label=label or _label(entry, options or {}, settings.schedule),
        fingerprint=dataset.fingerprint,
        split=settings.split,
        options=resolved,
        epochs=settings.epochs,
        batch_size=batch_size,
        seed=_checked(seed),
        augment=settings.augment,
        dtype=settings.dtype,
        device=settings.device,
        schedule=settings.schedule,
        loss_scale=float(settings.loss_scale),
        patience=settings.patience,
        rates_every=settings.lines_every(steps),
        stop_loss=settings.stop_loss,
    )
    return Job(config, source, _builder(model, dataset), lambda module: entry.build(module, config.options))


def open_data(data: Data, split: str = "full") -> Source:
    """A data set from its name, from a function that makes it, or itself; divided."""
    if isinstance(data, Source):
        return data if data.split == split else open_data(data.dataset, split)
    found = datasets.load(data) if isinstance(data, str) else data if isinstance(data, Dataset) else data()
    if not isinstance(found, Dataset):
        raise TypeError(
            f"'data' must be a name, a data set, or a function that returns one, but gave {type(found).__name__}; "
            "make one with camhd.lab.data.from_tensors."
        )
    return Source(found, split, *datasets.split(found, split))


def again(config: RunConfig) -> Job:
    """The job of a record, to be run again.

    A record of a model, data set or optimizer of one's own cannot be run from its names alone.
    """
    for name in (config.model, config.optimizer):
        if own.is_own(name):
            raise ValueError(f"the run {config.id!r} used the function {name!r}; run it again with that function.")
    settings = Settings(
        epochs=config.epochs,
        batch_size=config.batch_size,
        split=config.split,
        augment=config.augment,
        schedule=config.schedule,
        patience=config.patience,
        loss_scale=config.loss_scale,
        dtype=config.dtype,
        device=config.device,
        rates_every=config.rates_every,
        stop_loss=config.stop_loss,
    )
    job = prepare(
        config.model,
        config.data,
        config.optimizer,
        settings,
        seed=config.seed,
        options=config.options,
        label=config.label,
    )
    for name, (own_value, recorded) in job.config.differences(config).items():
        raise ValueError(f"the run cannot be repeated: its {name} was {recorded!r}, but here it is {own_value!r}.")
    return job


def _builder(model: Model, dataset: Dataset) -> Callable[[], nn.Module]:
    if isinstance(model, str):
        return models.find(model, dataset.shape, dataset.classes, dataset.task)
    if isinstance(model, nn.Module):
        raise TypeError(
            "'model' must be a name or a function that makes a model, got a model; write `lambda: Net(...)`, so that "
            "the seed decides its initial weights."
        )

    def build() -> nn.Module:
        made = own.call_with(model, dataset)
        if not isinstance(made, nn.Module):
            raise TypeError(f"the function of 'model' must return a torch.nn.Module, got {type(made).__name__}.")
        return made

    return build


def _entry(optimizer: MakeOptimizer, label: str | None) -> Entry:
    if isinstance(optimizer, str):
        return optimizers.find(optimizer.strip().lower())
    name = own.name_of(optimizer)
    return optimizers.from_function(optimizer, name, label or name.removeprefix(own.PREFIX).rpartition("-")[0])


def _label(entry: Entry, options: Mapping[str, Any], schedule: str | None) -> str:
    words = [f"{name} {_shown(value)}" for name, value in options.items()]
    return ", ".join([entry.label, *words, *([schedule] if schedule else [])])


def _shown(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _checked(seed: int) -> int:
    if not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"'seed' must be a whole number, 0 or more, got {seed!r}.")
    return seed
