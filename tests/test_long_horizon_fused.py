"""The long-horizon rule in the fused kernels: against the literal reference, and against plain torch."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd.hyper import LongHorizon
from cases import HAS_NUMBA
from reference_long_horizon import BASES, Reference

pytestmark = pytest.mark.skipif(not HAS_NUMBA, reason="needs camhd[fused]")

CHAINS = [("global",), ("global", "layer"), ("global", "layer", "unit")]
CLASSES = {"sgd": camhd.SGD, "adam": camhd.Adam, "adamw": camhd.AdamW, "adabound": camhd.AdaBound}
# Short rows, long rows that are cut into pieces, and single scalars.
SHAPES = {"a.weight": (6, 30), "a.bias": (6,), "b.weight": (2, 4500), "b.bias": (2,)}
STEPS = 200


def parameters(dtype: torch.dtype) -> list[tuple[str, nn.Parameter]]:
    random = torch.Generator().manual_seed(0)
    return [(name, nn.Parameter(torch.randn(shape, generator=random).to(dtype))) for name, shape in SHAPES.items()]


def feed(named: list[tuple[str, nn.Parameter]], opt: Any, steps: int, start: int = 0) -> None:
    """Gradients of a noisy bowl. The noise is exact in single precision, so that both precisions see the same."""
    for t in range(start, start + steps):
        random = torch.Generator().manual_seed(t)
        for _, p in named:
            p.grad = 0.5 * p.detach() + 0.2 * torch.randn(p.shape, generator=random).to(p)
        opt.step()


def values(named: list[tuple[str, nn.Parameter]]) -> Tensor:
    return torch.cat([p.detach().double().flatten() for _, p in named])


def build(base: str, named: Any, **options: Any) -> camhd.Optimizer:
    kind, fixed = BASES[base]
    return CLASSES[kind](named, hyper_rule="long_horizon", **{"backend": "fused", **fixed, **options})


@cache
def literally(base: str, levels: tuple[str, ...]) -> tuple[Tensor, list[float]]:
    named = parameters(torch.float64)
    reference = Reference(named, 1e-3, base, levels, weight_decay=0.01)
    feed(named, reference, STEPS)
    rates = {id(rate): rate.alpha for i in range(len(levels)) for cell in reference.cells for rate in [cell.rates[i]]}
    return values(named), list(rates.values())


@pytest.mark.alike(4)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("levels", CHAINS, ids="-".join)
@pytest.mark.parametrize("base", BASES)
def test_equals_the_reference_over_many_steps(base: str, levels: tuple[str, ...], dtype: torch.dtype) -> None:
    named = parameters(dtype)
    opt = build(base, named, lr=1e-3, levels=levels, weight_decay=0.01)
    feed(named, opt, STEPS)
    assert "backend fused" in repr(opt)
    theta, rates = literally(base, levels)
    rtol = 1e-10 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(values(named), theta, rtol=rtol, atol=rtol * float(theta.abs().max()))
    found = torch.cat([level.rates.double() for level in opt.tree.state.levels])
    torch.testing.assert_close(found, torch.tensor(rates, dtype=torch.float64), rtol=rtol, atol=0)
    assert float(found.max()) > 3e-3


def pair(base: str = "adam", **options: Any) -> list[tuple[list[tuple[str, nn.Parameter]], camhd.Optimizer]]:
    found = []
    for backend in ("fused", "foreach"):
        named = parameters(torch.float64)
        found.append((named, build(base, named, lr=1e-3, backend=backend, **options)))
    return found


def alike(found: list[tuple[list[tuple[str, nn.Parameter]], camhd.Optimizer]]) -> None:
    (one, fused), (other, plain) = found
    assert "backend fused" in repr(fused)
    torch.testing.assert_close(values(one), values(other), rtol=1e-10, atol=1e-13)
    for ours, theirs in zip(fused.tree.state.levels, plain.tree.state.levels, strict=True):
        for name, tensor in theirs.tensors().items():
            torch.testing.assert_close(ours.tensors()[name], tensor, rtol=1e-10, atol=1e-13)


def _scale(named: list[tuple[str, nn.Parameter]]) -> None:
    with torch.no_grad():
        for _, p in named:
            p.mul_(1e-3)


def _replace(named: list[tuple[str, nn.Parameter]]) -> None:
    for _, p in named:
        p.data = p.data * 1e-3


def _one_alone(named: list[tuple[str, nn.Parameter]]) -> None:
    with torch.no_grad():
        named[2][1].zero_()


@pytest.mark.parametrize("write", [_scale, _replace, _one_alone])
@pytest.mark.parametrize("base", ["adam", "sgdn"])
def test_who_writes_to_the_weights_between_steps_changes_the_bound(base: str, write: Any) -> None:
    found = pair(base, levels=("global", "layer", "unit"))
    for named, opt in found:
        feed(named, opt, 10)
        write(named)
        feed(named, opt, 1, start=10)
    alike(found)
    for named, opt in found:
        feed(named, opt, 5, start=11)
    alike(found)


def test_the_bound_of_a_layer_that_has_waited_is_that_of_its_weights_now() -> None:
    found = pair()
    for named, opt in found:
        feed(named, opt, 10)
        _one_alone(named)
        for p in (named[0][1], named[1][1]):  # the other layer moves on alone
            p.grad = torch.ones_like(p)
        named[2][1].grad = named[3][1].grad = None
        opt.step()
        feed(named, opt, 3, start=11)
    alike(found)


@pytest.mark.parametrize("levels", CHAINS, ids="-".join)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("base", ["sgd", "sgdn", "adam"])
def test_goes_on_from_a_checkpoint_to_the_bit(base: str, levels: tuple[str, ...], dtype: torch.dtype) -> None:
    named = parameters(dtype)
    opt = build(base, named, lr=1e-3, levels=levels)
    feed(named, opt, 10)
    twins = copy.deepcopy(named)
    other = build(base, twins, lr=1e-3, levels=levels)
    other.load_state_dict(copy.deepcopy(opt.state_dict()))
    feed(named, opt, 10, start=10)
    feed(twins, other, 10, start=10)
    assert torch.equal(values(named), values(twins))


def _two_lrs(named: list[tuple[str, nn.Parameter]]) -> list[dict[str, Any]]:
    return [{"params": named[:2], "lr": 5e-3}, {"params": named[2:], "hyper_lr": 0.5}]


class Halved(LongHorizon):
    """A rule of a user's own."""

    def update(self, rates: Tensor, pull: Any, state: Any) -> Any:
        new, kept = super().update(rates, pull, state)
        return rates + (new - rates) / 2, kept


@pytest.mark.parametrize(
    "options",
    [
        {"combine": camhd.combine.PerLayer(), "combine_lr": 0.01},
        {"schedule": "global"},
        {"restarts": (5, 12)},
        {"decay": 0.05, "lr_limit": 0.02},
        {"min_lr": 1e-4, "max_lr": 2e-3},
        {"max_change": 1.02},
        {"hyper_lr": {"global": 1.0}},
        {"combine": "softmax", "combine_lr": 0.1, "weights": (0.7, 0.3)},
        {"combine": "fixed"},
        {"maximize": True},
        {"levels": ("layer",)},
        {"levels": ("global", "group", "layer", "unit")},
    ],
    ids=lambda options: "-".join(options),
)
def test_whatever_is_set_both_backends_agree(options: dict[str, Any]) -> None:
    found = pair(**options)
    for named, opt in found:
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 25)
        for t in range(20):
            feed(named, opt, 1, start=t)
            scheduler.step()
    alike(found)


@pytest.mark.parametrize("rule", [LongHorizon(memory=0.9, tie=0.3, floor=0.5), Halved()], ids=["settings", "own"])
def test_a_rule_with_other_settings_and_one_of_your_own(rule: LongHorizon) -> None:
    found = []
    for backend in ("fused", "foreach"):
        named = parameters(torch.float64)
        opt = camhd.Adam(named, hyper_rule=rule, backend=backend)
        feed(named, opt, 20)
        found.append((named, opt))
    alike(found)


def test_param_groups_of_different_lr_and_groups_that_join_later() -> None:
    found = []
    for backend in ("fused", "foreach"):
        named = parameters(torch.float64)
        late = [("c.weight", nn.Parameter(torch.ones(3, 5, dtype=torch.float64)))]
        opt = build("adamw", _two_lrs(named), lr=1e-3, backend=backend)
        feed(named, opt, 8)
        opt.add_param_group({"params": late})
        feed(named + late, opt, 8, start=8)
        opt.restart()
        feed(named + late, opt, 4, start=16)
        found.append((named + late, opt))
    alike(found)


@pytest.mark.parametrize(
    ("base", "names"),
    [
        ("sgd", {"trace"}),
        ("momentum", {"momentum_buffer", "trace"}),
        ("sgdn", {"momentum_buffer", "trace"}),
        ("adam", {"step", "direction", "exp_avg_sq", "trace"}),
    ],
)
def test_the_trace_is_all_that_a_step_keeps_besides(base: str, names: set[str]) -> None:
    named = parameters(torch.float32)
    opt = build(base, named, lr=1e-3)
    feed(named, opt, 2)
    assert {frozenset(state) for state in opt.state.values()} == {frozenset(names)}


def test_sums_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from camhd.backends.fused import threads

    results = []
    for count in (1, 2, 3):
        monkeypatch.setattr(threads, "how_many", lambda scalars, count=count: count)
        named = parameters(torch.float32)
        opt = build("adam", named, lr=1e-3, levels=("global", "layer", "unit"))
        feed(named, opt, 6)
        results.append(values(named))
    assert all(torch.equal(results[0], other) for other in results[1:])
