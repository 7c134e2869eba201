"""Section 9 of the specification: what param groups share and what each has for itself."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import camhd
from cases import COMBINATIONS, EXACT, REGULARIZED, RULES, Setup, learning
from compare import assert_alike, assert_same_state
from differentiate import Observer
from models import backward, build, snapshot, twin
from reference_levels import layer_of

pytestmark = pytest.mark.usefixtures("papers_form")


def test_every_rate_starts_at_the_lr_of_its_group() -> None:
    model = build("mlp")
    groups = [
        {"params": [(f"fc1.{n}", p) for n, p in model.fc1.named_parameters()]},
        {"params": [(f"fc2.{n}", p) for n, p in model.fc2.named_parameters()], "lr": 0.3},
        {"params": [(f"fc3.{n}", p) for n, p in model.fc3.named_parameters()], "lr": 0.02},
    ]
    optimizer = camhd.SGD(groups, lr=0.1, levels=("global", "group", "layer", "parameter"), hyper_lr=1e-3)
    rates = optimizer.rates()
    assert rates["layer"] == {"fc1": 0.1, "fc2": 0.3, "fc3": 0.02}
    assert list(rates["group"].values()) == [0.1, 0.3, 0.02]
    assert bool((rates["parameter"]["fc2.weight"] == 0.3).all())
    assert rates["global"] == 0.1  # shared by groups of different lr0: in units of the default
    before = snapshot(model)
    backward(model, 1)
    optimizer.step()
    for name, p in model.named_parameters():
        want = before[name] - rates["layer"][layer_of(name)] * p.grad
        torch.testing.assert_close(p.detach(), want, rtol=EXACT, atol=EXACT)


def test_groups_of_different_lr_share_an_upper_rate_as_multiples_of_their_own() -> None:
    a, b = (nn.Parameter(torch.ones(1, dtype=torch.float64)) for _ in range(2))
    groups = [{"params": [a]}, {"params": [b], "lr": 0.3}]
    optimizer = camhd.SGD(groups, lr=0.1, levels=("global",), hyper_lr=1e-2, max_change=None)
    for _ in range(2):
        a.grad, b.grad = torch.full_like(a, 2.0), torch.full_like(b, 5.0)
        optimizer.step()
    rate = 0.1 + 1e-2 * (2.0 * 2.0 + 3.0 * 5.0 * 5.0)  # ∂α(b)/∂rate is 0.3 / 0.1
    assert optimizer.rates()["global"] == pytest.approx(rate, rel=EXACT)
    assert a.item() == pytest.approx(1 - (0.1 + rate) * 2.0, rel=EXACT)
    assert b.item() == pytest.approx(1 - 3.0 * (0.1 + rate) * 5.0, rel=EXACT)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("form", [form for form in COMBINATIONS if form not in REGULARIZED])
def test_weights_and_biases_of_one_layer_may_have_different_rates(rule: str, form: str) -> None:
    """Then a layer's rate is shared as the global one is; its parameters' rates start at their own lr0."""
    model = build("mlp")
    second = {"lr": 0.004, "weight_decay": 0.0, "hyper_lr": 1e-4}
    options = learning(rule, model, weights=(0.2, 0.3, 0.5))
    setup = Setup(rule, ("global", "layer", "parameter"), form, options, second=second, split="biases")
    observer = Observer(setup.library(model), model, setup)
    for factor in (1.0, 0.5, 0.8, 1.2):
        observer.step(factor)


@pytest.mark.parametrize("rule", RULES)
def test_two_groups_with_one_lr_are_one_group(rule: str) -> None:
    ends = []
    for split in (False, True):
        model = build("cnn")
        setup = Setup(
            rule, ("global", "layer", "filter"), "softmax", learning(rule, model), second={} if split else None
        )
        optimizer = setup.library(model)
        assert len(optimizer.param_groups) == 1 + split
        for t in range(1, 21):
            backward(model, t)
            optimizer.step()
        ends.append((optimizer.rates(), dict(model.named_parameters()), optimizer.combination()))
    for got, want in zip(*ends, strict=True):
        assert_alike(got, want)


def test_a_groups_hyper_lr_of_zero_freezes_its_rates_and_silences_it_above() -> None:
    model = build("mlp")
    setup = Setup("sgd", ("global", "layer"), "fixed", {"lr": 0.1, "hyper_lr": 1e-2}, second={"hyper_lr": 0.0})
    optimizer = setup.library(model)
    last: dict[str, torch.Tensor] = {}
    for t in (1, 2):
        backward(model, t)
        last, grads = {n: p.grad.clone() for n, p in model.named_parameters()}, last
        optimizer.step()
    rates = optimizer.rates()
    assert rates["layer"]["fc3"] == 0.1
    loud = sum(float((last[n] * grads[n]).sum()) for n in last if layer_of(n) != "fc3")
    assert rates["global"] == pytest.approx(0.1 + 1e-2 * 0.5 * loud, rel=EXACT)


def test_a_group_may_freeze_one_level_alone() -> None:
    model = build("mlp")
    frozen = {"hyper_lr": {"global": 1e-2, "layer": 0.0}}
    optimizer = Setup("sgd", ("global", "layer"), "fixed", {"lr": 0.1, "hyper_lr": 1e-2}, second=frozen).library(model)
    for t in (1, 2):
        backward(model, t)
        optimizer.step()
    rates = optimizer.rates()
    assert rates["layer"]["fc3"] == 0.1
    assert 0.1 not in (rates["layer"]["fc1"], rates["layer"]["fc2"], rates["global"])


def test_one_group_may_maximise_while_the_other_minimises() -> None:
    """Each group's g has its own sign, in its step and in its hypergradient."""
    model = build("mlp")
    other = twin(model)
    setup = Setup("adam", ("global", "layer"), "normalized", learning("adam", model), second={"maximize": True})
    optimizer, reference = setup.library(model), setup.reference(other)
    for t in range(1, 21):
        for one in (model, other):
            backward(one, t)
        optimizer.step()
        reference.step()
    assert_same_state(optimizer, model, reference, other)


def test_each_line_of_a_setup_reaches_both_sides() -> None:
    """The table of cases itself: what a Setup says, the library shows."""
    model = build("lstm")
    setup = Setup("sgd", ("global", "block", "layer", "gate", "unit"), "normalized", {"lr": 0.1})
    optimizer, reference = setup.library(model), setup.reference(model)
    assert_alike(optimizer.rates(), reference.rates())
    assert_alike(optimizer.combination(), reference.combination())
    columns = dataclasses.replace(setup, levels=("layer", "unit"), axis="input")
    assert_alike(columns.library(model).rates(), columns.reference(model).rates())
