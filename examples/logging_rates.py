"""Rates to TensorBoard, and as the flat dictionary that W&B, MLflow and others take.

python examples/logging_rates.py        # then: tensorboard --logdir runs
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import camhd


def main(folder: str = "runs", steps: int = 200) -> dict[str, float]:
    """Train; the last dictionary."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
    opt = camhd.Adam(model, lr=1e-2, levels=("global", "layer", "unit"))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    writer = SummaryWriter(folder)
    with camhd.report.RateLogger(opt, writer, every=10):  # `to=wandb.init(...)` and `to=mlflow` work as well
        for _ in range(steps):
            x = torch.randn(64, 8)
            opt.zero_grad()
            nn.functional.mse_loss(model(x), x.sum(1, keepdim=True).sin()).backward()
            opt.step()
            scheduler.step()
    writer.close()
    flat = camhd.report.scalars(opt, limit=8)  # what `wandb.log(...)` takes
    print(f"the schedule says {opt.param_groups[0]['lr']:.5f}, the weights move with {flat['lr/0']:.5f}")
    for name, value in flat.items():
        print(f"  {name:<20} {value:.5f}")
    return flat


if __name__ == "__main__":
    main()
