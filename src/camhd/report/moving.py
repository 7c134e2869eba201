"""What the param groups move with, in one number each."""

from __future__ import annotations

import torch

from ..optim import Optimizer
from ..tree import Kappas, Move, Within
from .reading import plain_rates
from .shell import inside


def effective(optimizer: torch.optim.Optimizer | None) -> list[float] | None:
    """What each param group moves with now, in one number: the mean over its scalars of the combined rate κ.

    It has everything in it: learned rates, γ, `decay` and what a scheduler makes of the group's lr. The group's own
    `lr` is the schedule alone. For an optimizer without a tree the two are the same; None if there is no rate (yet).
    Where parameters are divided over processes (FSDP2), it is the mean over those scalars that this process holds.

    Args:
        optimizer: any torch optimizer.

    >>> from camhd import SGD
    >>> opt = SGD(torch.nn.Linear(2, 2), lr=0.5)
    >>> opt.param_groups[0]["lr"] = 0.25  # a scheduler's doing
    >>> effective(opt)
    [0.25]
    """
    optimizer = inside(optimizer)
    if not isinstance(optimizer, Optimizer):
        return plain_rates(optimizer)
    tree, rates = optimizer._tree, optimizer._group_rates()
    moves = [Move(tree.factor(group), tree.config.decay(tree.state.step + 1)) for group in rates]
    limits = [group.lr_limit for group in rates]
    tracing, within = tree.state.tracing, None
    if tracing is not None:  # a step may have been bounded
        within = Within(torch.where(tracing.kappa > 0, tracing.kappa, torch.inf))
    kappas = Kappas(tree.config, tree.cells, tree.state, tree.state.weights, moves, limits, within)
    totals, counts = [0.0] * len(rates), [0] * len(rates)
    for slot in tree.layout.slots:
        kappa = kappas.at(slot.index)
        totals[slot.group] += float(kappa.double().mean()) * slot.numel if slot.numel else 0.0
        counts[slot.group] += slot.numel
    return [total / max(count, 1) for total, count in zip(totals, counts, strict=True)]


def moving(optimizer: torch.optim.Optimizer | None) -> dict[str, float]:
    """What each param group moves with, by `"lr/<name or number of the group>"`."""
    lrs = effective(optimizer)
    if optimizer is None or lrs is None:
        return {}
    names = [group.get("name", i) for i, group in enumerate(optimizer.param_groups)]
    return {f"lr/{name}": lr for name, lr in zip(names, lrs, strict=True)}
