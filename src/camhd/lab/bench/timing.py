"""How things are timed on a machine that does other things too.

The contestants of a race take turns. In every round each of them takes a few steps, and the order changes from round
to round, so that a slow spell of the machine hits all of them alike. A ratio of two contestants is the median of
their ratios within each round, not the ratio of two medians from different moments.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

Clock = Callable[[], int]  # nanoseconds


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles, and of how many values."""

    median: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of one value or more.

        >>> Spread.of([1.0, 2.0, 3.0, 4.0, 100.0])
        Spread(median=3.0, low=2.0, high=4.0, n=5)
        """
        if len(values) == 1:
            return cls(values[0], values[0], values[0], 1)
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high, len(values))


@dataclass(frozen=True)
class Effort:
    """How much time a race may take."""

    budget: float  # seconds for the timed rounds
    warm_up: int = 3  # steps of each contestant before them
    fewest: int = 5  # rounds, whatever the budget
    most: int = 200
    turn: float = 0.005  # seconds of a typical turn, which then has several steps
    steps: int = 20  # per turn at most


@dataclass(frozen=True)
class Rounds:
    """What a race gives, in seconds."""

    prelude: Sequence[float]  # by round
    steps: Sequence[Sequence[float]]  # per step, by contestant and round
    steps_per_turn: int

    def seconds(self, contestant: int) -> Spread:
        """Time of one step."""
        return Spread.of(self.steps[contestant])

    def ratio(self, contestant: int, baseline: int) -> Spread:
        """Time of one step, as a multiple of the baseline's in the same round."""
        pairs = zip(self.steps[contestant], self.steps[baseline], strict=True)
        return Spread.of([own / base for own, base in pairs])

    def share(self, contestant: int) -> Spread:
        """Part of prelude and step that is the step's."""
        pairs = zip(self.steps[contestant], self.prelude, strict=True)
        return Spread.of([own / (own + other) for own, other in pairs])


def nothing() -> None:
    """Does nothing."""


def timed(work: Callable[[], object], clock: Clock = time.perf_counter_ns) -> float:
    """Seconds that one call takes; at least a nanosecond, so that it can be divided by."""
    start = clock()
    work()
    return max(clock() - start, 1) * 1e-9


def race(
    steps: Sequence[Callable[[], object]],
    estimates: Sequence[float],
    effort: Effort,
    prelude: Callable[[], object] = nothing,
    clock: Clock = time.perf_counter_ns,
    tidy: Sequence[Callable[[], object]] | None = None,
) -> Rounds:
    """Let the contestants take turns until the budget is used up.

    Args:
        steps: one step of each contestant; all are warm already.
        estimates: roughly how many seconds each takes.
        effort: when to stop.
        prelude: what is done, and timed by itself, at the start of each round.
        clock: in nanoseconds.
        tidy: what is done after each step of each contestant, and not timed.
    """
    tidy = [nothing] * len(steps) if tidy is None else tidy
    per_turn = min(effort.steps, max(1, round(effort.turn / statistics.median(estimates))))
    preludes: list[float] = []
    times: list[list[float]] = [[] for _ in steps]
    with no_garbage_collection():
        start = clock()
        while len(preludes) < effort.most and (
            len(preludes) < effort.fewest or _one_more_fits(start, clock(), len(preludes), effort.budget)
        ):
            preludes.append(timed(prelude, clock))
            for contestant in turn_order(len(steps), len(preludes) - 1):
                turn = 0.0
                for _ in range(per_turn):
                    turn += timed(steps[contestant], clock)
                    tidy[contestant]()
                times[contestant].append(turn / per_turn)
    return Rounds(preludes, times, per_turn)


def turn_order(contestants: int, round_: int) -> list[int]:
    """Each rotation is run forwards, then backwards: all take every place, and follow different neighbours.

    >>> turn_order(3, 0), turn_order(3, 1), turn_order(3, 2)
    ([0, 1, 2], [2, 1, 0], [1, 2, 0])
    """
    first = (round_ // 2) % contestants
    order = [*range(first, contestants), *range(first)]
    return order[::-1] if round_ % 2 else order


def _one_more_fits(start: int, now: int, rounds: int, budget: float) -> bool:
    elapsed = (now - start) * 1e-9
    return elapsed * (rounds + 1) / rounds <= budget


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect now, and not again before the end."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
