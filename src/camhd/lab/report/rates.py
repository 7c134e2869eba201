"""What the rates did: matrices of groups × steps for every level of a method, of each run and of all together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .curves import finite
from .group import Method
from .source import Entry

BINS = 48
_LINES = 8
QUANTILES = ("smallest", "5 %", "25 %", "median", "75 %", "95 %", "largest")

Matrix = list[list[float]]


@dataclass(frozen=True)
class Level:
    """The rates of one level over time.

    Attributes:
        name: The level.
        count: How many groups it has.
        groups: Their names, in the order of the rows; None where only quantiles were recorded.
        values: A row per group, or a row per quantile.
        errors: Standard errors of the mean over runs, shaped like `values`; None for one run and for many rows.
        histogram: Shares of all groups in bins of the logarithm, a row per bin, lowest first; None up to 64 groups.
        low: The lower edge of the lowest bin, as a logarithm to base 10.
        high: The upper edge of the highest.
    """

    name: str
    count: int
    groups: list[str] | None
    values: Matrix
    errors: Matrix | None = None
    histogram: Matrix | None = None
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Weights:
    """The weights γ of the levels over time: a row per level; with `layers`, a row per layer and level."""

    levels: list[str]
    layers: list[str] | None
    values: Matrix
    errors: Matrix | None


@dataclass(frozen=True)
class View:
    """The rates of one run, or of all runs of a method together."""

    name: str
    steps: list[int]
    levels: list[Level]
    weights: Weights | None

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        rows = sum(len(level.values) + len(level.histogram or ()) for level in self.levels)
        return len(self.steps) * (rows + (len(self.weights.values) if self.weights else 0))

    @property
    def moves(self) -> bool:
        """Whether there is anything to see: several rates, or one that changes."""
        return any(len(level.values) > 1 or len(set(level.values[0])) > 1 for level in self.levels)


def together(method: Method) -> View | None:
    """The mean over the runs of a method; None where no rates were recorded."""
    runs = [run for run in method.shown if run.snapshots]
    return _view(f"mean of {len(runs)} runs" if len(runs) > 1 else _name(runs[0]), runs) if runs else None


def single(run: Entry) -> View | None:
    """The rates of one run; None where none were recorded."""
    return _view(_name(run), [run]) if run.snapshots else None


def _name(run: Entry) -> str:
    split = str(run.config.get("split", ""))
    return f"seed {run.config.get('seed', '?')}" + (f", {split}" if split.startswith("fold") else "")


def _view(name: str, runs: Sequence[Entry]) -> View:
    longest = max(runs, key=lambda run: len(run.snapshots))
    steps = [int(snapshot["step"]) for snapshot in longest.snapshots]
    at: list[dict[int, Mapping[str, Any]]] = [{int(s["step"]): s for s in run.snapshots} for run in runs]
    columns = [[found[step] for found in at if step in found] for step in steps]
    names = list(dict.fromkeys(level for column in columns for one in column for level in one.get("rates") or ()))
    groups = longest.start.get("groups") or {}
    levels = [_level(level, groups.get(level), columns) for level in names]
    return View(name, steps, levels, _weights(columns))


def _level(name: str, groups: Sequence[str] | None, columns: Sequence[Sequence[Mapping[str, Any]]]) -> Level:
    found = [[one["rates"][name] for one in column if name in (one.get("rates") or {})] for column in columns]
    first = next(one for column in found for one in column)
    kind = "values" if "values" in first else "quantiles"
    rows = len(first[kind])
    # A run whose record has another shape is left out of the mean.
    found = [[one for one in column if len(one.get(kind, ())) == rows] for column in found]
    values, errors = _means([[one[kind] for one in column] for column in found], rows)
    if kind == "values":
        named = [str(group) for group in groups or ()]
        named = named if len(named) == rows else [f"{name} {i + 1}" for i in range(rows)]
        return Level(name, int(first["count"]), named, values, errors)
    histogram, low, high = _histogram([[one.get("histogram") for one in column] for column in found])
    return Level(name, int(first["count"]), None, values, errors, histogram, low, high)


def _means(columns: Sequence[Sequence[Sequence[Any]]], rows: int) -> tuple[Matrix, Matrix | None]:
    """The mean over runs, for each row at each step; for a few rows, which are drawn as lines, its standard error."""
    if rows <= _LINES and max(map(len, columns), default=0) > 1:
        found = [[finite([float(one[row]) for one in column]) for column in columns] for row in range(rows)]
        return [[one.mean for one in row] for row in found], [[one.error for one in row] for row in found]
    return [[_mean([float(one[row]) for one in column]) for column in columns] for row in range(rows)], None


def _mean(values: list[float]) -> float:
    """Of those that are finite; quick, because there are many."""
    total = sum(values)
    if values and math.isfinite(total):
        return total / len(values)
    return finite(values).mean


def _histogram(columns: Sequence[Sequence[Mapping[str, Any] | None]]) -> tuple[Matrix | None, float, float]:
    """The histograms of all steps over one set of bins, as shares of all groups."""
    known = [one for column in columns for one in column if one and math.isfinite(float(one["low"]))]
    if not known:
        return None, 0.0, 0.0
    low, high = min(float(one["low"]) for one in known), max(float(one["high"]) for one in known)
    # Equal rates make a histogram without width: it gets one.
    low, high = (low, high) if high - low > 1e-6 else (low - 0.5, high + 0.5)
    shares = []
    for column in columns:
        bins = [0.0] * BINS
        for one in filter(None, column):
            _pour(one, bins, low, high)
        # Rates of zero or less have no logarithm, but they count.
        total = sum(bins) + sum(float(one.get("zero", 0)) for one in filter(None, column))
        shares.append([share / total if total else math.nan for share in bins])
    return [[column[i] for column in shares] for i in range(BINS)], low, high


def _pour(one: Mapping[str, Any], bins: list[float], low: float, high: float) -> None:
    """Spread each count over the bins that its own bin overlaps."""
    counts = one["counts"]
    start, end = float(one["low"]), float(one["high"])
    if not (math.isfinite(start) and math.isfinite(end)):
        return
    scale = len(bins) / (high - low)
    width = (end - start) / len(counts)
    for i, count in enumerate(counts):
        if not count:
            continue
        left = (start + i * width - low) * scale
        right = left + width * scale
        first, last = int(left), min(int(right), len(bins) - 1)
        if right - left < 1e-9 or first >= last:
            bins[min(max(first, 0), len(bins) - 1)] += count
            continue
        for j in range(max(first, 0), last + 1):
            bins[j] += count * (min(right, j + 1) - max(left, j)) / (right - left)


def _weights(columns: Sequence[Sequence[Mapping[str, Any]]]) -> Weights | None:
    known = [[one["weights"] for one in column if one.get("weights")] for column in columns]
    first = next((one for column in known for one in column), None)
    if first is None:
        return None
    found = [[one for one in column if list(one) == list(first)] for column in known]
    if all(isinstance(value, Mapping) for value in first.values()):
        layers = list(first)
        levels = list(dict.fromkeys(level for layer in first.values() for level in layer))
        keys = [(layer, level) for layer in layers for level in levels]
        flat = [[[one[a].get(b, math.nan) for a, b in keys] for one in column] for column in found]
        return Weights(levels, layers, *_means(flat, len(keys)))
    levels = list(first)
    return Weights(
        levels, None, *_means([[[one[b] for b in levels] for one in column] for column in found], len(levels))
    )
