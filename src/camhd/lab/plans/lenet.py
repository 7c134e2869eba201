"""LeNet-5 on MNIST, CIFAR-10 and SVHN: table, learning curves, γ curves."""

from __future__ import annotations

from .grid import Grid, Method, Problem
from .plan import Number, Plan
from .scale import Change

MNIST, CIFAR10, SVHN = "MNIST", "CIFAR10", "SVHN"
CAM, HD, L4, ADABOUND, RADAM, ADAM = "Adam-CAM-HD", "Adam-HD", "Adam-L4", "Adabound", "RAdam", "Adam"
TENTH = "MNIST, a tenth"
SLOW, FAST = "Adam-CAM-HD, decay 0.001", "Adam-CAM-HD, decay 0.002"

TABLE = {
    CAM: ((98.93, 0.07), (65.55, 0.18), (87.58, 0.37)),
    HD: ((98.83, 0.05), (63.30, 0.66), (86.94, 0.13)),
    L4: ((99.19, 0.05), (63.76, 0.26), (85.44, 0.42)),
    ADABOUND: ((99.11, 0.05), (64.06, 0.36), (87.22, 0.14)),
    RADAM: ((98.94, 0.06), (63.91, 0.34), (87.31, 0.41)),
    ADAM: ((98.89, 0.05), (63.88, 0.45), (86.82, 0.16)),
}

PLAN = Plan(
    name="lenet",
    title="LeNet-5 on MNIST, CIFAR-10 and SVHN",
    about="LeNet-5 on three data sets with six optimizers, and what the weights γ of the levels do with SGD, SGDN and Adam.",
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
            "weights by optimizer",
            problems=(Problem(TENTH, "lenet5", "mnist:6000", epochs=30),),
            methods=(
                Method("SGD-CAM-HD", "sgd-cam-hd-2", {"lr": 0.1}),
                Method("SGDN-CAM-HD", "sgdn-cam-hd-2", {"lr": 0.1}),
                Method(CAM, "adam-cam-hd-2"),
            ),
            seeds=5,
        ),
        Grid(
            "weights by decay",
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
    ),
    cpu={
        "": Change(seeds=5, data={"svhn": "svhn:20000"}),
        "weights by optimizer": Change(),
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
        "Its table of hyper-parameters has no learning rate of SGD and SGDN for LeNet-5; its section on the weights says "
        "1e-1, which is taken.",
    ),
    published=tuple(
        Number(problem, method, mean / 100, error / 100)
        for method, cells in TABLE.items()
        for problem, (mean, error) in zip((MNIST, CIFAR10, SVHN), cells, strict=True)
    ),
)
