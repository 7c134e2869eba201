"""Adam, AMSGrad and, with decoupled decay, AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..tree import Kappas, Number, larger, smaller, times_
from .base import Batch, Options, Rule, Sensitivity, Tensors, check_at_least_0, step_along, zeros

DIRECTION, SQUARE, LARGEST_SQUARE = "direction", "exp_avg_sq", "max_exp_avg_sq"
ENTRIES = ("step", DIRECTION, SQUARE, LARGEST_SQUARE)


class Adam(Rule):
    """d = m̂ / (√v̂ + ε), plus wd·θ where decay is decoupled.

    Of the two moments v is kept as it is, and m as the direction that it gives, m/(√v + ε √(1−β₂ᵗ)): all but a number
    of m̂/(√v̂ + ε). So looking back at the last move reads one tensor, and so does moving; m is that tensor times its
    divisor, which v still holds when the next gradient comes.

    The last move of the decoupled decay is in θ, because θ_{t−1} = (1 − κ wd) θ_{t−2} − κ m̂/(√v̂ + ε) gives
    d_{t−1} = (m̂/(√v̂ + ε) + wd θ_{t−1}) / (1 − κ wd).
    """

    name = "Adam"
    remembers = ("betas", "eps", "amsgrad", "weight_decay", "decoupled_weight_decay")
    entries, together = ENTRIES, ENTRIES[:3]
    kinds = ("decoupled_weight_decay",)
    formerly: ClassVar[Mapping[str, str]] = {DIRECTION: "exp_avg"}

    def needs_kappa(self, last: Options) -> bool:
        return bool(last["weight_decay"]) and self.decoupled(last)

    def check(self, options: Options) -> None:
        super().check(options)
        check_at_least_0(options, "eps", "Invalid epsilon value")
        check_betas(options)

    def start(self, param: Tensor, options: Options) -> dict[str, Any]:
        state = {"step": torch.zeros((), dtype=torch.float32), DIRECTION: zeros(param), SQUARE: zeros(param)}
        return {**state, LARGEST_SQUARE: zeros(param)} if options["amsgrad"] else state

    def brought_up(self, state: Mapping[str, Any], options: Options) -> Mapping[str, Any]:
        found = dict(state)
        square = found.get(LARGEST_SQUARE, found[SQUARE]) if options["amsgrad"] else found[SQUARE]
        epsilon = self._epsilon(options, max(float(found["step"]), 1.0))
        root = (square.sqrt() + epsilon).clamp_max(torch.finfo(square.dtype).max)
        found[DIRECTION] = found.pop("exp_avg") / root
        return found

    def decoupled(self, options: Options) -> bool:
        return bool(options["decoupled_weight_decay"])

    def state_names(self, options: Options) -> tuple[str, ...]:
        return ENTRIES[1:] if options["amsgrad"] else ENTRIES[1:3]

    def terms(self, options: Options) -> tuple[Any, ...]:
        return options["betas"][1], options["eps"], bool(options["amsgrad"])

    def carry_over(self, batch: Batch) -> None:
        directions = batch.state(DIRECTION)
        begin_maxima(batch)
        torch._foreach_mul_(directions, self._roots(batch, batch.last))
        torch._foreach_div_(directions, self._roots(batch, batch.options))

    def sensitivity(self, batch: Batch, kappas: Kappas | None) -> Sensitivity:
        decay = batch.last["weight_decay"]
        if decay and self.decoupled(batch.last):
            assert kappas is not None
            found = self._decayed(batch, batch.last)
            torch._foreach_div_(found, _left(batch.rates(kappas), decay))
            return Sensitivity(found, [1.0] * len(batch), fresh=True)
        return Sensitivity(batch.state(DIRECTION), self._scales(batch, batch.last), fresh=False)

    def advance(self, batch: Batch, grads: Tensors) -> None:
        beta1, directions, squares = batch.options["betas"][0], batch.state(DIRECTION), batch.state(SQUARE)
        begin_maxima(batch)
        torch._foreach_mul_(directions, self._roots(batch, batch.last or batch.options))  # m
        torch._foreach_lerp_(directions, grads, 1 - beta1)
        take_squares(batch, squares, grads)
        if batch.options["amsgrad"]:
            torch._foreach_maximum_(batch.state(LARGEST_SQUARE), squares)
        torch._foreach_div_(directions, self._roots(batch, batch.options, ahead=1))

    def turn(self, batches: Sequence[Batch]) -> None:
        count_steps(batches)

    def direction(self, batch: Batch) -> Sensitivity:
        if batch.options["weight_decay"] and self.decoupled(batch.options):
            return Sensitivity(self._decayed(batch, batch.options), [1.0] * len(batch), fresh=True)
        return Sensitivity(batch.state(DIRECTION), self._scales(batch, batch.options), fresh=False)

    def move(self, batch: Batch, kappas: Kappas) -> None:
        rates, decay = batch.rates(kappas), batch.options["weight_decay"]
        if decay and self.decoupled(batch.options):
            torch._foreach_mul_(batch.params, _left(rates, decay))
        step_along(batch, batch.state(DIRECTION), rates, self._scales(batch, batch.options))

    def _decayed(self, batch: Batch, options: Options) -> Tensors:
        """m̂/(√v̂ + ε) + wd θ, with θ as it is now."""
        found = torch._foreach_clone(batch.state(DIRECTION))
        times_(found, self._scales(batch, options))
        torch._foreach_add_(found, batch.params, alpha=options["weight_decay"])
        return found

    def _roots(self, batch: Batch, options: Options, ahead: int = 0) -> Tensors:
        """√v + ε', the divisor of m after as many steps as were counted, or one more. Never ∞: m would be 0 · ∞."""
        roots = torch._foreach_sqrt(batch.state(LARGEST_SQUARE if options["amsgrad"] else SQUARE))
        epsilons: list[Any] = [self._epsilon(options, step + ahead) for step in batch.counts()]
        torch._foreach_add_(roots, epsilons)
        torch._foreach_clamp_max_(roots, [torch.finfo(root.dtype).max for root in roots])
        return roots

    def _epsilon(self, options: Options, step: Number) -> Number:
        """ε', what ε is beside √v in the place of √v̂."""
        found: Number = options["eps"] * _correction(options, step)
        return found

    def _scales(self, batch: Batch, options: Options) -> list[Number]:
        """The numbers by which m/(√v + ε') becomes m̂/(√v̂ + ε)."""
        return [_correction(options, step) / (1 - options["betas"][0] ** step) for step in batch.counts()]


def _correction(options: Options, step: Number) -> Number:
    """√(1 − β₂ᵗ), by which √v is too small in the first steps."""
    found: Number = (1 - options["betas"][1] ** step) ** 0.5
    return found


def _left(rates: Tensors, decay: float) -> list[Tensor]:
    """1 − κ wd, what decoupled decay leaves of each parameter."""
    return [1 - decay * rate for rate in rates]


def take_squares(batch: Batch, squares: Tensors, grads: Tensors) -> None:
    """Take g into the second moments: v ← β₂ v + (1 − β₂) g², or with other numbers if a hyper rule asks for more."""
    least, betas = batch.squares, batch.options["betas"]
    own = 1 - betas[1]  # Adam's weight is never below it
    settled = not isinstance(least, Tensor) and least <= own
    if settled or batch.options["amsgrad"]:  # a maximum never forgets
        torch._foreach_mul_(squares, betas[1])
        torch._foreach_addcmul_(squares, grads, grads, own)
        return
    shares = [square_shares(betas, step + 1, least) for step in batch.counts()]
    times_(squares, [kept for kept, _ in shares])
    new = torch._foreach_mul(grads, grads)
    times_(new, [taken for _, taken in shares])
    torch._foreach_add_(squares, new)


def square_shares(betas: Sequence[float], step: Number, least: Number) -> tuple[Number, Number]:
    """What v keeps of itself and takes of g² at a step, if g² is to count for so much in v̂ at least.

    v̂ ← (1 − w) v̂ + w g² with w = `least`, but not below what Adam's β₂ gives, nor above what β₁ in its place would: m
    should not remember gradients that v has forgotten. v stays v̂ (1 − β₂ᵗ).
    """
    (beta1, beta2), left = betas, 1 - betas[1] ** step
    weight = larger((1 - beta2) / left, smaller((1 - beta1) / (1 - beta1**step), least))
    before = larger(1 - beta2 ** (step - 1), 1 - beta2)  # at the first step nothing is kept
    return (1 - weight) * left / before, weight * left


def begin_maxima(batch: Batch) -> None:
    """A maximum that is first asked for in mid-training begins as what v is then."""
    for state in batch.states if batch.options["amsgrad"] else ():
        if LARGEST_SQUARE not in state:
            state[LARGEST_SQUARE] = state[SQUARE].clone(memory_format=torch.preserve_format)


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
