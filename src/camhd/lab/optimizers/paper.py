"""The paper's hyper-parameters, by task and optimizer.

From Table 2 of the paper's source, "Hyperparameter Settings for Experiments" (`tab:2`), and from what its sections on
the experiments say beside it. Where the paper is silent, nothing is said here, and an optimizer's own default holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of Table 2. The other columns are None where the table has a dash."""

    batch_size: int
    adam_lr: float
    adam_hyper_lr: float
    combine_lr: float  # the column "CAM-HD-lr"
    sgd_lr: float | None = None
    sgd_hyper_lr: float | None = None
    batch_sizes: Mapping[str, int] = field(default_factory=dict)  # by data set, where they differ


TABLE = {
    "ffnn:100,100": Row(32, 3e-4, 1e-7, 0.01),  # MLP 1
    "ffnn:1000,100": Row(64, 1e-3, 1e-7, 0.01),  # MLP 2
    "ffnn:1000,1000": Row(128, 1e-3, 1e-7, 0.01),  # MLP 3
    "lenet5": Row(256, 1e-3, 1e-8, 0.03, None, 1e-3, {"svhn": 128}),
    "resnet": Row(256, 1e-3, 1e-8, 0.001, 0.1, 1e-6),  # ResNet-18 and ResNet-34
}
TABLE["ffnn"] = TABLE["ffnn:1000,100"]  # any other hidden sizes: the rows that the two larger networks share
TASKS = tuple(TABLE)

# The sections on FFNNs, LeNet-5 and ResNets. Two levels: γ = 0.5 each for the feed-forward networks, 0.8 global and 0.2
# filters for the convolutional ones. Three levels: only for the feed-forward networks, with single parameters
# at the leaves.
FFNN_2 = {"levels": ("global", "layer"), "weights": (0.5, 0.5)}
FFNN_3 = {"levels": ("global", "layer", "parameter"), "weights": (0.4, 0.3, 0.3)}
FILTERS_2 = {"levels": ("global", "filter"), "weights": (0.8, 0.2)}
FILTERS_3 = {"levels": ("global", "layer", "filter")}  # not in the paper; its other settings, and equal weights

# Adam-HD was run with its authors' code. 1e-9 is the β that the paper found best for FFNNs and ResNets; for LeNet-5 it
# took the β of Adam-CAM-HD.
RELEASED = {"faithful": True}
# The ResNets: 1e-4 for the Adam family but 5e-4 for L4; SGDN's is that of the code the paper follows.
ADAM_DECAY, L4_DECAY, SGD_DECAY = ({"weight_decay": value} for value in (1e-4, 5e-4, 5e-4))
MOMENTUM = {"momentum": 0.9}


def settings(task: str) -> dict[str, Settings]:
    """The paper's settings for a task, by the optimizer's name in the registry."""
    row = TABLE[task]
    return {"lenet5": _lenet, "resnet": _resnet}.get(task, _ffnn)(row)


def batch_size(task: str, data: str = "") -> int:
    """The paper's batch size for a task, which for LeNet-5 depends on the data set.

    >>> batch_size("lenet5"), batch_size("lenet5", "svhn"), batch_size("lenet5", "svhn:20000")
    (256, 128, 128)
    """
    row = TABLE[task]
    return row.batch_sizes.get(data.partition(":")[0], row.batch_size)


def task_of(model: str) -> str | None:
    """The task of a model by its name in the lab; None if the paper has none like it.

    >>> task_of("ffnn:100,100"), task_of("ffnn:30"), task_of("resnet34"), task_of("lstm")
    ('ffnn:100,100', 'ffnn', 'resnet', None)
    """
    spelled = model.replace(" ", "")
    family = (
        spelled.partition(":")[0].rstrip("0123456789") if spelled.startswith("resnet") else spelled.partition(":")[0]
    )
    return next((task for task in (spelled, family) if task in TABLE), None)


def _ffnn(row: Row) -> dict[str, Settings]:
    adam = {"lr": row.adam_lr}
    learned = {**adam, "hyper_lr": row.adam_hyper_lr, "combine_lr": row.combine_lr}
    return {
        "adam": adam,
        "adam-hd": {**adam, "hyper_lr": 1e-9, **RELEASED},
        "adam-cam-hd-2": {**learned, **FFNN_2},
        "adam-cam-hd-3": {**learned, **FFNN_3},
    }


def _lenet(row: Row) -> dict[str, Settings]:
    adam, decay = {"lr": row.adam_lr}, {"decay": 0.002, "combine_lr": row.combine_lr}
    learned = {**adam, **decay, "hyper_lr": row.adam_hyper_lr}
    sgd = {**decay, "hyper_lr": row.sgd_hyper_lr}  # Table 2 has no lr for SGD and SGDN here
    return {
        "adam": adam,
        "adam-hd": {**adam, "hyper_lr": row.adam_hyper_lr, **RELEASED},
        "adam-cam-hd-2": {**learned, **FILTERS_2},
        "adam-cam-hd-3": {**learned, **FILTERS_3},
        "sgd-cam-hd-2": {**sgd, **FILTERS_2},
        "sgd-cam-hd-3": {**sgd, **FILTERS_3},
        "sgdn-cam-hd-2": {**sgd, **FILTERS_2},
        "sgdn-cam-hd-3": {**sgd, **FILTERS_3},
    }


def _resnet(row: Row) -> dict[str, Settings]:
    adam, sgdn = {"lr": row.adam_lr, **ADAM_DECAY}, {"lr": row.sgd_lr, **MOMENTUM, **SGD_DECAY}
    decay = {"decay": 0.001, "combine_lr": row.combine_lr}
    learned, learned_sgdn = {**decay, "hyper_lr": row.adam_hyper_lr}, {**decay, "hyper_lr": row.sgd_hyper_lr}
    return {
        "adam": adam,
        "adam-hd": {**adam, "hyper_lr": 1e-9, **RELEASED},
        "adam-cam-hd-2": {**adam, **learned, **FILTERS_2},
        "adam-cam-hd-3": {**adam, **learned, **FILTERS_3},
        "adabound": ADAM_DECAY,
        "adabound-cam-hd-2": {**ADAM_DECAY, **learned, **FILTERS_2},
        "adabound-cam-hd-3": {**ADAM_DECAY, **learned, **FILTERS_3},
        "radam": ADAM_DECAY,
        "l4adam": L4_DECAY,
        "sgdn": sgdn,
        "sgdn-cam-hd-2": {**sgdn, **learned_sgdn, **FILTERS_2},
        "sgdn-cam-hd-3": {**sgdn, **learned_sgdn, **FILTERS_3},
    }
