"""Archives of runs that never were: every run of every plan, with random numbers. Nothing here is a result.

What makes a page of records can be tested on them in full, without training for days.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

from camhd.lab import optimizers, plans
from camhd.lab.plans.measuring import Measured, Measurement, as_dict
from camhd.lab.records import RunConfig
from camhd.lab.records.text import from_json, to_json
from camhd.lab.results import archive
from camhd.lab.results.page import PLANS
from camhd.lab.sweep import Item

ENVIRONMENT = {
    "camhd": "0.1.0",
    "torch": "2.13.0",
    "python": "3.11.7",
    "numpy": "2.4.6",
    "commit": "0" * 40,
    "machine": "a machine that never was",
    "threads": 1,
}


def made_up(folder: Path, scale: str = "cpu", share: float = 0.9) -> Path:
    """Archives of all plans; a run is in them with the given chance, so that something is missing."""
    dice = random.Random(20261116)
    for name in PLANS:
        plan = plans.find(name)
        lines = [_run(item, dice) for item in plan.items(scale) if dice.random() < share]
        lines += [_measured(one, dice) for one in plan.measurements.get(scale, ())]
        by_id = {_id(line): from_json(to_json(line)) for line in lines}
        archive.write(archive.path_of(folder, name, scale), archive.Archive(name, scale, by_id))
    return folder


def config_of(item: Item) -> RunConfig:
    settings = item.settings()
    task = optimizers.task_of(item.model)
    return RunConfig(
        model=item.model,
        data=item.data,
        optimizer=item.optimizer,
        label=item.label or "",
        fingerprint=f"of {item.data}",
        options=optimizers.find(item.optimizer).resolve(item.options, task),
        epochs=item.epochs,
        batch_size=settings.examples(item.model, item.data),
        seed=item.seed,
        augment=item.augment,
        schedule=item.schedule,
        dtype=item.dtype,
        stop_loss=item.stop_loss,
    )


def _run(item: Item, dice: random.Random) -> dict[str, Any]:
    config = config_of(item)
    per_epoch = 469
    epochs = [{"kind": "epoch", "epoch": n, "step": n * per_epoch, **_metrics(dice, n)} for n in (1, 2)]
    levels = config.options.get("levels") or []
    weights = [{level: dice.uniform(0.1, 0.9) for level in levels} or None for _ in epochs]
    learned = levels or ["group"]
    rates = [
        {"kind": "rates", "step": step, "rates": {name: _rates(dice, name, step) for name in learned}, "weights": own}
        for step, own in zip((0, *(line["step"] for line in epochs)), (weights[0], *weights), strict=True)
    ]
    start = {"kind": "start", "steps_per_epoch": per_epoch, "metric": "accuracy", "note": "made up"}
    stopped = item.stop_loss is not None and dice.random() < 0.8
    final = {key: value for key, value in epochs[-1].items() if key.startswith(("train_", "valid_"))}
    result = {
        "format": 1,
        "status": "stopped" if stopped else "finished",
        "epochs": 2,
        "steps": dice.randint(10, 50_000),
        "final": final,
        "best": {**final, "epoch": 2},
        "time": {"started": "2026-11-16T00:00:00+00:00", "seconds": 1.0, "step_ms": 0.1},
        "environment": ENVIRONMENT,
    }
    return {"config": config.as_dict(), "history": [start, *epochs, *rates], "result": result, "whole": "never was"}


def _rates(dice: random.Random, level: str, step: int) -> dict[str, Any]:
    """One rate, three of them, or the quantiles of many; all are the same at first."""
    count = {"group": 1, "global": 1, "layer": 3}.get(level, 1000)
    some = sorted(1e-3 * (dice.uniform(0.5, 2.0) if step else 1.0) for _ in range(min(count, 7)))
    return {"count": count, **({"values": dice.sample(some, count)} if count <= 3 else {"quantiles": some})}


def _metrics(dice: random.Random, epoch: int) -> dict[str, Any]:
    return {
        "train_loss": dice.uniform(0.01, 0.5),
        "train_accuracy": dice.uniform(0.9, 1.0),
        "valid_loss": dice.uniform(0.05, 0.5),
        "valid_accuracy": 0.97 + 0.01 * dice.random() * epoch,
        "time": {"seconds": 1.0},
    }


def _measured(one: Measurement, dice: random.Random) -> dict[str, Any]:
    spread = {"median": dice.uniform(0.001, 0.2), "low": 0.001, "high": 0.3, "n": 50}
    values = {
        "cost": {
            "parameters": 1000,
            "layers": 3,
            **{f"{part}_seconds": spread for part in ("train", "adam", "cam")},
            "extra_share": spread,
            "multiplications": 10_000,
            "extra_operations": 1000,
            "adam_bytes": 8000,
            "cam_bytes": 9000,
            "formula_numbers": 8,
        },
        "combination": {"difference": dice.random() * 1e-14, "gap_difference": dice.random() * 1e-14},
        "descent": {"steps": [1, 10], "distance": [1.0, dice.random() * 1e-8], "largest_share_of_bound": dice.random()},
        "regret": {"steps": [1, 10], "regret": [1.0, math.sqrt(10)], "exponent": dice.uniform(0.3, 0.45)},
    }
    return as_dict(Measured(one, values[one.kind], ENVIRONMENT, 1.0))


def _id(line: dict[str, Any]) -> str:
    return str(line["config"]["id"]) if "config" in line else Measurement(line["kind"], line["arguments"]).id
