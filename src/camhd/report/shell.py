"""Optimizers in a shell."""

from __future__ import annotations

from typing import Any

import torch

from ..optim import Optimizer


def inside(optimizer: Any) -> Any:
    """Our optimizer, where this is a shell around one, as accelerate's and Lightning's are; else what it is."""
    found = optimizer
    while not isinstance(found, Optimizer) and isinstance(getattr(found, "optimizer", None), torch.optim.Optimizer):
        found = found.optimizer
    return found if isinstance(found, Optimizer) else optimizer
