"""The library against the literal algorithm over 200 steps: must-be-true 3.

Everything at once: two param groups with different lr0, decay and rule options, τ with a limit, a cosine schedule of
torch's own, parameters that now and then have no gradient.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from cases import BACKENDS, COMBINATIONS, REGULARIZED, RULES, TORCH_RULES, Setup, everything_in_play, pulls
from compare import assert_alike, assert_same_state
from models import backward, build, twin
from reference import Reference

STEPS = 200
CNN = ("cnn", ("global", "layer", "filter", "parameter"))
LSTM = ("lstm", ("global", "layer", "gate", "unit"))


def agree(setup: Setup, model: nn.Module, steps: int = STEPS, without: Mapping[int, tuple[str, ...]] = {}) -> Reference:
    """Run both over ``steps`` batches under a cosine schedule; ``without`` says who has no gradient at which step."""
    other = twin(model)
    optimizer = setup.library(model)
    network = optimizer.combination_state() if setup.combine == "network" else None
    reference = setup.reference(other, network)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps, eta_min=1e-3)
    for t in range(1, steps + 1):
        for mine, theirs in zip(reference.param_groups, optimizer.param_groups, strict=True):
            mine["lr"] = theirs["lr"]
        for one in (model, other):
            backward(one, t, without.get(t, ()))
        optimizer.step()
        reference.step()
        if t in (2, 3, 10, 50, steps):
            assert_same_state(optimizer, model, reference, other)
        scheduler.step()
    return reference


def long_run(rule: str, levels: tuple[str, ...], form: str, model: nn.Module, **changes: Any) -> Setup:
    """As :func:`everything_in_play`, with β and δ that suit 200 steps rather than five."""
    setup = everything_in_play(rule, levels, form, model, **{"decay": 0.002, **changes})
    beta, delta = 0.3 * setup.options["hyper_lr"], 0.1 * setup.options["combine_lr"]
    second = {**(setup.second or {}), "hyper_lr": (1.0 if form in REGULARIZED else 0.6) * beta}
    options = {**setup.options, "hyper_lr": beta, "combine_lr": delta}
    shape = {"pull": pulls(levels, beta), "over_time": 0.0 if form == "last" else 0.05 / beta}
    return dataclasses.replace(setup, options=options, second=second, **shape)


def now_and_then(model: nn.Module) -> dict[int, tuple[str, ...]]:
    """Each parameter in its turn is left out at every seventh step, and two steps in a row every so often."""
    names = [name for name, _ in model.named_parameters()]
    out = {t: (names[t // 7 % len(names)],) for t in range(7, STEPS, 7)}
    return out | {t + 1: out[t] for t in range(21, STEPS - 1, 21)}


@pytest.mark.alike(4)
@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("name", "levels"), [CNN, LSTM], ids=["cnn", "lstm"])
@pytest.mark.parametrize("rule", RULES)
def test_two_hundred_steps_agree_for_every_rule(rule: str, name: str, levels: tuple[str, ...], backend: str) -> None:
    model = build(name)
    setup = dataclasses.replace(long_run(rule, levels, "normalized", model), backend=backend)
    reference = agree(setup, model, without=now_and_then(model))
    spread = {level: float(rate.max() / rate.min()) for level, rate in reference.rate.items()}
    assert spread["layer"] > 1.01, f"the rates should have come apart, but their spread is {spread}"


@pytest.mark.alike(4)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "levels"), [CNN, LSTM], ids=["cnn", "lstm"])
@pytest.mark.parametrize("form", COMBINATIONS)
def test_two_hundred_steps_agree_for_every_combination(form: str, name: str, levels: tuple[str, ...]) -> None:
    model = build(name)
    rule = {"cnn": "adamw", "lstm": "nesterov"}[name]
    agree(long_run(rule, levels, form, model), model, without=now_and_then(model))


@pytest.mark.alike(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"hyper_rule": "multiplicative", "hyper_lr": 0.02},
        {"hyper_scale": "mean"},
        {"hyper_scale": "size", "hyper_lr": 1e-7},
        {"min_lr": 0.0195, "max_lr": 0.0205},
        {"maximize": True},
        {"restarts": (2, 50, 51)},
        {"schedule": "global"},
    ],
    ids=lambda changes: next(iter(changes)) + " " + str(next(iter(changes.values()))),
)
@pytest.mark.parametrize(("name", "levels"), [CNN, LSTM], ids=["cnn", "lstm"])
def test_two_hundred_steps_agree_for_every_option(changes: dict[str, Any], name: str, levels: tuple[str, ...]) -> None:
    model = build(name)
    setup = long_run("momentum", levels, "normalized", model)
    options, second = {**setup.options, **changes}, dict(setup.second or {})
    if "hyper_lr" in changes:
        second["hyper_lr"] = 0.6 * changes["hyper_lr"]
    if "min_lr" in changes or "schedule" in changes:  # a guard is in the units of one lr0
        second["lr"] = options["lr"]
    agree(dataclasses.replace(setup, options=options, second=second), model, without=now_and_then(model))


@pytest.mark.parametrize("rule", TORCH_RULES)
def test_the_reference_without_learning_is_torch_optim(rule: str) -> None:
    model = build("mlp")
    other = twin(model)
    options = {**RULES[rule].options, "lr": 0.02, "weight_decay": 0.03}
    optimizer = RULES[rule].torch(other.parameters(), **options)
    reference = Setup(rule, ("global", "layer", "parameter"), "normalized", options).reference(model)
    for t in range(1, 101):
        skipped = ("fc1.bias",) if t % 5 == 0 else ()
        backward(model, t, skipped)
        backward(other, t, skipped)
        reference.step()
        optimizer.step()
    assert_alike(dict(model.named_parameters()), dict(other.named_parameters()))
