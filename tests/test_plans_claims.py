"""Tests of claims: differences of means, corrected p-values, verdicts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camhd.lab.plans.claims import FAILS, HOLDS, OPEN, Check, Claim, compare
from camhd.lab.plans.testing import contrast, from_zero, holm, quantile, sign_test, summaries
from camhd.lab.statistics import summarize

stats = pytest.importorskip("scipy.stats", reason="scipy, which is the oracle, is not installed")

FIRST, SECOND = [97.1, 97.4, 97.3, 97.9], [98.0, 97.9, 98.2]


def test_a_difference_of_two_samples_is_welchs_test():
    made = contrast([(FIRST, SECOND)])
    other = stats.ttest_ind(FIRST, SECOND, equal_var=False)
    interval = other.confidence_interval(0.95)
    assert made.p == pytest.approx(other.pvalue, rel=1e-9)
    assert (made.low, made.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert made.count == (4, 3)


def test_strata_are_averaged_with_the_variance_of_their_mean():
    """Equal strata: the effect stays, its standard error is that of two samples over √2."""
    one, two = contrast([(FIRST, SECOND)]), contrast([(FIRST, SECOND)] * 2)
    assert two.effect == pytest.approx(one.effect)
    error = math.sqrt(sum(stats.sem(values) ** 2 for values in (FIRST, SECOND)) / 2)
    parts = [(stats.sem(values) ** 2 / 4, len(values) - 1) for values in (FIRST, SECOND) * 2]
    freedom = sum(part for part, _ in parts) ** 2 / sum(part**2 / free for part, free in parts)
    assert two.p == pytest.approx(2 * stats.t.sf(abs(one.effect) / error, freedom), rel=1e-9)
    assert two.high - two.effect == pytest.approx(stats.t.ppf(0.975, freedom) * error, rel=1e-9)


@pytest.mark.parametrize("pairs", [[], [([], [1.0])], [([1.0], [2.0])], [([1.0, 2.0], [math.nan, 1.0])]])
def test_too_little_gives_no_test(pairs):
    assert math.isnan(contrast(pairs).p)


def test_samples_without_spread_are_equal_or_no_test():
    assert contrast([([1.0, 1.0], [1.0, 1.0])]).p == 1.0
    assert math.isnan(contrast([([1.0, 1.0], [2.0, 2.0])]).p)


@pytest.mark.parametrize("freedom", [1, 2.5, 18, 400])
def test_the_quantile_is_students(freedom):
    assert quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)


@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=8))
def test_holms_correction_is_that_of_its_definition(values):
    """p_(k) corrected is the largest of (m - j + 1) p_(j) over j ≤ k, at most 1."""
    known = sorted(p for p in values if not math.isnan(p))
    made = holm(values)
    for value, corrected in zip(values, made, strict=True):
        if math.isnan(value):
            assert math.isnan(corrected)
            continue
        rank = max(j for j, p in enumerate(known) if p == value)
        want = max(min(1.0, (len(known) - j) * known[j]) for j in range(rank + 1))
        first = max(min(1.0, (len(known) - j) * known[j]) for j in range(known.index(value) + 1))
        assert min(abs(corrected - want), abs(corrected - first)) < 1e-12 or first <= corrected <= want


def test_a_mean_is_told_from_zero_by_students_test():
    made = from_zero(FIRST)
    other = stats.ttest_1samp(FIRST, 0.0)
    interval = other.confidence_interval(0.95)
    assert made.p == pytest.approx(other.pvalue, rel=1e-9)
    assert (made.low, made.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert math.isnan(from_zero([1.0]).p)
    assert math.isnan(from_zero([1.0, 1.0]).p)


def test_means_of_which_only_their_errors_are_known_are_compared_by_welchs_test():
    ours, theirs = summarize(FIRST), summarize(SECOND)
    made = summaries(ours, theirs)
    numbers = [(one.mean, one.error * math.sqrt(one.count), one.count) for one in (ours, theirs)]
    other = stats.ttest_ind_from_stats(*numbers[0], *numbers[1], equal_var=False)
    assert made.p == pytest.approx(other.pvalue, rel=1e-9)
    assert made.count == (4, 3)


@pytest.mark.parametrize(("more", "less"), [(9, 0), (2, 3), (12, 4), (1, 0), (5, 5)])
def test_the_sign_test_is_the_binomial_one(more, less):
    assert sign_test(more, less) == pytest.approx(stats.binomtest(more, more + less).pvalue)


# Verdicts


@pytest.mark.parametrize(
    ("effect", "p", "verdict"), [(1.0, 0.01, HOLDS), (-1.0, 0.01, FAILS), (1.0, 0.2, OPEN), (-1.0, math.nan, OPEN)]
)
def test_a_test_holds_or_not_only_where_chance_does_not_explain_it(effect, p, verdict):
    assert Check("", effect).judged(p) == verdict
    assert Check("", effect, verdict=HOLDS).judged(p) == HOLDS


@pytest.mark.parametrize(
    ("verdicts", "all_of_them", "most"),
    [
        ([HOLDS, HOLDS], HOLDS, HOLDS),
        ([HOLDS, OPEN, HOLDS], OPEN, HOLDS),
        ([HOLDS, HOLDS, FAILS], FAILS, HOLDS),
        ([FAILS, FAILS, HOLDS, OPEN], FAILS, FAILS),
        ([OPEN], OPEN, OPEN),
        ([], OPEN, OPEN),
    ],
)
def test_a_claim_is_judged_by_all_of_its_tests_or_by_most(verdicts, all_of_them, most):
    assert Claim("", "", lambda _: []).verdict(verdicts) == all_of_them
    assert Claim("", "", lambda _: [], most=True).verdict(verdicts) == most


def test_an_accuracy_is_compared_in_points_and_a_loss_the_other_way_round():
    made = compare("a − b", [0.98, 0.99], [0.95, 0.96], percent=True)
    assert made.effect == pytest.approx(3.0)
    assert made.unit == "points"
    assert compare("a − b", [0.1, 0.2], [0.3, 0.5], less=True).effect == pytest.approx(0.25)


def test_no_advantage_holds_unless_there_is_one():
    better, worse = [0.99, 0.991, 0.992], [0.95, 0.951, 0.952]
    assert compare("", better, worse, absent=True).verdict == FAILS
    assert compare("", worse, better, absent=True).verdict == HOLDS
    assert compare("", better, better, absent=True).verdict == HOLDS
    assert compare("", better[:1], worse, absent=True).judged(math.nan) == OPEN
