"""AdaBound and AMSBound: Adam whose elementwise rates are clipped to bounds that close in on one value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .adam import check_betas, start_moments, update_moments
from .base import Batch, Options, Rule, Sensitivity, Tensors, check_at_least_0

BOUNDS = ("released", "paper")


class AdaBound(Rule):
    """U(κ) = clip(κ c_t/(√v + ε), η_l(t), η_u(t)) ⊙ m, with c_t = √(1−β₂ᵗ)/(1−β₁ᵗ).

    η_l = f (1 − 1/(γt+1)), η_u = f (1 + 1/(γt)), or f (1 + 1/(γt+1)) with ``bounds="paper"``. Not
    linear in κ: the sensitivity is 0 wherever the clip is active. A scheduler scales f as it
    scales the rates; a learned rate never does.
    """

    name = "AdaBound"
    remembers = ("betas", "eps", "amsgrad", "final_lr", "gamma", "bounds", "decay_bound")

    def needs_kappa(self, last: Options) -> bool:
        return True

    def check(self, options: Options) -> None:
        super().check(options)
        check_at_least_0(options, "eps", "Invalid epsilon value")
        check_at_least_0(options, "final_lr", "Invalid final learning rate")
        check_betas(options)
        gamma = options["gamma"]
        if gamma is not None and not 0 < gamma < 1:
            raise ValueError(f"Invalid gamma parameter: {gamma}; 'gamma' must lie in (0, 1), or be None for 1 − β₂.")
        if options["bounds"] not in BOUNDS:
            raise ValueError(f"'bounds' must be 'released' or 'paper', got {options['bounds']!r}.")
        if options["decay_bound"] not in (None, "sqrt"):
            raise ValueError(f"'decay_bound' must be None or 'sqrt', got {options['decay_bound']!r}.")

    def start(self, param: Tensor, options: Options) -> dict[str, Any]:
        return start_moments(param, options)

    def sensitivity(self, batch: Batch, kappas: Sequence[Tensor] | None) -> Sensitivity:
        assert kappas is not None
        found = []
        for slot, param, state in zip(batch.slots, batch.params, batch.states, strict=True):
            slope, low, high = self._slope(state, batch.last, batch.last_factor)
            rate = kappas[slot].to(param.device) * slope
            inside = (rate >= low) & (rate <= high)
            found.append(torch.where(inside, slope, 0) * state["exp_avg"] / self._slowing(state, batch.last))
        return Sensitivity(found, [1.0] * len(found))

    def advance(self, batches: Sequence[Batch], grads: Sequence[Tensors]) -> None:
        for batch, gs in zip(batches, grads, strict=True):
            update_moments(batch, gs)

    def move(self, batch: Batch, kappas: Sequence[Tensor]) -> None:
        for slot, param, state in zip(batch.slots, batch.params, batch.states, strict=True):
            slope, low, high = self._slope(state, batch.options, batch.factor)
            rate = torch.clamp(kappas[slot].to(param.device) * slope, low, high)
            param.sub_(rate * state["exp_avg"] / self._slowing(state, batch.options))

    def _slope(self, state: dict[str, Any], options: Options, factor: float | Tensor) -> tuple[Tensor, Any, Any]:
        """c_t/(√v + ε), by which κ becomes an elementwise rate, and the bounds of that rate."""
        (beta1, beta2), step = options["betas"], float(state["step"])
        correction = math.sqrt(1 - beta2**step) / (1 - beta1**step)
        root = state["max_exp_avg_sq" if options["amsgrad"] else "exp_avg_sq"].sqrt().add_(options["eps"])
        gamma = 1 - beta2 if options["gamma"] is None else options["gamma"]
        final = options["final_lr"] * factor
        above = gamma * step + (options["bounds"] == "paper")
        return correction / root, final * (1 - 1 / (gamma * step + 1)), final * (1 + 1 / above)

    def _slowing(self, state: dict[str, Any], options: Options) -> float:
        return math.sqrt(float(state["step"])) if options["decay_bound"] == "sqrt" else 1.0
