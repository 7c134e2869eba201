"""Final accuracy against the initial learning rate, from 1e-6 to 1."""

from __future__ import annotations

from ..report import Section
from .claims import Check, Claim, compare
from .grid import Grid, Method, Problem
from .plan import Plan
from .reading import Results
from .scale import Change
from .sections import along

RATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
FFNN, LENET = "FFNN(100, 100) on MNIST", "LeNet-5 on MNIST"
ADAM = {"Adam": "adam", "Adam-HD": "adam-hd", "Adam-CAM-HD, 2 levels": "adam-cam-hd-2"}
SGD = {"SGD": "sgd", "SGD-HD": "sgd-hd", "SGD-CAM-HD, 2 levels": "sgd-cam-hd-2"}
FAMILIES = {**ADAM, **SGD}


def label(name: str, rate: float) -> str:
    """What a cell is called."""
    return f"{name}, lr {rate:g}"


def _methods() -> tuple[Method, ...]:
    """A floor at 0 for HD: without it most runs from large rates only tell that the rate became negative."""
    floor = {"adam-hd": {"faithful": False, "hyper_lr": 1e-7}}
    return tuple(
        Method(label(name, rate), optimizer, {"lr": rate, **floor.get(optimizer, {})})
        for name, optimizer in FAMILIES.items()
        for rate in RATES
    )


def _finals(found: Results, problem: str, name: str) -> list[tuple[float, list[float]]]:
    points = [(rate, found.finals("rates", problem, label(name, rate))) for rate in RATES]
    return [(rate, values) for rate, values in points if values]


def _charts(found: Results) -> Section:
    charts = [
        along(
            f"{problem.title}, {title}",
            "initial learning rate",
            {name: _finals(found, problem.title, name) for name in names},
            log_x=True,
        )
        for problem in found.grid("rates").problems
        for title, names in (("Adam", ADAM), ("SGD", SGD))
    ]
    text = "Test accuracy after the last epoch: mean over runs, with a band of one standard error to either side."
    return Section("Final accuracy against the initial learning rate", (text,), (), charts)


def _mean_over_rates(found: Results, problem: str, name: str) -> list[float]:
    """For every seed, the mean accuracy over all rates: what one gets who does not tune."""
    columns = [values for _, values in _finals(found, problem, name)]
    return [sum(row) / len(row) for row in zip(*columns, strict=False)] if len(columns) == len(RATES) else []


def _less_sensitive(found: Results, first: str, second: str) -> list[Check]:
    return [
        compare(
            f"{problem.title}: mean over all rates, {first} − {second}",
            _mean_over_rates(found, problem.title, first),
            _mean_over_rates(found, problem.title, second),
            percent=True,
        )
        for problem in found.grid("rates").problems
    ]


PLAN = Plan(
    name="robustness",
    title="Final accuracy against the initial learning rate",
    about="How much the initial learning rate matters, with and without learned rates. The paper has no such "
    "experiment.",
    places=("Sec:5.4.1",),
    grids=(
        Grid(
            "rates",
            problems=(Problem(FFNN, "ffnn:100,100", "mnist", epochs=30), Problem(LENET, "lenet5", "mnist", epochs=10)),
            methods=_methods(),
        ),
    ),
    cpu={"": Change(seeds=3, epochs={FFNN: 10, LENET: 5})},
    smoke={
        "": Change(
            seeds=2,
            epochs={FFNN: 3},
            models={"ffnn:100,100": "ffnn:32,32"},
            data={"mnist": "digits"},
            problems=(FFNN,),
        )
    },
    silent=(
        "Adam-HD and SGD-HD are kept at rates of 0 or above. β is that of the paper's tables, or of the "
        "library's defaults "
        "where they have none, and the same for all initial rates.",
    ),
    sections=(_charts,),
    claims=(
        Claim(
            "HD is much less sensitive to the choice of the initial learning rate than the same algorithm without.",
            "README of Baydin et al.",
            lambda found: [*_less_sensitive(found, "Adam-HD", "Adam"), *_less_sensitive(found, "SGD-HD", "SGD")],
        ),
        Claim(
            "That hyper-parameters are tuned does not mean that the performance is sensitive to each of them: "
            "with CAM-HD, "
            "the initial rate matters less than without.",
            "Sec:5.4.1",
            lambda found: [
                *_less_sensitive(found, "Adam-CAM-HD, 2 levels", "Adam"),
                *_less_sensitive(found, "SGD-CAM-HD, 2 levels", "SGD"),
            ],
        ),
    ),
    curves=False,
)
