"""Averaged weights, for evaluation: from the trace of directions that the default rule keeps anyway.

With steps θ ← θ − κ d, the exponential average of the weights up to the last step lies at θ + κ D, D the trace. So an
average costs neither memory nor time until somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..rules import TRACE
from ..tree import local
from .batches import real

if TYPE_CHECKING:
    from .optimizer import Optimizer


def check(optimizer: Optimizer) -> None:
    """Refuse an optimizer whose trace is not the way that its weights have come."""
    owner = f"camhd.{type(optimizer).__name__}"
    if not optimizer.rule.linear:
        raise ValueError(
            f"averaged weights are made of steps along a direction, but {owner} clips every weight's rate by itself; "
            "use torch.optim.swa_utils.AveragedModel."
        )
    if not available(optimizer):
        raise ValueError(
            f"averaged weights are made of the trace of hyper_rule='long_horizon', but this {owner} has "
            f"{type(optimizer.config.hyper_rule).__name__}; use that rule, or torch.optim.swa_utils.AveragedModel."
        )


def available(optimizer: Optimizer) -> bool:
    """Whether there is an average."""
    rule = optimizer.config.hyper_rule
    average = None if rule.traced is None else rule.averaging(optimizer._tree.state.levels[-1].rule)
    return optimizer.rule.linear and average is not None


@torch.no_grad()
def averages(optimizer: Optimizer) -> list[Tensor]:
    """A new tensor for every parameter, in the order of the param groups."""
    check(optimizer)
    tree, params = optimizer._tree, _params(optimizer)
    found = [at.clone() for at in _places(params)]
    if not optimizer._averaged:
        _to_averages(optimizer, found)
    shaped = [torch.view_as_complex(new) if p.is_complex() else new for p, new in zip(params, found, strict=True)]
    return [tree.shaped(slot, new) for slot, new in enumerate(shaped)]


@contextmanager
def swapped(optimizer: Optimizer) -> Iterator[None]:
    """The parameters are their averages for a while, and afterwards to the bit what they were."""
    check(optimizer)
    if optimizer._averaged:
        raise RuntimeError("the weights are their averages already; averaged() cannot be entered twice.")
    places = _places(_params(optimizer))
    kept = [at.clone() for at in places]
    try:
        optimizer._averaged = True
        _to_averages(optimizer, places)
        yield
    finally:
        try:
            _write_back(optimizer, places, kept)
        except BaseException:  # a Ctrl-C in the midst of it
            _write_back(optimizer, places, kept)
            raise


def _params(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _places(params: list[Tensor]) -> list[Tensor]:
    """What this process has of the parameters, to write to.

    By way of `data`, which does not count as a change: what is written is taken back before anybody steps, and the
    kernels go by those counts.
    """
    return [real(local(p.data)) for p in params]


@torch.no_grad()
def _to_averages(optimizer: Optimizer, places: list[Tensor]) -> None:
    params = _params(optimizer)
    for slot, factor in optimizer._tree.back(optimizer._group_rates()).items():
        at, trace = places[slot], local(optimizer.state[params[slot]][TRACE])
        at.copy_(torch.addcmul(at.to(trace.dtype), trace, factor.to(trace.device, trace.dtype)))


@torch.no_grad()
def _write_back(optimizer: Optimizer, places: list[Tensor], kept: list[Tensor]) -> None:
    for at, before in zip(places, kept, strict=True):
        at.copy_(before)
    optimizer._averaged = False
