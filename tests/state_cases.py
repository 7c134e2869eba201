"""Optimizers whose states are kept in ``tests/states``, and training that is the same on every machine.

Every option is spelled, so that a default that changes does not change what an old file means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import camhd

FIRST, REST = 5, 4
DEEP = ("global", "layer", "unit", "parameter")
ADDITIVE: dict[str, Any] = {
    "levels": ("global", "layer"),
    "combine": "normalized",
    "hyper_rule": "additive",
    "hyper_lr": 1e-3,
    "combine_lr": 20.0,
    "max_change": None,
}


def _two_groups(m: nn.Module) -> list[dict[str, Any]]:
    return [{"params": m[0].named_parameters(), "lr": 0.02}, {"params": m[2].named_parameters(), "hyper_lr": 1e-2}]


CASES: dict[str, Callable[[nn.Module], camhd.Optimizer]] = {
    "sgd": lambda m: camhd.SGD(m, lr=0.05, **ADDITIVE),
    "nesterov-parameter": lambda m: camhd.SGD(
        m, lr=0.05, momentum=0.9, nesterov=True, **{**ADDITIVE, "levels": DEEP, "combine": "softmax"}
    ),
    "adam": lambda m: camhd.Adam(m, lr=0.01, weight_decay=0.01, **ADDITIVE),
    "adam-without-names": lambda m: camhd.Adam(m.parameters(), lr=0.01, **ADDITIVE),
    "amsgrad-per-layer": lambda m: camhd.Adam(
        m, lr=0.01, amsgrad=True, **{**ADDITIVE, "combine": camhd.combine.PerLayer("normalized")}
    ),
    "adam-long-horizon": lambda m: camhd.Adam(
        m, lr=0.01, **{**ADDITIVE, "hyper_rule": "long_horizon", "hyper_lr": 1.0}
    ),
    "adamw-two-groups": lambda m: camhd.AdamW(_two_groups(m), lr=0.01, weight_decay=0.1, decay=0.01, **ADDITIVE),
    "adabound-multiplicative": lambda m: camhd.AdaBound(
        m, lr=0.01, **{**ADDITIVE, "hyper_rule": "multiplicative", "hyper_lr": 0.02}
    ),
    "wrapped-rmsprop": lambda m: camhd.wrap(torch.optim.RMSprop(m.named_parameters(), lr=0.01), **ADDITIVE),
}

RULE_SINCE = {"adam-long-horizon": 4}  # the version of the format since which the rule is what it is now


def model() -> nn.Module:
    """Its weights come from a formula: random numbers may differ between versions of torch."""
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2))
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.linspace(-1, 1, p.numel()).add(0.3 * i).sin().mul(0.7).view(p.shape))
    return net


def train(net: nn.Module, opt: torch.optim.Optimizer, first: int, last: int) -> None:
    """Steps number `first` to `last`, each with inputs of its own."""
    for t in range(first, last):
        x = torch.linspace(-2, 2, 12).mul(1 + t).cos().view(4, 3)
        opt.zero_grad()
        (net(x) - x[:, :2].sin()).square().mean().backward()
        opt.step()


def at(*path: Any, value: Any = ...) -> Callable[[Any], Any]:
    """A state in which the entry at a path has another value, or none."""

    def change(state: Any) -> Any:
        place = state
        for key in path[:-1]:
            place = place[key]
        if value is ...:
            del place[path[-1]]
        else:
            place[path[-1]] = value
        return state

    return change
