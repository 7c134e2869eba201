"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..statistics import Summary

NOTHING = "–"


def mean_and_error(summary: Summary, percent: bool = False, unit: str = "") -> str:
    """As many digits as the standard error supports.

    >>> mean_and_error(Summary(0.981234, 0.00061, 10), percent=True)
    '98.12 ± 0.06'
    >>> mean_and_error(Summary(0.123456, 0.0042, 3)), mean_and_error(Summary(0.123456, math.nan, 1))
    ('0.1235 ± 0.0042', '0.1235')
    """
    factor = 100.0 if percent else 1.0
    mean, error = summary.mean * factor, summary.error * factor
    if not math.isfinite(mean):
        return NOTHING
    decimals = 2 if percent else _decimals(mean, 4)
    if math.isfinite(error) and error > 0:
        wanted = 2 if percent else min(_decimals(error, 2), max(4, _decimals(mean, 2)))
        decimals = max(wanted, _decimals(error, 1))  # an error is never rounded to nothing
    if decimals > 6 or abs(mean) >= 1e5:
        text = f"{mean:.3g}" + (f" ± {error:.2g}" if math.isfinite(error) else "")
    else:
        text = f"{mean:.{decimals}f}" + (f" ± {error:.{decimals}f}" if math.isfinite(error) else "")
    return text.replace("-", "−") + unit


def probability(p: float) -> str:
    """A p-value.

    >>> probability(0.00362), probability(0.4567), probability(1e-9), probability(math.nan)
    ('0.0036', '0.46', '< 0.0001', '–')
    """
    if math.isnan(p):
        return NOTHING
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def duration(seconds: float) -> str:
    """A time in the unit one would say it in.

    >>> duration(0.01234), duration(4.567), duration(312), duration(7260)
    ('12.3 ms', '4.57 s', '5.2 min', '2.02 h')
    """
    if not math.isfinite(seconds):
        return NOTHING
    for limit, unit, name in ((0.9995, 1e-3, "ms"), (90, 1, "s"), (5400, 60, "min"), (3.6e6, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 3600:,.0f} h"


def apart(values: Sequence[float]) -> list[str]:
    """Numbers with as many digits as tell them apart.

    >>> apart([0.001, 0.0010004]), apart([1.0, 1.0])
    (['0.001', '0.0010004'], ['1', '1'])
    """
    texts: list[str] = []
    for digits in range(3, 9):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def number(value: float, digits: int = 5) -> float | None:
    """So many significant digits; None for what is not finite, which JSON cannot say.

    >>> number(0.123456789), number(math.nan)
    (0.12346, None)
    """
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _decimals(value: float, digits: int) -> int:
    """Decimals that show so many significant digits."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else digits
