"""The base rules of the literal algorithm (:mod:`reference`), sections 1 and 6.

A rule takes the gradient g, the parameter θ, the rate κ and the schedule's factor c;
it gives U(κ) and s = ∂U/∂κ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

Options = Mapping[str, Any]
State = dict[str, Any]

BETAS = {"betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.0, "dampening": 0.0, "nesterov": False, "weight_decay": 0.0},
    "adam": {**BETAS, "weight_decay": 0.0},
    "adamw": {**BETAS, "weight_decay": 1e-2},
    "adabound": {**BETAS, "weight_decay": 0.0, "final_lr": 0.1, "gamma": None, "amsbound": False,
                 "bounds": "released", "decay_bound": None},
}  # fmt: skip


def sgd(state: State, g: Tensor, theta: Tensor, kappa: Tensor, c: float, o: Options) -> tuple[Tensor, Tensor]:
    d = g
    if o["momentum"] != 0:
        b = o["momentum"] * state["b"] + (1 - o["dampening"]) * g if "b" in state else g
        state["b"] = b
        d = g + o["momentum"] * b if o["nesterov"] else b
    return kappa * d, d


def moments(state: State, g: Tensor, o: Options, running_max: bool) -> tuple[Tensor, Tensor, int]:
    """m, v (or its running maximum) and how many gradients this parameter has seen."""
    beta1, beta2 = o["betas"]
    zero = torch.zeros_like(g)
    state["t"] = state.get("t", 0) + 1
    state["m"] = beta1 * state.get("m", zero) + (1 - beta1) * g
    state["v"] = beta2 * state.get("v", zero) + (1 - beta2) * g * g
    if "squares" in o and not running_max:  # the default rule's average, v̂, put as v is in all that follows
        weight = square_weight(state["t"], beta1, beta2, o["squares"])
        state["v_hat"] = (1 - weight) * state.get("v_hat", zero) + weight * g * g
        state["v"] = state["v_hat"] * (1 - beta2 ** state["t"])
    state["v_max"] = torch.maximum(state.get("v_max", zero), state["v"])
    return state["m"], state["v_max"] if running_max else state["v"], state["t"]


def square_weight(t: int, beta1: float, beta2: float, least: float) -> float:
    """What this step's g² counts for in v̂: so much at least, but no more than g counts for in m̂."""
    return max(min(least, (1 - beta1) / (1 - beta1**t)), (1 - beta2) / (1 - beta2**t))


def adam(state: State, g: Tensor, theta: Tensor, kappa: Tensor, c: float, o: Options) -> tuple[Tensor, Tensor]:
    m, v, t = moments(state, g, o, o["amsgrad"])
    m_hat = m / (1 - o["betas"][0] ** t)
    v_hat = v / (1 - o["betas"][1] ** t)
    d = m_hat / (v_hat.sqrt() + o["eps"])
    return kappa * d, d


def adamw(state: State, g: Tensor, theta: Tensor, kappa: Tensor, c: float, o: Options) -> tuple[Tensor, Tensor]:
    _, d = adam(state, g, theta, kappa, c, o)
    d = d + o["weight_decay"] * theta
    return kappa * d, d


def adabound(state: State, g: Tensor, theta: Tensor, kappa: Tensor, c: float, o: Options) -> tuple[Tensor, Tensor]:
    m, v, t = moments(state, g, o, o["amsbound"])
    beta1, beta2 = o["betas"]
    gamma = 1 - beta2 if o["gamma"] is None else o["gamma"]
    lower = c * o["final_lr"] * (1 - 1 / (gamma * t + 1))
    upper = c * o["final_lr"] * (1 + 1 / (gamma * t + (1 if o["bounds"] == "paper" else 0)))
    slope = math.sqrt(1 - beta2**t) / (1 - beta1**t) / (v.sqrt() + o["eps"])  # ∂η/∂κ before the clip
    eta = kappa * slope
    inside = (lower <= eta) & (eta <= upper)
    shrink = 1 / math.sqrt(t) if o["decay_bound"] == "sqrt" else 1.0
    return eta.clamp(lower, upper) * m * shrink, torch.where(inside, slope * m * shrink, 0.0)


RULES: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "sgd": sgd,
    "adam": adam,
    "adamw": adamw,
    "adabound": adabound,
}
