"""What is never left: the bounds of a rate, the simplex of the weights, the finite numbers; and who stays behind."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import camhd
from cases import REGULARIZED, Setup
from compare import flat
from models import backward, build, feed, gradients_of

pytestmark = pytest.mark.usefixtures("papers_form")


@pytest.mark.parametrize("hyper_rule", ["additive", "multiplicative"])
@pytest.mark.parametrize(("sign", "end"), [(1, 0.3), (-1, 0.05)])
def test_no_rate_leaves_its_bounds(sign: int, end: float, hyper_rule: str) -> None:
    model = build("mlp")
    options = {"lr": 0.1, "hyper_lr": 0.9, "hyper_rule": hyper_rule, "min_lr": 0.05, "max_lr": 0.3}
    optimizer = camhd.SGD(model, levels=("global", "layer", "parameter"), **options)
    g = gradients_of(model, 1)[0]
    for t in range(30):
        feed(optimizer, model, [{name: (sign**t) * value for name, value in g.items()}])
        for rates in optimizer.rates().values():
            assert bool(((flat(rates) >= 0.05) & (flat(rates) <= 0.3)).all())
    assert optimizer.rates()["global"] == pytest.approx(end, rel=1e-12)


def test_by_default_no_rate_is_negative() -> None:
    model = build("mlp")
    optimizer = camhd.SGD(model, lr=0.1, levels=("global", "parameter"), hyper_lr=1e3, combine="fixed", max_change=None)
    g = gradients_of(model, 1)[0]
    feed(optimizer, model, [g, {name: -value for name, value in g.items()}])
    assert optimizer.rates()["global"] == 0
    assert float(flat(optimizer.rates()["parameter"]).min()) == 0


@pytest.mark.parametrize("form", ["normalized", "softmax", "per-layer normalized", "per-layer softmax"])
@pytest.mark.parametrize("delta", [1e-2, 1.0, 1e2, 1e4])
def test_weights_never_leave_the_simplex(form: str, delta: float) -> None:
    model = build("mlp")
    options = {"lr": 0.05, "hyper_lr": 1e-2, "combine_lr": delta}
    optimizer = Setup("sgd", ("global", "layer", "unit"), form, options).library(model)
    for t in range(1, 31):
        backward(model, t)
        optimizer.step()
        shown = optimizer.combination()
        for weights in shown.values() if form.startswith("per-layer") else [shown]:
            assert all(0 <= weight <= 1 for weight in weights.values())
            assert sum(weights.values()) == pytest.approx(1, rel=1e-12)


def test_a_negative_weight_becomes_zero_before_the_weights_are_normalised() -> None:
    """Global falls below 0 and is out; layer and parameter share what is left in proportion."""
    p = nn.Parameter(torch.tensor([1.0, 1.0], dtype=torch.float64))
    optimizer = camhd.SGD(
        [p], lr=0.1, levels=("global", "layer", "parameter"), weights=(0.1, 0.3, 0.6), hyper_lr=0.0, combine_lr=10.0
    )
    for g in ([1.0, 1.0], [-0.2, 0.0]):  # Σ α h = 0.1 · 0.2, so every γ falls by 0.2
        p.grad = torch.tensor(g, dtype=torch.float64)
        optimizer.step()
    assert list(optimizer.combination().values()) == pytest.approx([0.0, 0.1 / 0.5, 0.4 / 0.5], rel=1e-12)


def test_weights_stay_if_all_of_them_would_vanish() -> None:
    p = nn.Parameter(torch.tensor([1.0, 1.0], dtype=torch.float64))
    optimizer = camhd.SGD([p], lr=0.1, levels=("global", "layer"), weights=(0.4, 0.6), hyper_lr=0.0, combine_lr=100.0)
    for g in ([1.0, 1.0], [-1.0, -1.0]):
        p.grad = torch.tensor(g, dtype=torch.float64)
        optimizer.step()
    assert list(optimizer.combination().values()) == pytest.approx([0.4, 0.6], rel=1e-15)


@pytest.mark.parametrize(
    "form", ["fixed", "normalized", "softmax", "per-layer softmax", "network", "virtual", "closed"]
)
@pytest.mark.parametrize("hyper_rule", ["additive", "multiplicative"])
def test_a_hypergradient_that_is_not_finite_leaves_rates_and_weights_as_they_were(hyper_rule: str, form: str) -> None:
    """One scalar's gradient is 0, 1e200, 1e200, 0: the parameters stay finite, one product does not."""
    model = build("mlp")
    options = {"lr": 1e-3, "hyper_lr": 1e-4, "combine_lr": 1e-2, "hyper_rule": hyper_rule}
    pull = {("layer", "global"): 100.0} if form in REGULARIZED else {}
    optimizer = Setup("sgd", ("global", "layer"), form, options, pull=pull).library(model)
    steps = gradients_of(model, 7)
    for step, g in zip(steps[1:5], (0.0, 1e200, 1e200, 0.0), strict=True):
        step["fc2.weight"][0, 0] = g
    feed(optimizer, model, steps[:3])
    before, skipped = (optimizer.rates(), str(optimizer.combination_state())), optimizer.skipped
    feed(optimizer, model, steps[3:4])
    assert (optimizer.rates(), str(optimizer.combination_state())) == before
    assert optimizer.skipped == skipped + 1
    feed(optimizer, model, steps[4:])
    assert optimizer.rates() != before[0]
    assert hyper_rule == "multiplicative" or optimizer.skipped == 1  # elsewhere the norms overflow as well
    assert all(bool(p.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_never_reaches_a_rate(bad: float) -> None:
    model = build("mlp")
    optimizer = camhd.Adam(model, lr=1e-3, levels=("global", "layer", "parameter"), hyper_lr=1e-4, combine_lr=1e-2)
    steps = gradients_of(model, 4)
    steps[2]["fc1.bias"][0] = bad
    for step in steps:
        feed(optimizer, model, [step])
        assert all(bool(flat(rates).isfinite().all()) for rates in optimizer.rates().values())
        assert all(math.isfinite(weight) for weight in optimizer.combination().values())
    assert optimizer.skipped == 2  # the step that saw it, and the one whose last direction it spoilt


def test_a_rate_frozen_by_its_hyper_lr_stays_while_the_others_learn() -> None:
    model = build("mlp")
    optimizer = camhd.SGD(model, lr=0.1, hyper_lr={"global": 0.0, "layer": 1e-2})
    for t in range(1, 6):
        backward(model, t)
        optimizer.step()
    assert optimizer.rates()["global"] == 0.1
    assert all(rate != 0.1 for rate in optimizer.rates()["layer"].values())


def test_rates_of_a_parameter_without_a_gradient_stay() -> None:
    model = build("mlp")
    optimizer = camhd.Adam(model, lr=0.01, levels=("global", "layer", "parameter"), hyper_lr=1e-3)
    for t in range(1, 4):
        backward(model, t)
        optimizer.step()
    before = optimizer.rates()
    for t in (4, 5):  # no gradient at 4; at 5 a gradient, but no direction to meet it
        backward(model, t, without=("fc2.weight", "fc2.bias") if t == 4 else ())
        optimizer.step()
        after = optimizer.rates()
        assert after["layer"]["fc2"] == before["layer"]["fc2"]
        assert torch.equal(after["parameter"]["fc2.weight"], before["parameter"]["fc2.weight"])
        assert after["layer"]["fc1"] != before["layer"]["fc1"]
    backward(model, 6)
    optimizer.step()
    assert optimizer.rates()["layer"]["fc2"] != before["layer"]["fc2"]
