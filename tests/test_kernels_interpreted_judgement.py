"""How the kernels of the long-horizon rule judge a few numbers, one function at a time, as plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cases import EXACT, HAS_NUMBA

if not HAS_NUMBA:
    pytest.skip("needs camhd[fused]", allow_module_level=True)

import interpreted
from camhd.hyper import LongHorizon
from camhd.hyper.base import Pull
from camhd.tree.numbers import within

interpreted.load()  # when tests are collected: a mutation tester changes functions that are there


def one_by_one(rates: Tensor, sums: dict[str, Tensor]) -> Pull:
    """The same sums as the rule in plain torch wants them, of groups that have all one scheduler's factor."""
    whole = torch.where(sums["traces"] > 0, sums["traces"], 1)
    sizes = torch.where(sums["sizes"] > 0, sums["sizes"], 1)
    norms, moved = sums["grads"].sqrt() * sums["traces"].sqrt(), (sums["moved"] / sizes).sqrt()
    factor, reach = (sums["factors"] / whole).sqrt(), (sums["traces"] / sizes).sqrt()
    return Pull(sums["pull"], norms, 1, moved, sums["above"], factor, reach, sums["grads"].sqrt())


def proposed(rule: LongHorizon, rates: Tensor, state: Tensor, sums: dict[str, Tensor], caps: Any, bounds: Any) -> Any:
    """What the kernel makes of these sums, and whether it calls that finite. The rates above come after the others."""
    package, count = interpreted.load(), len(rates)
    h, settings = package.horizon, package.trace_plan._settings(rule, one_root=True)
    both, work = np.concatenate([rates, sums["above"]]), np.zeros((h.WORK_ROWS, 2 * count))
    for row, name in enumerate(("pull", "grads", "traces", "factors", "moved", "sizes")):
        work[row, :count] = sums[name]
    parents = np.concatenate([np.arange(count, 2 * count), np.full(count, -1)])
    kept = np.concatenate([state, np.zeros((len(state), count))], axis=1)
    with np.errstate(all="ignore"):
        finite = h.propose(both, kept, parents, settings, bounds, np.tile(caps, 2), work)
    return finite, torch.tensor(work[h.RATE, :count]), torch.tensor(work[h.NEW : h.WORK_ROWS, :count])


# Of each rate: itself, the one above, β Σ g·D, Σ g², Σ D², Σ c² D², Σ κ² d², Σ θ².
CASES = {
    "with the trace": (0.1, 0.2, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "against it": (0.1, 0.2, 0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "far off, up": (0.1, 9e6, -20.0, 30.0, 20.0, 20.0, 1e-7, 40.0),
    "far off, down": (9e6, 0.1, 20.0, 30.0, 20.0, 20.0, 1e-7, 40.0),
    "above the one above": (0.3, 0.2, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "above it, against the trace": (0.3, 0.2, 0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "above it, without weights": (0.3, 0.2, -0.02, 0.1, 0.5, 0.5, 1e-6, 0.0),
    "just as large": (0.2, 0.2, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "scheduled": (0.1, 0.2, -0.02, 0.1, 0.5, 0.3, 1e-7, 0.3),
    "scheduled up": (0.1, 0.2, -0.02, 0.1, 0.5, 0.9, 1e-7, 0.3),
    "no trace": (0.1, 0.2, 0.0, 0.1, 0.0, 0.0, 0.0, 0.3),
    "no gradient": (0.1, 0.2, -0.02, 0.0, 0.5, 0.5, 1e-7, 0.3),
    "neither with nor against": (0.1, 0.2, 0.0, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "a schedule of 0": (0.1, 0.2, 0.0, 0.1, 0.5, 0.0, 1e-7, 0.3),
    "no weights": (0.1, 0.2, -0.02, 0.1, 0.5, 0.5, 1e-6, 0.0),
    "a rate of 0": (0.0, 0.2, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "0 above": (0.1, 0.0, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "both below 1": (0.5, 0.9, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "both above 1": (1.5, 1.9, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
}
NAMES = ("above", "pull", "grads", "traces", "factors", "moved", "sizes")
KEPT = ("square", "seen", "against", "peak", "slope", "past_slope")


@pytest.mark.parametrize("bounds", [(0.0, float("inf")), (0.09, 1.6)], ids=["free", "bounded"])
@pytest.mark.parametrize("cap", [float("inf"), 1.02])
@pytest.mark.parametrize("rule", [LongHorizon(), LongHorizon(fast=4.0, tie=0.3)], ids=["default", "wild"])
@pytest.mark.parametrize(("age", "peak"), [(2.0, 0.0), (2.0, 1.01), (900.0, 1.0001)], ids=["new", "below", "old"])
def test_what_rates_become(rule: LongHorizon, cap: float, bounds: tuple[float, float], age: float, peak: float) -> None:
    table = torch.tensor(list(CASES.values()), dtype=torch.float64).T
    rates, sums = table[0], dict(zip(NAMES, table[1:], strict=True))
    ages = (torch.arange(len(rates)) % 3).double()
    old = {"square": 0.01 * ages, "seen": age * ages, "against": 4.0 * ages, "peak": peak * rates}
    old |= {"slope": 0.3 * ages, "past_slope": 0.2 * ages}
    finite, got, kept = proposed(rule, rates, torch.stack(list(old.values())), sums, np.full(len(rates), cap), bounds)
    want, new = rule.update(rates, one_by_one(rates, sums), old)
    want = (want if cap == float("inf") else within(want, rates, cap)).clamp(*bounds)
    assert finite
    for name, one, other in zip(CASES, got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=0, msg=name)
    for name, row in zip(KEPT, kept, strict=True):
        torch.testing.assert_close(row, new[name], rtol=EXACT, atol=0, msg=name)


@pytest.mark.parametrize(
    "case",
    [
        (1.7e308, 1.7e308, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),  # the rate overflows
        (0.1, 0.2, -1e170, 1.0, 1.0, 1.0, 1e-7, 0.3),  # the square of the cosine does
        (0.1, 0.2, -1e200, 1e-300, 1e-300, 1e-300, 1e-7, 0.3),  # the cosine does
        (1e300, 1e-300, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),  # the quotient of the two rates does
    ],
)
def test_what_is_not_finite_is_said(case: tuple[float, ...]) -> None:
    table = torch.tensor([case, CASES["with the trace"]], dtype=torch.float64).T
    sums = dict(zip(NAMES, table[1:], strict=True))
    finite, _, _ = proposed(LongHorizon(), table[0], torch.zeros(len(KEPT), 2), sums, np.full(2, np.inf), (0.0, np.inf))
    assert not finite


@pytest.mark.parametrize(
    ("dots", "rate", "finite"),
    [
        ((1.0, 2.0), 0.1, True),
        ((1.5e308, 1.5e308), 1e-9, False),
        ((1e305, 1.0), 1e10, False),
        ((np.nan, 1), 0.1, False),
    ],
)
def test_a_sum_that_is_not_finite_is_said(dots: tuple[float, float], rate: float, finite: bool) -> None:
    """Of one tensor with two rows that have a rate each: the sum of both may overflow where neither does."""
    package = interpreted.load()
    h, t = package.horizon, package.tables
    places, cells = np.zeros((1, t.PLACE_COLUMNS), np.int64), np.ones((h.CELL_ROWS, 2))
    cells[h.DOT] = dots
    slope, work, index = np.zeros(1), np.zeros((h.WORK_ROWS, 2)), np.array([[0, 1]])
    form, base, one = np.full((1, 1), h.ROW_BY_ROW), np.zeros((1, 1), np.int64), np.ones((1, 1))
    with np.errstate(all="ignore"):
        found = h.sum_up(places, cells, np.ones(2), form, base, index, np.full(2, rate), one, 0, one, slope, work)
    assert bool(found) is finite
    np.testing.assert_array_equal(work[h.PULL], -np.array(dots))
