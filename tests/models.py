"""Small models, the mini-batches they are trained on, and gradients without any model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call


class Mlp(nn.Module):
    gates: Mapping[str, tuple[str, ...]] = {}
    inputs: tuple[int, ...] = (8, 4)

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(4, 5)
        self.fc2 = nn.Linear(5, 4)
        self.fc3 = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x)))))


class Cnn(nn.Module):
    gates: Mapping[str, tuple[str, ...]] = {}
    inputs = (8, 1, 6, 6)

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Module()
        self.stem.conv = nn.Conv2d(1, 3, 3, bias=False)  # batch norm would make its bias idle
        self.stem.norm = nn.BatchNorm2d(3)
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.stem.norm(self.stem.conv(x)))
        return self.head(torch.tanh(self.conv(x)).flatten(1))


class Lstm(nn.Module):
    gates: Mapping[str, tuple[str, ...]] = {"rnn.lstm": ("input", "forget", "cell", "output")}
    inputs = (3, 6, 2)  # time, batch, features

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.Module()
        self.rnn.lstm = nn.LSTM(2, 3)
        self.head = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn.lstm(x)[0][-1])


class Gru(Lstm):
    gates: Mapping[str, tuple[str, ...]] = {"rnn.gru": ("reset", "update", "new")}

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.rnn = nn.Module()
        self.rnn.gru = nn.GRU(2, 3, num_layers=2)
        self.head = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn.gru(x)[0][-1])


MODELS: dict[str, Callable[[], nn.Module]] = {"mlp": Mlp, "cnn": Cnn, "lstm": Lstm, "gru": Gru}


def build(name: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MODELS[name]().to(dtype)


@cache
def draw(shape: tuple[int, ...], dtype: torch.dtype, t: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1000 + t), dtype=torch.float64)
    samples = x.transpose(0, 1) if x.dim() == 3 else x
    score = samples.flatten(1).sum(1)
    return x.to(dtype), (score > -1).long() + (score > 1).long()


def batch(model: nn.Module, t: int) -> tuple[Tensor, Tensor]:
    """The mini-batch of step t: inputs, and classes 0, 1, 2 that depend on them, so that one can learn."""
    return draw(model.inputs, next(model.parameters()).dtype, t)


def loss_at(model: nn.Module, theta: Mapping[str, Tensor], t: int) -> Tensor:
    """The loss of step t as a function of the parameters."""
    x, target = batch(model, t)
    return nn.functional.cross_entropy(functional_call(model, dict(theta), (x,)), target)


def backward(model: nn.Module, t: int, without: tuple[str, ...] = ()) -> None:
    """Fill ``.grad`` on the batch of step t; parameters named in ``without`` get none."""
    model.zero_grad(set_to_none=True)
    x, target = batch(model, t)
    nn.functional.cross_entropy(model(x), target).backward()
    for name in without:
        model.get_parameter(name).grad = None


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def feed(optimizer: Any, model: nn.Module, gradients: list[dict[str, Tensor]]) -> None:
    """Steps with gradients that do not depend on where the parameters are."""
    for step in gradients:
        for name, p in model.named_parameters():
            p.grad = step[name].to(p.dtype, copy=True)
        optimizer.step()


def gradients_of(model: nn.Module, steps: int, factor: float = 1.0) -> list[dict[str, Tensor]]:
    """Gradients that mostly agree from step to step."""
    generator = torch.Generator().manual_seed(5)

    def draw(p: Tensor) -> Tensor:
        return torch.randn(p.shape, generator=generator, dtype=torch.float64)

    common = {name: draw(p) for name, p in model.named_parameters()}
    return [{n: factor * (c + 0.3 * draw(c)) for n, c in common.items()} for _ in range(steps)]


def twin(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model)
