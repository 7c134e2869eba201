"""Looking on while a run trains: what a progress display is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..records import Run, RunConfig


class Progress(Protocol):
    """Where a run stands. Its methods read numbers from the device: call them now and then, not at every step."""

    @property
    def config(self) -> RunConfig:
        """Of the run."""

    @property
    def epoch(self) -> int:
        """The epoch that is under way, from 1."""

    @property
    def step(self) -> int:
        """Steps taken."""

    @property
    def steps(self) -> int:
        """Steps in all, if it does not stop early."""

    def metrics(self) -> dict[str, float]:
        """The loss and the other training metrics of this epoch so far."""

    def rate(self) -> float | None:
        """The learning rate to show: the global one, or the mean."""


class Watcher:
    """Is told what happens; does nothing. Override what you want to see.

    What a watcher does is no part of the run: it cannot change the record.
    """

    def begun(self, progress: Progress) -> None:
        """A run begins, or goes on after an interruption."""

    def stepped(self, progress: Progress) -> None:
        """A step was taken. This is called at every step and should return at once."""

    def epoch_ended(self, progress: Progress, epoch: Mapping[str, Any]) -> None:
        """An epoch ended; this is its line in the history."""

    def stops(self) -> bool:
        """Whether the run should stop here, with a checkpoint to go on from. This is asked at every step."""
        return False

    def ended(self, run: Run) -> None:
        """The run has its result. A run that was finished before is told here too, without a `begun`."""
