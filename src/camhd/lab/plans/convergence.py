"""The theorems as experiments."""

from __future__ import annotations

import math

from ..report import Cell, Chart, Column, Section, Series, Table
from ..report.curves import finite
from ..statistics import student_tail
from .claims import FAILS, HOLDS, OPEN, Check, Claim
from .measuring import Measured, Measurement
from .numbering import said
from .plan import Plan
from .reading import Results
from .testing import quantile

CHAINS = (["global"], ["global", "layer"], ["global", "layer", "parameter"])
STARTS = (0.01, 1.0, 5.0, 50.0)
CLOSE, EXACT = 1e-6, 1e-12


def _measurements(descent: int, online: int, seeds: int) -> tuple[Measurement, ...]:
    found = [
        Measurement("combination", {"levels": ["global", "layer"], "hyper_lr": beta, "steps": 20, "seed": seed})
        for beta in (1e-2, 1e-3)
        for seed in range(3)
    ]
    found += [
        Measurement(
            "descent",
            {"levels": levels, "start": start, "limit": limit, "decay": 0.02, "hyper_lr": 0.01, "steps": descent},
        )
        for limit in (0.9, 2.5)
        for levels in CHAINS
        for start in STARTS
    ]
    found += [
        Measurement(
            "regret",
            {"levels": ["global", "layer"], "hyper_lr": beta, "decay_bound": bound, "steps": online, "seed": seed},
        )
        for bound in ("sqrt", None)
        for beta in (1e-8, 1e-4)
        for seed in range(seeds)
    ]
    return tuple(found)


def _combination(found: Results) -> Section:
    columns = [
        Column("what", "β, seed", numeric=False),
        Column("difference", "Theorem 1", "Largest relative difference."),
        Column("gap", "Virtual − closed", "Largest difference from −4β²λ²(α_l − α_g), relative to the rate."),
    ]
    rows = [
        [
            Cell(f"β {one.measurement.arguments['hyper_lr']:g}, seed {one.measurement.arguments['seed']}"),
            Cell(f"{one.values['difference']:.1e}", one.values["difference"]),
            Cell(f"{one.values['gap_difference']:.1e}", one.values["gap_difference"]),
        ]
        for one in found.of("combination")
    ]
    text = (
        "Gradient descent with regularised rates of layers, in double precision. At every step the rates are compared "
        "with the weighted mean of the unregularised (virtual) rates of the same state."
    )
    note = "Relative differences of numbers that have 16 digits."
    return Section(
        f"Regularisation and combination: {said('thm:1')}", (text,), [Table("Theorem 1", columns, rows, note)]
    )


def _of_descent(found: Results, limit: float) -> list[Measured]:
    return [one for one in found.of("descent") if one.measurement.arguments["limit"] == limit]


def _from(one: Measured) -> str:
    given = one.measurement.arguments
    return f"{' > '.join(given['levels'])}, α0 {given['start']:g}/L"


def _descent(found: Results) -> Section:
    charts = [
        Chart(
            f"Distance to the minimum, α∞ = {limit:g}/L",
            "step",
            "distance",
            [
                Series(_from(one), one.values["steps"], [max(value, 1e-16) for value in one.values["distance"]])
                for one in _of_descent(found, limit)
            ],
            log_x=True,
            log_y=True,
        )
        for limit in (0.9, 2.5)
        if _of_descent(found, limit)
    ]
    text = (
        "A convex function whose gradient is bounded, τ = exp(−0.02 t). Below α∞ = 1/L the theorem promises "
        "convergence from any start; about α∞ = 2.5/L it says nothing, and those runs are here to compare with."
    )
    return Section(f"Gradient descent: {said('thm:2')}", (text,), (), charts)


def _regrets(found: Results, bound: str | None, beta: float) -> list[Measured]:
    return [
        one
        for one in found.of("regret")
        if (one.measurement.arguments["decay_bound"], one.measurement.arguments["hyper_lr"]) == (bound, beta)
    ]


KINDS = {
    f"{name}, β {beta:g}": (bound, beta)
    for name, bound in (("with 1/√t", "sqrt"), ("without 1/√t (released code)", None))
    for beta in (1e-8, 1e-4)
}


def _regret(found: Results) -> Section:
    series = []
    for name, (bound, beta) in KINDS.items():
        runs = _regrets(found, bound, beta)
        if runs:
            steps = runs[0].values["steps"]
            columns = [
                finite([run.values["regret"][i] / math.sqrt(step) for run in runs]) for i, step in enumerate(steps)
            ]
            series.append(Series(name, steps, [one.mean for one in columns], [one.error for one in columns]))
    chart = Chart(
        "Regret of AdaBound-CAM-HD over √T", "T", "R(T) / √T", series, log_x=True, log_y=True, note="Mean over seeds."
    )
    text = (
        "Logistic regression on digits, one example at a time, every parameter kept in [−1, 1]; regret against the "
        "best parameters of that box in hindsight. A curve that stays level grows as √T."
    )
    return Section("Regret of AdaBound-CAM-HD: Theorem 4 in print", (text,), (), [chart])


def _equal(found: Results) -> list[Check]:
    return [
        Check(
            f"β {one.measurement.arguments['hyper_lr']:g}, seed {one.measurement.arguments['seed']}: 1e-12 − "
            f"difference",
            EXACT - one.values["difference"],
            verdict=HOLDS if one.values["difference"] <= EXACT else FAILS,
        )
        for one in found.of("combination")
    ]


def _gap(found: Results) -> list[Check]:
    return [
        Check(
            f"β {one.measurement.arguments['hyper_lr']:g}, seed {one.measurement.arguments['seed']}: 1e-12 − "
            f"difference",
            EXACT - one.values["gap_difference"],
            verdict=HOLDS if one.values["gap_difference"] <= EXACT else FAILS,
        )
        for one in found.of("combination")
    ]


def _converges(found: Results) -> list[Check]:
    return [
        Check(
            f"{_from(one)}: decades below a distance of 1e-6",
            math.log10(CLOSE / max(one.values["distance"][-1], 1e-16)),
            verdict=HOLDS if one.values["distance"][-1] <= CLOSE else FAILS,
        )
        for one in _of_descent(found, 0.9)
    ]


def _bounded(found: Results) -> list[Check]:
    return [
        Check(
            f"{_from(one)}: 1 − largest rate / bound",
            1 - one.values["largest_share_of_bound"],
            verdict=HOLDS if one.values["largest_share_of_bound"] <= 1 else FAILS,
        )
        for one in _of_descent(found, 0.9)
    ]


def _grows_slower(found: Results) -> list[Check]:
    """One-sample t-tests over seeds that the exponent of the regret in the last decade of steps is below a half.

    One above a half tells nothing: an upper bound is about all T, and these are some.
    """
    tests = []
    for name, (bound, beta) in KINDS.items():
        values = [one.values["exponent"] for one in _regrets(found, bound, beta)]
        if bound is None or not values:
            continue
        made = finite(values)
        t = (0.5 - made.mean) / made.error if made.error > 0 else math.nan
        reach = quantile(made.count - 1) * made.error if made.count > 1 else math.nan
        tests.append(
            Check(
                f"{name}: 1/2 − exponent of the regret",
                0.5 - made.mean,
                0.5 - made.mean - reach,
                0.5 - made.mean + reach,
                student_tail(t, made.count - 1) if made.count > 1 else math.nan,
                str(made.count),
                verdict="" if made.mean < 0.5 else OPEN,
            )
        )
    return tests


PLAN = Plan(
    name="convergence",
    title="The theorems as experiments",
    about="Regularised rates and combined rates, gradient descent from any rate, and the regret of AdaBound-CAM-HD.",
    places=("Sec:5.3.3", "thm:1", "Sec:5.3.5", "thm:2"),
    measurements={
        "smoke": _measurements(descent=300, online=200, seeds=2),
        "cpu": _measurements(descent=20_000, online=100_000, seeds=5),
        "paper": _measurements(descent=20_000, online=100_000, seeds=5),
    },
    silent=(
        "The paper proves its theorems and does not measure them. The second theorem of its print is the third for "
        "one level, and is among the cases of the third here.",
    ),
    sections=(_combination, _descent, _regret),
    claims=(
        Claim(
            "The effect of adding pair-wise L2 regularization on different levels of adaptive learning rates is equal "
            "to performing a weighted linear combination of virtual learning rates in different levels.",
            "thm:1",
            _equal,
        ),
        Claim("The error of the virtual approximation is −4β²λ²(α_l − α_g).", "Sec:5.3.3", _gap),
        Claim("θ_t → θ* if α∞ < 1/L and t·τ(t) → 0.", "thm:2", _converges),
        Claim("The combined rate is at most α0 + tβ(n_p M_p² + n_l M_l² + M_g²).", "Sec:5.3.5", _bounded),
        Claim("The regret of Adabound-CAM-HD is upper bounded by O(√T).", "Theorem 4", _grows_slower),
    ),
    curves=False,
)
