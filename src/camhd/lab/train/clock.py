"""The times of a run. They are told in the record and decide nothing."""

from __future__ import annotations

import statistics
from array import array
from datetime import datetime, timezone
from time import perf_counter
from typing import Any

import torch


class Clock:
    """Counts the seconds in which the run is really running, over interruptions too."""

    def __init__(self) -> None:
        self.started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        self.resumed = 0
        self._before = 0.0  # what earlier processes have spent
        self._began = perf_counter()
        self._epoch_began = 0.0  # in seconds of the run
        self._valid = 0.0
        self._steps = array("f")  # seconds of every optimizer step
        self._first = 0  # where the epoch's begin

    def seconds(self) -> float:
        """Of the run, until now."""
        return self._before + perf_counter() - self._began

    def step(self, seconds: float) -> None:
        """An optimizer step took this long."""
        self._steps.append(seconds)

    def valid(self, seconds: float) -> None:
        """The validation took this long."""
        self._valid = seconds

    def begin_epoch(self) -> None:
        """An epoch begins now."""
        self._epoch_began = self.seconds()
        self._first = len(self._steps)
        self._valid = 0.0

    def epoch(self) -> dict[str, float]:
        """The times of the epoch that ends now."""
        seconds = self.seconds() - self._epoch_began
        return {
            "seconds": round(seconds, 6),
            "train_seconds": round(seconds - self._valid, 6),
            "valid_seconds": round(self._valid, 6),
            "optimizer_seconds": round(sum(self._steps[self._first :]), 6),
        }

    def run(self) -> dict[str, Any]:
        """The times of the run that ends now; `step_ms` is the median of an optimizer step."""
        return {
            "started": self.started,
            "seconds": round(self.seconds(), 6),
            "optimizer_seconds": round(sum(self._steps), 6),
            "step_ms": round(1e3 * statistics.median(self._steps), 6) if self._steps else None,
            "resumed": self.resumed,
        }

    def state(self) -> dict[str, Any]:
        """To go on from."""
        return {
            "started": self.started,
            "resumed": self.resumed,
            "seconds": self.seconds(),
            "epoch_began": self._epoch_began,
            "steps": torch.tensor(self._steps, dtype=torch.float32),
            "first": self._first,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there; the time in between does not count."""
        self.started = state["started"]
        self.resumed = state["resumed"] + 1
        self._before = state["seconds"]
        self._began = perf_counter()
        self._epoch_began = state["epoch_began"]
        self._steps = array("f", state["steps"].tolist())
        self._first = state["first"]
