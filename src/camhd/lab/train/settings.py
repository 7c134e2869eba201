"""How a run trains, apart from its model, its data and its optimizer. Everything is checked here, once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from .. import optimizers
from ..choices import choose
from .schedule import factor

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}  # of the weights
BATCH = 64  # examples, unless told otherwise
LINES = 100  # of rates in a run, unless told otherwise


@dataclass(frozen=True)
class Settings:
    """How to train.

    Args:
        epochs: passes over the training set.
        batch_size: examples in a step; None for 64, or the paper's batch size.
        split: "full" (all of the training set; validation on the test set), "fold:2/5" or "fraction:0.1".
        augment: None, "crop-flip" or "crop-flip-cutout".
        schedule: None, "cosine", "warmup-cosine" or "drop:150" (to a tenth after epoch 150).
        patience: stop after so many epochs without a better validation loss; None: never.
        loss_scale: a factor on the loss before its gradient is taken.
        dtype: "float32", "float64", or "bfloat16" for float32 weights under autocast.
        device: as torch calls it.
        rates_every: steps between two lines of rates; None for about a hundred lines in a run.
        stop_loss: stop after the first step whose training loss (that of its batch) is at most this; None: never. The
            loss is then read back from the device at every step.
        paper: take the paper's settings for this model where it has some, in place of the optimizers' defaults.
    """

    epochs: int = 10
    batch_size: int | None = None
    split: str = "full"
    augment: str | None = None
    schedule: str | None = None
    patience: int | None = None
    loss_scale: float = 1.0
    dtype: str = "float32"
    device: str = "cpu"
    rates_every: int | None = None
    paper: bool = False
    stop_loss: float | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience", "rates_every"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"'{name}' must be a whole number, 1 or more, got {value!r}.")
        if self.stop_loss is not None and not math.isfinite(self.stop_loss):
            raise ValueError(f"'stop_loss' must be finite, or None for no stop, got {self.stop_loss}.")
        if not 0 < self.loss_scale < math.inf:
            raise ValueError(f"'loss_scale' must be above zero and finite, got {self.loss_scale}.")
        choose("dtype", self.dtype, DTYPES)
        if self.schedule is not None:
            factor(self.schedule, self.epochs, 1)
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"'device' {self.device!r} cannot be used here: {reason} Take 'cpu'.") from None

    def lines_every(self, steps: int) -> int:
        """Steps between two lines of rates in a run of so many steps."""
        return self.rates_every or max(1, round(steps / LINES))

    def examples(self, model: str, data: str) -> int:
        """How many examples a step takes."""
        task = optimizers.task_of(model) if self.paper else None
        return self.batch_size or (optimizers.batch_size(task, data) if task else BATCH)
