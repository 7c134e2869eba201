"""Carrying out the runs of a plan."""

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

KINDS: Mapping[str, Callable[..., Mapping[str, Any]]] = {
    "cost": costs.cost,
    "combination": theorems.combination,
    "descent": theorems.descent,
    "regret": theorems.regret,
}


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
    torch.set_num_threads(threads or 1)
    sources: dict[tuple[str, str], Any] = {}
    done: list[Run] = []
    for item in items:
        key = item.data, item.split
        if key not in sources:
            sources[key] = open_data(item.data, item.split)
        try:
            done.append(execute(item.job(sources[key]), folder, resume=True, watcher=watcher))
        except RunLockedError:
            continue
    return done


def measure(measurements: Sequence[Measurement], folder: str | Path, watcher: Callable[[Measured], None]) -> None:
    """Every measurement that has no record yet; one that another process is making is left to it."""
    for measurement in measurements:
        try:
            watcher(measuring.measure(measurement, folder, KINDS))
        except RunLockedError:
            continue
