"""Trials on a copy of another optimizer: is its step linear in lr, and is its weight decay an L2 term?

The copy gets small parameters of its own and a fresh state; the optimizer itself is not touched.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

STEPS = 4
LRS = (1e-6, 1e-3, 1.0)  # besides the group's own lr and the one that `Wrapped` will use
TOLERANCE = 1e-6


def check_linear(inner: torch.optim.Optimizer, unit: float) -> None:
    """Refuse an optimizer whose step is not lr times a direction, with the reason."""
    name = type(inner).__name__
    for group in inner.param_groups:
        if "lr" not in group:
            raise ValueError(f"wrap() needs an optimizer with 'lr' in its param groups, but {name} has none.")
        try:
            reason = _why_not_linear(inner, group, unit)
        except Exception as error:
            raise ValueError(
                f"wrap() cannot use {name}: its step() failed on a trial with dense gradients and no closure "
                f"({type(error).__name__}: {error}); only optimizers with a plain step() can be wrapped."
            ) from error
        if reason:
            raise ValueError(
                f"wrap() needs an optimizer whose step is lr times a direction, but {reason} in {name}; "
                "use one of camhd's own classes, or an optimizer that uses lr as a plain factor."
            )


def has_l2_decay(inner: torch.optim.Optimizer, group: Mapping[str, Any]) -> bool:
    """Whether 'weight_decay' of this group acts as if wd·θ were added to the gradient."""
    if "weight_decay" not in group:
        return False
    decay = float(group["weight_decay"]) or 0.1
    with_decay, without = (_Trial(inner, {**group, "weight_decay": wd}) for wd in (decay, 0.0))
    for grad in _grads():
        before = with_decay.param.detach().clone()
        with_decay.step(grad, 1e-3)
        without.param.data.copy_(before)
        without.step(grad + decay * before, 1e-3)
        if not torch.allclose(with_decay.param, without.param, rtol=TOLERANCE, atol=1e-12):
            return False
    return True


def _grads() -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(4, 3, generator=random, dtype=torch.float64) for _ in range(STEPS)]


class _Trial:
    """A twin of an optimizer with one small parameter."""

    def __init__(self, inner: torch.optim.Optimizer, group: Mapping[str, Any]) -> None:
        random = torch.Generator().manual_seed(1)
        self.param = torch.nn.Parameter(torch.randn(4, 3, generator=random, dtype=torch.float64))
        self.twin = object.__new__(type(inner))
        self.twin.__dict__.update(inner.__dict__)
        self.twin.__dict__.pop("step", None)  # a scheduler's patch would count our steps
        for name in [name for name in self.twin.__dict__ if name.endswith("_hooks")]:
            setattr(self.twin, name, OrderedDict())
        options = {k: copy.deepcopy(v) for k, v in group.items() if k not in ("params", "param_names")}
        self.twin.param_groups = [{**options, "params": [self.param]}]
        if "param_names" in group:
            self.twin.param_groups[0]["param_names"] = ["trial"]
        self.twin.state = defaultdict(dict)

    def step(self, grad: Tensor, lr: float) -> None:
        self.twin.param_groups[0]["lr"] = lr
        self.param.grad = grad.clone()
        self.twin.step()

    def save(self) -> tuple[Tensor, Any, dict[str, Any]]:
        options = {k: v for k, v in self.twin.param_groups[0].items() if k not in ("params", "param_names", "lr")}
        return (
            self.param.detach().clone(),
            copy.deepcopy(dict(self.twin.state[self.param])),
            copy.deepcopy(options),
        )

    def restore(self, saved: tuple[Tensor, Any, dict[str, Any]]) -> None:
        self.param.data.copy_(saved[0])
        self.twin.state = defaultdict(dict)
        if saved[1]:
            self.twin.state[self.param] = copy.deepcopy(saved[1])
        self.twin.param_groups[0].update(copy.deepcopy(saved[2]))


def _why_not_linear(inner: torch.optim.Optimizer, group: Mapping[str, Any], unit: float) -> str | None:
    trial = _Trial(inner, group)
    own = float(group["lr"]) or 1e-3
    for grad in _grads():
        start = trial.save()
        direction: Tensor | None = None
        after: Any = None
        for lr in (own, *LRS, unit):
            trial.restore(start)
            trial.step(grad, lr)
            moved = (start[0] - trial.param.detach()) / lr
            param_after, *rest = trial.save()
            if direction is None:
                direction, after, saved = moved, rest, (param_after, *rest)
                continue
            if not torch.allclose(moved, direction, rtol=TOLERANCE, atol=TOLERANCE * float(direction.abs().max())):
                return f"the step at lr={lr:g} is not {lr / own:g} times the step at lr={own:g}"
            if not _alike(rest, after):
                return f"the state after a step depends on lr (lr={lr:g} against {own:g})"
        trial.restore(saved)
    return None


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=TOLERANCE, atol=1e-12)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= TOLERANCE * max(abs(one), abs(other))
    return bool(one == other)
