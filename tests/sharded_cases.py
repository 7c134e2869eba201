"""Optimizers of every kind, and the check that dividing their parameters changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import camhd
from camhd import AdaBound, Adam, AdamW, Optimizer, combine, levels
from sharded import alone, assert_close, learned, network, train

EXACT = 1e-10  # of float64, after some steps of sums in another order
STEPS = 12
UNITS = ("global", "layer", "unit")
PAPERS = {"hyper_rule": "additive"}
LEARNING = {"lr": 1e-2, "hyper_lr": 1e-4, "combine_lr": 1e-3, **PAPERS}


def grouped(model: nn.Module, **options: Any) -> Optimizer:
    """Two param groups of different lr, which share their global rate."""
    named = list(model.named_parameters())
    groups = [{"params": named[:4], "lr": 1e-2, "name": "low"}, {"params": named[4:], "lr": 3e-2, "name": "high"}]
    return Adam(groups, **{**LEARNING, **options})


def blocks(name: str) -> str:
    return "first" if name.startswith(("0", "2")) else "rest"


def tied(solve: str) -> combine.Regularized:
    return combine.Regularized(100.0, over_time=10.0, solve=solve)


CASES: dict[str, Callable[[nn.Module], Optimizer]] = {
    "sgd": partial(camhd.SGD, levels=UNITS, **LEARNING),
    "momentum": partial(camhd.SGD, momentum=0.9, levels=UNITS, **LEARNING),
    "nesterov": partial(camhd.SGD, momentum=0.9, nesterov=True, weight_decay=0.01, levels=UNITS, **LEARNING),
    "adamw": partial(AdamW, weight_decay=0.1, levels=UNITS, **LEARNING),
    "amsgrad, decay": partial(Adam, amsgrad=True, levels=UNITS, decay=1e-2, **LEARNING),
    "adabound": partial(AdaBound, levels=UNITS, **LEARNING),
    "five levels": partial(
        Adam, levels=("global", levels.Block(blocks), "layer", "unit", "parameter"), combine="softmax", **LEARNING
    ),
    "per layer": partial(Adam, levels=("global", "layer", "parameter"), combine=combine.PerLayer(), **LEARNING),
    "network": partial(Adam, levels=("layer", "unit", "parameter"), combine=combine.Network(2), **LEARNING),
    "network of units": partial(Adam, levels=UNITS, combine=combine.Network(2), **LEARNING),
    "multiplicative": partial(Adam, levels=(*UNITS, "parameter"), hyper_rule="multiplicative", lr=1e-2),
    "mean": partial(Adam, levels=UNITS, hyper_scale="mean", lr=1e-2, hyper_lr=1e-2, **PAPERS),
    "size": partial(Adam, levels=("global", "layer", "unit"), hyper_scale="size", lr=1e-2, hyper_lr=1e-6, **PAPERS),
    "tied": partial(Adam, levels=(*UNITS, "parameter"), combine=tied("virtual"), lr=1e-2, hyper_lr=1e-4, **PAPERS),
    "tied, closed": partial(
        Adam, levels=(*UNITS, "parameter"), combine=tied("closed"), lr=1e-2, hyper_lr=1e-4, **PAPERS
    ),
    "columns": partial(Adam, levels=("global", "layer", levels.Unit("input")), **LEARNING),
    "groups": partial(grouped, levels=("global", "group", "unit")),
    "groups, tied": partial(grouped, levels=("global", "group", "unit"), combine=tied("closed"), combine_lr=0),
    "default": Adam,
    "default, units": partial(Adam, levels=UNITS, lr=1.0, combine_lr=1e-3, restarts=(7,)),  # a lr far above the bounds
    "scheduled global": partial(Adam, levels=UNITS, schedule="global", restarts=(7,), **LEARNING),
}


def shard(model: nn.Module, **options: Any) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    for child in model.children():
        if list(child.parameters()):
            fully_shard(child, **options)
    return fully_shard(model, **options)


def shard_at_once(model: nn.Module) -> None:
    from torch.distributed.fsdp import fully_shard

    fully_shard(model)


def foreach(make: Callable[..., Optimizer], model: nn.Module) -> Optimizer:
    return make(model, backend="foreach")


def as_in_one_process(
    make: Callable[..., Optimizer],
    build: Callable[[], nn.Module] = network,
    divide: Callable[..., Any] = shard_at_once,
    copies: int = 1,
) -> None:
    """`copies`: how many processes in a row work on the same examples."""
    model = build()
    divide(model)
    optimizer = make(model)
    for _ in train(model, optimizer, range(STEPS), dist.get_rank() // copies, dist.get_world_size() // copies):
        pass
    found = learned(model, optimizer)
    if dist.get_rank() == 0:
        assert_close(found, learned(*alone(partial(foreach, make), STEPS, build)), EXACT)
    shared_alike(optimizer)
    parts_are_taken_as_torch_takes_them(optimizer)


def parts_are_taken_as_torch_takes_them(optimizer: Optimizer) -> None:
    """What a process takes of a whole tensor, from a checkpoint for example, is what it has of the parameter."""
    shards = optimizer._shards
    assert shards is not None
    for slot, like in enumerate(shards.likes):
        if like is not None:
            assert torch.equal(shards.pieces[slot].take(like.full_tensor()), like.to_local())


def shared_alike(optimizer: Optimizer) -> None:
    """What all processes keep is the same to the bit."""
    layout = optimizer._tree.cells.divided
    assert layout is not None
    levels = zip(optimizer._tree.state.levels, layout.shared, strict=True)
    numbers = torch.cat(
        [
            *(level.rates[:count] for level, count in levels),
            *(v.flatten() for v in optimizer.combination_state().values()),
        ]
    )
    others = [torch.empty_like(numbers) for _ in range(dist.get_world_size())]
    dist.all_gather(others, numbers)
    assert all(torch.equal(numbers, other) for other in others)
