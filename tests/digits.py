"""Training on scikit-learn's digits with whatever the registry has."""

from __future__ import annotations

import importlib
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from camhd.lab import models as networks
from camhd.lab import optimizers


@cache
def digits() -> tuple[Tensor, Tensor]:
    found = importlib.import_module("sklearn.datasets").load_digits()
    return torch.tensor(found.data, dtype=torch.float32) / 16, torch.tensor(found.target)


def network() -> nn.Module:
    torch.manual_seed(0)
    return networks.ffnn((32,), inputs=64)


def needs(name: str) -> optimizers.Entry:
    """The entry, if its package is here."""
    entry = optimizers.find(name)
    if not entry.installed:
        pytest.skip(f"the package {entry.package.name} is not installed")
    return entry


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(inputs), targets)


def train(driver: optimizers.Driver, model: nn.Module, first: int, last: int, batch: int = 64) -> None:
    """Steps `first` to `last`, as the lab takes them; the batch of a step depends on its number alone."""
    inputs, targets = digits()
    for t in range(first, last):
        chosen = torch.randint(len(inputs), (batch,), generator=torch.Generator().manual_seed(t))
        driver.zero_grad()
        loss = loss_of(model, inputs[chosen], targets[chosen])
        driver.backward(loss)
        driver.step(loss)


@torch.no_grad()
def evaluate(driver: optimizers.Driver, model: nn.Module) -> float:
    driver.eval()
    found = float(loss_of(model, *digits()))
    driver.train()
    return found
