"""The lines of the history that tell what the rates and their weights are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.optim import Optimizer

from ... import report

DIGITS = 7  # as many as float32 has


def rates_line(step: int, optimizer: Optimizer | None, rate: float | None) -> dict[str, Any]:
    """All levels' rates and their weights after a step. Processes that share a run must all ask for it.

    Args:
        step: after which step.
        optimizer: whose rates; None where there is none, and `rate` is all that is known.
        rate: the one number that a progress bar shows.
    """
    rates = report.snapshot(optimizer, whole=True)
    if rates is None and rate is not None:
        rates = {"lr": {"count": 1, "values": [rate]}}
    return {"kind": "rates", "step": step, "rates": _short(rates), "weights": _short(report.weights(optimizer) or None)}


def _short(value: Any) -> Any:
    """Numbers with as many digits as are meant: a history is half as long that way."""
    if isinstance(value, Mapping):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
