"""AdaBound and AMSBound: Adam whose elementwise rates are clipped to bounds that close in on one value."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ..tree import Kappas, Number
from .adam import begin_maxima, check_betas, count_steps, take_squares
from .base import Batch, Options, Rule, Sensitivity, Tensors, check_at_least_0, step_along, zeros

BOUNDS = ("released", "paper")
MOMENTS = ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")


class AdaBound(Rule):
    """U(κ) = clip(κ c_t/(√v + ε), η_l(t), η_u(t)) ⊙ m, with c_t = √(1−β₂ᵗ)/(1−β₁ᵗ).

    η_l = f (1 − 1/(γt+1)), η_u = f (1 + 1/(γt)), or f (1 + 1/(γt+1)) with ``bounds="paper"``. Not
    linear in κ: the sensitivity is 0 wherever the clip is active. A scheduler scales f as it
    scales the rates; a learned rate never does.
    """

    name = "AdaBound"
    remembers = ("betas", "eps", "amsgrad", "final_lr", "gamma", "bounds", "decay_bound")
    entries, together = MOMENTS, MOMENTS[:3]
    linear = False

    def needs_kappa(self, last: Options) -> bool:
        return True

    def check(self, options: Options) -> None:
        super().check(options)
        check_at_least_0(options, "eps", "Invalid epsilon value")
        check_at_least_0(options, "final_lr", "Invalid final learning rate")
        check_betas(options)
        gamma = options["gamma"]
        if gamma is not None and not isinstance(gamma, Real):
            raise TypeError(f"'gamma' must be a number, or None for 1 − β₂, got {gamma!r}.")
        if gamma is not None and not 0 < float(gamma) < 1:
            raise ValueError(f"Invalid gamma parameter: {gamma}; 'gamma' must lie in (0, 1), or be None for 1 − β₂.")
        if options["bounds"] not in BOUNDS:
            raise ValueError(f"'bounds' must be 'released' or 'paper', got {options['bounds']!r}.")
        if options["decay_bound"] not in (None, "sqrt"):
            raise ValueError(f"'decay_bound' must be None or 'sqrt', got {options['decay_bound']!r}.")

    def start(self, param: Tensor, options: Options) -> dict[str, Any]:
        names = self.state_names(options)
        return {"step": torch.zeros((), dtype=torch.float32), **{name: zeros(param) for name in names}}

    def state_names(self, options: Options) -> tuple[str, ...]:
        return MOMENTS[1:] if options["amsgrad"] else MOMENTS[1:3]

    def sensitivity(self, batch: Batch, kappas: Kappas | None) -> Sensitivity:
        assert kappas is not None
        roots, corrections, bounds = self._parts(batch, batch.last, batch.last_factor)
        rates = torch._foreach_div(_times(batch.rates(kappas), corrections), roots)
        found = torch._foreach_div(batch.state("exp_avg"), roots)
        free = [(rate >= low) & (rate <= high) for rate, (low, high) in zip(rates, bounds, strict=True)]
        scales = [c / slow for c, slow in zip(corrections, self._slowing(batch, batch.last), strict=True)]
        return Sensitivity([torch.where(f, s, 0) for f, s in zip(free, found, strict=True)], scales, fresh=True)

    def advance(self, batch: Batch, grads: Tensors) -> None:
        begin_maxima(batch)
        squares = batch.state("exp_avg_sq")
        torch._foreach_lerp_(batch.state("exp_avg"), grads, 1 - batch.options["betas"][0])
        take_squares(batch, squares, grads)
        if batch.options["amsgrad"]:
            torch._foreach_maximum_(batch.state("max_exp_avg_sq"), squares)

    def turn(self, batches: Sequence[Batch]) -> None:
        count_steps(batches)

    def direction(self, batch: Batch) -> Sensitivity:
        """Without the bounds: what the direction is until a rate meets one."""
        roots, corrections, _ = self._parts(batch, batch.options, batch.factor)
        scales = [c / slow for c, slow in zip(corrections, self._slowing(batch, batch.options), strict=True)]
        return Sensitivity(torch._foreach_div(batch.state("exp_avg"), roots), scales, fresh=True)

    def move(self, batch: Batch, kappas: Kappas) -> None:
        roots, corrections, bounds = self._parts(batch, batch.options, batch.factor)
        rates = torch._foreach_div(_times(batch.rates(kappas), corrections), roots)
        clipped = [_clip(rate, low, high) for rate, (low, high) in zip(rates, bounds, strict=True)]
        step_along(batch, batch.state("exp_avg"), clipped, [1 / slow for slow in self._slowing(batch, batch.options)])

    def _parts(
        self, batch: Batch, options: Options, factor: Number
    ) -> tuple[Tensors, list[Number], list[tuple[Number, Number]]]:
        """√v + ε and c_t, by which κ becomes an elementwise rate κ c_t/(√v + ε), and the bounds of that rate."""
        (beta1, beta2), steps = options["betas"], batch.counts()
        corrections = [(1 - beta2**step) ** 0.5 / (1 - beta1**step) for step in steps]
        roots = torch._foreach_sqrt(batch.state("max_exp_avg_sq" if options["amsgrad"] else "exp_avg_sq"))
        torch._foreach_add_(roots, options["eps"])
        gamma = 1 - beta2 if options["gamma"] is None else options["gamma"]
        final, extra = options["final_lr"] * factor, float(options["bounds"] == "paper")
        bounds = [(final * (1 - 1 / (gamma * t + 1)), final * (1 + 1 / (gamma * t + extra))) for t in steps]
        return roots, corrections, bounds

    def _slowing(self, batch: Batch, options: Options) -> list[Number]:
        if options["decay_bound"] != "sqrt":
            return [1.0] * len(batch)
        return [step**0.5 for step in batch.counts()]


def _times(rates: Tensors, numbers: Sequence[Number]) -> Tensors:
    return [rate * number for rate, number in zip(rates, numbers, strict=True)]


def _clip(rate: Tensor, low: Number, high: Number) -> Tensor:
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return rate.clamp_(torch.as_tensor(low).to(rate), torch.as_tensor(high).to(rate))
    return rate.clamp_(low, high)
