"""Rates and weights as flat names and numbers: rows of a file, tags of a curve, a dictionary to log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import torch

from .moving import moving
from .reading import LIMIT, groups, snapshot, weights
from .summary import QUANTILES

Record: TypeAlias = dict[str, Any]  # {"rates": snapshot, "weights": weights}


def numbers(record: Record, names: Mapping[str, list[str] | None]) -> Iterator[tuple[str, str, str, float]]:
    """Kind, level, name and value of every number of a record."""
    for level, found in record["rates"].items():
        if "values" in found:
            for name, value in zip(names.get(level) or [], found["values"], strict=True):
                yield "rate", level, name, value
        else:
            for name, value in zip(QUANTILES, found["quantiles"], strict=True):
                yield "rate", level, name, value
    for key, value in record["weights"].items():
        if isinstance(value, Mapping):  # a layer with weights of its own
            yield from (("weight", level, key, weight) for level, weight in value.items())
        else:
            yield "weight", key, "", value


def tag(kind: str, level: str, name: str) -> str:
    """What a curve of one of these numbers is called."""
    return f"{kind}s/{level}" if name in ("", level) else f"{kind}s/{level}/{name}"


def scalars(optimizer: torch.optim.Optimizer | None, limit: int = LIMIT) -> dict[str, float]:
    """Every rate and weight now under a flat name, and `"lr/<group>"`, what each param group moves with (`effective`).

    It is what `wandb.log`, a Lightning logger's `log_metrics` and others take. {} where there is no rate (yet).

    Args:
        optimizer: any torch optimizer.
        limit: as in `snapshot`; a larger level is given by its quantiles.

    >>> from camhd import Adam
    >>> sorted(scalars(Adam(torch.nn.Sequential(torch.nn.Linear(4, 2)), lr=0.5)).items())
    [('lr/0', 0.5), ('rates/global', 0.5), ('rates/layer/0', 0.5), ('weights/global', 0.5), ('weights/layer', 0.5)]
    """
    rates = snapshot(optimizer, limit)
    if rates is None:
        return {}
    record = {"rates": rates, "weights": weights(optimizer)}
    return moving(optimizer) | {tag(*where): value for *where, value in numbers(record, groups(optimizer, limit))}
