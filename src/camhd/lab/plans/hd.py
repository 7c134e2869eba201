"""The HD poster's table: steps until logistic regression on MNIST reaches a training loss of 0.29."""

from __future__ import annotations

from .grid import Grid, Method, Problem
from .plan import Number, Plan
from .scale import Change

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
            Number(family, plain(family, rate), float(steps))
            for rate, steps in zip(RATES, PLAIN[family], strict=True)
            if steps is not None
        ]
        found += [
            Number(family, learned(family, rate, beta), float(steps))
            for rate, row in zip(RATES, LEARNED[family], strict=True)
            for beta, steps in zip(BETAS, row, strict=True)
        ]
    return tuple(found)


PLAN = Plan(
    name="hd",
    title="Hypergradient descent: steps until a training loss of 0.29",
    about="Logistic regression on MNIST: how many steps until the loss of a batch is 0.29, with and without hypergradient "
    "descent, from six initial rates. From the ICLR 2018 poster of Baydin et al.",
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
    smoke={"": Change(seeds=1, epochs={"": 4}, batch_size={"": 64}, data={"mnist": "digits"})},
    silent=(
        "The poster does not say what the loss was measured on. The released code stops at the loss of a single batch, "
        "which is taken here, as are its weight decay (1e-4) and its faults: no bound on the rate, ε before bias correction.",
    ),
    published=_published(),
    source="poster",
)
