"""A tree of one level is hypergradient descent (Baydin et al.), written down here once more by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from cases import RULES, Setup, block_of
from compare import close, flat
from models import backward, build, twin
from reference_levels import layer_of

pytestmark = pytest.mark.usefixtures("papers_form")


def hypergradient_descent(
    model: nn.Module, steps: int, direction: Callable[..., Tensor], groups: Callable[[str], str], lr: float, beta: float
) -> dict[str, float]:
    """Baydin et al., with one rate for each value of ``groups``: α ← α + β g·d of the last step, then θ ← θ − α d."""
    rate = {groups(name): lr for name, _ in model.named_parameters()}
    last: dict[str, Tensor] = {}
    state: dict[str, dict[str, Any]] = {name: {} for name, _ in model.named_parameters()}
    for t in range(1, steps + 1):
        backward(model, t)
        for name, p in model.named_parameters():
            if name in last:
                rate[groups(name)] += beta * float((p.grad * last[name]).sum())
        for name, p in model.named_parameters():
            last[name] = direction(state[name], p.grad.clone())
            p.data -= rate[groups(name)] * last[name]
    return rate


def plain(state: dict[str, Any], g: Tensor) -> Tensor:
    return g


def heavy_ball(state: dict[str, Any], g: Tensor) -> Tensor:
    state["b"] = g if "b" not in state else 0.9 * state["b"] + g
    return state["b"]


def adam(state: dict[str, Any], g: Tensor) -> Tensor:
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * g
    v = state["v"] = 0.999 * state.get("v", 0.0) + 0.001 * g * g
    return (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)


HD = {"sgd": (plain, 1e-2, {}), "momentum": (heavy_ball, 1e-3, {}), "adam": (adam, 1e-4, {})}


@pytest.mark.parametrize(
    ("level", "groups"),
    [("global", lambda name: "global"), ("layer", layer_of), ("block", block_of)],
    ids=["global", "layer", "block"],
)
@pytest.mark.parametrize("rule", HD)
def test_one_level_is_hypergradient_descent(rule: str, level: str, groups: Callable[[str], str]) -> None:
    direction, beta, _ = HD[rule]
    model = build("cnn")
    other = twin(model)
    options = {**RULES[rule].options, "lr": 0.01, "hyper_lr": beta}
    optimizer = Setup(rule, (level,), "normalized", options).library(model)
    for t in range(1, 51):
        backward(model, t)
        optimizer.step()
    rates = hypergradient_descent(other, 50, direction, groups, 0.01, beta)
    shown = optimizer.rates()[level]
    close(flat(shown), [rates["global"]] if level == "global" else [rates[key] for key in shown])
    assert max(abs(rate - 0.01) for rate in rates.values()) > 1e-4
    for got, want in zip(model.parameters(), other.parameters(), strict=True):
        close(got, want)


@pytest.mark.parametrize("rule", HD)
def test_the_parameter_level_is_hypergradient_descent_for_every_scalar(rule: str) -> None:
    direction, beta, _ = HD[rule]
    model = build("mlp")
    other = twin(model)
    options = {**RULES[rule].options, "lr": 0.01, "hyper_lr": beta}
    optimizer = Setup(rule, ("parameter",), "normalized", options).library(model)
    rate = {name: torch.full_like(p, 0.01) for name, p in other.named_parameters()}
    state: dict[str, dict[str, Any]] = {name: {} for name in rate}
    last: dict[str, Tensor] = {}
    for t in range(1, 51):
        backward(model, t)
        optimizer.step()
        backward(other, t)
        for name, p in other.named_parameters():
            if name in last:
                rate[name] = (rate[name] + beta * p.grad * last[name]).clamp(min=0.0)
            last[name] = direction(state[name], p.grad.clone())
            p.data -= rate[name] * last[name]
    for (name, got), want in zip(model.named_parameters(), other.parameters(), strict=True):
        close(got, want)
        close(optimizer.rates()["parameter"][name], rate[name])


def test_one_level_of_the_multiplicative_rule_is_that_of_hypergradient_descent() -> None:
    model = build("mlp")
    other = twin(model)
    optimizer = camhd.SGD(model, lr=0.01, levels=("global",), hyper_lr=0.02, hyper_rule="multiplicative")
    rate, last = 0.01, None
    for t in range(1, 51):
        backward(model, t)
        optimizer.step()
        backward(other, t)
        g = torch.cat([p.grad.flatten() for p in other.parameters()])
        if last is not None:
            rate *= 1 + 0.02 * float(g @ last / (g.norm() * last.norm()))
        last = g
        for p in other.parameters():
            p.data -= rate * p.grad
    close(optimizer.rates()["global"], rate)
    for got, want in zip(model.parameters(), other.parameters(), strict=True):
        close(got, want)
