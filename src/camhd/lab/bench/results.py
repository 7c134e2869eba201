"""What is measured, as data. `what` says for which measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .timing import Spread


@dataclass(frozen=True)
class Entry:
    """Which optimizer, over which model."""

    what: str
    model: str
    parameters: int
    library: str
    rule: str
    levels: tuple[str, ...]
    backend: str  # as asked for
    ran_on: str  # the backend that was really used, if that is known

    @property
    def label(self) -> str:
        """What a table calls the optimizer, within its rule; says so if it ran on another backend than asked for."""
        differs = self.ran_on and self.ran_on != self.backend
        note = f"(ran on {self.ran_on})" if differs else ""
        return " ".join(filter(None, (self.library, ",".join(self.levels), self.backend, note)))


@dataclass(frozen=True)
class Spell:
    """How many rounds there were, in how many of them the machine was quiet, and how fast memory was in these."""

    rounds: int
    quiet: int
    memory: float  # bytes in a second, read and written


@dataclass(frozen=True)
class StepTime(Entry):
    """Seconds of one step, alone and as a multiple of each baseline."""

    seconds: Spread
    ratios: Mapping[str, Spread]
    steps_per_turn: int
    machine: Spell


@dataclass(frozen=True)
class StateSize(Entry):
    """What an optimizer keeps besides parameters and gradients."""

    bytes_per_parameter: float


@dataclass(frozen=True)
class Share(Entry):
    """The step's share of a training step."""

    batch: str
    forward_backward: Spread
    step: Spread
    share: Spread
    machine: Spell


@dataclass(frozen=True)
class FirstStep(Entry):
    """In a new process: seconds to build the optimizer, to take its first step, and a later one."""

    cache: str  # of Numba: "cold", "warm", or "none" where there is no use for one
    build: Spread
    first: Spread
    later: Spread


@dataclass(frozen=True)
class Failure(Entry):
    """An optimizer that could not be measured."""

    error: str


@dataclass(frozen=True)
class Peer:
    """A package to compare with; no version if it is not installed."""

    package: str
    version: str | None


Result: TypeAlias = StepTime | StateSize | Share | FirstStep | Failure
