"""Parameters divided over processes, with threads in their place: the numbers of one process, to the last digits.

The oracle is the run of one optimizer on the undivided tensors, which other tests compare with the literal algorithm.
Gradients are given, not computed: each process gets its part of the same ones.
"""

from __future__ import annotations

import copy
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
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

pytestmark = pytest.mark.usefixtures("papers_form")

SHAPES = {"a.weight": (5, 3), "a.bias": (5,), "b.weight": (4, 2, 2), "b.bias": (4,), "c.weight": (1, 6), "d": (3,)}
PAPERS: dict[str, Any] = {"hyper_rule": "additive"}  # the default rule: test_divided_default
LEARNING: dict[str, Any] = {"lr": 1e-2, "hyper_lr": 1e-4, "combine_lr": 1e-2, **PAPERS}
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
    "tied": partial(
        camhd.Adam, levels=UNITS, combine=camhd.combine.Regularized(100.0), lr=1e-2, hyper_lr=1e-4, **PAPERS
    ),
    "mean": partial(camhd.Adam, levels=UNITS, hyper_scale="mean", lr=1e-2, hyper_lr=1e-2, **PAPERS),
    "groups": partial(two_groups, levels=("global", "group", "unit")),
}


CASES = [("rows", maker) for maker in MAKERS] + [
    (places, maker) for places in PLACES if places != "rows" for maker in ("units", "scalars", "groups")
]


def with_other_options(place: Place, amsgrad: bool) -> list[Tensor]:
    """Steps of which some have other β₂ and ε and leave out parameters that have moments by then."""
    named, optimizer = train(partial(camhd.Adam, amsgrad=amsgrad, backend="foreach", **LEARNING), place)
    for t in range(STEPS, 3 * STEPS):
        optimizer.param_groups[0].update(betas=(0.9, 0.99 if t % 2 else 0.999), eps=1e-3 * t)
        for i, (name, param) in enumerate(named):
            param.grad = place(name, gradients(t)[name]) if (t + i) % 3 else None
        optimizer.step()
    return learned(named, optimizer)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("places", PLACES)
def test_moments_of_divided_tensors_stay_when_their_options_change(places: str, amsgrad: bool) -> None:
    count, place = PLACES[places]
    expected = with_other_options(lambda name, value: value, amsgrad)
    for found in in_threads(count, partial(with_other_options, place, amsgrad)):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)


@pytest.mark.parametrize(("places", "maker"), CASES)
def test_divided_tensors_learn_as_whole_ones(places: str, maker: str) -> None:
    count, place = PLACES[places]
    make = MAKERS[maker]
    expected = learned(*train(partial(make, backend="foreach"), lambda name, value: value))

    def divided() -> list[Tensor]:
        named, optimizer = train(make, place)
        if places == "rows" and maker == "units":  # rates of rows are kept where the rows are
            assert len(optimizer._tree.cells.divided.by_rows(2)) == 4
            rows = sum(len(param.to_local()) for name, param in named if not name.endswith("bias"))
            assert len(optimizer._tree.state.levels[2].rates) == rows
        return learned(named, optimizer)

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


def as_whole(name: str, value: Tensor) -> Tensor:
    return value


def copied(name: str, value: Tensor) -> Tensor:
    return divide(value, init_device_mesh("cpu", (dist.get_world_size(),)), [Replicate()])


@pytest.mark.parametrize("maker", ["units", "scalars", "groups"])
@pytest.mark.parametrize("place", [by_rows, by_columns, some])
def test_a_state_divides_and_comes_together(place: Place, maker: str) -> None:
    """Saved by each process and loaded by each, or saved by one process alone and loaded by all."""
    expected = learned(*train(partial(MAKERS[maker], backend="foreach"), as_whole))
    _, alone = train(partial(MAKERS[maker], backend="foreach"), as_whole, range(2))
    saved = alone.state_dict()

    def divided() -> None:
        for state in (None, saved):
            named, before = train(MAKERS[maker], place, range(2))
            optimizer = MAKERS[maker](named)
            optimizer.load_state_dict(copy.deepcopy(before.state_dict() if state is None else state))
            go_on(named, optimizer, place, range(2, STEPS))
            for got, want in zip(learned(named, optimizer), expected, strict=True):
                close(got, want, rtol=1e-11)

    in_threads(2, divided)


@pytest.mark.parametrize("place", [by_rows, some])
def test_parameters_that_join_later_are_divided_too(place: Place) -> None:
    def late(named: list[Any], place: Place, **options: Any) -> list[Tensor]:
        optimizer = camhd.Adam(named[:2], levels=UNITS, **LEARNING, **options)
        go_on(named[:2], optimizer, place, range(2))
        optimizer.add_param_group({"params": named[2:]})
        go_on(named, optimizer, place, range(2, STEPS))
        return learned(named, optimizer)

    def make(place: Place) -> list[Any]:
        return [(name, nn.Parameter(place(name, value))) for name, value in values(0).items()]

    expected = late(make(as_whole), as_whole, backend="foreach")
    for found in in_threads(2, lambda: late(make(place), place)):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)


def test_gradients_that_are_divided_otherwise_are_divided_anew() -> None:
    expected = learned(*train(partial(MAKERS["units"], backend="foreach"), as_whole))

    def divided() -> list[Tensor]:
        named = [(name, nn.Parameter(by_rows(name, value))) for name, value in values(0).items()]
        optimizer = MAKERS["units"](named)
        go_on(named, optimizer, copied, range(STEPS))
        return learned(named, optimizer)

    for found in in_threads(2, divided):
        for got, want in zip(found, expected, strict=True):
            close(got, want, rtol=1e-11)


def test_what_cannot_be_summed_is_refused() -> None:
    def refused() -> None:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("x",))
        parts = DTensor.from_local(torch.ones(2, 3), mesh, [Partial()])
        with pytest.raises(ValueError, match="parameters must be sharded or replicated, but 'a' is"):
            Shards([parts], ["a"])
        imaginary = DTensor.from_local(torch.ones(2, 3, dtype=torch.complex64), mesh, [Shard(0)])
        with pytest.raises(ValueError, match="must be real, but 'a' is"):
            Shards([imaginary], ["a"])
        shards = Shards([divide(torch.ones(4, 3), mesh, [Shard(0)])], ["a"])
        assert shards.part(0, torch.ones(5, 3)).shape == (5, 3)  # of something else: whoever wants it says so
        assert shards.part(0, torch.arange(4.0), rows=True).shape == (2,)
        assert shards.wrap_rows(0, torch.ones(2)).shape == (4,)
        assert copy.deepcopy(shards) is shards
        elsewhere = divide(
            torch.ones(4, 3), init_device_mesh("cpu", (1, 2), mesh_dim_names=("a", "b"))["b"], [Shard(0)]
        )
        with pytest.raises(ValueError, match="the state is divided over"):
            shards.part(0, elsewhere)

    in_threads(2, refused)


def test_sums_over_threads_are_one_message() -> None:
    """Each tensor in its own shape, from all processes; without anything divided there is nobody to ask."""

    def summed() -> None:
        mesh, rank = init_device_mesh("cpu", (2,)), dist.get_rank()
        shards = Shards([divide(torch.ones(4, 3), mesh, [Shard(0)]), torch.ones(2)], ["a", "b"])
        assert [piece.counted for piece in shards.pieces] == [True, rank == 0]
        one, other = shards.add_up([torch.full((2, 2), rank + 1.0), torch.tensor(rank + 10.0)])
        assert torch.equal(one, torch.full((2, 2), 3.0))
        assert float(other) == 21
        nobody = Shards([divide(torch.ones(4, 3), mesh, [Replicate()])], ["a"])
        assert nobody.group is None
        assert [float(part) for part in nobody.add_up([torch.tensor(3.0)])] == [3.0]

    in_threads(2, summed)
