"""Your own problem in the lab: one function for the model, one for the data, one for each optimizer of your own.

    python examples/own_problem.py --epochs 30 --seeds 3

The same functions work on the command line:

    camhd compare --model examples/own_problem.py:network --data examples/own_problem.py:spirals \
                  --optimizers adam,adam-cam-hd-2,examples/own_problem.py:by_layer
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import nn

import camhd
from camhd.lab import Entrant, Settings, compare, data


def spirals() -> data.Dataset:
    """Points on two spirals that wind around each other; which one is each point on?"""
    numbers = torch.Generator().manual_seed(0)
    labels = torch.arange(2000) % 2
    angle = 3 * math.pi * torch.rand(2000, generator=numbers).sqrt()
    turned = angle + math.pi * labels
    points = torch.stack([angle * turned.cos(), angle * turned.sin()], dim=1)
    points += 0.3 * torch.randn(2000, 2, generator=numbers)
    return data.from_tensors("spirals", (points[:1500], labels[:1500]), (points[1500:], labels[1500:]))


def network() -> nn.Module:
    """A small network; the seed of a run decides its initial weights."""
    return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))


def by_layer(model: nn.Module, lr: float = 3e-4) -> torch.optim.Optimizer:
    """An optimizer with one learned rate for each layer, and none for the whole network."""
    return camhd.Adam(model, lr=lr, levels=("layer",), hyper_rule="multiplicative")


def main(arguments: list[str] | None = None) -> None:
    """Compare, and print what came out."""
    parser = argparse.ArgumentParser(description="Compare optimizers on a problem of your own.")
    parser.add_argument("--epochs", type=int, default=30, help="epochs per run (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="runs per optimizer (%(default)s)")
    parser.add_argument("--folder", default=None, help="keep records here; a second call takes them from there")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)  # tensors this small gain nothing from more, and lose much on a busy machine
    found = compare(
        network,
        spirals,
        ["adam:lr=3e-4", "adam-cam-hd-2:lr=3e-4,hyper_lr=1e-5", Entrant(by_layer, label="a rate for each layer")],
        Settings(epochs=chosen.epochs),
        seeds=chosen.seeds,
        folder=chosen.folder,
    )
    for row in found.rows:
        print(f"{row.label:<48} {row.metric}  p = {row.p:.2g}")


if __name__ == "__main__":
    main()
