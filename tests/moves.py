"""U(κ), the move of a base rule as a function of its rate, from sources outside this project where there are any."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from cases import RULES, Setup
from reference_levels import Scalars

Update = Callable[[Tensor], Tensor]  # κ → U(κ)
STRETCH = 2.0**20  # torch.optim takes a step of this length, so that the parameter's own digits do not count


class TorchUpdates:
    """U(κ) = κ ⊙ d with d read off a step of torch.optim."""

    def __init__(self, setup: Setup, model: nn.Module):
        rule = RULES[setup.rule]
        self.clone = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
        known = ("momentum", "dampening", "nesterov", "betas", "eps", "amsgrad", "weight_decay", "maximize")
        groups = [
            {**{k: v for k, v in group.items() if k in known}, "params": [self.clone[n] for n in group["params"]]}
            for group in setup.groups(model)
        ]
        shared = {k: v for k, v in {**rule.options, **setup.options}.items() if k in known}
        assert rule.torch is not None
        self.optimizer = rule.torch(groups, lr=STRETCH, **shared)

    def __call__(self, theta: Scalars, gradients: Scalars, factor: Mapping[str, float]) -> dict[str, Update]:
        with torch.no_grad():
            for name, clone in self.clone.items():
                clone.copy_(theta[name])
                clone.grad = gradients.get(name)
        self.optimizer.step()
        directions = {name: (theta[name] - self.clone[name].detach()) / STRETCH for name in gradients}
        return {name: lambda kappa, d=d: kappa * d for name, d in directions.items()}


class AdaBoundUpdates:
    """U(κ) = clip(κ c_t/(√v + ε), bounds) ⊙ m; torch.clamp carries the derivative."""

    def __init__(self, setup: Setup, model: nn.Module):
        self.options = setup.reference(model).group
        self.m: Scalars = {}
        self.v: Scalars = {}
        self.top: Scalars = {}
        self.count: dict[str, int] = {}

    def __call__(self, theta: Scalars, gradients: Scalars, factor: Mapping[str, float]) -> dict[str, Update]:
        return {name: self._update(name, theta[name], g, factor[name]) for name, g in gradients.items()}

    def _update(self, name: str, theta: Tensor, g: Tensor, c: float) -> Update:
        o = self.options[name]
        g = (-g if o["maximize"] else g) + o["weight_decay"] * theta
        beta1, beta2 = o["betas"]
        t = self.count[name] = self.count.get(name, 0) + 1
        m = self.m[name] = torch.lerp(self.m.get(name, torch.zeros_like(g)), g, 1 - beta1)
        v = self.v[name] = torch.lerp(self.v.get(name, torch.zeros_like(g)), g.square(), 1 - beta2)
        top = self.top[name] = torch.maximum(self.top.get(name, v), v)
        pace = (1 - beta2 if o["gamma"] is None else o["gamma"]) * t
        low = o["final_lr"] * c * (1 - 1 / (pace + 1))
        high = o["final_lr"] * c * (1 + 1 / (pace + 1 if o["bounds"] == "paper" else pace))
        scale = math.sqrt(1 - beta2**t) / (1 - beta1**t) / ((top if o["amsbound"] else v).sqrt() + o["eps"])
        root = math.sqrt(t) if o["decay_bound"] == "sqrt" else 1.0
        return lambda kappa: torch.clamp(kappa * scale, low, high) * m / root
