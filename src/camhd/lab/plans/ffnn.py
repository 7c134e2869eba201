"""Three feed-forward networks on MNIST: table, learning curves, γ curves."""

from __future__ import annotations

from . import sections
from .claims import Claim, better
from .grid import Grid, Method, Problem
from .plan import Number, Plan
from .scale import Change

SMALL, WIDE, LARGE = "FFNN(100, 100)", "FFNN(1000, 100)", "FFNN(1000, 1000)"
THREE, TWO, HD, ADAM = "Adam-CAM-HD (3-level)", "Adam-CAM-HD (2-level)", "Adam-HD (hp-grad 1e-9)", "Adam"
ALL = (SMALL, WIDE, LARGE)
HD_DEFAULT, HD_FLOOR = "Adam-HD (hp-grad 1e-7)", "Adam-HD (hp-grad 1e-7), not below 0"

TABLE = {
    THREE: ((97.91, 0.07), (97.92, 0.15), (98.29, 0.07)),
    TWO: ((98.12, 0.06), (98.09, 0.06), (98.39, 0.04)),
    HD: ((97.86, 0.07), (97.19, 0.26), (97.83, 0.12)),
    ADAM: ((97.93, 0.09), (97.48, 0.14), (97.49, 0.11)),
}

PLAN = Plan(
    name="ffnn",
    title="Feed-forward networks on MNIST",
    about="Three feed-forward networks on MNIST: Adam, AdaBound, Adam-HD and Adam-CAM-HD with two and three levels.",
    places=("Sec:5.4.3", "tab:3", "Fig:2", "Fig:5"),
    grids=(
        Grid(
            "table",
            problems=(
                Problem(SMALL, "ffnn:100,100", "mnist", epochs=30),
                Problem(WIDE, "ffnn:1000,100", "mnist", epochs=30),
                Problem(LARGE, "ffnn:1000,1000", "mnist", epochs=30),
            ),
            methods=(
                Method(THREE, "adam-cam-hd-3"),
                Method(TWO, "adam-cam-hd-2"),
                Method(HD, "adam-hd", {"hyper_lr": 1e-9}),
                Method(ADAM, "adam"),
                Method("AdaBound", "adabound"),
                Method(HD_DEFAULT, "adam-hd", {"hyper_lr": 1e-7}),
                Method(HD_FLOOR, "adam-hd", {"hyper_lr": 1e-7, "faithful": False}),
            ),
        ),
    ),
    smoke={
        "": Change(
            seeds=3,
            epochs={"": 4},
            models={"ffnn:100,100": "ffnn:32,32", "ffnn:1000,100": "ffnn:64,32", "ffnn:1000,1000": "ffnn:64,64"},
            data={"mnist": "digits"},
        )
    },
    silent=(
        "The paper does not say which row of its hyper-parameter table belongs to which network; the three rows "
        "MLP 1, 2, 3 "
        "are taken in the order of the networks.",
        "The last three rows are not in the paper's table. AdaBound and Adam-HD with 1e-7 are named in its "
        "text; Adam-HD "
        "whose rate is kept at 0 or above is ours, because in the released code (which the paper used) the rate may "
        "become negative.",
    ),
    published=tuple(
        Number(problem, method, mean / 100, error / 100)
        for method, cells in TABLE.items()
        for problem, (mean, error) in zip(ALL, cells, strict=True)
    ),
    sections=(
        sections.table("table", "tab:3", "Summary of test performances with FFNNs"),
        sections.weights("table", ("Fig:5",), "Learning curves of γs for FFNN on MNIST with Adam", (THREE, TWO)),
    ),
    claims=(
        Claim(
            "Both the two-level and three-level Adam-CAM-HD outperform the baseline Adam optimizer with optimized "
            "hyper-parameters significantly.",
            "Sec:5.4.3",
            lambda found: [*better(TWO, ADAM, ALL)(found), *better(THREE, ADAM, ALL)(found)],
        ),
        Claim(
            "For Adam-HD, the default hyper-gradient updating rate (β = 1e-7) is not optimal: 1e-9 is better.",
            "Sec:5.4.3",
            better(HD, HD_DEFAULT, ALL),
        ),
        Claim("Adam-HD with an optimized 1e-9 can outperform Adam.", "Sec:5.4.3", better(HD, ADAM, ALL)),
        Claim("Adam-HD with 1e-9 is still worse than Adam-CAM-HD with β = 1e-7.", "Sec:5.4.3", better(TWO, HD, ALL)),
        Claim("Two levels give the best accuracy of the table, better than three.", "tab:3", better(TWO, THREE, ALL)),
        Claim(
            "Two levels beat one (Adam-HD, 1e-7) once its rate is kept at 0 or above.",
            "",
            better(TWO, HD_FLOOR, ALL),
        ),
        Claim("Global HD whose rate is kept at 0 or above beats Adam.", "", better(HD_FLOOR, ADAM, ALL)),
    ),
)
