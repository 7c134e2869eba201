"""With β = δ = 0 there is nothing left but the base optimizer: must-be-true 2."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from cases import BACKENDS, CHAINS, EXACT, RULES, TORCH_RULES, Setup
from models import backward, build, snapshot, twin

pytestmark = pytest.mark.usefixtures("papers_form")

FLOAT32 = 1e-6  # the rtol that the specification asks of float32
STEPS = 100
OFF = {"hyper_lr": 0.0, "combine_lr": 0.0}
# Small enough that training does not blow up the last digit: at ten times these rates torch's own fused kernels end
# 2e-6 away from torch's own loop in float32.
LR = {"SGD": 3e-3, "Adam": 1e-3, "AdamW": 1e-3}
chain_name = ">".join


def relative_error(got: nn.Module, want: nn.Module) -> float:
    """The largest difference of any tensor, relative to the largest number in it."""
    pairs = zip(got.parameters(), want.parameters(), strict=True)
    return max(float((a - b).detach().abs().max() / b.detach().abs().max()) for a, b in pairs)


def train(optimizer: Any, model: nn.Module, steps: int = STEPS) -> Iterator[int]:
    for t in range(1, steps + 1):
        backward(model, t)
        optimizer.step()
        yield t


def run(optimizer: Any, model: nn.Module, steps: int = STEPS) -> None:
    for _ in train(optimizer, model, steps):
        pass


def base_options(rule: str) -> dict[str, Any]:
    return {**RULES[rule].options, "lr": LR[RULES[rule].camhd], "weight_decay": 0.01}


@cache
def trained_by_torch(rule: str, name: str, dtype: torch.dtype) -> nn.Module:
    model = build(name, dtype)
    run(RULES[rule].torch(model.parameters(), **base_options(rule)), model)
    return model


@pytest.mark.alike(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", TORCH_RULES)
@pytest.mark.parametrize("levels", CHAINS, ids=chain_name)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_without_learning_it_is_torch_optim(
    rule: str, dtype: torch.dtype, levels: tuple[str, ...], backend: str
) -> None:
    model = build(CHAINS[levels], dtype)
    run(Setup(rule, levels, "normalized", {**base_options(rule), **OFF}, backend=backend).library(model), model)
    other = trained_by_torch(rule, CHAINS[levels], dtype)
    assert relative_error(model, other) <= (EXACT if dtype == torch.float64 else FLOAT32)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_the_defaults_of_the_base_rule_are_those_of_torch(name: str) -> None:
    model = build("mlp")
    other = twin(model)
    run(getattr(camhd, name)(model.parameters(), **OFF), model)
    run(getattr(torch.optim, name)(other.parameters()), other)
    assert relative_error(model, other) <= EXACT


@pytest.mark.parametrize("rule", TORCH_RULES)
def test_two_param_groups_without_learning_are_those_of_torch_optim(rule: str) -> None:
    model = build("cnn")
    other = twin(model)
    case = RULES[rule]
    options = base_options(rule)
    second = {"lr": 0.5 * options["lr"], "weight_decay": 0.1, **case.second}
    setup = Setup(rule, ("global", "layer", "filter"), "normalized", {**options, **OFF}, second=second)
    optimizer = setup.library(model)
    groups = [{**group, "params": list(group["params"].values())} for group in setup.groups(other)]
    for _ in zip(train(optimizer, model), train(case.torch(groups, **options), other), strict=True):
        pass
    assert relative_error(model, other) <= EXACT


@pytest.mark.parametrize("rule", TORCH_RULES)
def test_maximizing_without_learning_is_that_of_torch_optim(rule: str) -> None:
    model = build("mlp")
    other = twin(model)
    case = RULES[rule]
    options = {**base_options(rule), "maximize": True}
    run(getattr(camhd, case.camhd)(model, **options, **OFF), model)
    run(case.torch(other.parameters(), **options), other)
    assert relative_error(model, other) <= EXACT


@pytest.mark.parametrize("rule", TORCH_RULES)
def test_a_parameter_left_out_is_left_out_as_in_torch_optim(rule: str) -> None:
    model = build("mlp")
    other = twin(model)
    case = RULES[rule]
    options = base_options(rule)
    pairs = [
        (Setup(rule, ("global", "layer"), "normalized", {**options, **OFF}).library(model), model),
        (case.torch(other.parameters(), **options), other),
    ]
    for t in range(1, STEPS + 1):
        for optimizer, one in pairs:
            backward(one, t, without=("fc2.weight", "fc3.bias") if t % 3 == 0 or t < 3 else ())
            optimizer.step()
    assert relative_error(model, other) <= EXACT


def released_adabound(bounds: str, sqrt: bool, ams: bool) -> Callable[[dict[str, Any], Tensor, Tensor], None]:
    """One step of AdaBound's released code (f = 0.1, γ = 1e-3, lr = 0.01), in the order it is written there."""

    def step(state: dict[str, Any], p: Tensor, g: Tensor) -> None:
        state["t"] = t = state.get("t", 0) + 1
        m = state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * g
        v = state["v"] = 0.999 * state.get("v", 0.0) + 0.001 * g * g
        if ams:
            v = state["max"] = torch.maximum(state.get("max", v), v)
        step_size = 0.01 * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        lower = 0.1 * (1 - 1 / (0.001 * t + 1))
        upper = 0.1 * (1 + 1 / (0.001 * t + (1 if bounds == "paper" else 0)))
        rate = (step_size / (v.sqrt() + 1e-8)).clamp(lower, upper) / (math.sqrt(t) if sqrt else 1)
        p.data.sub_(rate * m)

    return step


@pytest.mark.parametrize("levels", [("global",), ("global", "group", "layer", "unit", "parameter")], ids=chain_name)
@pytest.mark.parametrize(
    ("bounds", "decay_bound", "amsbound"),
    [("released", None, False), ("released", None, True), ("paper", "sqrt", False), ("paper", None, True)],
)
def test_adabound_without_learning_is_the_released_code(
    bounds: str, decay_bound: str | None, amsbound: bool, levels: tuple[str, ...]
) -> None:
    model = build(CHAINS[levels])
    other = twin(model)
    options = {"lr": 0.01, "bounds": bounds, "decay_bound": decay_bound, "amsbound": amsbound, **OFF}
    setup = Setup("adabound", levels, "normalized", {"final_lr": 0.1, "gamma": None, **options})
    run(setup.library(model), model)
    step = released_adabound(bounds, decay_bound == "sqrt", amsbound)
    state: dict[str, dict[str, Any]] = {name: {} for name, _ in other.named_parameters()}
    for t in range(1, STEPS + 1):
        backward(other, t)
        for name, p in other.named_parameters():
            step(state[name], p, p.grad)
    assert relative_error(model, other) <= EXACT


@pytest.mark.parametrize("rule", RULES)
def test_gradients_are_never_written(rule: str) -> None:
    model = build("cnn")
    options = {**RULES[rule].options, "weight_decay": 0.1, "maximize": True, "hyper_lr": 1e-3}
    optimizer = Setup(rule, ("global", "layer", "filter"), "softmax", options).library(model)
    for t in range(1, 4):
        backward(model, t)
        before = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        for name, p in model.named_parameters():
            assert torch.equal(p.grad, before[name])


@pytest.mark.parametrize("rule", RULES)
def test_zeroing_gradients_in_place_changes_nothing(rule: str) -> None:
    """Under plain SGD last step's direction is p.grad itself, unless it was copied."""
    ends = []
    for set_to_none in (True, False):
        model = build("mlp")
        setup = Setup(rule, ("global", "layer"), "normalized", {**RULES[rule].options, "lr": 0.01, "hyper_lr": 1e-3})
        optimizer = setup.library(model)
        for t in range(1, 11):
            optimizer.zero_grad(set_to_none=set_to_none)
            other = twin(model)
            backward(other, t)
            for p, q in zip(model.parameters(), other.parameters(), strict=True):
                p.grad = q.grad if p.grad is None else p.grad.add_(q.grad)
            optimizer.step()
        ends.append((snapshot(model), optimizer.rates()["global"]))
    assert ends[0][1] == ends[1][1]
    assert all(torch.equal(ends[0][0][name], ends[1][0][name]) for name in ends[0][0])


# --------------------------------------------------------------------------- options that change in mid-training


def _adam_pair(backend: str, **options: Any) -> tuple[list[nn.Module], list[Any]]:
    """The same network twice: with torch's Adam, and with ours."""
    models = [build("cnn", torch.float64), build("cnn", torch.float64)]
    theirs = torch.optim.Adam(models[0].parameters(), lr=1e-3, **options)
    return models, [theirs, camhd.Adam(models[1], lr=1e-3, backend=backend, **OFF, **options)]


def _change(optimizers: list[Any], **options: Any) -> None:
    for optimizer in optimizers:
        optimizer.param_groups[0].update(options)


def _fade_and_compare(models: list[nn.Module], optimizers: list[Any], t: int) -> None:
    """A step of both, with gradients that get smaller, so that v falls below its maximum."""
    for model, optimizer in zip(models, optimizers, strict=True):
        backward(model, t)
        for p in model.parameters():
            assert p.grad is not None
            p.grad /= t
        optimizer.step()
    assert relative_error(models[1], models[0]) < EXACT, t


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("changed", [{"eps": 1e-2}, {"betas": (0.8, 0.9)}, {"betas": (0.5, 0.99), "eps": 0.5}], ids=str)
def test_moments_stay_when_their_options_change_also_of_parameters_without_a_gradient(
    backend: str, amsgrad: bool, changed: dict[str, Any]
) -> None:
    """Ours keeps m as a direction, whose divisor has β₂ and ε in it; torch keeps m."""
    models, optimizers = _adam_pair(backend, amsgrad=amsgrad)
    before = {"eps": 1e-8, "betas": (0.9, 0.999)}
    for t in range(1, 31):
        if t % 5 == 0:
            _change(optimizers, **(changed if t % 10 else before))
        for model, optimizer in zip(models, optimizers, strict=True):
            backward(model, t)
            for place, p in enumerate(model.parameters()):
                if place % 2 and t % 5 < 3:  # at the step of the change, before it and after it
                    p.grad = None
            optimizer.step()
        assert relative_error(models[1], models[0]) < EXACT, t


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_maximum_that_is_no_longer_wanted_leaves_the_moments_as_they_are(backend: str) -> None:
    models, optimizers = _adam_pair(backend, amsgrad=True)
    for t in range(1, 21):
        if t == 10:
            _change(optimizers, amsgrad=False)
        _fade_and_compare(models, optimizers, t)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_maximum_that_is_first_wanted_in_mid_training_begins_as_what_v_is(backend: str) -> None:
    models, optimizers = _adam_pair(backend)
    for t in range(1, 21):
        if t == 10:
            for p, state in optimizers[0].state.items():
                state["max_exp_avg_sq"] = state["exp_avg_sq"].clone()
                assert p.shape == state["max_exp_avg_sq"].shape
            _change(optimizers, amsgrad=True)
        _fade_and_compare(models, optimizers, t)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("amsgrad", [False, True])
def test_a_second_moment_that_overflows_stops_its_weights_and_no_others(backend: str, amsgrad: bool) -> None:
    """g² is infinite in float32, and so is v from then on: torch's step is 0, and so is ours."""
    weights = [nn.Parameter(torch.ones(300)) for _ in range(2)]
    optimizers = [
        torch.optim.Adam(weights[:1], lr=1e-3, amsgrad=amsgrad),
        camhd.Adam(weights[1:], lr=1e-3, amsgrad=amsgrad, backend=backend, **OFF),
    ]
    for t in range(10):
        for w, optimizer in zip(weights, optimizers, strict=True):
            w.grad = torch.linspace(-1, 1, 300)
            w.grad[::7] = 1e25 if t == 3 else 1.0
            optimizer.step()
    assert weights[0].isfinite().all()
    torch.testing.assert_close(weights[1], weights[0], rtol=FLOAT32, atol=0)


def _regression(make: Callable[..., Any], dtype: torch.dtype) -> Tensor:
    """The weights of a regression after 1,500 noisy steps: a convex problem, so that rounding does not blow up."""
    random = torch.Generator().manual_seed(0)
    x, noise = (torch.randn(500, n, generator=random, dtype=torch.float64) for n in (20, 1))
    y, w = x.sum(1, keepdim=True) + noise, nn.Parameter(torch.zeros(20, 1, dtype=dtype))
    optimizer = make([w], lr=1e-2, betas=(0.99, 0.999))
    for _ in range(1500):
        some = torch.randint(500, (16,), generator=random)
        w.grad = x[some].to(dtype).T @ (x[some].to(dtype) @ w.detach() - y[some].to(dtype))
        optimizer.step()
    return w.detach().double()


@pytest.mark.parametrize("backend", BACKENDS)
def test_rounding_adds_up_no_more_than_in_torch(backend: str) -> None:
    """The first moment is a product of what is kept; 100 steps' worth of its errors are in it at β₁ = 0.99."""
    exact = _regression(torch.optim.Adam, torch.float64)
    ours, theirs = (
        float((_regression(make, torch.float32) - exact).abs().max())
        for make in (partial(camhd.Adam, backend=backend, **OFF), torch.optim.Adam)
    )
    assert theirs > 0
    assert ours < 3 * theirs
