"""Section 9 of the specification: torch's schedulers, the decay τ, and the paper's two other ideas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

import camhd
from cases import COMBINATIONS, EXACT, REGULARIZED, RULES, TORCH_RULES, Setup, learning
from compare import assert_alike, assert_same_state
from models import backward, build, snapshot, twin
from reference_levels import layer_of

pytestmark = pytest.mark.usefixtures("papers_form")

STEPS = 40

SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "warm-up from 0": lambda o: lr_scheduler.LambdaLR(o, lambda t: min(1.0, t / 10)),
    "a drop to 10 %": lambda o: lr_scheduler.MultiStepLR(o, [20], gamma=0.1),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS),
    "cosine with restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 8),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=[0.02] * len(o.param_groups), total_steps=STEPS + 1),
    "on a plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=0, threshold=0.5),
    "one after another": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=10), lr_scheduler.ExponentialLR(o, 0.97)], milestones=[10]
    ),
}


def advance(scheduler: Any, t: int) -> None:
    if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
        scheduler.step(1.0 + (t % 4))
    else:
        scheduler.step()


# What a scheduler does is a factor.


@pytest.mark.parametrize(
    ("rule", "name"),
    [(rule, name) for rule in TORCH_RULES for name in SCHEDULERS if (rule, name) != ("sgd", "one cycle")],
)  # OneCycleLR wants a momentum to cycle
def test_without_learning_a_schedule_does_what_it_does_to_torch_optim(rule: str, name: str) -> None:
    model = build("mlp")
    other = twin(model)
    options = {**RULES[rule].options, "lr": 0.01, "weight_decay": 0.01}
    ours = Setup(rule, ("global", "layer"), "normalized", {**options, "hyper_lr": 0.0, "combine_lr": 0.0}).library(
        model
    )
    theirs = RULES[rule].torch(other.parameters(), **options)
    pairs = [(o, m, SCHEDULERS[name](o)) for o, m in ((ours, model), (theirs, other))]
    for t in range(1, STEPS + 1):
        for optimizer, one, scheduler in pairs:
            backward(one, t)
            optimizer.step()
            advance(scheduler, t)
    assert_alike(dict(model.named_parameters()), dict(other.named_parameters()))


@pytest.mark.alike(6)
@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "sgd"])
def test_learned_rates_live_on_under_any_schedule(rule: str, name: str) -> None:
    model = build("mlp")
    other = twin(model)
    second = {"lr": 0.004, **RULES[rule].second}
    setup = Setup(rule, ("global", "layer", "unit"), "normalized", learning(rule, model), second=second)
    optimizer, reference = setup.library(model), setup.reference(other)
    scheduler = SCHEDULERS[name](optimizer)
    for t in range(1, STEPS + 1):
        for mine, theirs in zip(reference.param_groups, optimizer.param_groups, strict=True):
            mine.update({key: theirs[key] for key in ("lr", "momentum", "betas") if key in theirs})
        for one in (model, other):
            backward(one, t)
        optimizer.step()
        reference.step()
        advance(scheduler, t)
    assert_same_state(optimizer, model, reference, other)
    assert optimizer.rates()["global"] != 0.01


@pytest.mark.parametrize("rule", RULES)
def test_a_step_under_a_factor_of_zero_moves_nothing_and_teaches_nothing(rule: str) -> None:
    model = build("mlp")
    optimizer = Setup(rule, ("global", "layer"), "normalized", learning(rule, model)).library(model)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda t: 0.0 if t < 2 else 1.0)
    before = snapshot(model)
    for t in (1, 2, 3):
        if t == 3:
            assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
        backward(model, t)
        optimizer.step()
        scheduler.step()
    assert optimizer.rates()["global"] == 0.01  # κ did not depend on the rates
    backward(model, 4)
    optimizer.step()
    assert optimizer.rates()["global"] != 0.01
    assert optimizer.skipped == 0


def test_a_drop_to_ten_percent_shows_in_the_step_and_not_in_the_rates() -> None:
    model = build("mlp")
    optimizer = camhd.SGD(model, lr=0.1, hyper_lr=1e-3, levels=("global", "layer"), combine="fixed")
    for t in range(1, 6):
        backward(model, t)
        optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.01
    before, old = snapshot(model), optimizer.rates()
    backward(model, 6)
    optimizer.step()
    rates = optimizer.rates()
    assert rates["global"] == pytest.approx(old["global"], rel=0.1)
    for name, p in model.named_parameters():
        rate = 0.1 * (0.5 * rates["global"] + 0.5 * rates["layer"][layer_of(name)])
        torch.testing.assert_close(p.detach(), before[name] - rate * p.grad, rtol=EXACT, atol=EXACT)


def test_the_factor_of_the_last_step_is_in_the_hypergradient() -> None:
    moved = []
    for factor in (1.0, 0.25):
        p = nn.Parameter(torch.ones(3, dtype=torch.float64))
        optimizer = camhd.SGD([p], lr=0.1, levels=("global",), hyper_lr=1e-3)
        for c in (factor, 1.0):
            optimizer.param_groups[0]["lr"] = 0.1 * c
            p.grad = torch.full_like(p, 2.0)
            optimizer.step()
        moved.append(optimizer.rates()["global"] - 0.1)
    assert moved == pytest.approx([1e-3 * 12.0, 0.25 * 1e-3 * 12.0], rel=1e-10)


# The global rate is the schedule's.


@pytest.mark.alike(4)
@pytest.mark.parametrize("form", [form for form in COMBINATIONS if form not in REGULARIZED])
@pytest.mark.parametrize("rule", ["sgd", "nesterov", "adam", "adamw"])
def test_the_global_rate_can_be_the_schedules_while_the_others_learn(rule: str, form: str) -> None:
    """It is c·lr0 of each group, it does not learn, and c multiplies nothing else."""
    model = build("mlp")
    other = twin(model)
    options = learning(rule, model, schedule="global", weights=(0.2, 0.3, 0.5))
    options |= {"decay": 0.01, "lr_limit": 0.005}
    setup = Setup(rule, ("global", "layer", "unit"), form, options, second={"lr": 0.004, "lr_limit": 0.003})
    optimizer = setup.library(model)
    reference = setup.reference(other, optimizer.combination_state() if form == "network" else None)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for t in range(1, STEPS + 1):
        for mine, theirs in zip(reference.param_groups, optimizer.param_groups, strict=True):
            mine["lr"] = theirs["lr"]
        for one in (model, other):
            backward(one, t)
        optimizer.step()
        reference.step()
        scheduler.step()
        assert_alike(dict(model.named_parameters()), dict(other.named_parameters()), f"step {t}")
    for level in ("layer", "unit"):
        assert_alike(optimizer.rates()[level], reference.rates()[level])


def test_the_schedules_global_rate_by_hand() -> None:
    p = nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = camhd.SGD([p], lr=0.1, levels=("global", "layer"), hyper_lr=1e-2, combine="fixed", schedule="global")
    want, layer, last = torch.ones(2, dtype=torch.float64), 0.1, 0.0
    for c, g in ((1.0, 2.0), (0.5, 1.0), (0.0, 3.0), (2.0, -1.0)):
        optimizer.param_groups[0]["lr"] = 0.1 * c
        p.grad = torch.full_like(p, g)
        optimizer.step()
        layer += 1e-2 * 0.5 * 2 * g * last  # no c in it: the layer's rate is not scheduled
        last = g
        want = want - (0.5 * 0.1 * c + 0.5 * layer) * g
        torch.testing.assert_close(p.detach(), want, rtol=EXACT, atol=EXACT)
        assert optimizer.rates()["global"] == pytest.approx(0.1 * c, rel=EXACT)
        assert optimizer.rates()["layer"]["0"] == pytest.approx(layer, rel=EXACT)


def test_a_scheduled_global_rate_needs_a_global_level() -> None:
    with pytest.raises(ValueError, match="global"):
        camhd.SGD(build("mlp"), lr=0.1, levels=("layer", "parameter"), schedule="global")


# All rates start afresh.


@pytest.mark.parametrize("form", COMBINATIONS)
@pytest.mark.parametrize("rule", ["momentum", "adam", "adabound"])
def test_all_rates_can_start_afresh_at_given_steps(rule: str, form: str) -> None:
    model = build("mlp")
    other = twin(model)
    options = learning(rule, model, restarts=(3, 10, 11))
    beta = options["hyper_lr"]
    shape = {"pull": {("layer", "global"): 0.1 / beta}} if form in REGULARIZED else {}
    setup = Setup(rule, ("global", "layer"), form, options, second={"lr": 0.004}, **shape)
    optimizer = setup.library(model)
    reference = setup.reference(other, optimizer.combination_state() if form == "network" else None)
    start = optimizer.rates()
    for t in range(1, 16):
        for one in (model, other):
            backward(one, t)
        weights = str(optimizer.combination_state())
        optimizer.step()
        reference.step()
        assert_same_state(optimizer, model, reference, other)
        if t in (3, 10, 11):
            assert optimizer.rates() == start
            assert str(optimizer.combination_state()) == weights
        elif t > 1:
            assert optimizer.rates() != start


def test_a_restart_leaves_the_base_optimizer_alone() -> None:
    """With nothing to learn, a restart changes nothing: momentum and averages go on."""
    ends = []
    for restarts in ((), (5, 9)):
        model = build("mlp")
        optimizer = camhd.Adam(model, lr=0.01, hyper_lr=0.0, combine_lr=0.0, restarts=restarts)
        for t in range(1, 16):
            backward(model, t)
            optimizer.step()
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)


def test_decay_counts_the_steps_of_the_optimizer() -> None:
    """τ(t) is the optimizer's own t, from 1, also for a parameter that was left out."""
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    q = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = camhd.SGD([p, q], lr=1.0, levels=("global",), hyper_lr=0.0, decay=0.5, lr_limit=0.25)
    moved = []
    for t in (1, 2, 3):
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q) if t == 3 else None
        before = p.item(), q.item()
        optimizer.step()
        moved.append((before[0] - p.item(), before[1] - q.item()))
    kappa = [math.exp(-0.5 * t) * 1.0 + (1 - math.exp(-0.5 * t)) * 0.25 for t in (1, 2, 3)]
    assert [m[0] for m in moved] == pytest.approx(kappa, rel=EXACT)
    assert [m[1] for m in moved] == pytest.approx([0.0, 0.0, kappa[2]], rel=EXACT)


def test_the_limit_of_a_rate_is_its_groups_lr_unless_told_otherwise() -> None:
    p, q = (nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in range(2))
    groups = [{"params": [p]}, {"params": [q], "lr": 0.2, "lr_limit": 0.05}]
    optimizer = camhd.SGD(groups, lr=0.1, levels=("layer",), hyper_lr=0.0, decay=lambda t: 0.0)
    p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    optimizer.step()
    assert (p.item(), q.item()) == pytest.approx((-0.1, -0.05), rel=EXACT)


def test_a_schedule_multiplies_the_limit_too() -> None:
    """κ = c (τ α* + (1 − τ) α_∞)."""
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = camhd.SGD([p], lr=0.1, levels=("layer",), hyper_lr=0.0, decay=lambda t: 0.25, lr_limit=0.3)
    optimizer.param_groups[0]["lr"] = 0.05
    p.grad = torch.ones_like(p)
    optimizer.step()
    assert p.item() == pytest.approx(-0.5 * (0.25 * 0.1 + 0.75 * 0.3), rel=EXACT)


@pytest.mark.parametrize("bounds", ["released", "paper"])
def test_a_schedule_multiplies_adabounds_bounds_and_a_learned_rate_does_not(bounds: str) -> None:
    p = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    options = {"lr": 0.01, "final_lr": 0.1, "gamma": 0.5, "bounds": bounds}
    optimizer = camhd.AdaBound([p], levels=("global",), hyper_lr=10.0, **options)
    lower, upper, m, v = 0.0, 0.0, torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    for t, c in enumerate((1.0, 0.3, 0.1), start=1):
        g = torch.tensor([100.0, 1e-4], dtype=torch.float64)  # the lower bound holds one, the upper the other
        optimizer.param_groups[0]["lr"] = 0.01 * c
        before = p.detach().clone()
        p.grad = g.clone()
        optimizer.step()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        lower = c * 0.1 * (1 - 1 / (0.5 * t + 1))
        upper = c * 0.1 * (1 + 1 / (0.5 * t + (1 if bounds == "paper" else 0)))
        want = torch.tensor([lower, upper], dtype=torch.float64) * m
        torch.testing.assert_close(before - p.detach(), want, rtol=1e-10, atol=0)
        assert optimizer.rates()["global"] == 0.01  # where the clip is active there is no slope
