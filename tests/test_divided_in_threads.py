"""Parameters divided over processes, with threads in their place: the numbers of one process, to the last digits.

The oracle is the run of one optimizer on the undivided tensors, which other tests compare with the literal algorithm.
Gradients are given, not computed: each process gets its part of the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import camhd
from camhd.tree.placements import put_together
from camhd.tree.shards import Shards
from compare import close
from in_threads import in_threads

if not dist.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

pytestmark = pytest.mark.usefixtures("papers_form")

SHAPES = {"a.weight": (5, 3), "a.bias": (5,), "b.weight": (4, 2, 2), "b.bias": (4,), "c.weight": (1, 6), "d": (3,)}
LEARNING: dict[str, Any] = {"lr": 1e-2, "hyper_lr": 1e-4, "combine_lr": 1e-2}
UNITS = ("global", "layer", "unit")
STEPS = 4
Place = Callable[[str, Tensor], Tensor]


def values(seed: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return {n: torch.randn(shape, generator=random, dtype=torch.float64) for n, shape in SHAPES.items()}


def gradients(t: int) -> dict[str, Tensor]:
    common, noise = values(50), values(100 + t)
    return {name: common[name] + 0.5 * noise[name] for name in SHAPES}


def train(make: Callable[..., Any], place: Place, steps: Sequence[int] = range(STEPS)) -> tuple[list[Any], Any]:
    named = [(name, nn.Parameter(place(name, value))) for name, value in values(0).items()]
    optimizer = make(named)
    go_on(named, optimizer, place, steps)
    return named, optimizer


def go_on(named: list[Any], optimizer: Any, place: Place, steps: Sequence[int]) -> None:
    for t in steps:
        for name, param in named:
            param.grad = place(name, gradients(t)[name])
        optimizer.step()


def learned(named: list[Any], optimizer: Any) -> list[Tensor]:
    """Everything, put together from all processes."""
    levels = optimizer._tree.level_rates(whole=True)
    rates = [torch.cat([put_together(rate).flatten() for rate in found]) for found in levels.values()]
    weights = [value.flatten() for value in optimizer.combination_state().values()]
    return [*rates, *weights, *(put_together(param.detach()) for _, param in named)]


def divide(value: Tensor, mesh: Any, placements: list[Any]) -> Tensor:
    """As torch divides it; every process has the whole, so that nothing need be sent."""
    return distribute_tensor(value, mesh, placements, src_data_rank=None)


def by_rows(name: str, value: Tensor) -> Tensor:
    return divide(value, init_device_mesh("cpu", (dist.get_world_size(),)), [Shard(0)])


def by_columns(name: str, value: Tensor) -> Tensor:
    """Matrices by columns, vectors by rows: a unit's scalars lie on several processes."""
    return divide(value, init_device_mesh("cpu", (dist.get_world_size(),)), [Shard(min(1, value.dim() - 1))])


def some(name: str, value: Tensor) -> Tensor:
    """Some by rows, some copied, some not divided at all."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if name.startswith("a"):
        return divide(value, mesh, [Shard(0)])
    return divide(value, mesh, [Replicate()]) if name.startswith("b") else value


def in_two_ways(name: str, value: Tensor) -> Tensor:
    """Copies along one dimension of the mesh, rows along the other (hybrid sharding)."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "rows"))
    return divide(value, mesh, [Replicate(), Shard(0)])


def crosswise(name: str, value: Tensor) -> Tensor:
    """Rows along one dimension of the mesh, columns along the other."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    return divide(value, mesh, [Shard(0), Shard(1) if value.dim() > 1 else Replicate()])


def twice_by_rows(name: str, value: Tensor) -> Tensor:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
    return divide(value, mesh, [Shard(0), Shard(0)])


PLACES: dict[str, tuple[int, Place]] = {
    "rows": (2, by_rows),
    "rows of three": (3, by_rows),
    "columns": (2, by_columns),
    "some": (2, some),
    "copies": (4, in_two_ways),
    "crosswise": (4, crosswise),
}


def two_groups(named: list[Any], **options: Any) -> Any:
    groups = [{"params": named[:4], "lr": 1e-2}, {"params": named[4:], "lr": 3e-2, "hyper_lr": 2e-4}]
    return camhd.Adam(groups, **{**LEARNING, **options})


MAKERS: dict[str, Callable[..., Any]] = {
    "units": partial(camhd.Adam, levels=UNITS, **LEARNING),
    "scalars": partial(camhd.SGD, momentum=0.9, levels=("global", "unit", "parameter"), **LEARNING),
    "cosine": partial(camhd.AdamW, levels=(*UNITS, "parameter"), hyper_rule="multiplicative", lr=1e-2),
    "per layer": partial(camhd.Adam, levels=UNITS, combine=camhd.combine.PerLayer(), **LEARNING),
    "network": partial(camhd.Adam, levels=("layer", "unit"), combine=camhd.combine.Network(2), **LEARNING),
    "tied": partial(camhd.Adam, levels=UNITS, combine=camhd.combine.Regularized(100.0), lr=1e-2, hyper_lr=1e-4),
    "mean": partial(camhd.Adam, levels=UNITS, hyper_scale="mean", lr=1e-2, hyper_lr=1e-2),
    "groups": partial(two_groups, levels=("global", "group", "unit")),
}


CASES = [("rows", maker) for maker in MAKERS] + [
    (places, maker) for places in PLACES if places != "rows" for maker in ("units", "scalars", "groups")
]


@pytest.mark.parametrize(("places", "maker"), CASES)
def test_divided_tensors_learn_as_whole_ones(places: str, maker: str) -> None:
    count, place = PLACES[places]
    make = MAKERS[maker]
    expected = learned(*train(partial(make, backend="foreach"), lambda name, value: value))

    def divided() -> list[Tensor]:
        return learned(*train(make, place))

    for found in in_threads(count, divided):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)


@pytest.mark.parametrize("place", [by_rows, by_columns, some, in_two_ways, crosswise, twice_by_rows])
def test_parts_are_those_that_torch_gives_each_process(place: Place) -> None:
    """Of tensors with more and with fewer rows than processes."""

    def divided() -> None:
        whole = values(3)
        params = [nn.Parameter(place(name, value)) for name, value in whole.items()]
        shards = Shards(params, list(whole))
        for slot, (param, value) in enumerate(zip(params, whole.values(), strict=True)):
            here = param.to_local() if isinstance(param, DTensor) else param
            assert torch.equal(shards.pieces[slot].take(value), here)
            assert torch.equal(shards.part(slot, value), here)

    in_threads(4, divided)
