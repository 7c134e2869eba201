"""Schedules of the learning rate by name, carried out by torch's scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

NAMES = ("cosine", "warmup-cosine", "drop")
WARMUP = 0.05  # of all steps
DROP = 0.1


def factor(schedule: str, epochs: int, steps_per_epoch: int) -> Callable[[int], float]:
    """The factor on the learning rate at a step (from 0).

    `cosine` falls from 1 to 0; `warmup-cosine[:part]` rises for a part of all steps (0.05) first; `drop:150` is 0.1
    after epoch 150, and `drop:100,150` 0.1 after epoch 100 and 0.01 after epoch 150.

    >>> at = factor("drop:2", epochs=4, steps_per_epoch=10)
    >>> at(19), at(20)
    (1.0, 0.1)
    """
    name, _, rest = schedule.partition(":")
    steps = epochs * steps_per_epoch
    if name == "cosine" and not rest:
        return lambda step: _cosine(step / steps)
    if name == "warmup-cosine":
        warmup = max(1, round(steps * _part(schedule, rest)))
        return lambda step: (step + 1) / warmup if step < warmup else _cosine((step - warmup) / max(1, steps - warmup))
    if name == "drop" and rest:
        ends = [epoch * steps_per_epoch for epoch in _epochs(schedule, rest)]
        return lambda step: float(f"1e-{sum(step >= end for end in ends)}")
    raise ValueError(
        f"'schedule' must be cosine, warmup-cosine, warmup-cosine:0.1 or drop:150 (after that epoch), got {schedule!r}."
    )


def scheduler(schedule: str | None, optimizer: Optimizer | None, epochs: int, steps_per_epoch: int) -> LambdaLR | None:
    """What changes the optimizer's lr after each step; None where there is no schedule."""
    if schedule is None:
        return None
    at = factor(schedule, epochs, steps_per_epoch)
    if optimizer is None:
        raise ValueError(
            f"'schedule' {schedule!r} needs an optimizer with an lr of its own; leave it out for this one."
        )
    return LambdaLR(optimizer, at)


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def _part(schedule: str, text: str) -> float:
    try:
        part = float(text) if text else WARMUP
    except ValueError:
        part = math.nan
    if not 0 < part < 1:
        raise ValueError(f"'schedule' {schedule!r} must have a part of all steps between 0 and 1, such as 0.05.")
    return part


def _epochs(schedule: str, text: str) -> list[int]:
    if not all(word.isdigit() and int(word) > 0 for word in text.split(",")):
        raise ValueError(f"'schedule' {schedule!r} must have whole epochs, such as drop:150 or drop:100,150.")
    return [int(word) for word in text.split(",")]
