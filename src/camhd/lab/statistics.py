"""Mean, standard error and Welch's test: what a table of runs with several seeds needs, in pure Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_ITERATIONS = 500  # The continued fraction needs about √max(a, b) terms; far fewer than this.
_TINY = 1e-300  # Stands in for a zero denominator (Lentz's method).


@dataclass(frozen=True)
class Summary:
    """What is said of a sample of numbers.

    Attributes:
        mean: The arithmetic mean; nan of an empty sample.
        error: The standard error of the mean, `s / √n`; nan with fewer than two values.
        count: The number of values, n.
    """

    mean: float
    error: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.error:.2g} (n = {self.count})"


def summarize(values: Sequence[float]) -> Summary:
    """The mean of a sample, its standard error `√(Σ(x - x̄)² / (n - 1) / n)`, and n.

    Nothing is left out: a value that is not finite makes the mean so too.

    >>> print(summarize([97.1, 97.4, 97.3]))
    97.27 ± 0.088 (n = 3)
    """
    count = len(values)
    mean = _mean(values)
    return Summary(mean, math.sqrt(_variance(values, mean) / count) if count else math.nan, count)


def welch(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p-value of Welch's test that two samples have the same mean.

    `t = (x̄ - ȳ) / √(s_x²/n + s_y²/m)`, with the degrees of freedom of Welch and Satterthwaite. The samples may
    differ in size and in spread.

    Args:
        first: One sample.
        second: The other.

    Returns:
        A probability; nan where there is no test: fewer than two values in a sample, a value that is not finite,
        or two samples without any spread.

    Example:
        >>> round(welch([97.1, 97.4, 97.3], [98.0, 97.9, 98.2]), 4)
        0.0036

    Reference:
        B. L. Welch: The generalization of 'Student's' problem when several different population variances are
        involved. Biometrika 34 (1947).
    """
    means = _mean(first), _mean(second)
    parts = [_variance(x, m) / max(len(x), 1) for x, m in zip((first, second), means, strict=True)]
    total = sum(parts)
    if not (math.isfinite(total) and total > 0):
        return math.nan
    # The parts are scaled to a sum of one first: their squares may not be representable.
    shares = [part / total for part in parts]
    freedom = 1 / sum(s * s / (len(x) - 1) for s, x in zip(shares, (first, second), strict=True))
    return student_tail((means[0] - means[1]) / math.sqrt(total), freedom)


def student_tail(t: float, freedom: float) -> float:
    """The probability that a Student-t variable is further from zero than `t`.

    `P(|T| ≥ |t|) = I_{ν/(ν + t²)}(ν/2, 1/2)`, I the regularised incomplete beta function.

    >>> round(student_tail(2.776, 4), 3)
    0.05
    """
    if math.isnan(t) or not freedom > 0:
        return math.nan
    if math.isinf(t):
        return 0.0
    total = freedom + t * t
    return _beta(freedom / 2, 0.5, freedom / total, t * t / total)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function `I_x(a, b)`, by its continued fraction.

    >>> incomplete_beta(1, 1, 0.25)  # the uniform distribution
    0.25
    """
    return _beta(a, b, x, 1 - x)


def _beta(a: float, b: float, x: float, rest: float) -> float:
    """`I_x(a, b)`, given `1 - x` as well: next to 1 it cannot be had from x."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    # The fraction converges quickly on one side of the mean; the other side is reached by symmetry.
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, rest, x)
    front = a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(front) * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, from the front (Lentz's method, as modified)."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _ITERATIONS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _mean(values: Sequence[float]) -> float:
    """Each value is divided before the sum, which could overflow."""
    count = len(values)
    return math.fsum(value / count for value in values) if _finite(values) else math.nan


def _variance(values: Sequence[float], mean: float) -> float:
    """The variance s² of a sample, about its mean; nan with fewer than two values, inf if it is beyond a float."""
    if len(values) < 2 or not _finite(values):
        return math.nan
    if min(values) == max(values):
        return 0.0  # and not the rounding error of the mean
    return sum((value - mean) * (value - mean) for value in values) / (len(values) - 1)


def _finite(values: Sequence[float]) -> bool:
    return len(values) > 0 and all(map(math.isfinite, values))
