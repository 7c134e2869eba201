"""Parameters divided over processes (FSDP2 and tensor-parallel DTensors) train as in one process.

The oracle is the run of one process on the joined batches, which the other tests compare with autograd and with the
reference. One call of `in_processes` carries many checks, because starting processes takes longer than all of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import camhd
from camhd import Adam, Optimizer, report
from processes import in_processes
from sharded import alone, assert_close, batch, here, learned, network, recurrent, train, whole
from sharded_cases import CASES, EXACT, LEARNING, PAPERS, UNITS, as_in_one_process, foreach, shard, shared_alike

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no torch.distributed"),
    pytest.mark.slow,
]

CLOSE = 1e-5


def two(folder: Path) -> None:
    for name, make in CASES.items():
        try:
            as_in_one_process(make)
        except Exception as error:
            raise AssertionError(f"case {name!r}") from error
    as_in_one_process(partial(Adam, levels=("layer", "gate", "unit"), **LEARNING), recurrent)
    one_sum_a_step_and_no_full_copies()
    not_finite_on_one_process()
    gradients_that_are_missing()
    offloaded_and_mixed()
    parameters_that_are_not_divided()
    further_groups()
    rates_kept_here_and_everywhere()
    gradients_divided_otherwise()
    wrapped()
    readings()
    refusals()


def one_sum_a_step_and_no_full_copies() -> None:
    """100 steps of ("global", "layer", "unit") Adam, as in one process; some by the default rule, with a restart."""
    from torch.distributed.tensor.debug import CommDebugMode

    for options, steps in ((LEARNING, 100), ({"restarts": (8,)}, 14)):
        make = partial(Adam, levels=UNITS, **options)
        model = shard(network())
        optimizer, messages = make(model), CommDebugMode()
        for step in range(steps):
            gradients(model, optimizer, step)
            with messages:
                optimizer.step()
            assert {str(kind): count for kind, count in messages.get_comm_counts().items()} == {"c10d.allreduce_": 1}
        found = learned(model, optimizer)
        if dist.get_rank() == 0:
            assert_close(found, learned(*alone(partial(foreach, make), steps)), CLOSE)
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
    states = 3 if optimizer.config.hyper_rule.traced else 2
    assert parts.tolist() == [states * sum(p.numel() for p in params), units]
    assert [len(level.rates) for level in tree.state.levels][:2] == [1, 5]


def not_finite_on_one_process() -> None:
    """One process sees an infinity in a row of its own; none of them learns from that step.

    With unit rates alone there is no sum that would carry the infinity to the others.
    """
    papers = {**LEARNING, "levels": (*UNITS, "parameter")}
    for options in (
        papers,
        {**papers, "levels": ("unit",), "combine": "fixed", "combine_lr": 0},
        {"levels": ("unit",)},
    ):
        model = shard(network())
        optimizer = Adam(model, **options)
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
    _, wanted = alone(lambda m: Adam(m, levels=UNITS, backend="foreach", **LEARNING), 10, build)
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

    for name in ("adamw", "network", "multiplicative", "tied", "default, units"):
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


def rates_kept_here_and_everywhere() -> None:
    """New layers come between what all processes keep and what each keeps for itself."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2,))

    def make(divided: bool) -> Optimizer:
        torch.manual_seed(0)
        params = {}
        for name, placement in {"a": Shard(0), "b": Replicate(), "c": Replicate(), "d": Shard(0)}.items():
            value = torch.randn(3, 2, dtype=torch.float64)
            params[f"{name}.weight"] = nn.Parameter(distribute_tensor(value, mesh, [placement]) if divided else value)
        named = list(params.items())
        optimizer = Adam(named[:2], levels=UNITS, backend="foreach", **LEARNING)
        for step in range(6):
            if step == 3:
                optimizer.add_param_group({"params": named[2:], "lr": 2e-2})
            for _, p in named:
                p.grad = p.detach().sin() * (1 + step)
            optimizer.step()
        return optimizer

    found, wanted = make(True), make(False)
    assert_close(whole(found.rates()), whole(wanted.rates()), EXACT)
    late = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="all tensors of a layer at once"):
        found.add_param_group({"params": [("a.bias", late)]})
    assert len(found.param_groups) == 2


def gradients_divided_otherwise() -> None:
    """A gradient that tensor parallelism has left as partial sums is put together before anything sees it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate

    mesh = init_device_mesh("cpu", (2,))
    part = torch.full((3,), 1.0 + dist.get_rank())
    divided = nn.Parameter(DTensor.from_local(torch.ones(3), mesh, [Replicate()]))
    plain = nn.Parameter(torch.ones(3))
    for p in (divided, plain):
        optimizer = Adam([("norm.weight", p)], lr=0.1, eps=1.0, backend="foreach", **PAPERS)
        for _ in range(3):
            p.grad = torch.full((3,), 3.0) if p is plain else DTensor.from_local(part, mesh, [Partial()])
            optimizer.step()
    assert_close(whole(divided), whole(plain), 1e-6)


def wrapped() -> None:
    """An optimizer of torch's steps the DTensors itself."""

    def make(model: nn.Module, **options: Any) -> Optimizer:
        inner = torch.optim.RMSprop(model.parameters(), lr=1e-2)
        return camhd.wrap(inner, model=model, levels=UNITS, **options)

    as_in_one_process(partial(make, hyper_lr=1e-4, combine_lr=1e-3, **PAPERS))
    as_in_one_process(make)


def readings() -> None:
    """Each process reads the rates that it keeps; asked for the whole, all of them read those of one process."""
    optimizer, reference = (
        Adam(model, levels=(*UNITS, "parameter"), **PAPERS) for model in (shard(network()), network())
    )
    names, found = report.groups(optimizer, 1000), report.snapshot(optimizer, 1000)
    assert {level: len(some or []) for level, some in names.items()} == {k: v["count"] for k, v in found.items()}
    everywhere: list[Any] = [None, None]
    dist.all_gather_object(everywhere, [*names["unit"], *names["parameter"]])
    wanted = report.groups(reference, 1000)
    assert sorted(everywhere[0] + everywhere[1]) == sorted([*wanted["unit"], *wanted["parameter"]])
    assert report.groups(optimizer, 1000, whole=True) == wanted
    assert report.snapshot(optimizer, 1000, whole=True) == report.snapshot(reference, 1000)
    assert "(here)" in repr(optimizer)
    assert "divided over processes" in repr(optimizer)


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
    other = nn.Parameter(
        DTensor.from_local(torch.ones(2), init_device_mesh("cpu", (2,), mesh_dim_names=("x",)), [Shard(0)])
    )
    row = nn.Parameter(DTensor.from_local(torch.ones(2), mesh, [Shard(0)]))
    with pytest.raises(ValueError, match="one mesh"):
        Adam([("a", row), ("b", other)])


def test_two_processes_train_as_one() -> None:
    in_processes(2, two)
