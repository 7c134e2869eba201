"""How things are timed on a machine that does other things too.

The contestants of a race take turns. In every round each of them takes a few steps, and the order changes from round
to round, so that a slow spell of the machine hits all of them alike. A ratio of two contestants is the median of
their ratios within each round, not the ratio of two medians from different moments.

That is not enough where memory or one core is slower for a while, which some contestants need more than others: a step
that only waits for memory then takes half as long again, one that also asks the system for memory hardly longer. So
yardsticks, each some work that is none of the contestants', are timed before each round and after the last, and rounds
around which one of them took longer than it usually does are left out.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

Clock = Callable[[], int]  # nanoseconds
QUIET = 1.3  # a round is, if a yardstick takes at most so many times what it does in the fastest tenth of all rounds
FEWEST_QUIET = 5  # rounds; if there are fewer, all count


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
    most: int = 1000
    turn: float = 0.005  # seconds of a typical turn, which then has several steps
    steps: int = 20  # per turn at most


@dataclass(frozen=True)
class Rounds:
    """What a race gives, in seconds."""

    prelude: Sequence[float]  # by round
    steps: Sequence[Sequence[float]]  # per step, by contestant and round
    steps_per_turn: int
    yardsticks: Sequence[Sequence[float]] = ()  # each before every round and after the last

    @property
    def quiet(self) -> list[int]:
        """The rounds that count, by number: during which nobody else was at work, as far as the yardsticks tell."""
        every = list(range(len(self.prelude)))
        most = [QUIET * sorted(times)[len(times) // 10] for times in self.yardsticks]
        quiet = [
            i
            for i in every
            if all(max(times[i : i + 2]) <= limit for times, limit in zip(self.yardsticks, most, strict=True))
        ]
        return quiet if len(quiet) >= FEWEST_QUIET else every

    def yardstick(self, number: int) -> float:
        """What a yardstick took in the rounds that count."""
        return statistics.median(self.yardsticks[number][i] for i in self.quiet)

    def seconds(self, contestant: int) -> Spread:
        """Time of one step."""
        return Spread.of([self.steps[contestant][i] for i in self.quiet])

    def ratio(self, contestant: int, baseline: int) -> Spread:
        """Time of one step, as a multiple of the baseline's in the same round."""
        own, base = self.steps[contestant], self.steps[baseline]
        return Spread.of([own[i] / base[i] for i in self.quiet])

    def share(self, contestant: int) -> Spread:
        """Part of prelude and step that is the step's."""
        own, other = self.steps[contestant], self.prelude
        return Spread.of([own[i] / (own[i] + other[i]) for i in self.quiet])


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
    yardsticks: Sequence[Callable[[], object]] = (),
) -> Rounds:
    """Let the contestants take turns until the budget is used up.

    Args:
        steps: one step of each contestant; all are warm already.
        estimates: roughly how many seconds each takes.
        effort: when to stop.
        prelude: what is done, and timed by itself, at the start of each round.
        clock: in nanoseconds.
        tidy: what is done after each step of each contestant, and not timed.
        yardsticks: work by which slow spells of the machine are known; without any, every round counts.
    """
    tidy = [nothing] * len(steps) if tidy is None else tidy
    per_turn = min(effort.steps, max(1, round(effort.turn / statistics.median(estimates))))
    preludes: list[float] = []
    times: list[list[float]] = [[] for _ in steps]
    machine: list[list[float]] = [[] for _ in yardsticks]

    def measure_machine() -> None:
        for work, found in zip(yardsticks, machine, strict=True):
            found.append(timed(work, clock))

    with no_garbage_collection():
        start = clock()
        while len(preludes) < effort.most and (
            len(preludes) < effort.fewest or _one_more_fits(start, clock(), len(preludes), effort.budget)
        ):
            measure_machine()
            preludes.append(timed(prelude, clock))
            for contestant in turn_order(len(steps), len(preludes) - 1):
                turn = 0.0
                for _ in range(per_turn):
                    turn += timed(steps[contestant], clock)
                    tidy[contestant]()
                times[contestant].append(turn / per_turn)
        measure_machine()
    return Rounds(preludes, times, per_turn, machine)


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
