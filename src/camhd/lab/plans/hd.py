"""The HD poster's table: steps until logistic regression on MNIST reaches a training loss of 0.29."""

from __future__ import annotations

import math
from statistics import median

from ..report import Cell, Column, Section, Table
from .claims import Check, Claim
from .grid import Grid, Method, Problem
from .plan import Number, Plan
from .reading import Results
from .scale import Change
from .sections import as_published, published
from .testing import from_zero

RATES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # α0: rows of the poster's pictures
BETAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # β: columns
FAMILIES = {"SGD": "sgd", "SGDN": "sgdn", "Adam": "adam"}
MOST = 468_750  # iterations, where the poster's authors stopped

# From the poster's pictures, "Iterations to convergence for logistic regression": one run each.
PLAIN = {
    "SGD": (33, 348, 2657, 21239, 178298, None),
    "SGDN": (131, 30, 310, 2657, 21239, 178298),
    "Adam": (208, 34, 2215, 73079, None, None),
}
LEARNED = {
    "SGD": (
        (33, 33, 33, 76, 97, 991),
        (348, 272, 208, 153, 208, 1036),
        (1452, 527, 208, 153, 208, 602),
        (1452, 527, 208, 153, 208, 602),
        (1452, 527, 208, 153, 208, 602),
        (1452, 527, 208, 153, 208, 602),
    ),
    "SGDN": (
        (131, 131, 33, 21, 527, 2492),
        (30, 30, 30, 21, 602, 1382),
        (208, 34, 30, 21, 197, 1036),
        (208, 34, 30, 21, 197, 1367),
        (208, 34, 30, 21, 197, 1382),
        (208, 34, 30, 21, 197, 1382),
    ),
    "Adam": (
        (2568, 1534, 331, 212, 13018, 459765),
        (30, 30, 77, 356, 22141, 38533),
        (76, 30, 30, 212, 40925, 467678),
        (140, 30, 30, 226, 5072, 253198),
        (140, 30, 30, 403, 4444, 300160),
        (140, 30, 30, 403, 5072, 166877),
    ),
}


def plain(family: str, rate: float) -> str:
    """The label of a baseline."""
    return f"{family}, α0 {rate:g}"


def learned(family: str, rate: float, beta: float) -> str:
    """The label of an HD run."""
    return f"{family}-HD, α0 {rate:g}, β {beta:g}"


def _methods(family: str) -> tuple[Method, ...]:
    name = FAMILIES[family]
    decay = {"weight_decay": 1e-4}  # the released code's
    found = [Method(plain(family, rate), name, {"lr": rate, **decay}) for rate in RATES]
    found += [
        Method(learned(family, rate, beta), f"{name}-hd", {"lr": rate, "hyper_lr": beta, "faithful": True, **decay})
        for rate in RATES
        for beta in BETAS
    ]
    return tuple(found)


def _published() -> tuple[Number, ...]:
    found = []
    for family in FAMILIES:
        found += [
            Number(family, plain(family, rate), float(steps), metric="steps")
            for rate, steps in zip(RATES, PLAIN[family], strict=True)
            if steps is not None
        ]
        found += [
            Number(family, learned(family, rate, beta), float(steps), metric="steps")
            for rate, row in zip(RATES, LEARNED[family], strict=True)
            for beta, steps in zip(BETAS, row, strict=True)
        ]
    return tuple(found)


def steps(found: Results, family: str, label: str) -> list[float]:
    """The steps of every run; inf where the loss was not reached."""
    method = found.method(family, family, label)
    runs = method.counted if method else []
    return [run.steps if run.status == "stopped" else math.inf for run in runs]


def _cell(found: Results, family: str, label: str) -> Cell:
    """Our steps (the median of the seeds), and the poster's."""
    own = steps(found, family, label)
    limit = found.limit(family, family)
    middle = median(own) if own else math.nan
    ours = "–" if not own else f"> {limit:,}" if math.isinf(middle) else f"{middle:,.0f}"
    theirs = published(found, family, label).mean
    poster = f"> {MOST:,}" if math.isnan(theirs) else f"{theirs:,.0f}"
    return Cell(f"{ours} [{len(own)}] ({poster})", middle)


def _tables(found: Results) -> Section:
    tables = []
    for grid in found.grids:
        columns = [Column("rate", "α0", numeric=False), Column("plain", grid.name, "Without hypergradient descent.")]
        columns += [Column(f"beta:{beta:g}", f"β {beta:g}", f"{grid.name}-HD with this β.") for beta in BETAS]
        rows = []
        for rate in RATES:
            labels = [plain(grid.name, rate), *(learned(grid.name, rate, beta) for beta in BETAS)]
            rows.append([Cell(f"{rate:g}"), *(_cell(found, grid.name, label) for label in labels)])
        note = (
            "Steps until the loss of a batch is reached: the median over seeds, how many of them in square brackets, "
            "and the poster's number in round ones."
        )
        if not as_published(found, grid.problems[0]):
            note += " These runs are on other data than the poster's."
        tables.append(Table(f"{grid.name} and {grid.name}-HD", columns, rows, note))
    return Section("Iterations to convergence for logistic regression", (), tables)


def _saved(found: Results, family: str, rates: tuple[float, ...], beta: float) -> Check:
    """How many decades of steps HD saves: for each seed the mean over rates, and Student's test over seeds.

    Rates are no sample: from any small α0 a run of HD takes nearly the same way. A run that did not get there counts
    with the steps that it was given, which is too few.
    """
    limit = found.limit(family, family)
    columns = []
    for rate in rates:
        pairs = zip(
            steps(found, family, plain(family, rate)), steps(found, family, learned(family, rate, beta)), strict=False
        )
        columns.append([math.log10(min(base, limit) / min(own, limit)) for base, own in pairs])
    seeds = [sum(row) / len(row) for row in zip(*columns, strict=False)]
    made = from_zero(seeds)
    where = f"{rates[0]:g}" if len(rates) == 1 else f"{rates[0]:g} … {rates[-1]:g} (mean)"
    what = f"{family}, β {beta:g}, α0 {where}: steps saved"
    return Check(what, made.effect, made.low, made.high, made.p, str(len(seeds)), "decades")


def fewer_steps(found: Results) -> list[Check]:
    """From small initial rates, with the β that the poster found best: how many steps HD saves."""
    return [_saved(found, family, (1e-4, 1e-5, 1e-6), 1e-5 if family == "Adam" else 1e-3) for family in FAMILIES]


def _never_worse(found: Results) -> list[Check]:
    return [_saved(found, family, (rate,), BETAS[0]) for family in FAMILIES for rate in RATES]


PLAN = Plan(
    name="hd",
    title="Hypergradient descent: steps until a training loss of 0.29",
    about="Logistic regression on MNIST: how many steps until the loss of a batch is 0.29, with and without "
    "hypergradient descent, from six initial rates. From the ICLR 2018 poster of Baydin et al.",
    places=(),
    grids=tuple(
        Grid(
            family,
            problems=(Problem(family, "logistic", "mnist", epochs=1000, batch_size=128),),
            methods=_methods(family),
            seeds=1,
            stop_loss=0.29,
        )
        for family in FAMILIES
    ),
    cpu={"": Change(seeds=3, epochs={"": 214})},
    smoke={"": Change(seeds=1, epochs={"": 2}, batch_size={"": 64}, data={"mnist": "digits"})},
    silent=(
        "The poster does not say what the loss was measured on. The released code stops at the loss of a single "
        "batch, which is taken here, as are its weight decay (1e-4) and its faults: no bound on the rate, ε before "
        "bias correction.",
    ),
    published=_published(),
    source="poster",
    sections=(_tables,),
    claims=(
        Claim(
            "For a given untuned initial learning rate, HD algorithms consistently bring the loss trajectory closer "
            "to the optimal one: from a small α0 they need fewer steps than the baseline.",
            "poster of Baydin et al.",
            fewer_steps,
        ),
        Claim(
            "With an arbitrary small β (no tuning), HD always improves upon the baseline started at the same α0.",
            "poster of Baydin et al.",
            _never_worse,
        ),
    ),
    curves=False,
)
