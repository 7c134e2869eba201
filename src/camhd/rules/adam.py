"""Adam, AMSGrad and, with decoupled decay, AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from ..tree import Kappas, Number, times_
from .base import Batch, Options, Rule, Sensitivity, Tensors, check_at_least_0, step_along, zeros

MOMENTS = ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")


class Adam(Rule):
    """d = m̂ / (√v̂ + ε), plus wd·θ where decay is decoupled.

    Nothing of the last direction is stored: m and v still hold it when the next gradient comes, and
    so does θ for the decoupled decay, because θ_{t−1} = (1 − κ wd) θ_{t−2} − κ m̂/(√v̂ + ε) gives
    d_{t−1} = (m̂/(√v̂ + ε) + wd θ_{t−1}) / (1 − κ wd).
    """

    name = "Adam"
    remembers = ("betas", "eps", "amsgrad", "weight_decay", "decoupled_weight_decay")
    entries, together = MOMENTS, MOMENTS[:3]
    kinds = ("decoupled_weight_decay",)

    def needs_kappa(self, last: Options) -> bool:
        return bool(last["weight_decay"]) and self.decoupled(last)

    def check(self, options: Options) -> None:
        super().check(options)
        check_at_least_0(options, "eps", "Invalid epsilon value")
        check_betas(options)

    def start(self, param: Tensor, options: Options) -> dict[str, Any]:
        return start_moments(param, options)

    def decoupled(self, options: Options) -> bool:
        return bool(options["decoupled_weight_decay"])

    def state_names(self, options: Options) -> tuple[str, ...]:
        return moment_names(options)

    def sensitivity(self, batch: Batch, kappas: Kappas | None) -> Sensitivity:
        roots, scales = self._roots(batch, batch.last)
        found = torch._foreach_div(batch.state("exp_avg"), roots)
        decay = batch.last["weight_decay"]
        if decay and self.decoupled(batch.last):
            assert kappas is not None
            times_(found, scales)
            torch._foreach_add_(found, batch.params, alpha=decay)
            torch._foreach_div_(found, _left(batch.rates(kappas), decay))
            return Sensitivity(found, [1.0] * len(batch), fresh=True)
        return Sensitivity(found, scales, fresh=True)

    def advance(self, batch: Batch, grads: Tensors) -> None:
        update_moments(batch, grads)

    def turn(self, batches: Sequence[Batch]) -> None:
        count_steps(batches)

    def direction(self, batch: Batch) -> Sensitivity:
        roots, scales = self._roots(batch, batch.options)
        found = torch._foreach_div(batch.state("exp_avg"), roots)
        decay = batch.options["weight_decay"]
        if decay and self.decoupled(batch.options):
            times_(found, scales)
            torch._foreach_add_(found, batch.params, alpha=decay)
            scales = [1.0] * len(batch)
        return Sensitivity(found, scales, fresh=True)

    def move(self, batch: Batch, kappas: Kappas) -> None:
        roots, scales = self._roots(batch, batch.options)
        rates, decay = batch.rates(kappas), batch.options["weight_decay"]
        if decay and self.decoupled(batch.options):
            torch._foreach_mul_(batch.params, _left(rates, decay))
        step_along(batch, torch._foreach_div(batch.state("exp_avg"), roots), rates, scales)

    def _roots(self, batch: Batch, options: Options) -> tuple[Tensors, list[Number]]:
        """√v + ε' and the numbers by which m/(√v + ε') becomes m̂/(√v̂ + ε): one pass over v instead of three."""
        (beta1, beta2), steps = options["betas"], batch.counts()
        corrections = [(1 - beta2**step) ** 0.5 for step in steps]
        roots = torch._foreach_sqrt(batch.state("max_exp_avg_sq" if options["amsgrad"] else "exp_avg_sq"))
        torch._foreach_add_(roots, [options["eps"] * correction for correction in corrections])
        return roots, [c / (1 - beta1**step) for c, step in zip(corrections, steps, strict=True)]


def _left(rates: Tensors, decay: float) -> list[Tensor]:
    """1 − κ wd, what decoupled decay leaves of each parameter."""
    return [1 - decay * rate for rate in rates]


def moment_names(options: Options) -> tuple[str, ...]:
    """The moments that a step with these options writes to."""
    return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if options["amsgrad"] else ("exp_avg", "exp_avg_sq")


def start_moments(param: Tensor, options: Options) -> dict[str, Any]:
    """Moments before the first gradient, by torch's names."""
    state = {"step": torch.zeros((), dtype=torch.float32), "exp_avg": zeros(param), "exp_avg_sq": zeros(param)}
    if options["amsgrad"]:
        state["max_exp_avg_sq"] = zeros(param)
    return state


def update_moments(batch: Batch, grads: Tensors) -> None:
    """Take g into the moments: m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², its maximum where asked for."""
    beta1, beta2 = batch.options["betas"]
    torch._foreach_lerp_(batch.state("exp_avg"), grads, 1 - beta1)
    squares = batch.state("exp_avg_sq")
    torch._foreach_mul_(squares, beta2)
    torch._foreach_addcmul_(squares, grads, grads, 1 - beta2)
    if batch.options["amsgrad"]:
        torch._foreach_maximum_(batch.state("max_exp_avg_sq"), squares)


def count_steps(batches: Sequence[Batch]) -> None:
    """Each parameter has got one more gradient."""
    for batch in batches:
        torch._foreach_add_(batch.state("step"), 1)


_COUNTS = {1: "one number", 2: "two numbers"}


def check_betas(options: Options, count: int = 2) -> None:
    """Refuse betas outside [0, 1), and tensors, which torch's Adam has for CUDA graphs alone."""
    if not isinstance(options["betas"], (tuple, list)) or len(options["betas"]) != count:
        raise TypeError(f"'betas' must be {_COUNTS[count]}, got {options['betas']!r}.")
    if any(isinstance(beta, Tensor) for beta in options["betas"]):
        raise ValueError(
            f"betas must be either both floats or both Tensors, and here both floats, got {options['betas']}; "
            "take betas=(float(beta1), float(beta2))."
        )
    for index, beta in enumerate(options["betas"]):
        if not isinstance(beta, Real):
            raise TypeError(f"'betas' must be {_COUNTS[count]}, got {options['betas']!r}.")
        if not 0 <= float(beta) < 1:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}; 'betas' must lie in [0, 1).")
