"""Trials on a copy of another optimizer: is its step linear in lr, and is its weight decay an L2 term?

The copy gets small parameters of its own and a fresh state; the optimizer itself is not touched.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

STEPS = 12  # past the warm-up of RAdam and the period of Lookahead, whose first steps tell nothing
LRS = (1e-6, 1e-3, 1.0)  # besides the group's own lr and the one that `Wrapped` will use
TOLERANCE = 1e-6
_SHAPE = (4, 3, 2, 2, 2, 2)
_IDENTITY = ("params", "param_names", "lr")  # of a param group: what no trial changes, or sets by itself


def check_linear(inner: torch.optim.Optimizer, unit: float) -> None:
    """Refuse an optimizer whose step is not lr times a direction, with the reason."""
    name = type(inner).__name__
    held = next((key for key, value in vars(inner).items() if isinstance(value, torch.optim.Optimizer)), None)
    if held is not None:  # a trial would step that one, on the parameters themselves
        raise ValueError(f"wrap() cannot use {name}: it steps another optimizer, its {held!r}; wrap that one instead.")
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
    for grads in with_decay.gradients():
        before = with_decay.values()
        with_decay.step(grads, 1e-3)
        without.put(before)
        without.step([g + decay * p for g, p in zip(grads, before, strict=True)], 1e-3)
        pairs = zip(with_decay.values(), without.values(), strict=True)
        if not all(torch.allclose(one, other, rtol=TOLERANCE, atol=1e-12) for one, other in pairs):
            return False
    return True


class _Trial:
    """A twin of an optimizer with small parameters: one of each number of dimensions that its own have."""

    def __init__(self, inner: torch.optim.Optimizer, group: Mapping[str, Any]) -> None:
        random = torch.Generator().manual_seed(1)
        shapes = [_SHAPE[:dims] for dims in sorted({p.dim() + p.is_complex() for p in group["params"]})]
        values = [torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes]
        self.params = [torch.nn.Parameter(value) for value in values]
        self.twin = object.__new__(type(inner))
        self.twin.__dict__.update(inner.__dict__)
        self.twin.__dict__.pop("step", None)  # a scheduler's patch would count our steps
        for name in [name for name in self.twin.__dict__ if name.endswith("_hooks")]:
            setattr(self.twin, name, OrderedDict())
        options = {k: copy.deepcopy(v) for k, v in group.items() if k not in ("params", "param_names")}
        self.twin.param_groups = [{**options, "params": self.params}]
        if "param_names" in group:
            self.twin.param_groups[0]["param_names"] = [f"trial{i}" for i in range(len(shapes))]
        self.twin.state = defaultdict(dict)

    def gradients(self) -> list[list[Tensor]]:
        """Those of a few steps."""
        random = torch.Generator().manual_seed(0)
        return [
            [torch.randn(p.shape, generator=random, dtype=torch.float64) for p in self.params] for _ in range(STEPS)
        ]

    def step(self, grads: Sequence[Tensor], lr: float) -> None:
        self.twin.param_groups[0]["lr"] = lr
        for param, grad in zip(self.params, grads, strict=True):
            param.grad = grad.clone()
        self.twin.step()

    def values(self) -> list[Tensor]:
        return [param.detach().clone() for param in self.params]

    def put(self, values: Sequence[Tensor]) -> None:
        for param, value in zip(self.params, values, strict=True):
            param.data.copy_(value)

    def save(self) -> tuple[list[Tensor], Any, dict[str, Any]]:
        options = {k: v for k, v in self.twin.param_groups[0].items() if k not in _IDENTITY}
        states = [dict(self.twin.state.get(param, {})) for param in self.params]
        return self.values(), copy.deepcopy(states), copy.deepcopy(options)

    def restore(self, saved: tuple[list[Tensor], Any, dict[str, Any]]) -> None:
        self.put(saved[0])
        states = zip(self.params, copy.deepcopy(saved[1]), strict=True)
        self.twin.state = defaultdict(dict, {param: state for param, state in states if state})
        group = self.twin.param_groups[0]
        for name in [name for name in group if name not in (*_IDENTITY, *saved[2])]:
            del group[name]  # a step count that the step itself has put there
        group.update(copy.deepcopy(saved[2]))


def _why_not_linear(inner: torch.optim.Optimizer, group: Mapping[str, Any], unit: float) -> str | None:
    trial = _Trial(inner, group)
    own = float(group["lr"]) or 1e-3
    lrs = (own, *LRS, unit)
    for grads in trial.gradients():
        start = trial.save()
        directions: list[Tensor] = []
        places: list[list[Tensor]] = []  # where each lr leads
        for lr in lrs:
            trial.restore(start)
            trial.step(grads, lr)
            places.append(trial.values())
            moved = [(before - after) / lr for before, after in zip(start[0], trial.values(), strict=True)]
            if not directions:
                directions, first = moved, trial.save()
                continue
            if not all(map(_same_direction, moved, directions)):
                return f"the step at lr={lr:g} is not {lr / own:g} times the step at lr={own:g}"
            if not _alike(trial.save()[1:], first[1:]):
                return f"the state after a step depends on lr (lr={lr:g} against {own:g})"
        trial.restore(first)
        if own > 1:  # a large lr leads so far away that the digits of a small step are lost
            trial.put(places[lrs.index(LRS[1])])
    return None


def _same_direction(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * float(other.abs().max()))


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
