"""Drivers: one way to train with any optimizer.

    driver.zero_grad(); loss = ...; driver.backward(loss); driver.step(loss)

Most optimizers need nothing else than `Driver`. L4 is handed the loss, Schedule-Free must know whether the model is
trained or evaluated; the peers that need more have drivers of their own in `peers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from ... import report
from ...optim import Optimizer


class Driver:
    """Drives a torch optimizer.

    Args:
        optimizer: the optimizer. If it has an attribute `needs_loss` that is true, its `step` gets a closure that
            returns the loss. If it has the methods `train` and `eval`, they are called when training and evaluation
            begin.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer: torch.optim.Optimizer | None = optimizer
        self.train()

    @property
    def _torch(self) -> torch.optim.Optimizer:
        assert self.optimizer is not None
        return self.optimizer

    def zero_grad(self) -> None:
        """Before the forward pass."""
        self._torch.zero_grad()

    def backward(self, loss: Tensor) -> None:
        """The gradients of the loss."""
        loss.backward()

    def step(self, loss: Tensor) -> None:
        """One step with these gradients; `loss` is the one they are of."""
        if getattr(self._torch, "needs_loss", False):
            self._torch.step(lambda: float(loss.detach()))
        else:
            self._torch.step()

    def train(self) -> None:
        """Training begins, or goes on after an evaluation."""
        self._mode("train")

    def eval(self) -> None:
        """Evaluation begins."""
        self._mode("eval")

    @property
    def elsewhere(self) -> bool:
        """Whether the model is evaluated at other weights than it is trained at."""
        return callable(getattr(self.optimizer, "eval", None))

    def averaged(self) -> AbstractContextManager[None] | None:
        """Weights that the optimizer has averaged, for as long as one is inside; None if it has none."""
        optimizer = self.optimizer
        return optimizer.averaged() if isinstance(optimizer, Optimizer) and optimizer.can_average else None

    def _mode(self, name: str) -> None:
        switch = getattr(self._torch, name, None)
        if callable(switch):
            switch()

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs, beside the model's own state. Take it while training, not in `eval`."""
        return dict(self._torch.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state. The model's own state is loaded by its own means, before this or after."""
        self._torch.load_state_dict(dict(state))

    def rate(self) -> float | None:
        """One number to show while training: the global rate, or the mean of the coarsest level."""
        return report.rate(self.optimizer)
