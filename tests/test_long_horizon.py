"""The long-horizon rule against its literal reference, and what it promises."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import camhd
from reference_long_horizon import Reference

CHAINS = [("global",), ("global", "layer"), ("global", "layer", "unit")]
RULE = {"hyper_rule": "long_horizon"}


def network(seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)


def batches(count: int, dtype: torch.dtype = torch.float64) -> list[tuple[Tensor, Tensor]]:
    made = torch.Generator().manual_seed(1)
    inputs = torch.randn(64, 6, generator=made, dtype=torch.float64).to(dtype)
    targets = (inputs[:, :3] + 0.5 * inputs[:, 3:]).argmax(1)
    picks = [torch.randint(0, 64, (16,), generator=made) for _ in range(count)]
    return [(inputs[pick], targets[pick]) for pick in picks]


def fit(model: nn.Module, opt: Any, found: list[tuple[Tensor, Tensor]], scale: float = 1.0) -> None:
    for x, y in found:
        for p in model.parameters():
            p.grad = None
        (F.cross_entropy(model(x), y) * scale).backward()
        opt.step()


def build(base: str, model: nn.Module, lr: float, **options: Any) -> camhd.Optimizer:
    if base == "adam":
        return camhd.Adam(model, lr=lr, **{**RULE, **options})
    return camhd.SGD(model, lr=lr, momentum=0.9, nesterov=True, **{**RULE, **options})


def same(one: nn.Module, other: nn.Module, rtol: float = 1e-10) -> None:
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("levels", CHAINS, ids="-".join)
@pytest.mark.parametrize("lr", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("base", ["adam", "sgdn"])
def test_equals_the_reference(base: str, lr: float, levels: tuple[str, ...]) -> None:
    ours, theirs = network(), network()
    opt = build(base, ours, lr, levels=levels, weight_decay=0.01)
    reference = Reference(theirs, lr, base, levels, weight_decay=0.01)
    for found in batches(40):
        fit(ours, opt, [found])
        fit(theirs, reference, [found])
    same(ours, theirs)
    assert opt.rates()["global"] == pytest.approx(reference.cells[0].rates[0].alpha, rel=1e-10)
    assert opt.rates()["global"] != lr


@pytest.mark.parametrize("backend", ["foreach", "auto"])
@pytest.mark.parametrize("base", ["adam", "sgdn"])
def test_a_sudden_step_is_shortened_as_in_the_reference(base: str, backend: str) -> None:
    ours, theirs, plain = network(), network(), network()
    slow = {"squares": 0.0}  # Adam's own second moments: after 150 steps they are slower than a gradient
    opt = build(base, ours, 1e-2, backend=backend, hyper_rule=camhd.hyper.LongHorizon(**slow))
    reference = Reference(theirs, 1e-2, base, **slow)
    other = build(base, plain, 1e-2, backend=backend, hyper_rule=camhd.hyper.LongHorizon(**slow, sudden=math.inf))
    for step, found in enumerate(batches(160)):
        before = [[p.detach().clone() for p in model.parameters()] for model in (ours, plain)]
        for model, stepper in ((ours, opt), (theirs, reference), (plain, other)):
            fit(model, stepper, [found], scale=30.0 if step == 150 else 1.0)
        lengths = [
            sum(float((p.detach() - q).square().sum()) for p, q in zip(model.parameters(), old, strict=True)) ** 0.5
            for model, old in zip((ours, plain), before, strict=True)
        ]
        if step == 150:
            assert lengths[0] < 0.7 * lengths[1]
    same(ours, theirs)


def test_layers_without_gradient_wait_and_new_ones_start_within_the_bound() -> None:
    ours, theirs = network(), network()
    opt, reference = build("adam", ours, 0.5), Reference(theirs, 0.5)
    for step, (x, y) in enumerate(batches(12)):
        for model, stepper in ((ours, opt), (theirs, reference)):
            for p in model.parameters():
                p.grad = None
            F.cross_entropy(model(x), y).backward()
            if step < 4 or step == 8:
                model[0].weight.grad = model[0].bias.grad = None
            stepper.step()
    same(ours, theirs)


def test_a_scheduler_scales_the_step_and_slows_the_learning() -> None:
    ours, theirs = network(), network()
    opt, reference = build("adam", ours, 1e-3), Reference(theirs, 1e-3)
    for step, (x, y) in enumerate(batches(20)):
        opt.param_groups[0]["lr"] = 1e-3 * (1.0 if step < 8 else 0.25)
        fit(ours, opt, [(x, y)])
        for p in theirs.parameters():
            p.grad = None
        F.cross_entropy(theirs(x), y).backward()
        reference.step(1.0 if step < 8 else 0.25)
    same(ours, theirs)


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**10])
def test_the_scale_of_the_loss_does_not_matter(scale: float) -> None:
    one, other = network(), network()
    fit(one, build("sgdn", one, 1.0), batches(30))
    fit(other, build("sgdn", other, 1.0 / scale), batches(30), scale)
    same(one, other)


def test_any_first_lr_that_is_too_large_is_the_same() -> None:
    one, other = network(), network()
    first, second = build("adam", one, 1.0), build("adam", other, 1e6)
    fit(one, first, batches(20))
    fit(other, second, batches(20))
    same(one, other)


def test_a_tiny_first_lr_is_soon_forgotten() -> None:
    model = network()
    opt = build("adam", model, 1e-6)
    fit(model, opt, batches(40))
    assert opt.rates()["global"] > 1e-3  # Adam's usual lr


@pytest.mark.parametrize("lr", [1e-3, 1.0])
def test_no_layer_moves_by_more_than_the_bound(lr: float) -> None:
    model = network()
    opt = build("adam", model, lr)
    most = 0.01
    for found in batches(30):
        before = [p.detach().clone() for p in model[0].parameters()]
        fit(model, opt, [found])
        moved = sum((p.detach() - q).square().sum() for p, q in zip(model[0].parameters(), before, strict=True))
        whole = sum(q.square().sum() for q in before)
        assert float(moved / whole) ** 0.5 <= most * (1 + 1e-9)
        most = 0.1


def test_weights_that_start_at_zero_leave_it() -> None:
    model = network()
    with torch.no_grad():
        for p in model[2].parameters():
            p.zero_()
    opt = build("adam", model, 1.0)
    fit(model, opt, batches(60))
    loss = F.cross_entropy(model(batches(1)[0][0]), batches(1)[0][1])
    assert float(model[2].weight.detach().abs().mean()) > 0.01
    assert float(loss.detach()) < 0.9


def test_a_gradient_that_is_not_finite_leaves_the_rates() -> None:
    model = network()
    opt = build("adam", model, 1e-3)
    fit(model, opt, batches(5))
    before = opt.rates()
    for p in model.parameters():
        p.grad = torch.full_like(p, torch.nan)
    opt.step()
    assert opt.rates() == before
    assert opt.skipped == 1


@pytest.mark.parametrize("levels", CHAINS, ids="-".join)
def test_goes_on_from_a_checkpoint_to_the_bit(levels: tuple[str, ...]) -> None:
    model = network()
    opt = build("adam", model, 1e-4, levels=levels)
    fit(model, opt, batches(10))
    twin = copy.deepcopy(model)
    other = build("adam", twin, 1e-4, levels=levels)
    other.load_state_dict(copy.deepcopy(opt.state_dict()))
    fit(model, opt, batches(10))
    fit(twin, other, batches(10))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), twin.parameters(), strict=True))


def test_the_trace_of_half_precision_weights_is_kept_in_single() -> None:
    model = network(dtype=torch.bfloat16)
    opt = build("adam", model, 1e-3)
    fit(model, opt, batches(3, torch.bfloat16))
    other = build("adam", copy.deepcopy(model), 1e-3)
    other.load_state_dict(opt.state_dict())
    for one in (opt, other):
        assert {state["trace"].dtype for state in one.state.values()} == {torch.float32}


def test_a_restart_forgets_the_trace() -> None:
    model, twin = network(), network()
    opt = build("sgdn", model, 1e-3)
    fit(model, opt, batches(10))
    opt.restart()
    twin.load_state_dict(model.state_dict())
    fresh = build("sgdn", twin, 1e-3)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        fresh.state[q] = {"momentum_buffer": opt.state[p]["momentum_buffer"].clone()}
    fit(model, opt, batches(6))
    fit(twin, fresh, batches(6))
    same(model, twin)


def test_parameters_may_join_later() -> None:
    model, late = network(), nn.Linear(3, 3).double()
    opt = build("adam", model, 1.0)
    fit(model, opt, batches(5))
    rates = opt.rates()["layer"]
    opt.add_param_group({"params": [(f"late.{name}", p) for name, p in late.named_parameters()]})
    assert {name: opt.rates()["layer"][name] for name in rates} == rates
    whole, before = nn.Sequential(model, late), late.weight.detach().clone()
    fit(whole, opt, batches(1))
    assert 0 < float((late.weight.detach() - before).norm() / before.norm()) < 0.02


def test_other_rules_have_a_trace_too() -> None:
    for make in (
        lambda model: camhd.AdamW(model, lr=1e-3, weight_decay=0.1, **RULE),
        lambda model: camhd.AdaBound(model, lr=1e-3, **RULE),
        lambda model: camhd.wrap(torch.optim.RMSprop(model.parameters(), lr=1e-3), model, **RULE),
        lambda model: camhd.SGD(model, lr=1e-3, **RULE),
    ):
        model = network()
        opt = make(model)
        fit(model, opt, batches(20))
        assert opt.rates()["global"] > 1e-3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": ("global", "parameter")}, "the level 'parameter' has no cosine"),
        ({"combine": camhd.combine.Regularized(1.0), "combine_lr": None}, "regularised rates cannot be combined"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build("adam", network(), 1e-3, **options)


@pytest.mark.parametrize(
    "wrong", [{"memory": 1.0}, {"spread": -0.1}, {"patience": 0.0}, {"fast": -0.1}, {"steady": -1.0}, {"bound": 0.0}]
)
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"'{next(iter(wrong))}'"):
        camhd.hyper.LongHorizon(**wrong)


def test_what_a_first_step_has_left_in_the_trace_when_it_failed_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = network(), network()
    opt, other = (camhd.SGD(m, lr=1e-3, backend="foreach", **RULE) for m in (ours, theirs))
    for p in ours.parameters():
        p.grad = torch.full_like(p, torch.inf)
    with monkeypatch.context() as patch:
        patch.setattr(type(opt._tree), "advance", interrupt)
        with pytest.raises(KeyboardInterrupt):
            opt.step()
    assert all(state["trace"].isinf().all() for state in opt.state.values())
    found = batches(5)
    fit(ours, opt, found)
    fit(theirs, other, found)
    same(ours, theirs)


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt
