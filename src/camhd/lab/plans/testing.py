"""Differences of means, their intervals, and p-values corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..statistics import Summary, student_tail, summarize

LEVEL = 0.05  # of significance

Pair = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Contrast:
    """A difference of means.

    Args:
        effect: the difference; the mean of the strata's differences.
        low: where its 95 % interval begins; nan where there is no test.
        high: where it ends.
        p: two-sided, of no difference, not corrected; nan where there is no test.
        count: values on either side, over all strata.
    """

    effect: float
    low: float
    high: float
    p: float
    count: tuple[int, int]


def contrast(pairs: Sequence[Pair]) -> Contrast:
    """The mean over strata of `mean(first) - mean(second)`, with Welch's test.

    The variance is `Σ_k (s²/n + s²/m) / K²` and the degrees of freedom are Welch's and Satterthwaite's; with one
    stratum it is Welch's test.

    >>> made = contrast([([97.1, 97.4, 97.3], [98.0, 97.9, 98.2])])
    >>> round(made.effect, 3), round(made.p, 4), round(made.low, 2), round(made.high, 2)
    (-0.767, 0.0036, -1.11, -0.42)
    """
    return _contrast([(summarize(first), summarize(second)) for first, second in pairs])


def summaries(first: Summary, second: Summary) -> Contrast:
    """Welch's test of two means of which only mean, standard error and number are known.

    >>> made = summaries(Summary(97.27, 0.0882, 3), Summary(98.03, 0.0882, 3))
    >>> round(made.effect, 2), round(made.p, 4), made.count
    (-0.76, 0.0037, (3, 3))
    """
    return _contrast([(first, second)])


def from_zero(values: Sequence[float]) -> Contrast:
    """The mean of some values, with Student's test that it is zero.

    >>> made = from_zero([1.1, 0.9, 1.3])
    >>> round(made.effect, 2), round(made.p, 4), round(made.low, 2), round(made.high, 2)
    (1.1, 0.0108, 0.6, 1.6)
    """
    found = summarize(values)
    if found.count < 2 or not found.error > 0:
        return Contrast(found.mean, math.nan, math.nan, math.nan, (found.count, 0))
    reach = quantile(found.count - 1) * found.error
    p = student_tail(found.mean / found.error, found.count - 1)
    return Contrast(found.mean, found.mean - reach, found.mean + reach, p, (found.count, 0))


def _contrast(means: Sequence[tuple[Summary, Summary]]) -> Contrast:
    count = sum(first.count for first, _ in means), sum(second.count for _, second in means)
    if not means or any(not one.count for pair in means for one in pair):
        return Contrast(math.nan, math.nan, math.nan, math.nan, count)
    effect = sum(first.mean - second.mean for first, second in means) / len(means)
    parts = [(one.error**2 / len(means) ** 2, one.count - 1) for pair in means for one in pair]
    variance = sum(part for part, _ in parts)
    if not (math.isfinite(variance) and math.isfinite(effect)):
        return Contrast(effect, math.nan, math.nan, math.nan, count)
    if variance == 0:
        return Contrast(effect, math.nan, math.nan, 1.0 if effect == 0 else math.nan, count)
    freedom = 1 / sum((part / variance) ** 2 / free for part, free in parts if part)
    error = math.sqrt(variance)
    reach = quantile(freedom) * error
    return Contrast(effect, effect - reach, effect + reach, student_tail(effect / error, freedom), count)


def quantile(freedom: float, outside: float = LEVEL) -> float:
    """The t beyond which so much of Student's distribution lies, on both sides together.

    >>> round(quantile(4), 3), round(quantile(1e9), 3)
    (2.776, 1.96)
    """
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > outside:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > outside else (low, middle)
    return (low + high) / 2


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm): the chance that any at all is wrongly below the level stays below it.

    Those that are nan are no tests and do not count.

    >>> holm([0.01, 0.04, math.nan, 0.03])
    [0.03, 0.06, nan, 0.06]

    Reference: S. Holm: A simple sequentially rejective multiple test procedure. Scand. J. Statistics 6 (1979).
    """
    order = sorted((i for i, p in enumerate(values) if not math.isnan(p)), key=lambda i: values[i])
    found = [math.nan] * len(values)
    least = 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * values[i]))
        found[i] = least
    return found


def sign_test(more: int, less: int) -> float:
    """The two-sided p-value of so many differences above and below zero, if either is as likely; nan of none.

    >>> sign_test(9, 0), sign_test(2, 3), sign_test(0, 0)
    (0.00390625, 1.0, nan)
    """
    count = more + less
    if not count:
        return math.nan
    tail = sum(math.comb(count, k) for k in range(max(more, less), count + 1)) / 2**count
    return float(min(1.0, 2 * tail))
