"""The tree's settings, checked once at the door."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from ..combine import Combination, combination
from ..hyper import DEFAULT, SCALES, HyperRule, hyper_rule
from ..levels import Level, level
from .numbers import Number

SCHEDULES = ("all", "global")


@dataclass(frozen=True)
class TreeConfig:
    """What a `RateTree` is made of. All of it holds for the whole tree, whatever the param group."""

    levels: tuple[Level, ...]
    weights: tuple[float, ...]  # γ at the start, in the order of `levels`
    combine: Combination
    combine_lr: float  # δ
    hyper_rule: HyperRule
    hyper_scale: str  # how β depends on the size of a group
    decay: Callable[[int], Number]  # τ
    min_lr: float
    max_lr: float | None
    schedule: str  # what a torch scheduler moves: "all" rates, or it is the "global" one
    restarts: Callable[[int], bool]

    @property
    def decays(self) -> bool:
        """Whether τ may be other than 1."""
        return self.decay is not _no_decay

    @classmethod
    def make(
        cls,
        levels: Sequence[str | Level] = ("global", "layer"),
        weights: Sequence[float] | Mapping[str, float] | None = None,
        combine: str | Combination = "normalized",
        combine_lr: float | None = None,
        default_combine_lr: float = 0.0,
        hyper_rule: str | HyperRule | None = None,
        hyper_scale: str = "sum",
        decay: float | Callable[[int], float] | None = None,
        min_lr: float = 0.0,
        max_lr: float | None = None,
        schedule: str = "all",
        restarts: Collection[int] | Callable[[int], bool] = (),
    ) -> TreeConfig:
        """Check the user's arguments and fill in what was left out."""
        made = _levels(levels)
        joined = combination(combine)
        rule = _hyper_rule(hyper_rule, hyper_scale)
        _check_bounds(min_lr, max_lr)
        if schedule not in SCHEDULES:
            raise ValueError(f"'schedule' must be 'all' or 'global', got {schedule!r}.")
        if not joined.learns and weights is not None and joined.settles:
            raise ValueError(
                "'weights' has no meaning with regularised rates, which have none; leave it out, or use "
                "combine='fixed'."
            )
        if not joined.learns and combine_lr:
            raise ValueError(
                f"'combine_lr' must be left out with combine={combine!r}, which learns no weights, got {combine_lr}; "
                "use combine='normalized' to learn them."
            )
        default = default_combine_lr if rule.combine_lr is None else rule.combine_lr
        if rule.traced:
            _check_traced(made, joined)
        return cls(
            levels=made,
            weights=_weights(weights, made),
            combine=joined,
            combine_lr=_not_negative("combine_lr", default if combine_lr is None else combine_lr),
            hyper_rule=rule,
            hyper_scale=hyper_scale,
            decay=_decay(decay),
            min_lr=float(min_lr),
            max_lr=None if max_lr is None else float(max_lr),
            schedule=schedule,
            restarts=_restarts(restarts),
        )


class GroupRates(NamedTuple):
    """What a torch param group says of its rates at one step."""

    lr: float | Tensor
    lr0: float
    lr_limit: float  # α_∞
    hyper_lr: float | Mapping[str, float]  # β, the same or by level
    max_change: float | None = None  # the factor by which one step may change a rate; states from before it have none

    @property
    def cap(self) -> float:
        """The same as a number."""
        return math.inf if self.max_change is None else self.max_change

    def beta(self, level: str) -> float:
        """β of this group at a level; a level that is not named in the mapping does not learn."""
        return self.hyper_lr.get(level, 0.0) if isinstance(self.hyper_lr, Mapping) else self.hyper_lr

    def factor(self) -> float | Tensor:
        """What a scheduler has made of the group's lr since the start: c = lr/lr0."""
        if isinstance(self.lr, Tensor):
            return self.lr / self.lr0
        if self.lr == self.lr0:
            return 1.0
        if self.lr0 == 0:
            raise ValueError(
                f"'lr' was 0 when the param group was made and is {self.lr} now, but a schedule acts as a multiple "
                "of the first lr; start from the lr the group should reach and let the schedule begin at 0."
            )
        return self.lr / self.lr0


def check_hyper_lr(value: float | Mapping[str, float], names: Sequence[str]) -> None:
    """Say what is wrong with a β, if anything is."""
    if isinstance(value, Mapping):
        for name, beta in value.items():
            if name not in names:
                raise ValueError(
                    f"'hyper_lr' must be given by level, but {name!r} is none of {tuple(names)}; "
                    "a level that is left out does not learn."
                )
            _not_negative(f"hyper_lr[{name!r}]", beta)
    else:
        _not_negative("hyper_lr", value)


def check_max_change(value: float | None) -> None:
    """Say what is wrong with a cap on the change of a rate, if anything is."""
    if value is None:
        return
    check_number("max_change", value)
    if not 1 < value < math.inf:
        raise ValueError(
            f"'max_change' must be above 1 and finite, got {value}; it is a factor: 2.0 lets a rate double or halve in "
            "one step, and None lets it change by any amount."
        )


def _levels(levels: Sequence[str | Level]) -> tuple[Level, ...]:
    if isinstance(levels, (str, Level)):
        levels = (levels,)
    if not isinstance(levels, Sequence):
        raise TypeError(
            f"'levels' must be a sequence of levels, got {levels!r}; for one level write levels=('layer',)."
        )
    return tuple(level(one) for one in levels)


def _weights(weights: Sequence[float] | Mapping[str, float] | None, levels: Sequence[Level]) -> tuple[float, ...]:
    names = [level.name for level in levels]
    if weights is None:
        return (1 / len(levels),) * len(levels) if levels else ()
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            raise ValueError(f"'weights' must name each of the levels {tuple(names)}, got {tuple(weights)}.")
        weights = [weights[name] for name in names]
    if isinstance(weights, (str, Real)):
        raise TypeError(f"'weights' must have one number for each of the levels {tuple(names)}, got {weights!r}.")
    for name, weight in zip(names, weights, strict=False):
        check_number(f"weights[{name!r}]", weight)
    if len(weights) != len(levels):
        raise ValueError(
            f"'weights' must have one number for each of the {len(levels)} levels {tuple(names)}, got {tuple(weights)}."
        )
    total = sum(weights)
    if not all(0 <= weight < math.inf for weight in weights) or not math.isclose(total, 1, rel_tol=1e-6):
        raise ValueError(
            f"'weights' must be 0 or more and sum to 1, got {tuple(weights)} with the sum {total:g}; "
            "divide them by their sum."
        )
    return tuple(float(weight) / total for weight in weights)


def _hyper_rule(spec: str | HyperRule | None, scale: str) -> HyperRule:
    rule = hyper_rule(spec)
    if scale not in SCALES:
        raise ValueError(f"'hyper_scale' must be one of {', '.join(map(repr, SCALES))}, got {scale!r}.")
    if scale != "sum" and not rule.scalable:
        raise ValueError(
            f"'hyper_scale' must be left out with hyper_rule={spec or DEFAULT!r}, which is free of the group's size, "
            f"got {scale!r}."
        )
    return rule


def _check_traced(levels: Sequence[Level], joined: Combination) -> None:
    if any(level.name == "parameter" for level in levels):
        raise ValueError(
            "the level 'parameter' has no cosine to learn from with hyper_rule='long_horizon'; leave it out of "
            "'levels', or use hyper_rule='additive'."
        )
    if joined.settles:
        raise ValueError(
            "regularised rates cannot be combined with hyper_rule='long_horizon', which ties levels in its own way; "
            "use combine='fixed', or hyper_rule='additive'."
        )


def _check_bounds(min_lr: float, max_lr: float | None) -> None:
    check_number("min_lr", min_lr)
    if not 0 <= min_lr < math.inf:
        raise ValueError(f"'min_lr' must be 0 or more and finite, got {min_lr}.")
    if max_lr is not None:
        check_number("max_lr", max_lr)
    if max_lr is not None and not min_lr <= max_lr < math.inf:
        raise ValueError(
            f"'max_lr' must be finite and at least min_lr={min_lr:g}, got {max_lr}; leave it out for no upper bound."
        )


def check_number(name: str, value: object) -> None:
    """Refuse what is not a number at all."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"'{name}' must be a number, got {value!r}.")


def _not_negative(name: str, value: float) -> float:
    check_number(name, value)
    if not 0 <= value < math.inf:
        raise ValueError(f"'{name}' must be 0 or more and finite, got {value}; 0 switches the learning off.")
    return float(value)


def _decay(decay: float | Callable[[int], float] | None) -> Callable[[int], Number]:
    if decay is None:
        return _no_decay
    if callable(decay):
        return OwnDecay(decay)
    check_number("decay", decay)
    if not 0 <= decay < math.inf:
        raise ValueError(f"'decay' must be 0 or more and finite, or a function of the step, got {decay}.")
    return ExponentialDecay(float(decay))


def _no_decay(step: int) -> float:
    return 1.0


@dataclass(frozen=True)
class OwnDecay:
    """τ as a function of the user's."""

    function: Callable[[int], float]

    def __call__(self, step: int) -> Number:
        found: Number = self.function(step)
        if torch.compiler.is_compiling():  # no number can be looked at
            return found
        if not isinstance(found, (Real, Tensor)) or not math.isfinite(found):
            raise ValueError(f"'decay' must give a finite number at every step, got {found!r} at step {step}.")
        return found


@dataclass(frozen=True)
class ExponentialDecay:
    """τ(t) = exp(−r t), t counted in steps: the paper's."""

    rate: float

    def __call__(self, step: int) -> Number:
        if torch.compiler.is_compiling():  # a number would be compiled in
            return torch.full((), step, dtype=torch.float64).mul(-self.rate).exp()
        return math.exp(-self.rate * step)


def _restarts(restarts: Collection[int] | Callable[[int], bool]) -> Callable[[int], bool]:
    if callable(restarts):
        return restarts
    if not isinstance(restarts, Collection) or isinstance(restarts, str):
        raise TypeError(f"'restarts' must be step numbers from 1 on, or a function of the step, got {restarts!r}.")
    steps = frozenset(restarts)
    if not all(isinstance(step, int) and step >= 1 for step in steps):
        raise ValueError(f"'restarts' must be step numbers from 1 on, got {sorted(steps, key=str)}.")
    return Restarts(tuple(sorted(steps)))


@dataclass(frozen=True)
class Restarts:
    """Whether a step is one of these."""

    steps: tuple[int, ...]

    def __call__(self, step: int) -> bool:
        # Not `step in self.steps`: a compiled step would be compiled anew for every step number.
        return any(step == one for one in self.steps)
