"""LeNet-5 on MNIST, CIFAR-10 and SVHN: table, learning curves, γ curves; and what a larger β changes."""

from __future__ import annotations

from collections.abc import Callable

from ..report import Cell, Column, Section, Table
from ..report.curves import finite
from ..report.text import mean_and_error
from . import sections, variations
from .claims import Check, Claim, Place, better, compare
from .grid import Grid, Method, Problem
from .numbering import said
from .plan import Number, Plan
from .reading import Results
from .scale import Change

MNIST, CIFAR10, SVHN = "MNIST", "CIFAR10", "SVHN"
CAM, HD, L4, ADABOUND, RADAM, ADAM = "Adam-CAM-HD", "Adam-HD", "Adam-L4", "Adabound", "RAdam", "Adam"
ALL = (MNIST, CIFAR10, SVHN)
BY_OPTIMIZER, BY_DECAY = "weights by optimizer", "weights by decay"
SGD_CAM, SGDN_CAM = "SGD-CAM-HD", "SGDN-CAM-HD"
SGD_CAM_LOW, SGDN_CAM_LOW = "SGD-CAM-HD, lr 0.01", "SGDN-CAM-HD, lr 0.01"
TENTH = "MNIST, a tenth"
LARGER = "larger β"
BETAS = (1e-7, 1e-6, 1e-5)  # the paper's is 1e-8
KEPT_BETAS = (1e-8, 1e-7, 1e-6)
HD_FLOOR = "Adam-HD, β 1e-07, not below 0"
ONE, KEPT = "Global level alone", "Adam-CAM-HD without τ"
TIMES, ALIKE = f"{CAM}, β × group size", f"{KEPT}, β 0.0006 / group size"  # 0.0006: the paper's, times all weights
SLOW, FAST = "Adam-CAM-HD, decay 0.001", "Adam-CAM-HD, decay 0.002"

TABLE = {
    CAM: ((98.93, 0.07), (65.55, 0.18), (87.58, 0.37)),
    HD: ((98.83, 0.05), (63.30, 0.66), (86.94, 0.13)),
    L4: ((99.19, 0.05), (63.76, 0.26), (85.44, 0.42)),
    ADABOUND: ((99.11, 0.05), (64.06, 0.36), (87.22, 0.14)),
    RADAM: ((98.94, 0.06), (63.91, 0.34), (87.31, 0.41)),
    ADAM: ((98.89, 0.05), (63.88, 0.45), (86.82, 0.16)),
}

# Where the paper says that γ of the filters ends; it starts at 0.2.
WEIGHTS = {
    (BY_OPTIMIZER, TENTH, SGD_CAM): None,
    (BY_OPTIMIZER, TENTH, SGDN_CAM): 0.388,
    (BY_OPTIMIZER, TENTH, SGD_CAM_LOW): None,
    (BY_OPTIMIZER, TENTH, SGDN_CAM_LOW): None,
    (BY_OPTIMIZER, TENTH, CAM): 0.211,
    (BY_DECAY, CIFAR10, FAST): 0.188,
    (BY_DECAY, SVHN, FAST): 0.195,
    (BY_DECAY, CIFAR10, SLOW): None,
    (BY_DECAY, SVHN, SLOW): None,
}


def _final_weights(found: Results) -> Section:
    rows = []
    for (grid, problem, label), theirs in WEIGHTS.items():
        if found.method(grid, problem, label) is None:
            continue
        ours = finite(sections.final_weight(found, grid, problem, label, "filter"))
        rows.append(
            [
                Cell(f"{problem}, {label}"),
                Cell(str(ours.count), ours.count),
                Cell(mean_and_error(ours), ours.mean),
                Cell("" if theirs is None else f"{theirs:g}", float("nan") if theirs is None else theirs),
            ]
        )
    columns = [
        Column("what", "Data, method", numeric=False),
        Column("n", "n", "Runs."),
        Column("ours", "γ of the filters at the end", "Mean ± standard error over runs; it starts at 0.2."),
        Column("theirs", "paper", "As the section on learning of combination weights says."),
    ]
    note = "Mean ± standard error over runs. The paper gives no standard errors here."
    title = "Where the weight of the filters ends"
    return Section(f"{title}: {said('Sec:5.5.1')}", (), [Table(title, columns, rows, note)])


def _move(found: Results, grid: str, problem: str, label: str) -> list[float]:
    """How far γ of the filters has moved, in every run."""
    return [abs(value - 0.2) for value in sections.final_weight(found, grid, problem, label, "filter")]


def _larger_with_sgd(*labels: str) -> Callable[[Results], list[Check]]:
    def check(found: Results) -> list[Check]:
        adam = sections.final_weight(found, BY_OPTIMIZER, TENTH, CAM, "filter")
        return [
            compare(
                f"γ of the filters: {label} − {CAM}",
                sections.final_weight(found, BY_OPTIMIZER, TENTH, label, "filter"),
                adam,
            )
            for label in labels
        ]

    return check


def _with(beta: float, what: str = CAM) -> Place:
    """Where Adam-CAM-HD, or its global level alone, or it without τ, is with a β."""
    return LARGER, variations.named(what, beta)


def _more_with_less_decay(found: Results) -> list[Check]:
    return [
        compare(
            f"{problem}: |γ − 0.2| with decay 0.001 − with 0.002",
            _move(found, BY_DECAY, problem, SLOW),
            _move(found, BY_DECAY, problem, FAST),
        )
        for problem in (CIFAR10, SVHN)
        if found.method(BY_DECAY, problem, SLOW)
    ]


PLAN = Plan(
    name="lenet",
    title="LeNet-5 on MNIST, CIFAR-10 and SVHN",
    about="LeNet-5 on three data sets with six optimizers, and what the weights γ of the levels do with SGD, "
    "SGDN and Adam.",
    places=("Sec:5.4.4", "tab:4", "Fig:3", "Fig:6", "Fig:7", "Fig:7b"),
    grids=(
        Grid(
            "table",
            problems=(
                Problem(MNIST, "lenet5", "mnist", epochs=30),
                Problem(CIFAR10, "lenet5", "cifar10", epochs=30),
                Problem(SVHN, "lenet5", "svhn", epochs=30),
            ),
            methods=(
                Method(CAM, "adam-cam-hd-2"),
                Method(HD, "adam-hd"),
                Method(L4, "l4adam"),
                Method(ADABOUND, "adabound"),
                Method(RADAM, "radam"),
                Method(ADAM, "adam"),
            ),
        ),
        Grid(
            BY_OPTIMIZER,
            problems=(Problem(TENTH, "lenet5", "mnist:6000", epochs=30),),
            methods=(
                Method(SGD_CAM, "sgd-cam-hd-2", {"lr": 0.1}),
                Method(SGDN_CAM, "sgdn-cam-hd-2", {"lr": 0.1}),
                Method(SGD_CAM_LOW, "sgd-cam-hd-2", {"lr": 0.01}),
                Method(SGDN_CAM_LOW, "sgdn-cam-hd-2", {"lr": 0.01}),
                Method(CAM, "adam-cam-hd-2"),
            ),
            seeds=5,
        ),
        Grid(
            BY_DECAY,
            problems=(
                Problem(CIFAR10, "lenet5", "cifar10", epochs=30),
                Problem(SVHN, "lenet5", "svhn", epochs=30),
            ),
            methods=(
                Method(FAST, "adam-cam-hd-2", {"decay": 0.002}),
                Method(SLOW, "adam-cam-hd-2", {"decay": 0.001}),
            ),
            seeds=5,
        ),
        Grid(
            LARGER,
            problems=(Problem(CIFAR10, "lenet5", "cifar10", epochs=30),),
            methods=(
                *(Method(variations.named(CAM, beta), "adam-cam-hd-2", {"hyper_lr": beta}) for beta in BETAS),
                *(
                    Method(
                        variations.named(ONE, beta),
                        "adam-cam-hd-2",
                        {"hyper_lr": beta, "weights": [1.0, 0.0], "combine_lr": 0.0},
                    )
                    for beta in BETAS
                ),
                Method(HD_FLOOR, "adam-hd", {"hyper_lr": 1e-7, "faithful": False}),
                *(
                    Method(variations.named(KEPT, beta), "adam-cam-hd-2", {"hyper_lr": beta, "decay": None})
                    for beta in KEPT_BETAS
                ),
                Method(TIMES, "adam-cam-hd-2", {"hyper_scale": "size"}),
                Method(ALIKE, "adam-cam-hd-2", {"hyper_scale": "mean", "hyper_lr": 6e-4, "decay": None}),
            ),
            seeds=5,
        ),
    ),
    cpu={
        "": Change(seeds=5, data={"svhn": "svhn:20000"}),
        BY_OPTIMIZER: Change(),
        LARGER: Change(),
    },
    smoke={
        "": Change(
            seeds=2,
            epochs={"": 2},
            batch_size={MNIST: 128, CIFAR10: 64, SVHN: 96, TENTH: 32},
            data={
                "mnist": "digits:32x32",
                "cifar10": "digits:32x32",
                "svhn": "digits:32x32",
                "mnist:6000": "digits:32x32",
            },
        )
    },
    silent=(
        "The paper does not say how many epochs LeNet-5 was trained; 30 are taken, as for its feed-forward networks.",
        "Its table of hyper-parameters has no learning rate of SGD and SGDN for LeNet-5; its section on the weights "
        "says 1e-1, which is taken; and 1e-2 as well, because it depends on the rate which way the weights move.",
        "Larger β than the paper's are ours: to see what CAM-HD does where its rates move.",
    ),
    published=tuple(
        Number(problem, method, mean / 100, error / 100)
        for method, cells in TABLE.items()
        for problem, (mean, error) in zip(ALL, cells, strict=True)
    ),
    sections=(
        sections.table("table", "tab:4", "Summary of test performances with LeNet-5"),
        _final_weights,
        sections.weights(BY_OPTIMIZER, ("Fig:6",), "Learning curves of γs for LeNet-5 with SGD, SGDN and Adam"),
        sections.weights(BY_DECAY, ("Fig:7", "Fig:7b"), "Learning curves of γs for LeNet-5 with Adam-CAM-HD"),
        variations.section(
            "What a larger β changes",
            CIFAR10,
            (variations.BETA,),
            (
                (("table", ADAM), ("–",)),
                (("table", HD), ("1e-08",)),
                ((LARGER, HD_FLOOR), ("1e-07",)),
                *((_with(beta, ONE), (f"{beta:g}",)) for beta in BETAS),
                (("table", CAM), ("1e-08",)),
                *((_with(beta), (f"{beta:g}",)) for beta in BETAS),
                ((LARGER, TIMES), ("1e-08 × group size",)),
                *((_with(beta, KEPT), (f"{beta:g}",)) for beta in KEPT_BETAS),
                ((LARGER, ALIKE), ("0.0006 / group size",)),
            ),
            "Not in the paper: with its β the rates hardly move (the table after this one), so larger ones are tried. "
            "Global level alone: Adam-CAM-HD with the weight of the filters held at 0, which is Adam-HD with its decay "
            "τ. Without τ: the paper's exp(−0.002 t) takes all rates back to the initial one, and is left out. Times "
            "the group size: the paper's formula for β, to the letter. Divided by it: a β with which the global rate "
            "moves as with 1e-8, and the rates of filters as far as it, while their weight γ lets them.",
        ),
        sections.movement("table", LARGER),
    ),
    claims=(
        Claim(
            "The test accuracy of Adam-CAM-HD outperforms other optimizers on both CIFAR10 and SVHN.",
            "Sec:5.4.4",
            better(CAM, (HD, L4, ADABOUND, RADAM, ADAM), (CIFAR10, SVHN)),
        ),
        Claim(
            "It gives significantly better results than Adam and Adam-HD for all the three datasets.",
            "Sec:5.4.4",
            better(CAM, (ADAM, HD), ALL),
        ),
        Claim("On MNIST, L4 could perform better in a later stage.", "Sec:5.4.4", better(L4, CAM, (MNIST,))),
        Claim(
            "The recommended hyper-parameters for L4 could fail in some cases (SVHN): Adam is better there.",
            "Sec:5.4.4",
            better(ADAM, L4, (SVHN,)),
        ),
        Claim(
            "RAdam and Adabound outperform the baseline Adam method on MNIST.",
            "Sec:5.4.4",
            lambda found: [*better(RADAM, ADAM, (MNIST,))(found), *better(ADABOUND, ADAM, (MNIST,))(found)],
        ),
        Claim(
            "Adam-HD does not show a significant advantage over Adam.", "Sec:5.4.4", better(HD, ADAM, ALL, absent=True)
        ),
        Claim(
            "The change is much more significant towards larger filter-wise adaptation with SGD-CAM-HD or SGDN-CAM-HD "
            "than with Adam-CAM-HD.",
            "Sec:5.5.1",
            _larger_with_sgd(SGD_CAM, SGDN_CAM),
        ),
        Claim(
            "The same, if SGD and SGDN start at 0.01 instead of 0.1.",
            "Sec:5.5.1",
            _larger_with_sgd(SGD_CAM_LOW, SGDN_CAM_LOW),
        ),
        Claim(
            "A smaller τ = 0.001 can result in a more significant change of combination weights.",
            "Sec:5.5.1",
            _more_with_less_decay,
        ),
        Claim(
            "With β ten, a hundred and a thousand times the paper's, Adam-CAM-HD is better than Adam on CIFAR10.",
            "",
            variations.better(CIFAR10, *((_with(beta), ("table", ADAM)) for beta in BETAS)),
        ),
        Claim(
            "With such β it is better than its own global level alone.",
            "",
            variations.better(CIFAR10, *((_with(beta), _with(beta, ONE)) for beta in BETAS)),
        ),
        Claim(
            "Without τ, two levels are better than Adam-HD with the same β, 1e-8 and 1e-7.",
            "",
            variations.better(CIFAR10, (_with(1e-8, KEPT), ("table", HD)), (_with(1e-7, KEPT), (LARGER, HD_FLOOR))),
        ),
        Claim(
            "With β times the group size, or without τ and with rates of filters that can move as far as the global "
            "one, it is better than Adam on CIFAR10.",
            "",
            variations.better(CIFAR10, *(((LARGER, one), ("table", ADAM)) for one in (TIMES, ALIKE))),
        ),
        Claim(
            "Where the rates of filters can move as far as the global one, two levels are better than Adam-HD.",
            "",
            variations.better(CIFAR10, ((LARGER, ALIKE), ("table", HD))),
        ),
    ),
)
