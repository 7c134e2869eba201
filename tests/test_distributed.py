"""Parameters divided over processes (FSDP2 and tensor-parallel DTensors) train as in one process.

The oracle is the run of one process on the joined batches, which the other tests compare with autograd and with the
reference. One call of `in_processes` carries many checks, because starting processes takes longer than all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from processes import in_processes
from sharded import alone, assert_close, batch, here, learned, network, recurrent, train, whole
from torch import nn

import camhd
from camhd import AdaBound, Adam, AdamW, Optimizer, combine, levels

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed"),
    pytest.mark.slow,
]

CLOSE = 1e-5
EXACT = 1e-10  # of float64, after thirty steps of sums in another order
UNITS = ("global", "layer", "unit")
LEARNING = {"lr": 1e-2, "hyper_lr": 1e-4, "combine_lr": 1e-3}


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
    "mean": partial(Adam, levels=UNITS, hyper_scale="mean", lr=1e-2, hyper_lr=1e-2),
    "size": partial(Adam, levels=("global", "layer", "unit"), hyper_scale="size", lr=1e-2, hyper_lr=1e-6),
    "tied": partial(Adam, levels=(*UNITS, "parameter"), combine=tied("virtual"), lr=1e-2, hyper_lr=1e-4),
    "tied, closed": partial(Adam, levels=(*UNITS, "parameter"), combine=tied("closed"), lr=1e-2, hyper_lr=1e-4),
    "columns": partial(Adam, levels=("global", "layer", levels.Unit("input")), **LEARNING),
    "groups": partial(grouped, levels=("global", "group", "unit")),
    "groups, tied": partial(grouped, levels=("global", "group", "unit"), combine=tied("closed"), combine_lr=0),
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


# ---------------------------------------------------------------------- two processes


def two(folder: Path) -> None:
    for name, make in CASES.items():
        try:
            as_in_one_process(make)
        except Exception as error:
            raise AssertionError(f"case {name!r}") from error
    as_in_one_process(partial(Adam, levels=("layer", "gate", "unit"), **LEARNING), recurrent, shard_at_once)
    one_sum_a_step_and_no_full_copies()
    not_finite_on_one_process()
    gradients_that_are_missing()
    offloaded_and_mixed()
    parameters_that_are_not_divided()
    further_groups()
    refusals()


def as_in_one_process(
    make: Callable[..., Optimizer],
    build: Callable[[], nn.Module] = network,
    divide: Callable[..., Any] = shard,
    copies: int = 1,
) -> None:
    """`copies`: how many processes in a row work on the same examples."""
    model = build()
    divide(model)
    optimizer = make(model)
    for _ in train(model, optimizer, range(30), dist.get_rank() // copies, dist.get_world_size() // copies):
        pass
    wanted = alone(partial(foreach, make), 30, build)
    assert_close(learned(model, optimizer), learned(*wanted), EXACT)
    shared_alike(optimizer)


def shared_alike(optimizer: Optimizer) -> None:
    """What all processes keep is the same to the bit."""
    layout = optimizer._tree.cells.divided
    assert layout is not None
    levels = zip(optimizer._tree.state.levels, layout.shared, strict=True)
    numbers = torch.cat(
        [*(level.rates[:count] for level, count in levels), *(v.flatten() for v in optimizer.combination_state().values())]
    )
    others = [torch.empty_like(numbers) for _ in range(dist.get_world_size())]
    dist.all_gather(others, numbers)
    assert all(torch.equal(numbers, other) for other in others)


def one_sum_a_step_and_no_full_copies() -> None:
    """100 steps of ("global", "layer", "unit") Adam, as in one process."""
    from torch.distributed.tensor.debug import CommDebugMode

    make = partial(Adam, levels=UNITS, **LEARNING)
    model = shard(network())
    optimizer = make(model)
    messages = CommDebugMode()
    for step in range(100):
        gradients(model, optimizer, step)
        with messages:
            optimizer.step()
        assert {str(kind): count for kind, count in messages.get_comm_counts().items()} == {"c10d.allreduce_": 1}
    wanted = alone(partial(foreach, make), 100)
    assert_close(learned(model, optimizer), learned(*wanted), CLOSE)
    no_full_copies(optimizer)
    shared_alike(optimizer)


def gradients(model: nn.Module, optimizer: Optimizer, step: int) -> None:
    """Of this process's share of a batch."""
    inputs, targets = batch(step, next(model.parameters()).dtype)
    rank, world = dist.get_rank(), dist.get_world_size()
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs[rank::world]), targets[rank::world]).backward()


def no_full_copies(optimizer: Optimizer) -> None:
    """Every process has its rows of every state, and no more: the parts of all of them make one whole."""
    tree, params = optimizer._tree, [p for group in optimizer.param_groups for p in group["params"]]
    own = [v for p in params for v in optimizer.state[p].values() if v.dim()]
    rows = [level.rates[count:] for level, count in zip(tree.state.levels, tree.cells.divided.shared, strict=True)]
    assert all(hasattr(value, "full_tensor") for value in own)
    parts = torch.tensor([sum(v.to_local().numel() for v in own), sum(map(len, rows))])
    dist.all_reduce(parts)
    units = 7 + 5 + 5 + 3 + 1
    assert parts.tolist() == [2 * sum(p.numel() for p in params), units]
    assert [len(level.rates) for level in tree.state.levels][:2] == [1, 5]


def not_finite_on_one_process() -> None:
    """One process sees an infinity in a row of its own; none of them learns from that step."""
    model = shard(network())
    optimizer = Adam(model, levels=(*UNITS, "parameter"), **LEARNING)
    here(model, optimizer, range(3))
    before = whole(optimizer.rates()), optimizer.combination()
    gradients(model, optimizer, 3)
    if dist.get_rank() == 1:
        grad = model[0].weight.grad
        assert grad is not None
        grad.to_local()[0, 0] = torch.inf
    optimizer.step()
    assert optimizer.skipped == 1
    assert_close((whole(optimizer.rates()), optimizer.combination()), before, 0.0)


def gradients_that_are_missing() -> None:
    """A frozen layer does not move and does not count; nor does a layer that has no gradient at some steps."""

    def build() -> nn.Module:
        model = network()
        model[2].requires_grad_(False)
        return model

    as_in_one_process(CASES["adamw"], build)


def offloaded_and_mixed() -> None:
    """Parameters kept on the CPU; one layer in bfloat16, stepped in its own precision."""
    from torch.distributed.fsdp import CPUOffloadPolicy

    as_in_one_process(CASES["adamw"], divide=partial(shard, offload_policy=CPUOffloadPolicy(pin_memory=False)))

    def build() -> nn.Module:
        model = network().float()
        model[4].bfloat16()
        model.insert(4, Cast(torch.bfloat16))
        model.insert(6, Cast(torch.float32))
        return model

    model = shard(build())
    optimizer = Adam(model, levels=UNITS, **LEARNING)
    here(model, optimizer, range(10))
    assert model[5].weight.dtype == torch.bfloat16
    assert optimizer._tree.cells.dtype == torch.float32
    reference, wanted = alone(lambda m: Adam(m, levels=UNITS, backend="foreach", **LEARNING), 10, build)
    assert_close(whole(optimizer.rates()), whole(wanted.rates()), 1e-2)  # gradients are summed in bfloat16


class Cast(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs.to(self.dtype)


def parameters_that_are_not_divided() -> None:
    """Biases that every process has in full count once, and their units' rates are known everywhere."""

    def divide(model: nn.Module) -> None:
        from torch.distributed.fsdp import fully_shard

        whole_ones = {p for name, p in model.named_parameters() if name.endswith("bias")}
        fully_shard(model, ignored_params=whole_ones)
        for p in whole_ones:
            p.register_post_accumulate_grad_hook(average)

    def average(p: torch.Tensor) -> None:
        assert p.grad is not None
        dist.all_reduce(p.grad)
        p.grad.div_(dist.get_world_size())

    for name in ("adamw", "network", "multiplicative", "tied"):
        as_in_one_process(CASES[name], divide=divide)


def further_groups() -> None:
    """Parameters that come later are divided, too, and what was learned stays."""
    ends = []
    for divide in (shard, nn.Identity()):
        model = network()
        divide(model)
        optimizer = Adam(model[0], levels=UNITS, backend="foreach", **LEARNING)
        rank, world = (dist.get_rank(), dist.get_world_size()) if divide is shard else (0, 1)
        for _ in train(model, optimizer, range(5), rank, world):
            pass
        rest = [(name, p) for name, p in model.named_parameters() if not name.startswith("0.")]
        optimizer.add_param_group({"params": rest, "lr": 3e-2})
        for _ in train(model, optimizer, range(5, 10), rank, world):
            pass
        ends.append(learned(model, optimizer))
    assert_close(ends[0], ends[1], EXACT)


def refusals() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Shard

    mesh = init_device_mesh("cpu", (2,))
    part = nn.Parameter(DTensor.from_local(torch.ones(2, 3), mesh, [Partial()]))
    with pytest.raises(ValueError, match=r"sharded or replicated, but 'w' is .*; redistribute"):
        Adam([("w", part)])
    imaginary = nn.Parameter(DTensor.from_local(torch.ones(2, 3, dtype=torch.complex64), mesh, [Shard(0)]))
    with pytest.raises(ValueError, match="must be real"):
        Adam([("w", imaginary)])
    other = nn.Parameter(DTensor.from_local(torch.ones(2), init_device_mesh("cpu", (2,), mesh_dim_names=("x",)), [Shard(0)]))
    row = nn.Parameter(DTensor.from_local(torch.ones(2), mesh, [Shard(0)]))
    with pytest.raises(ValueError, match="one mesh"):
        Adam([("a", row), ("b", other)])


def test_two_processes_train_as_one() -> None:
    in_processes(2, two)


# ---------------------------------------------------------------------- four processes, two dimensions


def four(folder: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for name in ("adamw", "network", "multiplicative", "groups"):
        as_in_one_process(CASES[name], divide=partial(shard, mesh=mesh))
    one_sum_within_the_shards(mesh)
    # Torch's own, whenever a layer that FSDP2 has divided is tensor-parallel, too.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    for name in ("adamw", "multiplicative", "tied", "network"):
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


def test_meshes_of_two_dimensions_train_as_one_process() -> None:
    in_processes(4, four)
