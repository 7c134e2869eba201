"""`camhd.wrap`: rates that learn for any optimizer whose step is lr times a direction; others are refused.

python examples/wrap_any.py
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import camhd


def main(steps: int = 100) -> dict[str, str]:
    """Every optimizer of torch.optim on one small problem: its last loss, or why it cannot be wrapped."""
    kinds: list[Any] = [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]
    verdicts = {}
    for kind in kinds:
        if not issubclass(kind, torch.optim.Optimizer) or kind is torch.optim.Optimizer:
            continue
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32, bias=False), nn.Tanh(), nn.Linear(32, 1, bias=False))
        try:
            opt = camhd.wrap(kind(model.parameters(), lr=1e-2), model)
        except ValueError as error:
            verdicts[kind.__name__] = str(error)
            continue
        for _ in range(steps):
            x = torch.randn(64, 8)
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True).sin())
            loss.backward()
            opt.step()
        verdicts[kind.__name__] = f"loss {float(loss.detach()):.3f}"
    for name, verdict in verdicts.items():
        print(f"{name:<12} {verdict}")
    return verdicts


if __name__ == "__main__":
    main()
