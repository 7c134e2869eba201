"""FSDP2: parameters, gradients, moments and the rates of units are divided over the processes.

    torchrun --nproc-per-node=2 examples/fsdp.py

A step of the optimizer sends one message, however many layers there are. Rates that layers share are the same
everywhere; the rates of a layer's units are DTensors, like its weight.
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import camhd


def network() -> nn.Sequential:
    """The same initial weights in every process."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 33), nn.Tanh(), nn.Linear(33, 33), nn.Tanh(), nn.Linear(33, 1))


def divided() -> nn.Sequential:
    """The network, each layer of which is divided by rows."""
    model = network()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))  # "cuda" on GPUs
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def work(steps: int) -> camhd.Optimizer:
    """Train on this process's share; the group of processes must be there."""
    rank = dist.get_rank()
    numbers = torch.Generator().manual_seed(rank)
    model = divided()
    # After fully_shard, as any optimizer; and of the model itself, so that layers have names.
    optimizer = camhd.Adam(model, lr=1e-2, levels=("global", "layer", "unit"))
    for step in range(steps):
        x = torch.randn(32, 8, generator=numbers)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x.sin().sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        if step % 20 == 0 and rank == 0:
            print(f"step {step}: loss {loss.item():.4f}, rate {optimizer.rates()['global']:.6f}")
    of_units = optimizer.rates()["unit"]["0"]
    print(f"process {rank} keeps {of_units.to_local().numel()} of the {of_units.numel()} rates of the first layer")
    return optimizer


def main() -> None:
    """For torchrun."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    chosen = parser.parse_args()
    dist.init_process_group("gloo")  # "nccl" on GPUs
    work(chosen.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
