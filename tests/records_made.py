"""Records of runs that never were: the format of a run's folder, with numbers that look like training.

Layout and page can be tested on them without training for hours. Nothing here is a result.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LENET = ("conv1", "conv2", "fc1", "fc2", "fc3")
FFNN = ("layer1", "layer2", "layer3")
RESNET = ("conv1", *(f"layer{b}.{i}.conv{c}" for b in range(1, 5) for i in range(2) for c in (1, 2)), "linear")

ENVIRONMENT = {
    "camhd": "0.1.0",
    "torch": "2.13.0",
    "python": "3.11.7",
    "commit": "297d36a",
    "machine": "a machine of 2 cores",
    "threads": 2,
}
_JUDGED = {"classification": "accuracy", "regression": "r2", "language": "loss"}

# label, optimizer, options, levels with their number of groups, how good it is
METHODS: tuple[tuple[str, str, dict[str, Any], dict[str, int], float], ...] = (
    ("Adam", "adam", {"lr": 1e-3}, {"lr": 1}, 0.0),
    ("Adam-HD", "adam-hd", {"lr": 1e-3, "hyper_lr": 1e-7}, {"global": 1}, 0.05),
    (
        "Adam-CAM-HD, 2 levels",
        "adam-cam-hd-2",
        {"lr": 1e-3, "hyper_lr": 1e-7, "combine_lr": 0.01},
        {"global": 1, "layer": 0},
        0.25,
    ),
    (
        "Adam-CAM-HD, 3 levels",
        "adam-cam-hd-3",
        {"lr": 1e-3, "hyper_lr": 1e-7, "combine_lr": 0.01, "weights": [0.4, 0.3, 0.3]},
        {"global": 1, "layer": 0, "unit": 236},
        0.15,
    ),
)


def compared(
    folder: Path,
    *,
    methods: Sequence[tuple[str, str, dict[str, Any], dict[str, int], float]] = METHODS,
    seeds: int = 3,
    layers: Sequence[str] = FFNN,
    **config: Any,
) -> Path:
    """What `camhd compare` leaves behind: every method, every seed."""
    for number, (label, optimizer, options, levels, skill) in enumerate(methods):
        for seed in range(seeds):
            made_run(
                folder,
                label=label,
                optimizer=optimizer,
                options=options,
                levels={name: count or len(layers) for name, count in levels.items()},
                skill=skill,
                seed=seed,
                layers=layers,
                started=f"2026-11-15T21:{number:02}:{seed:02}+00:00",
                **config,
            )
    return folder


def made_run(
    folder: Path,
    *,
    label: str = "Adam",
    optimizer: str = "adam",
    options: Mapping[str, Any] | None = None,
    levels: Mapping[str, int] | None = None,
    layers: Sequence[str] = FFNN,
    skill: float = 0.0,
    seed: int = 0,
    epochs: int = 12,
    steps_per_epoch: int = 24,
    rates_every: int = 6,
    status: str | None = "finished",
    task: str = "classification",
    layer_weights: bool = False,
    note: str = "",
    started: str = "2026-11-15T21:04:00+00:00",
    **config: Any,
) -> Path:
    """One run's folder. `status=None` leaves it unfinished."""
    options = {"lr": 1e-3} if options is None else dict(options)
    full = {"model": "ffnn:100,100", "data": "digits", "split": "full", "batch_size": 64, "augment": None}
    full |= {"dtype": "float32", "device": "cpu", "fingerprint": "made", **config}
    name = "-".join(map(str, (full["model"], full["data"], optimizer, *options.values(), seed)))
    run = folder / "".join(c if c.isalnum() or c in "-." else "-" for c in name)
    run.mkdir(parents=True)
    about = {"format": 1, "id": run.name, "label": label, **full, "optimizer": optimizer, "options": options}
    about |= {"epochs": epochs, "seed": seed, "rates_every": rates_every}
    run.joinpath("config.json").write_text(json.dumps(about))

    draw = random.Random(f"{run.name}")
    rates = _rates(draw, dict(levels or {"lr": 1}), layers, epochs * steps_per_epoch, rates_every, layer_weights)
    rows = _epochs(draw, task, skill, epochs, steps_per_epoch, slow=len(levels or ()), diverges=status == "diverged")
    groups = {
        k: [k] if n == 1 else list(layers) if n == len(layers) else None for k, n in (levels or {"lr": 1}).items()
    }
    start = {"kind": "start", "parameters": 12_345, "steps_per_epoch": steps_per_epoch, "groups": groups, "note": note}
    start |= {"task": task, "metric": _JUDGED[task], "examples": {"train": 1438, "valid": 359}}
    lines = [start, *sorted([*rates, *rows], key=lambda line: line["step"])]
    run.joinpath("history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if status is not None:
        run.joinpath("result.json").write_text(json.dumps(_result(rows, status, steps_per_epoch, started)))
    return run


def _epochs(
    draw: random.Random, task: str, skill: float, epochs: int, steps: int, slow: int, diverges: bool
) -> list[dict[str, Any]]:
    rows = []
    luck = draw.gauss(0, 0.03)
    for epoch in range(1, epochs + 1):
        progress = epoch / epochs
        loss = 2.3 * math.exp(-(3 + skill + luck) * progress**0.6) + abs(draw.gauss(0, 0.004))
        row: dict[str, Any] = {"kind": "epoch", "epoch": epoch, "step": epoch * steps, "train_loss": 0.8 * loss}
        broken = diverges and progress > 0.5
        row["train_loss"] = "nan" if broken else row["train_loss"]
        row["valid_loss"] = "nan" if broken else loss + 0.04 * progress**2
        if task == "regression":
            row["valid_r2"] = 0.5 - 0.2 * loss
        else:
            error = 0.1 + 0.8 * loss / 2.3 - 0.06 * skill - 0.3 * luck
            row["train_accuracy"] = 0.1 if broken else 1 - 0.8 * error / 3
            row["valid_accuracy"] = 0.1 if broken else 1 - error / 3 + draw.gauss(0, 0.001)
        seconds = 1.1 + 0.1 * slow + abs(draw.gauss(0, 0.05))
        row["time"] = {"seconds": seconds, "train_seconds": 0.9 * seconds, "valid_seconds": 0.1 * seconds}
        row["time"]["optimizer_seconds"] = seconds * (0.1 + 0.05 * slow)
        rows.append(row)
    return rows


def _rates(
    draw: random.Random, levels: dict[str, int], layers: Sequence[str], steps: int, every: int, layer_weights: bool
) -> list[dict[str, Any]]:
    lines = []
    trend = {name: [draw.gauss(0.2, 0.5) for _ in range(min(count, 64))] for name, count in levels.items()}
    for step in range(0, steps + 1, every):
        progress = step / steps
        rates: dict[str, Any] = {}
        for name, count in levels.items():
            move = 0.0 if name == "lr" else 1.2 * progress**0.5
            if count <= 64:
                noise = 0.02 * move
                logs = [-3 + move * (slope - 0.6 * progress) + draw.gauss(0, noise) for slope in trend[name]]
                rates[name] = {"count": count, "values": [10**value for value in logs]}
            else:
                rates[name] = {"count": count, **_spread(-3 + 0.2 * move, 1e-3 + 0.35 * move, count)}
        lines.append({"kind": "rates", "step": step, "rates": rates, "weights": _weights(levels, progress)})
        if layer_weights:
            lines[-1]["weights"] = {
                layer: _weights(levels, progress * (1 + i) / len(layers)) for i, layer in enumerate(layers)
            }
    return lines


def _spread(centre: float, width: float, count: int) -> dict[str, Any]:
    """Log-normal rates: seven quantiles, and a histogram of 32 bins."""
    deviations = (-3.2, -1.645, -0.6745, 0, 0.6745, 1.645, 3.2)
    low, high = centre - 3.2 * width, centre + 3.2 * width
    bins = [math.exp(-0.5 * ((i + 0.5) / 5 - 3.2) ** 2) for i in range(32)]
    counts = [round(count * share / sum(bins)) for share in bins]
    return {
        "quantiles": [10 ** (centre + d * width) for d in deviations],
        "histogram": {"low": low, "high": high, "counts": counts},
    }


def _weights(levels: dict[str, int], progress: float) -> dict[str, float]:
    if len(levels) == 1:
        return dict.fromkeys(levels, 1.0)
    raw = [1 + (0.6 * progress if i else 0) / (i or 1) for i in range(len(levels))]
    return {name: value / sum(raw) for name, value in zip(levels, raw, strict=True)}


def _result(rows: list[dict[str, Any]], status: str, steps: int, started: str) -> dict[str, Any]:
    metrics = [{k: v for k, v in row.items() if k not in ("kind", "step", "time", "epoch")} for row in rows]
    better = "valid_accuracy" if "valid_accuracy" in metrics[0] else "valid_r2"
    best = max(range(len(rows)), key=lambda i: metrics[i][better])
    seconds = sum(row["time"]["seconds"] for row in rows)
    own = sum(row["time"]["optimizer_seconds"] for row in rows)
    return {
        "format": 1,
        "status": status,
        "epochs": len(rows),
        "steps": len(rows) * steps,
        "final": metrics[-1],
        "best": {**metrics[best], "epoch": best + 1},
        "time": {
            "started": started,
            "seconds": seconds,
            "optimizer_seconds": own,
            "step_ms": 1e3 * own / (len(rows) * steps),
        },
        "environment": ENVIRONMENT,
    }
