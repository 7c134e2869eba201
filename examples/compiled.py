"""A compiled model, and a compiled step.

python examples/compiled.py
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import camhd


def main(steps: int = 20, backend: str = "inductor") -> dict[str, float]:
    """Fit a function with everything compiled; the layers' rates."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    compiled: Any = torch.compile(model, backend=backend)
    # Names and levels are those of the model itself: no "_orig_mod." anywhere. lr is a tensor, as torch asks for
    # where a scheduler changes it between compiled steps.
    opt = camhd.Adam(compiled, lr=torch.tensor(1e-2), backend="foreach")
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=steps)
    step = torch.compile(opt.step, backend=backend, fullgraph=True)
    for _ in range(steps):
        x = torch.randn(64, 8)
        opt.zero_grad()
        loss = nn.functional.mse_loss(compiled(x), x.sum(1, keepdim=True).sin())
        loss.backward()
        step()
        scheduler.step()
    rates: dict[str, float] = opt.rates()["layer"]
    print(f"loss {float(loss.detach()):.3f}, rates {rates}")
    return rates


if __name__ == "__main__":
    main()
