"""A callback for Lightning's `Trainer`."""

from __future__ import annotations

import sys
from typing import Any

import torch

from .flat import scalars
from .reading import LIMIT


def lightning_callback(every: int = 50, *, limit: int = LIMIT) -> Any:
    """A Lightning `Callback` that writes all `scalars` of the optimizers to the trainer's loggers.

    Beside it, Lightning's own `LearningRateMonitor` shows the param groups' `lr`: what the scheduler says, before
    anything is learned. With several optimizers the names begin with that of the optimizer: `"Adam/rates/global"`,
    `"Adam-1/rates/global"`.

    Args:
        every: how many steps lie between two entries. They stand at Lightning's own count, which begins at 0.
        limit: up to how many rates of a level are written one by one.

    Example:
        `lightning.Trainer(callbacks=[camhd.report.lightning_callback(every=10)])`
    """
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f"'every' must be a number of steps from 1 on, got {every!r}.")

    class RateMonitor(_callback_class()):  # type: ignore[misc]
        """Rates to the loggers; see `camhd.report.lightning_callback`."""

        def __init__(self) -> None:
            self.last = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if not trainer.loggers:
                raise ValueError("lightning_callback() writes to the trainer's loggers, but it has none; give it one.")

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == self.last:  # a batch whose gradients were only accumulated is no step
                return
            self.last = trainer.global_step
            step = _step_of(trainer)
            if (step + 1) % every == 0:
                for logger in trainer.loggers:
                    logger.log_metrics(_metrics(trainer.optimizers, limit), step=step)

    return RateMonitor()


def _callback_class() -> Any:
    """Of the package that the program uses: `lightning`, or `pytorch_lightning`, which has classes of its own."""
    if "lightning.pytorch" not in sys.modules and "pytorch_lightning" in sys.modules:
        return sys.modules["pytorch_lightning"].Callback
    try:
        from lightning.pytorch import Callback
    except ImportError as error:
        raise ImportError("lightning_callback() needs Lightning: pip install lightning") from error
    return Callback


def _step_of(trainer: Any) -> int:
    """The step that Lightning itself puts beside what a module logs at this batch, from 0."""
    return int(trainer.fit_loop.epoch_loop._batches_that_stepped)


def _metrics(optimizers: list[torch.optim.Optimizer], limit: int) -> dict[str, float]:
    if len(optimizers) == 1:
        return scalars(optimizers[0], limit)
    found: dict[str, float] = {}
    seen: list[str] = []
    for optimizer in optimizers:
        kind = type(optimizer).__name__
        name = f"{kind}-{seen.count(kind)}" if kind in seen else kind
        seen.append(kind)
        found |= {f"{name}/{key}": value for key, value in scalars(optimizer, limit).items()}
    return found
