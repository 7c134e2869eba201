"""What a task asks for: its loss, and the sums from which an epoch's metrics are made.

The sums stay on the device, so that no step waits for a number to come back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Tally(Protocol):
    """Sums over the examples that were seen so far."""

    def add(self, loss: Tensor, outputs: Tensor, targets: Tensor) -> None:
        """Count a batch; `loss` is its mean."""

    def metrics(self) -> dict[str, float]:
        """The loss and the other metrics of the examples so far; this waits for the device."""

    def state(self) -> dict[str, Tensor]:
        """The sums, to go on from."""

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from these sums."""


class Predictions:
    """Loss and accuracy where one of several classes, or the next token, is to be told.

    Args:
        device: where the sums are kept.
    """

    def __init__(self, device: torch.device) -> None:
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._right = torch.zeros((), dtype=torch.int64, device=device)
        self._count = 0

    def add(self, loss: Tensor, outputs: Tensor, targets: Tensor) -> None:
        count = targets.numel()
        self._loss.add_(loss.detach(), alpha=count)
        self._right += (outputs.detach().argmax(-1) == targets).sum()
        self._count += count

    def metrics(self) -> dict[str, float]:
        count = self._count or math.nan
        return {"loss": self._loss.item() / count, "accuracy": self._right.item() / count}

    def state(self) -> dict[str, Tensor]:
        return {"loss": self._loss, "right": self._right, "count": torch.tensor(self._count)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._loss.copy_(state["loss"])
        self._right.copy_(state["right"])
        self._count = int(state["count"])


class Errors:
    """Mean squared error and the coefficient of determination R², the mean over the predicted numbers.

    Args:
        device: where the sums are kept.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._loss = torch.zeros((), dtype=torch.float64, device=device)
        self._sums = torch.zeros(0, dtype=torch.float64, device=device)  # squared errors, targets, squared targets
        self._count = 0

    def add(self, loss: Tensor, outputs: Tensor, targets: Tensor) -> None:
        self._loss.add_(loss.detach(), alpha=len(targets))
        wanted = targets.double()
        errors = outputs.detach().double() - wanted
        sums = torch.stack([errors.square().sum(0), wanted.sum(0), wanted.square().sum(0)])
        self._sums = sums if not self._count else self._sums + sums
        self._count += len(targets)

    def metrics(self) -> dict[str, float]:
        if not self._count:
            return {"loss": math.nan, "r2": math.nan}
        errors, total, squares = self._sums
        spread = squares - total.square() / self._count
        return {"loss": self._loss.item() / self._count, "r2": (1 - errors / spread).mean().item()}

    def state(self) -> dict[str, Tensor]:
        return {"loss": self._loss, "sums": self._sums, "count": torch.tensor(self._count)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self._loss.copy_(state["loss"])
        self._sums = state["sums"].to(self._device)
        self._count = int(state["count"])


@dataclass(frozen=True)
class Task:
    """A kind of problem.

    Args:
        name: as a data set calls it.
        metric: what a run is judged by.
        higher: whether more of it is better.
    """

    name: str
    metric: str
    higher: bool

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over the examples of a batch (in nats, where classes or tokens are told)."""
        if self.name == "regression":
            return F.mse_loss(outputs, targets)
        if self.name == "language":
            return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())
        return F.cross_entropy(outputs, targets)

    def tally(self, device: torch.device) -> Tally:
        """Empty sums."""
        return Errors(device) if self.name == "regression" else Predictions(device)

    def better(self, value: float, than: float | None) -> bool:
        """Whether a value of the metric is better than another; whatever is not a number is worse than any number."""
        if math.isnan(value):
            return False
        if than is None or math.isnan(than):
            return True
        return value > than if self.higher else value < than


TASKS = {
    task.name: task
    for task in (
        Task("classification", "accuracy", higher=True),
        Task("language", "loss", higher=False),
        Task("regression", "r2", higher=True),
    )
}


def check_outputs(task: Task, outputs: Tensor, targets: Tensor, classes: int) -> None:
    """A model of one's own may give something else than the task asks for; say so before a loss fails."""
    wanted = (*targets.shape, classes) if task.name != "regression" else tuple(targets.shape)
    if tuple(outputs.shape) != wanted:
        raise ValueError(
            f"the model must give outputs of the shape {wanted} for targets of the shape {tuple(targets.shape)} "
            f"({task.name}, {classes} {'values' if task.name == 'regression' else 'classes'}), but gave "
            f"{tuple(outputs.shape)}."
        )
