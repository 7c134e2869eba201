"""One table of cases for every test: base rules, level chains, combinations, and how to build an optimizer.

A :class:`Setup` holds what the library and the literal reference have in common; ``setup.library(model)`` and
``setup.reference(model)`` build the two from it, so that a test never spells a configuration twice.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import reference_combine as literal
from models import backward
from reference import Reference
from reference_levels import ROOT_TO_LEAF, layer_of

EXACT = 1e-12  # float64, the same arithmetic in another order
CLOSE = 1e-5  # float32, or two ways of computing that differ in kind
CONVERGED = 1e-2  # an iteration has arrived
HYPER = 1e-10  # what section 8 of the specification asks of a hypergradient


@dataclass(frozen=True)
class Rule:
    """A base rule: the library's class, the literal rule, torch's own optimizer (if any), options of either group."""

    camhd: str
    literal: str
    torch: type[torch.optim.Optimizer] | None
    options: Mapping[str, Any] = field(default_factory=dict)
    second: Mapping[str, Any] = field(default_factory=dict)  # what the second param group has otherwise
    linear_in_gradient: bool = False  # the direction scales with the loss


PAPERS = {"hyper_rule": "additive", "max_change": None}  # the reference is Algorithm 1
MOMENTUM = {"momentum": 0.9}
BETAS = {"betas": (0.8, 0.95)}
BOUND = {"final_lr": 0.2, "gamma": 0.01}  # some scalars at the lower bound, some at the upper, some between
PAPER = {"final_lr": 2.0, "gamma": 0.003, "bounds": "paper", "decay_bound": "sqrt"}
RULES: dict[str, Rule] = {
    "sgd": Rule("SGD", "sgd", torch.optim.SGD, {}, {}, True),
    "momentum": Rule("SGD", "sgd", torch.optim.SGD, MOMENTUM, {"momentum": 0.5}, True),
    "dampening": Rule("SGD", "sgd", torch.optim.SGD, {**MOMENTUM, "dampening": 0.3}, {"dampening": 0.1}, True),
    "nesterov": Rule("SGD", "sgd", torch.optim.SGD, {**MOMENTUM, "nesterov": True}, {"momentum": 0.5}, True),
    "adam": Rule("Adam", "adam", torch.optim.Adam, {}, BETAS),
    "amsgrad": Rule("Adam", "adam", torch.optim.Adam, {"amsgrad": True, "betas": (0.9, 0.9)}, BETAS),
    "adamw": Rule("AdamW", "adamw", torch.optim.AdamW, {"betas": (0.9, 0.99)}, BETAS),
    "adabound": Rule("AdaBound", "adabound", None, BOUND, BETAS),
    "adabound-paper": Rule("AdaBound", "adabound", None, PAPER, BETAS),
    "amsbound": Rule("AdaBound", "adabound", None, {**BOUND, "amsbound": True}, {"final_lr": 0.3}),
}  # fmt: skip
TORCH_RULES = [name for name, rule in RULES.items() if rule.torch is not None]

CHAINS: dict[tuple[str, ...], str] = {  # and the model that has such levels
    ("global",): "mlp",
    ("layer",): "cnn",
    ("parameter",): "mlp",
    ("layer", "global"): "mlp",
    ("global", "filter"): "cnn",
    ("gate", "global"): "gru",
    ("global", "layer", "parameter"): "mlp",
    ("global", "block", "unit"): "cnn",
    ("global", "group", "layer", "filter"): "cnn",
    ("global", "layer", "gate", "parameter"): "lstm",
    ("global", "group", "layer", "unit", "parameter"): "mlp",
    ("global", "block", "layer", "gate", "unit"): "lstm",
}

COMBINATIONS = (
    "fixed",
    "normalized",
    "softmax",
    "per-layer fixed",
    "per-layer normalized",
    "per-layer softmax",
    "network",
    "virtual",
    "closed",
    "last",
)
REGULARIZED = ("virtual", "closed", "last")


HAS_NUMBA = importlib.util.find_spec("numba") is not None
BACKENDS = (
    "foreach",
    pytest.param("fused", marks=pytest.mark.skipif(not HAS_NUMBA, reason="needs camhd[fused]")),
)


def block_of(name: str) -> str:
    """The part of the model that a parameter is in: the first word of its name."""
    return name.partition(".")[0] if "." in name else "(root)"


def uneven(levels: tuple[str, ...]) -> tuple[float, ...]:
    """Weights that no two levels share."""
    raw = [1.0 + i for i in range(len(levels))]
    return tuple(w / sum(raw) for w in raw)


def root_to_leaf(levels: tuple[str, ...]) -> list[str]:
    return sorted(levels, key=ROOT_TO_LEAF.index)


def pulls(levels: tuple[str, ...], beta: float) -> dict[tuple[str, str], float]:
    """λ for every child and ancestor, different for each, with 2βΣλ of every child at 0.3."""
    order = root_to_leaf(levels)
    found = {}
    for i, child in enumerate(order[1:], start=1):
        share = [1.0 + j for j in range(i)]
        found |= {(child, order[j]): 0.3 / (2 * beta) * share[j] / sum(share) for j in range(i)}
    return found


@dataclass(frozen=True)
class Setup:
    """One configuration. ``options`` are the arguments both sides know; ``groups`` says how to split the parameters."""

    rule: str
    levels: tuple[str, ...] = ("global", "layer")
    combine: str = "normalized"
    options: Mapping[str, Any] = field(default_factory=dict)
    pull: Mapping[tuple[str, str], float] = field(default_factory=dict)
    over_time: float = 0.0
    second: Mapping[str, Any] | None = None  # options of a second param group
    split: str = "last layer"  # or "biases": who is in that second group
    axis: str = "output"
    backend: str = "auto"

    def groups(self, model: nn.Module) -> list[dict[str, Any]]:
        """Torch's param groups, with parameters by name."""
        named = dict(model.named_parameters())
        if self.second is None:
            return [{"params": named}]
        last = layer_of(list(named)[-1])
        chosen = {n: n.endswith("bias") if self.split == "biases" else layer_of(n) == last for n in named}
        first, second = ({n: p for n, p in named.items() if chosen[n] is wanted} for wanted in (False, True))
        return [{"params": first}, {"params": second, **self.second}]

    def reference(self, model: nn.Module, network: Mapping[str, Tensor] | None = None) -> Reference:
        rule = RULES[self.rule]
        if self.combine in REGULARIZED:
            combine: literal.Combination = literal.Regularized(self.pull, self.over_time, self.combine)
        elif self.combine == "network":
            combine = literal.Network(network or self.network())
        else:
            combine = literal.Weighted(self.combine.removeprefix("per-layer "), self.combine.startswith("per-layer"))
        extra = {"blocks": block_of, "gates": model.gates, "axis": self.axis, "combine": combine}
        options = {**rule.options, **self.options, **extra}
        return Reference(self.groups(model), rule.literal, levels=self.levels, **options)

    def network(self) -> dict[str, Tensor]:
        """Weights of a network for the reference alone; beside the library it takes the library's."""
        generator = torch.Generator().manual_seed(7)
        n = len(self.levels)
        spelled = dict(zip(self.levels, self.options["weights"], strict=True))
        mean = torch.tensor([spelled[level] for level in root_to_leaf(self.levels)], dtype=torch.float64)
        w1 = torch.randn(3, n, generator=generator, dtype=torch.float64)
        return {"mean": mean, "w1": w1, "b1": w1[:, 0] / 2, "w2": torch.zeros(3, dtype=torch.float64)}

    def library(self, model: nn.Module) -> Any:
        import camhd

        spelled = {"block": camhd.levels.Block(block_of), "unit": camhd.levels.Unit(axis=self.axis)}
        forms = {
            "network": lambda: camhd.combine.Network(hidden=3),
            **{s: lambda: camhd.combine.Regularized(self.pull, self.over_time, self.combine) for s in REGULARIZED},
        }
        combine = self.combine
        if combine in forms:
            combine = forms[combine]()
        elif combine.startswith("per-layer "):
            combine = camhd.combine.PerLayer(combine.removeprefix("per-layer "))
        if self.second is None:
            params: Any = model
        else:
            params = [{**group, "params": list(group["params"].items())} for group in self.groups(model)]
        rule = RULES[self.rule]
        levels = tuple(spelled.get(level, level) for level in self.levels)
        idle = {"combine_lr"} if self.combine.endswith("fixed") else set()  # the library refuses what has no meaning
        idle = {"combine_lr", "weights"} if self.combine in REGULARIZED else idle
        options = {k: v for k, v in {**PAPERS, **rule.options, **self.options}.items() if k not in idle}
        return getattr(camhd, rule.camhd)(params, levels=levels, combine=combine, backend=self.backend, **options)


def strength(model: nn.Module, rule: str) -> float:
    """Σ|g·d| of a first step: how large a hypergradient of everything can be."""
    backward(model, 1)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    scales = RULES[rule].linear_in_gradient
    return float(sum((g * g if scales else g.abs()).sum() for g in gradients))


def everything_in_play(rule: str, levels: tuple[str, ...], combine: str, model: nn.Module, **changes: Any) -> Setup:
    """L2 decay, two param groups of different lr0, β and rule options, τ with a limit; rates that move by percents.

    β is such that the root's rate moves by some percent of itself per step: large enough that a change of a rate is
    a hypergradient with twelve digits, small enough that no rate reaches the guard at 0.
    """
    lr = 0.02
    softmax = combine.endswith("softmax")  # it sees only by how much the rates of the levels differ
    size = strength(model, rule)
    beta = (0.15 if softmax else 0.05) * lr / size
    options = {
        "lr": lr,
        "weight_decay": 0.02,
        "weights": uneven(levels),
        "hyper_lr": beta,
        "combine_lr": (10.0 if softmax else 0.1) / (lr * size),
        "decay": 0.03,
        "lr_limit": 0.015,
        **changes,
    }
    second = {"lr": 0.7 * lr, "weight_decay": 0.05, "lr_limit": 0.01, **RULES[rule].second}
    if combine not in REGULARIZED:
        second["hyper_lr"] = 0.6 * beta
    shape: dict[str, Any] = {}
    if combine in REGULARIZED:
        shape = {"pull": pulls(levels, beta), "over_time": 0.0 if combine == "last" else 0.05 / beta}
    return Setup(rule, levels, combine, options, second=second, **shape)


def learning(rule: str, model: nn.Module, **more: Any) -> dict[str, Any]:
    """Options under which rates move by percents of themselves in forty steps."""
    options = {**RULES[rule].options, "lr": 0.01, "weight_decay": 0.01, "combine_lr": 0.05}
    return {**options, "hyper_lr": 0.01 * 0.01 / strength(model, rule), **more}
