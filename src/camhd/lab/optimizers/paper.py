"""The paper's hyper-parameters, by task and optimizer.

From Table 2 of the paper's source, "Hyperparameter Settings for Experiments" (`tab:2`), and from what its sections on
the experiments say beside it. Where the paper is silent, nothing is said here, and an optimizer's own default holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ... import presets

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A row of Table 2 beside what `camhd.presets` has of it. `sgd_lr` is None where the table has a dash."""

    network: str  # in `camhd.presets`
    batch_size: int
    adam_lr: float
    sgd_lr: float | None = None
    batch_sizes: Mapping[str, int] = field(default_factory=dict)  # by data set, where they differ


TABLE = {
    "ffnn:100,100": Row("ffnn", 32, 3e-4),  # MLP 1
    "ffnn:1000,100": Row("ffnn", 64, 1e-3),  # MLP 2
    "ffnn:1000,1000": Row("ffnn", 128, 1e-3),  # MLP 3
    "lenet5": Row("lenet5", 256, 1e-3, None, {"svhn": 128}),
    "resnet": Row("resnet", 256, 1e-3, 0.1),  # ResNet-18 and ResNet-34
}
TABLE["ffnn"] = TABLE["ffnn:1000,100"]  # any other hidden sizes: the rows that the two larger networks share
TASKS = tuple(TABLE)

# Three levels were run only for the feed-forward networks, with single parameters at the leaves.
FFNN_3 = ("global", "layer", "parameter")
FILTERS_3 = ("global", "layer", "filter")  # not in the paper; its other settings, and equal weights

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


def in_its_form(kind: Callable[..., torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """A camhd class in the paper's form, whatever it does by default.

    The form is no option of a run: it is the same in all of them, and the name of a run, which its options make up,
    should not change with what a class does where it is told nothing.
    """
    return lambda model, **options: kind(model, **{**presets.FORM, **options})


def _learned(base: str, row: Row, levels: Sequence[str] | None = None) -> Settings:
    found = presets.paper(base, row.network, levels)
    return {name: value for name, value in found.items() if name not in presets.FORM}


def _ffnn(row: Row) -> dict[str, Settings]:
    adam = {"lr": row.adam_lr}
    return {
        "adam": adam,
        "adam-hd": {**adam, "hyper_lr": 1e-9, **RELEASED},
        "adam-cam-hd-2": {**adam, **_learned("adam", row)},
        "adam-cam-hd-3": {**adam, **_learned("adam", row, FFNN_3)},
    }


def _lenet(row: Row) -> dict[str, Settings]:
    adam, learned = {"lr": row.adam_lr}, _learned("adam", row)
    return {
        "adam": adam,
        "adam-hd": {**adam, "hyper_lr": learned["hyper_lr"], **RELEASED},
        "adam-cam-hd-2": {**adam, **learned},
        "adam-cam-hd-3": {**adam, **_learned("adam", row, FILTERS_3)},
        # Table 2 has no lr for SGD and SGDN here
        "sgd-cam-hd-2": _learned("sgd", row),
        "sgd-cam-hd-3": _learned("sgd", row, FILTERS_3),
        "sgdn-cam-hd-2": _learned("sgdn", row),
        "sgdn-cam-hd-3": _learned("sgdn", row, FILTERS_3),
    }


def _resnet(row: Row) -> dict[str, Settings]:
    adam, sgdn = {"lr": row.adam_lr, **ADAM_DECAY}, {"lr": row.sgd_lr, **MOMENTUM, **SGD_DECAY}
    return {
        "adam": adam,
        "adam-hd": {**adam, "hyper_lr": 1e-9, **RELEASED},
        "adam-cam-hd-2": {**adam, **_learned("adam", row)},
        "adam-cam-hd-3": {**adam, **_learned("adam", row, FILTERS_3)},
        "adabound": ADAM_DECAY,
        "adabound-cam-hd-2": {**ADAM_DECAY, **_learned("adabound", row)},
        "adabound-cam-hd-3": {**ADAM_DECAY, **_learned("adabound", row, FILTERS_3)},
        "radam": ADAM_DECAY,
        "l4adam": L4_DECAY,
        "sgdn": sgdn,
        "sgdn-cam-hd-2": {**sgdn, **_learned("sgdn", row)},
        "sgdn-cam-hd-3": {**sgdn, **_learned("sgdn", row, FILTERS_3)},
    }
