"""The small parts of the report: packed numbers, poured histograms, names, texts."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camhd.lab.report.curves import evenly
from camhd.lab.report.figures import names, slug
from camhd.lab.report.group import Task
from camhd.lab.report.html import embedded
from camhd.lab.report.pack import pack
from camhd.lab.report.rates import BINS, _pour
from camhd.lab.report.text import duration, mean_and_error
from camhd.lab.statistics import Summary
from reports_read import unpacked

rates = st.floats(1e-12, 1e3)


@given(st.lists(st.lists(rates, min_size=3, max_size=3), min_size=1, max_size=5))
def test_packed_rates_come_back_to_a_thousandth(rows):
    for given_row, found in zip(rows, unpacked(pack(rows, log=True)), strict=True):
        assert found == pytest.approx(given_row, rel=1e-3)


@given(st.lists(st.lists(st.floats(-1, 1), min_size=2, max_size=2), min_size=1, max_size=5))
def test_packed_weights_come_back(rows):
    for given_row, found in zip(rows, unpacked(pack(rows, log=False)), strict=True):
        assert found == pytest.approx(given_row, abs=2e-5)


def test_what_has_no_logarithm_or_is_missing_keeps_its_place():
    ((nothing, zero, negative, one),) = unpacked(pack([[math.nan, 0.0, -1e-3, 1.0]], log=True))
    assert math.isnan(nothing)
    assert (zero, negative, one) == (-math.inf, -math.inf, 1.0)
    assert unpacked(pack([[math.inf]], log=False)) == [[pytest.approx(math.nan, nan_ok=True)]]


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=40),
    st.floats(-6, 0),
    st.floats(0, 3),
    st.floats(0, 2),
    st.floats(0, 2),
)
def test_nothing_is_lost_when_a_histogram_is_poured_into_other_bins(counts, low, width, left, right):
    bins = [0.0] * BINS
    high = low + width
    _pour({"low": low, "high": high, "counts": counts}, bins, low - left, high + right + 1e-5)
    assert sum(bins) == pytest.approx(sum(counts))
    assert min(bins) >= 0


def test_a_poured_histogram_keeps_its_place():
    bins = [0.0] * BINS
    _pour({"low": -3.0, "high": -2.0, "counts": [1, 3]}, bins, -4.0, 0.0)
    size = 4 / BINS
    assert sum(bins[: round(1 / size)]) == 0
    assert sum(bins[round(1 / size) : round(1.5 / size)]) == pytest.approx(1)
    assert sum(bins[round(1.5 / size) : round(2 / size)]) == pytest.approx(3)
    assert sum(bins[round(2 / size) :]) == 0


@given(st.text())
def test_json_inside_a_page_never_ends_its_element(text):
    written = embedded({"text": text})
    assert not set(written) & set("<>&\u2028\u2029")


@given(st.integers(0, 5000), st.integers(2, 400))
def test_points_are_spread_evenly_and_the_ends_are_kept(count, limit):
    found = evenly(count, limit)
    assert len(found) <= limit
    assert found == sorted(set(found))
    if count:
        assert (found[0], found[-1]) == (0, count - 1)
    gaps = [b - a for a, b in itertools.pairwise(found)]
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_files_of_tasks_have_names_of_their_own():
    tasks = [Task("a:b", "c", "full"), Task("a b", "c", "full"), Task("…", "…", "full")]
    assert names(tasks) == ["a-b-on-c", "a-b-on-c-2", "on"]
    assert slug("///") == "unnamed"


@pytest.mark.parametrize(
    ("mean", "error", "percent", "text"),
    [
        (0.98123, 0.0006, True, "98.12 ± 0.06"),
        (0.98123, 0.00001, True, "98.123 ± 0.001"),
        (0.98123, math.nan, True, "98.12"),
        (0.5, 0.0, True, "50.00 ± 0.00"),
        (0.15779, 0.00046, False, "0.1578 ± 0.0005"),
        (1234.5, 12.3, False, "1234 ± 12"),
        (1.03e9, 1.02e9, False, "1.03e+09 ± 1e+09"),
        (-0.25, 0.1, False, "−0.25 ± 0.10"),
        (1e-9, 1e-10, False, "1e−09 ± 1e−10"),
        (math.nan, math.nan, False, "–"),
    ],
)
def test_a_mean_has_the_digits_that_its_error_supports(mean, error, percent, text):
    assert mean_and_error(Summary(mean, error, 3), percent) == text


def test_a_duration_is_said_in_a_fitting_unit():
    times = {0.0: "0 ms", 0.9999: "1 s", 59.94: "59.9 s", 90: "1.5 min", 86400: "24 h", 1e8: "27,778 h", math.nan: "–"}
    assert [duration(seconds) for seconds in times] == list(times.values())
