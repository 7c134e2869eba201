"""Carrying out a plan: what has no record yet is run or measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import sweep
from ..records import RunLockedError
from ..sweep import Failure, Item, Watcher
from . import costs, measuring, theorems
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
    plan: Plan,
    items: Sequence[Item],
    folder: str | Path,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
    watcher: Watcher | None = None,
) -> Sequence[Failure]:
    """Every run that has no record yet; interrupted ones go on, and any number of processes may work on one folder.

    Args:
        plan: whose runs they are.
        items: the runs.
        folder: of the records.
        engine: "local", "ray", "dask" or "here"; this and what follows as `camhd.lab.sweep.run` takes it.
        address: of a cluster.
        workers: runs at a time.
        threads: of the CPU, for each run.
        watcher: is told how it goes.

    Returns:
        The runs that failed.
    """
    if not items:
        return ()
    named = sweep.Plan(plan.name, tuple(items))
    return sweep.run(named, folder, engine, address, workers, threads, watcher=watcher).failed


def measure(measurements: Sequence[Measurement], folder: str | Path, tell: Callable[[Measured], object]) -> None:
    """Every measurement that has no record yet; one that another process is making is left to it."""
    for measurement in measurements:
        try:
            tell(measuring.measure(measurement, folder, KINDS))
        except RunLockedError:
            continue
