"""The statistics of tables, against scipy and the standard library."""

from __future__ import annotations

import math
import statistics as standard

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from camhd.lab.statistics import incomplete_beta, student_tail, summarize, welch

special = pytest.importorskip("scipy.special", reason="scipy, which is the oracle, is not installed")
tests = pytest.importorskip("scipy.stats", reason="scipy, which is the oracle, is not installed")

numbers = st.floats(-1e3, 1e3)


@given(st.lists(numbers, min_size=2, max_size=30))
def test_mean_and_standard_error_are_the_standard_librarys(values):
    found = summarize(values)
    assert found.mean == pytest.approx(standard.fmean(values), rel=1e-12, abs=1e-12)
    assert found.error == pytest.approx(standard.stdev(values) / math.sqrt(len(values)), rel=1e-9, abs=1e-12)
    assert found.count == len(values)


def test_one_value_has_no_standard_error_and_none_has_no_mean():
    assert summarize([0.5]).mean == 0.5
    assert math.isnan(summarize([0.5]).error)
    assert math.isnan(summarize([]).mean)
    assert summarize([]).count == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_not_dropped_in_silence(bad):
    assert not math.isfinite(summarize([1.0, bad, 2.0]).mean)
    assert math.isnan(welch([1.0, bad, 2.0], [1.0, 2.0]))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([97.1, 97.4, 97.3], [98.0, 97.9, 98.2]),
        ([1.0, 2.0], [1.0, 2.0]),
        ([1.0, 2.0, 3.0, 4.0], [10.0, 10.5]),
        ([1e-9, 2e-9, 4e-9], [3e-9, 9e-9]),
        ([0.1, 0.2, 0.3], [1e6, 1e6 + 1, 1e6 + 2]),
        ([float(i % 7) for i in range(1000)], [float(i % 5) for i in range(400)]),
    ],
)
def test_welchs_p_is_scipys(first, second):
    expected = tests.ttest_ind(first, second, equal_var=False).pvalue
    assert welch(first, second) == pytest.approx(expected, rel=1e-9)
    assert welch(second, first) == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12), st.lists(st.integers(-50, 50), min_size=2, max_size=12))
def test_welchs_p_is_scipys_on_samples_drawn_at_random(first, second):
    assume(len(set(first)) > 1 and len(set(second)) > 1)  # scipy warns of the rest
    assert welch(first, second) == pytest.approx(tests.ttest_ind(first, second, equal_var=False).pvalue, rel=1e-9)


@pytest.mark.parametrize(("first", "second"), [([1.0], [1.0, 2.0]), ([], [1.0, 2.0]), ([1.0, 1.0], [2.0, 2.0])])
def test_there_is_no_test_without_spread(first, second):
    assert math.isnan(welch(first, second))


def test_one_sample_without_spread_makes_it_students_test_of_one_sample():
    expected = tests.ttest_1samp([0.5, 0.6, 0.8], 0.5).pvalue
    assert welch([0.5, 0.5, 0.5], [0.5, 0.6, 0.8]) == pytest.approx(expected, rel=1e-9)


def test_numbers_of_a_diverged_run_are_beyond_floats_and_no_crash():
    assert summarize([1e308, 1e308, 1.5e308]).mean == pytest.approx(1.1666666e308)
    assert summarize([1e200, 3e200]).error == math.inf
    assert math.isnan(welch([1e200, 3e200], [1.0, 2.0]))


@pytest.mark.parametrize("value", [0.1, 1 / 3, 97.3, 1e-7])
def test_equal_values_have_no_spread_whatever_the_mean_is_rounded_to(value):
    for count in range(2, 60):
        assert summarize([value] * count).error == 0


@given(st.floats(0.3, 2e4), st.floats(0.3, 50), st.floats(0, 1))
def test_the_incomplete_beta_function_is_scipys(a, b, x):
    assert incomplete_beta(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-8, abs=1e-13)


@given(st.floats(-60, 60), st.floats(1, 5e3))
def test_students_tail_is_scipys(t, freedom):
    assert student_tail(t, freedom) == pytest.approx(2 * tests.t.sf(abs(t), freedom), rel=1e-8, abs=1e-300)


def test_students_tail_at_the_edges():
    assert student_tail(math.inf, 3) == 0
    assert student_tail(0, 3) == 1
    assert math.isnan(student_tail(1, 0))
    assert math.isnan(student_tail(math.nan, 3))
