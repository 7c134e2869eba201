"""Carrying out a plan: what has no record yet is run or measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..records import Run, RunLockedError
from ..train import Watcher, execute, open_data
from . import costs, measuring, theorems
from .items import Item
from .measuring import Measured, Measurement
from .plan import Plan

KINDS: Mapping[str, Callable[..., Mapping[str, Any]]] = {
    "cost": costs.cost,
    "combination": theorems.combination,
    "descent": theorems.descent,
    "regret": theorems.regret,
}


def chosen(plan: Plan, scale: str, only: str | None = None) -> list[Item]:
    """The runs of a plan in whose model, data, optimizer or label a text occurs; all if there is none."""
    items = plan.items(scale)
    found = [item for item in items if _has(only, item.model, item.data, item.optimizer, item.label)]
    if items and not found:
        raise ValueError(f"'only' must be a part of a run's model, data, optimizer or label, but {only!r} is of none.")
    return found


def measured(plan: Plan, scale: str, only: str | None = None) -> list[Measurement]:
    """The measurements of a plan in whose id a text occurs; all if there is none."""
    return [one for one in plan.measurements.get(scale, ()) if _has(only, one.id)]


def _has(only: str | None, *words: str | None) -> bool:
    return only is None or only.lower() in " ".join(filter(None, words)).lower()


def carry_out(
    items: Sequence[Item], folder: str | Path, watcher: Watcher | None = None, threads: int | None = None
) -> list[Run]:
    """Every run that has no record yet, one after another; interrupted ones go on.

    Several processes may work on one folder: a run that another one has begun is left to it.

    Args:
        items: the runs.
        folder: of the records.
        watcher: is told how it goes.
        threads: of the CPU; one by default, which is as fast for small networks and leaves the other cores alone.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads or 1)
    sources: dict[tuple[str, str], Any] = {}
    done: list[Run] = []
    try:
        for item in items:
            where = item.data, item.split
            if where not in sources:
                sources[where] = open_data(item.data, item.split)
            try:
                done.append(execute(item.job(sources[where]), folder, resume=True, watcher=watcher))
            except RunLockedError:
                continue
    finally:
        torch.set_num_threads(before)
    return done


def measure(measurements: Sequence[Measurement], folder: str | Path, tell: Callable[[Measured], object]) -> None:
    """Every measurement that has no record yet; one that another process is making is left to it."""
    for measurement in measurements:
        try:
            tell(measuring.measure(measurement, folder, KINDS))
        except RunLockedError:
            continue
