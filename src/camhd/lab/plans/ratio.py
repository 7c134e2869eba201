"""Test accuracy against the initial combination ratio, with γ fixed and γ trained."""

from __future__ import annotations

from dataclasses import replace

from .grid import Grid, Method, Problem
from .plan import Plan
from .scale import Change

RATIOS = tuple(number / 10 for number in range(11))  # of the global level
FIXED, TRAINED = "γ fixed", "γ trained"
FFNN, LENET, LENET_CIFAR, ADAM18, SGDN18 = (
    "FFNN on MNIST",
    "LeNet-5 on MNIST",
    "LeNet-5 on CIFAR10",
    "ResNet-18 on CIFAR10, Adam",
    "ResNet-18 on CIFAR10, SGDN",
)
RESNET = {"epochs": 10, "augment": "crop-flip-cutout"}


def label(ratio: float, how: str) -> str:
    """What a cell is called."""
    return f"{how}, ratio {ratio:g}"


def _methods(base: str, levels: tuple[str, str], ratios: tuple[float, ...] = RATIOS) -> tuple[Method, ...]:
    found = [Method("baseline", base)]
    for how, options in ((FIXED, {"combine_lr": 0.0}), (TRAINED, {})):
        found += [
            Method(
                label(ratio, how),
                f"{base}-cam-hd-2",
                {"levels": list(levels), "weights": [ratio, round(1 - ratio, 6)], **options},
            )
            for ratio in ratios
        ]
    return tuple(found)


LAYERS, FILTERS = ("global", "layer"), ("global", "filter")
GRIDS = (
    Grid("ffnn", (Problem(FFNN, "ffnn:100,100,100", "mnist", epochs=30),), _methods("adam", LAYERS)),
    Grid("lenet", (Problem(LENET, "lenet5", "mnist", epochs=10),), _methods("adam", FILTERS)),
    Grid("lenet-cifar10", (Problem(LENET_CIFAR, "lenet5", "cifar10", epochs=10),), _methods("adam", FILTERS)),
    Grid("resnet-adam", (Problem(ADAM18, "resnet18", "cifar10", **RESNET),), _methods("adam", FILTERS)),
    Grid("resnet-sgdn", (Problem(SGDN18, "resnet18", "cifar10", **RESNET),), _methods("sgdn", FILTERS)),
)


def kept(*ratios: float) -> tuple[str, ...]:
    """The labels of some of the ratios."""
    return ("baseline", *(label(ratio, how) for how in (FIXED, TRAINED) for ratio in ratios))


SIX = kept(0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SMALL = Change(
    seeds=3, epochs={"": 5}, models={"resnet18": "resnet18:0.125"}, data={"cifar10": "cifar10:10000"}, methods=SIX
)
TINY = Change(
    seeds=2,
    epochs={"": 2},
    batch_size={LENET: 128, LENET_CIFAR: 64, ADAM18: 256, SGDN18: 256},
    data={"mnist": "digits:32x32", "cifar10": "digits:32x32"},
    methods=kept(0.0, 0.5, 1.0),
)
TINY_RESNET = replace(
    TINY, epochs={"": 1}, data={"cifar10": "digits"}, models={"resnet18": "resnet18:0.0625"}, augment=False
)

PLAN = Plan(
    name="ratio",
    title="Initial combination ratio and test accuracy",
    about="Two levels, from the ratio 0 (all layers or filters) to 1 (all global), with the weights γ fixed and trained.",
    places=("Sec:5.4.2", "Fig:1"),
    grids=GRIDS,
    cpu={
        "": Change(seeds=5),
        "resnet-adam": SMALL,
        "resnet-sgdn": SMALL,
    },
    smoke={
        "": TINY,
        "ffnn": Change(
            seeds=2,
            epochs={"": 4},
            models={"ffnn:100,100,100": "ffnn:32,32,32"},
            data={"mnist": "digits"},
            methods=kept(0.0, 0.2, 0.5, 0.8, 1.0),
        ),
        "resnet-adam": TINY_RESNET,
        "resnet-sgdn": TINY_RESNET,
    },
    silent=(
        "The paper does not say on which of its two data sets LeNet-5 was trained here; it is done on both.",
        "The ratios are read off its figure's description, 'the ratio of global-level adaptive learning rates': 0, 0.1, …, 1.",
        "Its table of hyper-parameters has no row for the network (100, 100, 100); that of the two larger networks is taken.",
    ),
)
