"""What is tuned: a problem, an optimizer, a search space, and how a trial is judged."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import mean
from typing import Any

from .. import optimizers
from ..choices import choose
from ..data import Dataset
from ..optimizers import Entry
from ..records import RunConfig
from ..records.text import plain, to_json
from ..train import Job, Settings, open_data, own, prepare
from ..train.job import Data, MakeOptimizer, Model
from ..train.seeds import seeded
from . import space as spaces
from .space import SETTINGS, Dimension

PROTOCOLS = ("tpe", "paper")
HELD_OUT = "fraction:0.2"
PAPER_FOLDS, PAPER_PATIENCE = 5, 3
# The paper does not say how long a trial may last if it does not stop early; it trains no network for longer.
PAPER_EPOCHS = 200


@dataclass(frozen=True)
class Task:
    """Everything that decides a study. Two tasks that differ are two studies.

    Args:
        model: a name, or a function that makes a model.
        data: a data set.
        optimizer: a name of the registry, or a function that makes an optimizer from a model.
        settings: how to train; its split is what a trial is judged by.
        space: what is searched.
        options: of the optimizer, that are not searched.
        protocol: "tpe" (proposals learn from earlier trials, hopeless ones are stopped) or "paper" (a whole grid).
        folds: judge by the mean over so many folds of the training set; 1 for the split of the settings.
        seed: of every run, and of the proposals.
        named: whether nothing is a function of the user's, so that a configuration alone is enough to run it.
    """

    model: Model
    data: Dataset
    optimizer: MakeOptimizer
    settings: Settings
    space: tuple[Dimension, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = "tpe"
    folds: int = 1
    seed: int = 0
    named: bool = True

    @property
    def splits(self) -> list[str]:
        """Of the runs of a trial."""
        return [self.settings.split] if self.folds == 1 else [f"fold:{k + 1}/{self.folds}" for k in range(self.folds)]

    @property
    def points(self) -> int | None:
        """How many points the grid has; None if there is no grid."""
        return spaces.size(self.space) if self.protocol == "paper" else None

    def job(self, found: Mapping[str, Any], split: str, settings: Settings | None = None) -> Job:
        """The run of a trial on one split."""
        settings = replace(settings or self.settings, split=split, **_settings(found))
        options = {name: value for name, value in found.items() if name not in SETTINGS}
        return prepare(
            self.model, self.data, self.optimizer, settings, seed=self.seed, options={**self.options, **options}
        )

    def loss(self, epochs: Sequence[Mapping[str, Any]]) -> float:
        """What a run is judged by after these epochs: with early stopping its least validation loss, else the last."""
        losses = [float(line["valid_loss"]) for line in epochs]
        known = [loss if math.isfinite(loss) else math.inf for loss in losses]
        return min(known, default=math.inf) if self.settings.patience else (known or [math.inf])[-1]

    def best_config(self, found: Mapping[str, Any], best_epochs: Sequence[int]) -> RunConfig:
        """The configuration that trains on the whole training set as the best trial's runs did on their parts.

        Early stopping would look at the test set then. In its place stands the number of epochs after which the runs
        were best, on average.

        Args:
            found: what the trial took.
            best_epochs: after how many epochs each of its runs had its least validation loss.
        """
        settings = replace(self.settings, patience=None)
        if self.settings.patience and not settings.schedule and best_epochs:  # a schedule needs all of its epochs
            settings = replace(settings, epochs=max(1, round(mean(best_epochs))))
        return self.job(found, "full", settings).config

    def spec(self) -> dict[str, Any]:
        """Everything that decides the study, as plain words and numbers."""
        some = self.job(self.first(), self.splits[0]).config
        settings = asdict(self.settings)
        return {
            **{name: getattr(some, name) for name in ("model", "data", "fingerprint", "optimizer")},
            "options": plain(self.options),
            "settings": {name: settings[name] for name in settings if name not in ("split", "rates_every")},
            "search": [one.text for one in self.space],
            "protocol": self.protocol,
            "splits": self.splits,
            "seed": self.seed,
        }

    def name(self) -> str:
        """Of the study: a name for people, and a short hash of everything that decides it."""
        spec = self.spec()
        words = "-".join(str(spec[key]) for key in ("data", "model", "optimizer")).lower()
        digest = hashlib.sha256(to_json(spec).encode()).hexdigest()[:6]
        return f"{re.sub(r'[^a-z0-9.]+', '-', words).strip('-.')}-{digest}"

    def first(self) -> dict[str, Any]:
        """A point of the space, to try things out with."""
        return {one.name: one.values[0] if isinstance(one, spaces.Choices) else one.low for one in self.space}


def task(
    model: Model,
    data: Data,
    optimizer: MakeOptimizer,
    settings: Settings | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    search: Sequence[str | Dimension] = (),
    protocol: str = "tpe",
    folds: int | None = None,
    seed: int = 0,
) -> Task:
    """A task with everything checked and filled in, before anything is trained.

    Args:
        model: a name, or a function that makes a model.
        data: a name, a data set, or a function that makes one.
        optimizer: a name of the registry, or a function that makes an optimizer from a model.
        settings: how to train; None for what the protocol takes, `usual_settings`.
        options: of the optimizer, that are not searched.
        search: what is searched, as `lr=1e-5..1e-1:log` or `batch_size=16,32`; nothing for what the protocol searches.
        protocol: "tpe" or "paper".
        folds: judge by the mean over so many folds; None for one held-out part (`paper`: five folds).
        seed: of every run, and of the proposals.

    >>> paper = task("ffnn:16", "digits", "adam", protocol="paper")
    >>> paper.points, paper.splits[0], paper.settings.patience
    (28, 'fold:1/5', 3)
    """
    choose("protocol", protocol, PROTOCOLS)
    settings = settings or usual_settings(protocol)
    folds = folds if folds is not None else PAPER_FOLDS if protocol == "paper" else 1
    if folds < 1:
        raise ValueError(f"'folds' must be 1 (one part is held out) or more, got {folds}.")
    if folds == 1 and settings.split == "full":
        raise ValueError(f"'split' must not be full: that would tune on the test set; take {HELD_OUT}.")
    entry = entry_of(optimizer)
    fixed = dict(options or {})
    set_already = {**fixed, **_set_by(settings)}
    chosen = [spaces.parse(one) if isinstance(one, str) else one for one in search]
    if not chosen:
        task_name = optimizers.task_of(model) if settings.paper and isinstance(model, str) else None
        chosen = (
            spaces.paper_space(entry, set_already)
            if protocol == "paper"
            else spaces.usual_space(entry, set_already, entry.resolve(fixed, task_name))
        )
    spaces.check(chosen, entry, set_already)
    if protocol == "paper":
        spaces.size(chosen)  # a grid has no ranges
    named = all(isinstance(one, str) for one in (model, data, optimizer))
    made = Task(model, open_data(data).dataset, optimizer, settings, tuple(chosen), fixed, protocol, folds, seed, named)
    job = made.job(made.first(), made.splits[-1])
    with seeded(seed):
        job.build_driver(job.build_model())  # what these refuse is said now, and not by a hundred trials that fail
    return made


def usual_settings(protocol: str) -> Settings:
    """What a protocol takes if nothing else is said."""
    if protocol == "paper":
        return Settings(epochs=PAPER_EPOCHS, patience=PAPER_PATIENCE)
    return Settings(epochs=20, split=HELD_OUT)


def entry_of(optimizer: MakeOptimizer) -> Entry:
    """The registry's entry, or one for a function."""
    if isinstance(optimizer, str):
        return optimizers.find(optimizer.strip().lower())
    return optimizers.from_function(optimizer, own.name_of(optimizer))


def _set_by(settings: Settings) -> dict[str, Any]:
    """What could be searched, but is not as usual."""
    return {name: getattr(settings, name) for name in SETTINGS if getattr(settings, name) != getattr(Settings(), name)}


def _settings(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name in SETTINGS}
