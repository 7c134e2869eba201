"""Meshes of two dimensions: copies of what is divided (HSDP), and FSDP2 over tensor parallelism."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from camhd import Adam
from processes import in_processes
from sharded import network
from sharded_cases import CASES, LEARNING, UNITS, as_in_one_process, shard

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed"),
    pytest.mark.slow,
]


def four(folder: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for name in ("adamw", "network", "multiplicative", "groups", "default"):
        as_in_one_process(CASES[name], divide=partial(shard, mesh=mesh))
    one_sum_within_the_shards(mesh)
    # Torch's own, whenever a layer that FSDP2 has divided is tensor-parallel, too.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    for name in ("adamw", "multiplicative", "tied", "network", "default, units"):
        as_in_one_process(CASES[name], build=wide, divide=tensor_parallel, copies=2)


def one_sum_within_the_shards(mesh: Any) -> None:
    """With copies, the sum is taken among the processes that share one copy."""
    model = shard(network(), mesh=mesh)
    optimizer = Adam(model, levels=UNITS, **LEARNING)
    assert optimizer._shards is not None
    assert optimizer._shards.group == mesh.get_group("shard")


def wide() -> nn.Sequential:
    """Even sizes, which FSDP2 asks for on top of tensor parallelism."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4), nn.LayerNorm(4), nn.Linear(4, 4, bias=False), nn.Linear(4, 1)
    ).double()


def tensor_parallel(model: nn.Module) -> None:
    """Rows of one layer and columns of the next over one dimension of the mesh; FSDP2 over the other."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    for child in (model[0], model[2], model[4]):
        fully_shard(child, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])


@pytest.mark.thorough
def test_meshes_of_two_dimensions_train_as_one_process() -> None:
    in_processes(4, four)
