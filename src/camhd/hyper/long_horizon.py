"""The long-horizon rule: would the whole recent stretch have gone better with a larger rate?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real

import torch
from torch import Tensor

from .base import HyperRule, Pull, State, Trace


class LongHorizon(HyperRule):
    """α ← α (1 + β y + β₀ cos): rates that need no tuning, whatever the loss's scale and the first lr.

    The gradient meets a trace of the past directions instead of the last one alone. Its cosine, per group of every
    level, is divided by its usual size, so that y lies in [−1, 1] and a weak but steady sign counts as much as a strong
    one. β is large as long as all evidence says that the rate is too small, and falls as evidence to the contrary
    comes in, and with time. A rate is pulled to the one above it, so that it leaves it for a reason only, and upwards
    only as long as that does not carry its weights away. Above where it has been, only β leads, because a network that
    fits its data would have every rate grow for ever. A step that is suddenly long is shortened.

    Args:
        memory: ρ of the trace.
        fast: β at first.
        steady: how fast a rate follows the plain cosine besides, at all times.
        patience: how much evidence to the contrary halves β.
        favour: how much of it a step of evidence in favour takes back; one to the contrary counts as 2.
        settle: steps from which on every step counts as evidence to the contrary, of 1; before that, fewer do.
        spread: memory of the usual size of the cosine.
        boost: how much faster still, while a step is small against the weights.
        small: what small is.
        tie: pull of a rate to the one above it, in units of β, for a factor of e between the two.
        reach: the part of its weights by which a rate far above the one above it may have moved them, over the memory
            of the trace, before it grows at half the speed.
        first: the most by which a layer's first step changes its weights, as a part of them.
        bound: the same for any step.
        floor: weights count as at least so large (root mean square), for those that start at zero.
        sudden: how many times as long as usual a layer's direction may be before its step is shortened to that.
        recent: memory of what is usual.
        squares: what a new g² counts for in Adam's average of them, at least, as a part of the usual squared cosine:
            where gradients are little else than noise, all of them tell how large it is; where they are not, those of
            long ago tell little of those to come. 0 leaves it to β₂.
        average: how far averaged weights lie on the way from the last weights to the mean over the trace's memory, at
            most: less far in the first steps, and where gradients have become smaller on that way.
    """

    needs_norms = True
    chained = False
    scalable = False
    hyper_lr = 1.0
    combine_lr = 0.0

    def __init__(
        self,
        memory: float = 0.998,
        fast: float = 0.1,
        steady: float = 0.02,
        patience: float = 10.0,
        favour: float = 0.5,
        settle: float = 1000.0,
        spread: float = 0.95,
        boost: float = 2.0,
        small: float = 1e-3,
        tie: float = 0.1,
        reach: float = 0.5,
        first: float = 0.01,
        bound: float = 0.1,
        floor: float = 1e-2,
        sudden: float = 2.0,
        recent: float = 0.97,
        squares: float = 0.5,
        average: float = 0.7,
    ) -> None:
        memories = {"memory": memory, "spread": spread, "recent": recent}
        _check(memories, "lie in [0, 1)", lambda value: 0 <= value < 1)
        positive = {"patience": patience, "settle": settle, "small": small, "reach": reach}
        _check({**positive, "first": first, "bound": bound}, "be above 0", lambda value: value > 0)
        _check({"sudden": sudden}, "be 1 or more", lambda value: value >= 1)
        others = {"fast": fast, "steady": steady, "favour": favour, "boost": boost, "tie": tie, "floor": floor}
        _check({**others, "squares": squares}, "be 0 or more", lambda value: value >= 0)
        _check({"average": average}, "lie in [0, 1]", lambda value: 0 <= value <= 1)
        self.fast, self.steady, self.patience, self.spread = fast, steady, patience, spread
        self.favour, self.settle = favour, settle
        self.boost, self.small, self.tie, self.reach = boost, small, tie, reach
        self.squares, self.average = squares, average
        self.traced = Trace(memory, first, bound, floor, sudden, recent)

    def start(self, rates: Tensor) -> State:
        names = ("square", "seen", "against", "peak", "slope", "past_slope")
        return {name: torch.zeros_like(rates) for name in names}

    def square_weight(self, state: Mapping[str, Tensor]) -> Tensor | None:
        return self.squares * self._usual(state["square"], state["seen"])

    def averaging(self, state: Mapping[str, Tensor]) -> Tensor | None:
        assert self.traced is not None
        seen, memory = state["seen"], self.traced.memory
        new = torch.where(seen > 0, 1 - memory**seen, 1)  # at first the trace leads back to the first weights
        lately = state["slope"] / torch.where(seen > 0, 1 - self.spread**seen, 1)
        past = state["past_slope"] / new
        shrunk = torch.where(past > 0, lately / torch.where(past > 0, past, 1), 1).clamp_max(1)
        return torch.where(seen > 0, self.average * new * shrunk.square(), 0)

    def _usual(self, square: Tensor, seen: Tensor) -> Tensor:
        """The average of squared cosines, of which so many have been seen."""
        return square / torch.where(seen > 0, 1 - self.spread**seen, 1)

    def update(self, rates: Tensor, pull: Pull, state: Mapping[str, Tensor]) -> tuple[Tensor, State]:
        assert pull.norms is not None
        assert pull.moved is not None
        assert pull.factor is not None
        assert pull.reach is not None
        assert pull.slope is not None
        assert self.traced is not None
        norms = pull.norms * pull.factor  # the hypergradient has that factor by the chain rule
        cosine = -pull.hyper / torch.where(norms > 0, norms, 1)
        live = (norms > 0) & (cosine != 0)
        seen = state["seen"] + 1
        square = self.spread * state["square"] + (1 - self.spread) * cosine.square()
        y = (cosine / torch.where(live, self._usual(square, seen).sqrt(), 1)).clamp(-1, 1)
        sign = cosine.sign()
        evidence = (1 - sign) - self.favour * (1 + sign) / 2
        against = torch.maximum(state["against"] + evidence, seen * (seen / self.settle).clamp_max(1))
        fading = 1 / (1 + against / self.patience)
        beta = self.fast * fading * (1 + self.boost * fading * self.small / (self.small + pull.moved))
        if pull.above is not None:
            apart = torch.where((rates > 0) & (pull.above > 0), (rates / pull.above).log(), 0)
            ahead = apart.clamp(0, 1) * (rates * pull.reach / self.reach).square()
            y = torch.where(y > 0, y / (1 + ahead), y) - self.tie * apart
        slowed, leading = pull.factor.clamp_max(1), beta * y
        moved = rates * (1 + (slowed * (leading + self.steady * cosine)).clamp(-0.5, 0.5))
        highest = torch.maximum(state["peak"], rates * (1 + (slowed * leading).clamp_min(0)))
        moved = torch.minimum(moved, highest)
        new = {"square": square, "seen": seen, "against": against, "peak": torch.maximum(state["peak"], moved)}
        for name, memory in (("slope", self.spread), ("past_slope", self.traced.memory)):
            new[name] = memory * state[name] + (1 - memory) * pull.slope
        return torch.where(live, moved, rates), {name: torch.where(live, new[name], state[name]) for name in new}


def _check(values: Mapping[str, float], rule: str, fits: Callable[[float], bool]) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"'{name}' must be a number, got {value!r}.")
        if not fits(value):
            raise ValueError(f"'{name}' must {rule}, got {value}.")
