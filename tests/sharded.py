"""Small networks trained in one process, and the same divided over several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from camhd import Optimizer

Make = Callable[[nn.Module], Optimizer]
EXAMPLES = 8


def network() -> nn.Sequential:
    """Rows that 2 and 4 processes divide unevenly, a layer of one row, and vectors that are no bias."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 5), nn.LayerNorm(5), nn.Linear(5, 3, bias=False), nn.Linear(3, 1)
    ).double()


class Recurrent(nn.Module):
    """Gates, and rows that are stacked in four tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 3, batch_first=True)
        self.head = nn.Linear(3, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.head(self.lstm(inputs.view(len(inputs), 2, 3))[0][:, -1])
        return found


def recurrent() -> nn.Module:
    torch.manual_seed(0)
    return Recurrent().double()


def batch(step: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """The examples of a step."""
    random = torch.Generator().manual_seed(step)
    inputs = torch.randn(EXAMPLES, 6, generator=random, dtype=torch.float64)
    return inputs.to(dtype), inputs[:, :1].sin().to(dtype)


def train(model: nn.Module, optimizer: Optimizer, steps: range, rank: int = 0, world: int = 1) -> Iterator[int]:
    """Steps on this process's share of each batch."""
    dtype = next(model.parameters()).dtype
    for step in steps:
        inputs, targets = batch(step, dtype)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs[rank::world]), targets[rank::world]).backward()
        optimizer.step()
        yield step


def here(model: nn.Module, optimizer: Optimizer, steps: range) -> None:
    """The same on this process of the group."""
    for _ in train(model, optimizer, steps, dist.get_rank(), dist.get_world_size()):
        pass


def alone(make: Make, steps: int, build: Callable[[], nn.Module] = network) -> tuple[nn.Module, Optimizer]:
    """Trained in one process on the joined batches."""
    model = build()
    optimizer = make(model)
    for _ in train(model, optimizer, range(steps)):
        pass
    return model, optimizer


def whole(value: Any) -> Any:
    """Everything in it that is divided, put together."""
    if isinstance(value, Mapping):
        return {key: whole(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [whole(inner) for inner in value]
    if hasattr(value, "full_tensor"):
        value = value.full_tensor()
    return value.detach().clone() if isinstance(value, Tensor) else value


def learned(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Weights, rates, combination and the base rule's state, put together."""
    return {
        "weights": [whole(p) for p in model.parameters()],
        "rates": whole(optimizer.rates()),
        "combination": whole(optimizer.combination_state()),
        "state": [whole(optimizer.state[p]) for p in model.parameters()],
    }


def assert_close(found: Any, wanted: Any, rtol: float, where: str = "") -> None:
    """The same numbers in the same places."""
    if isinstance(wanted, Mapping):
        assert found.keys() == wanted.keys(), where
        for key in wanted:
            assert_close(found[key], wanted[key], rtol, f"{where}.{key}")
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted), where
        for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_close(one, other, rtol, f"{where}[{index}]")
    else:
        torch.testing.assert_close(
            torch.as_tensor(found),
            torch.as_tensor(wanted),
            rtol=rtol,
            atol=rtol * 1e-3 if rtol else 0.0,
            msg=lambda text: f"{where}: {text}",
        )
