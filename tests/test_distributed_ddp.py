"""DDP: the same rates on every process, uneven inputs, and what cannot be divided."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import camhd
from processes import in_processes
from sharded import alone, assert_close, batch, here, learned, network, train
from sharded_cases import LEARNING, UNITS

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed"),
    pytest.mark.slow,
]


def two(folder: Path) -> None:
    for backend in ("foreach", "auto"):
        alike_for_200_steps(backend)
    uneven_inputs()
    zero_is_refused()
    fsdp1_is_refused()


def ddp(**options: Any) -> tuple[nn.Module, camhd.Optimizer]:
    model = nn.parallel.DistributedDataParallel(network())
    return model, camhd.Adam(model.module, levels=(*UNITS, "parameter"), **LEARNING, **options)


def same_bits(model: nn.Module, optimizer: camhd.Optimizer) -> bool:
    """Whether every process has the same weights, rates, γ and moments, to the bit."""
    mine: list[Any] = []

    def note(value: Any) -> None:
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, (dict, list)):
                note(inner)
            else:
                mine.append(torch.as_tensor(inner).detach().double().flatten())

    note(learned(model, optimizer))
    numbers = torch.cat(mine)
    others = [torch.empty_like(numbers) for _ in range(dist.get_world_size())]
    dist.all_gather(others, numbers)
    return all(torch.equal(numbers, other) for other in others)


def alike_for_200_steps(backend: str) -> None:
    model, optimizer = ddp(backend=backend)
    for step in train(model, optimizer, range(200), dist.get_rank(), dist.get_world_size()):
        assert step % 20 or same_bits(model, optimizer), step
    assert same_bits(model, optimizer)
    make = partial(camhd.Adam, levels=(*UNITS, "parameter"), backend=backend, **LEARNING)
    assert_close(learned(model, optimizer), learned(*alone(make, 200)), 1e-9)


def uneven_inputs() -> None:
    """The second process has three batches more. With `JoinedState` all go on from the same rates and moments."""
    from camhd.optim.join import Join, JoinedState

    for told in (True, False):
        model, optimizer = ddp()
        here(model, optimizer, range(2))
        joined = [model, JoinedState(optimizer, model)] if told else [model]
        with Join(joined):
            for step in range(2, 5 + 3 * dist.get_rank()):
                inputs, targets = batch(step)
                optimizer.zero_grad()
                nn.functional.mse_loss(model(inputs), targets).backward()
                optimizer.step()
        assert same_bits(model, optimizer) == told  # without it, the early one's state is old, as Adam's would be
        if told:
            here(model, optimizer, range(8, 12))
            assert same_bits(model, optimizer)


def zero_is_refused() -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = network()
    with pytest.raises(ValueError, match=r"ZeroRedundancyOptimizer builds a camhd.Adam .*fully_shard"):
        ZeroRedundancyOptimizer(model.parameters(), camhd.Adam, lr=1e-2)


def fsdp1_is_refused() -> None:
    import warnings

    from torch.distributed.fsdp import FullyShardedDataParallel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        for original in (True, False):
            model = FullyShardedDataParallel(network(), use_orig_params=original, device_id=torch.device("cpu"))
            with pytest.raises(ValueError, match="FSDP2"):
                camhd.Adam(model.parameters(), lr=1e-2)


def test_ddp_keeps_all_processes_alike() -> None:
    in_processes(2, two)
