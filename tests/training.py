"""Training steps for tests: on the batches of `models`, with any optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from camhd import baselines
from cases import EXACT
from compare import close
from models import batch


def loss_of(model: nn.Module, t: int, theta: dict[str, Tensor] | None = None) -> Tensor:
    x, target = batch(model, t)
    found = model(x) if theta is None else functional_call(model, theta, (x,))
    return nn.functional.cross_entropy(found, target)


def swaying_loss(model: nn.Module, t: int) -> Tensor:
    """Successive gradients agree at first and contradict each other from step 21 on, which makes a rate sink."""
    return loss_of(model, t) if t <= 20 else 4 * (-1) ** t * loss_of(model, 20)


def step(optimizer: torch.optim.Optimizer, model: nn.Module, t: int, loss_at: Any = loss_of) -> float:
    """One training step on the batch of step t, whatever the optimizer needs; its gradients must stay as they are."""
    optimizer.zero_grad()
    loss = loss_at(model, t)
    loss.backward()
    before = [p.grad.clone() for p in model.parameters()]
    if isinstance(optimizer, baselines.L4):
        optimizer.step(loss=loss)
    else:
        optimizer.step()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), before, strict=True))
    return float(loss.detach())


def assert_same(model: nn.Module, other: nn.Module, rtol: float = EXACT) -> None:
    for got, want in zip(model.parameters(), other.parameters(), strict=True):
        close(got, want, rtol)
