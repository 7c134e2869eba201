"""What a plan trains: every method on every problem, with every seed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import optimizers
from ..sweep import Item


@dataclass(frozen=True)
class Problem:
    """A column of a table: what is trained on what, and for how long.

    Args:
        title: as the paper calls it; it stays the same at every scale.
        model: as `camhd train` takes it.
        data: likewise.
        epochs: passes over the training set.
        batch_size: examples in a step; None for the paper's.
        augment: None, "crop-flip" or "crop-flip-cutout".
        dtype: "float32", "float64", or "bfloat16".
        loss_scale: a factor on the loss before its gradient is taken.
        seeds: how many; None for as many as the others of its grid.
    """

    title: str
    model: str
    data: str
    epochs: int
    batch_size: int | None = None
    augment: str | None = None
    dtype: str = "float32"
    loss_scale: float = 1.0
    seeds: int | None = None


@dataclass(frozen=True)
class Method:
    """A row of a table.

    Args:
        label: as the paper calls it; it stays the same at every scale.
        optimizer: its name in the registry.
        options: in place of the paper's settings for the model, or of the optimizer's defaults.
        schedule: of the learning rate.
    """

    label: str
    optimizer: str
    options: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | None = None


@dataclass(frozen=True)
class Grid:
    """Every method on every problem, with several seeds.

    Args:
        name: for `--only`, and to tell grids of a plan apart.
        problems: the columns.
        methods: the rows, in the paper's order.
        seeds: how many.
        rates_every: steps between two lines of rates; None for about a hundred in a run.
        stop_loss: a training loss at which runs stop.
        first_seed: the others follow it.
        paper: whether methods have the paper's settings for the model, and problems its batch size, unless told
            otherwise.
    """

    name: str
    problems: tuple[Problem, ...]
    methods: tuple[Method, ...]
    seeds: int = 10
    rates_every: int | None = None
    stop_loss: float | None = None
    first_seed: int = 0
    paper: bool = True

    def seeds_of(self, problem: Problem) -> range:
        """The seeds of a problem."""
        return range(self.first_seed, self.first_seed + (problem.seeds or self.seeds))

    def item(self, problem: Problem, method: Method, seed: int) -> Item:
        """One run."""
        return Item(
            model=problem.model,
            data=problem.data,
            optimizer=method.optimizer,
            options=dict(method.options),
            label=method.label,
            seed=seed,
            epochs=problem.epochs,
            batch_size=problem.batch_size,
            augment=problem.augment,
            schedule=method.schedule,
            dtype=problem.dtype,
            loss_scale=problem.loss_scale,
            rates_every=self.rates_every,
            stop_loss=self.stop_loss,
            paper=self.paper,
        )

    def items(self) -> Iterator[Item]:
        """All runs, seed by seed: whoever stops early has something of everything."""
        most = max((self.seeds_of(problem) for problem in self.problems), key=len, default=range(0))
        for seed in most:
            for problem in self.problems:
                if seed in self.seeds_of(problem):
                    yield from (self.item(problem, method, seed) for method in self.methods)


def key(config: Mapping[str, Any]) -> str:
    """Equal for configurations of one run, as far as they can be told without its data and its label."""
    return json.dumps({name: config.get(name) for name in _SIGNED}, sort_keys=True)


def key_of(item: Item) -> str:
    """The key that the record of a run must have to be this one."""
    settings = item.settings()
    task = optimizers.task_of(item.model) if settings.paper else None
    return key(
        {
            **{name: getattr(item, name) for name in _SIGNED},
            "options": optimizers.find(item.optimizer).resolve(item.options, task),
            "batch_size": settings.examples(item.model, item.data),
        }
    )


_SIGNED = (
    *("model", "data", "optimizer", "options", "seed", "batch_size", "epochs", "split"),
    *("augment", "schedule", "patience", "loss_scale", "dtype", "stop_loss"),
)
