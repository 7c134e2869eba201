"""DistributedDataParallel: every process has the whole model, and all of them the same learning rates.

    torchrun --nproc-per-node=2 examples/ddp.py

The shares of the data are of different length; `Join` with `JoinedState` keeps the processes alike all the same.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

import camhd
from camhd.optim.join import JoinedState


def network() -> nn.Module:
    """The same initial weights in every process."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def work(epochs: int) -> camhd.Optimizer:
    """Train on this process's share; the group of processes must be there."""
    rank = dist.get_rank()
    numbers = torch.Generator().manual_seed(rank)
    inputs = torch.randn(320 + 32 * rank, 8, generator=numbers)  # the later processes have more to do
    targets = inputs.sin().sum(1, keepdim=True)

    model = DistributedDataParallel(network())
    optimizer = camhd.Adam(model.module, lr=1e-2, levels=("global", "layer", "unit"), hyper_rule="multiplicative")
    for epoch in range(epochs):
        with Join([model, JoinedState(optimizer, model)]):
            for x, y in zip(inputs.split(32), targets.split(32), strict=True):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
        print(f"process {rank}, epoch {epoch}: loss {loss.item():.4f}, rate {optimizer.rates()['global']:.6f}")
    return optimizer


def main() -> None:
    """For torchrun."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    chosen = parser.parse_args()
    dist.init_process_group("gloo")  # "nccl" on GPUs
    work(chosen.epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
