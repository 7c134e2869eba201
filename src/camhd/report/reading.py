"""What an optimizer's rates are now, as plain numbers that go into JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..baselines import L4
from ..levels import Layout
from ..optim import Optimizer
from .shell import inside
from .summary import summarize

LIMIT = 64
LR = "lr"  # the level of an optimizer that has no tree
MECHANIC = "_mechanic"  # where the package of that name keeps the factor that it has learned


def snapshot(
    optimizer: torch.optim.Optimizer | None, limit: int = LIMIT, whole: bool = False
) -> dict[str, dict[str, Any]] | None:
    """The rates of every level: all of them up to `limit`, quantiles and a histogram beyond.

    - `{"count": n, "values": [...]}`, in the order of `groups`, or
    - `{"count": n, "quantiles": [...], "histogram": {...}}`: the quantiles are those of `QUANTILES`. The histogram has
      32 bins of equal width in log10 between "low" and "high", their "counts", and in "zero" the number of rates
      that are 0 or less; where all are, both bounds are None. A level of very many rates
      is read through a sample, and "sample" says how many were read.

    An optimizer without a tree has the level `"lr"`, one number for each param group: its lr, times the factor that
    D-Adaptation, Prodigy or Mechanic have learned for it; L4's step size. None if there is no rate (yet).

    Args:
        optimizer: any torch optimizer.
        limit: up to how many rates of a level are given one by one.
        whole: where parameters are divided over processes (FSDP2), the rates of all of them and not only of this one;
            then all of them must ask for it.

    >>> from camhd import Adam
    >>> model = torch.nn.Sequential(torch.nn.Linear(9, 100), torch.nn.Linear(100, 2))
    >>> opt = Adam(model, levels=("global", "layer", "unit"))
    >>> found = snapshot(opt)
    >>> found["layer"]["count"], sorted(found["unit"])
    (2, ['count', 'histogram', 'quantiles'])
    """
    optimizer = inside(optimizer)
    if not isinstance(optimizer, Optimizer):
        values = plain_rates(optimizer)
        return None if values is None else {LR: {"count": len(values), "values": values}}
    found: dict[str, dict[str, Any]] = {}
    for level, tensors in _levels(optimizer, whole).items():
        count = sum(tensor.numel() for tensor in tensors)
        if count <= limit:
            values = [value for tensor in tensors for value in tensor.reshape(-1).tolist()]
            found[level] = {"count": count, "values": values}
        else:
            found[level] = summarize(tensors)
    return found


def groups(
    optimizer: torch.optim.Optimizer | None, limit: int = LIMIT, whole: bool = False
) -> dict[str, list[str] | None]:
    """The names behind the values of `snapshot`, by level; None for a level of more than `limit` rates.

    Args:
        optimizer: any torch optimizer.
        limit: as in `snapshot`.
        whole: as in `snapshot`.

    >>> from camhd import Adam
    >>> groups(Adam(torch.nn.Sequential(torch.nn.Linear(9, 3), torch.nn.Linear(3, 2))))
    {'global': ['global'], 'layer': ['0', '1']}
    """
    optimizer = inside(optimizer)
    if not isinstance(optimizer, Optimizer):
        own = [] if optimizer is None else optimizer.param_groups
        return {LR: [str(group.get("name", i)) for i, group in enumerate(own)]} if own else {}
    assert optimizer.tree is not None
    layout = optimizer.tree.layout.whole if whole else optimizer.tree.layout
    found: dict[str, list[str] | None] = {}
    for level, partition in enumerate(layout.partitions):
        found[partition.level.name] = _of_level(layout, level) if partition.count <= limit else None
    if layout.leaf is not None:
        sizes = [slot.numel for slot in layout.whole.slots]
        small = sum(slot.numel for slot in layout.slots) <= limit
        names = [_members(slot.name, layout.scalars(slot.index), sizes[slot.index]) for slot in layout.slots if small]
        found[layout.leaf.name] = [name for some in names for name in some] if small else None
    return found


def weights(optimizer: torch.optim.Optimizer | None) -> dict[str, Any]:
    """The weights γ by level, or by layer and level where each layer has its own; {} for an optimizer without a tree.

    Args:
        optimizer: any torch optimizer.

    >>> from camhd import Adam
    >>> weights(Adam(torch.nn.Linear(2, 2)))
    {'global': 0.5, 'layer': 0.5}
    """
    optimizer = inside(optimizer)
    return optimizer.combination() if isinstance(optimizer, Optimizer) else {}


def rate(optimizer: torch.optim.Optimizer | None) -> float | None:
    """One number to look at: the global rate, or the mean of the coarsest level, or of the param groups' lr.

    Args:
        optimizer: any torch optimizer.

    >>> from camhd import Adam
    >>> round(rate(Adam(torch.nn.Linear(2, 2), lr=0.01)), 6)
    0.01
    """
    optimizer = inside(optimizer)
    if isinstance(optimizer, Optimizer):
        tensors = next(iter(_levels(optimizer).values()))
        total = sum(float(tensor.sum()) for tensor in tensors)
        return total / max(1, sum(tensor.numel() for tensor in tensors))
    values = plain_rates(optimizer)
    return None if values is None else sum(values) / len(values)


def _levels(optimizer: Optimizer, whole: bool = False) -> dict[str, list[Tensor]]:
    """The rates of every level as they are stored: one vector, or one tensor for each parameter."""
    assert optimizer.tree is not None
    found = optimizer.tree.level_rates(whole)
    if optimizer.config.schedule == "global":  # that level is not learned: the scheduler sets it
        lr = float(optimizer.param_groups[0]["lr"])
        found["global"] = [torch.tensor([lr], dtype=torch.float64)]
    return found


def plain_rates(optimizer: torch.optim.Optimizer | None) -> list[float] | None:
    """The rates of an optimizer without a tree, by param group."""
    if optimizer is None:
        return None
    name = "step_size" if isinstance(optimizer, L4) else LR
    values = [(group.get(name), group.get("d", 1.0)) for group in optimizer.param_groups]  # D-Adaptation's, Prodigy's
    if not values or any(value is None for value, _ in values):
        return None
    state: Mapping[Any, Any] = optimizer.state
    factor = float(state[MECHANIC]["s"].sum()) if MECHANIC in state else 1.0
    return [float(value) * float(d) * factor for value, d in values if value is not None]


def _of_level(layout: Layout, level: int) -> list[str]:
    """The names of a level's groups, as their rates lie."""
    pairs = zip(layout.partitions[level].families, layout.whole.partitions[level].families, strict=True)
    names: list[str] = []
    for family, whole in sorted(pairs, key=lambda pair: pair[0].start):
        if family.labels:
            names += [f"{family.name}.{label}" for label in family.labels]
        else:
            names += _members(family.name, layout.members(level, family), whole.count)
    return ["global"] if names == [""] else names


def _members(name: str, members: Sequence[int], count: int) -> list[str]:
    return [name for _ in members] if count == 1 else [f"{name}[{i}]" for i in members]
