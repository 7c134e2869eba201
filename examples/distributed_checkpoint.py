"""torch.distributed.checkpoint: saved by some number of processes, loaded by another.

    torchrun --nproc-per-node=2 examples/distributed_checkpoint.py --to first
    torchrun --nproc-per-node=3 examples/distributed_checkpoint.py --from first --to second

The second command goes on where the first one stopped, with learned rates, γ and moments divided anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

import camhd


def state_of(model: nn.Module, optimizer: camhd.Optimizer) -> dict[str, Any]:
    """Each process's part of everything."""
    weights, state = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": state}


def save(folder: Path, model: nn.Module, optimizer: camhd.Optimizer) -> None:
    """Every process writes its part."""
    state_dict_saver.save(state_of(model, optimizer), checkpoint_id=folder)


def load(folder: Path, model: nn.Module, optimizer: camhd.Optimizer) -> None:
    """Every process reads its part, however many wrote."""
    state = state_of(model, optimizer)
    state_dict_loader.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def work(source: Path | None, target: Path, steps: int) -> camhd.Optimizer:
    """Train, from a checkpoint if one is given, and save; the group of processes must be there."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 33), nn.Tanh(), nn.Linear(33, 1))
    fully_shard(model)
    optimizer = camhd.Adam(model, lr=1e-2, levels=("global", "layer", "unit"))
    if source is not None:
        load(source, model, optimizer)
    if dist.get_rank() == 0:
        print(f"begins with the rate {optimizer.rates()['global']:.6f} and the weights {optimizer.combination()}")
    numbers = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        x = torch.randn(32, 8, generator=numbers)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sin().sum(1, keepdim=True)).backward()
        optimizer.step()
    save(target, model, optimizer)
    if dist.get_rank() == 0:
        print(f"ends with the rate {optimizer.rates()['global']:.6f}")
    return optimizer


def main() -> None:
    """For torchrun."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=Path, default=None)
    parser.add_argument("--to", dest="target", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=50)
    chosen = parser.parse_args()
    dist.init_process_group("gloo")  # "nccl" on GPUs
    work(chosen.source, chosen.target, chosen.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
