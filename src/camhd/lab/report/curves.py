"""Learning curves: the mean over a method's runs after every epoch, and its standard error."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..statistics import Summary, summarize
from .group import Method, Metric

POINTS = 400


@dataclass(frozen=True)
class Curves:
    """All metrics of one method over time.

    Attributes:
        epochs: The horizontal axis.
        seconds: The mean time since the start at which each epoch had ended: the other horizontal axis.
        values: For each metric, its summary over runs after each epoch; non-finite values are left out of it.
    """

    epochs: list[int]
    seconds: list[float]
    values: dict[str, list[Summary]]


def curves(method: Method, metrics: list[Metric], points: int = POINTS) -> Curves:
    """Average the runs of a method, epoch by epoch, over those that came so far."""
    last = max((len(run.epochs) for run in method.shown), default=0)
    chosen = evenly(last, points)
    rows = [[run.epochs[i] for run in method.shown if i < len(run.epochs)] for i in chosen]
    return Curves(
        epochs=[int(row[0].get("epoch", i + 1)) for i, row in zip(chosen, rows, strict=True)],
        seconds=[finite([run["seconds"] for run in row]).mean for row in rows],
        values={
            metric.key: [finite([run.get(metric.key, math.nan) for run in row]) for row in rows] for metric in metrics
        },
    )


def finite(values: list[float]) -> Summary:
    """Summarize the finite ones; `count` says how many those were."""
    return summarize([value for value in values if math.isfinite(value)])


def evenly(count: int, limit: int) -> list[int]:
    """At most `limit` of `count` positions, evenly spread, first and last among them.

    >>> evenly(5, 10), evenly(101, 3)
    ([0, 1, 2, 3, 4], [0, 50, 100])
    """
    if count <= limit:
        return list(range(count))
    return sorted({round(i * (count - 1) / (limit - 1)) for i in range(limit)})
