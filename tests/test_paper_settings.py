"""The registry's settings for the paper's tasks, against its table and text, copied by hand."""

from __future__ import annotations

from typing import Any

import pytest

from camhd.lab import optimizers

ADAM = {
    "ffnn:100,100": 3e-4,
    "ffnn:1000,100": 1e-3,
    "ffnn:1000,1000": 1e-3,
    "ffnn": 1e-3,
    "lenet5": 1e-3,
    "resnet": 1e-3,
}
FILTERS = {"levels": ("global", "filter"), "weights": (0.8, 0.2)}
SETTINGS: list[tuple[str, str, dict[str, Any]]] = [
    *(("adam", task, {"lr": lr}) for task, lr in ADAM.items()),
    ("adam-cam-hd-2", "ffnn:100,100", {"lr": 3e-4, "hyper_lr": 1e-7, "combine_lr": 0.01, "weights": (0.5, 0.5)}),
    ("adam-cam-hd-2", "ffnn", {"levels": ("global", "layer"), "hyper_lr": 1e-7}),
    ("adam-cam-hd-3", "ffnn", {"levels": ("global", "layer", "parameter"), "weights": (0.4, 0.3, 0.3)}),
    ("adam-hd", "ffnn:100,100", {"lr": 3e-4, "hyper_lr": 1e-9, "faithful": True}),
    ("adam-cam-hd-2", "lenet5", {**FILTERS, "hyper_lr": 1e-8, "combine_lr": 0.03, "decay": 0.002}),
    ("sgd-cam-hd-2", "lenet5", {**FILTERS, "hyper_lr": 1e-3, "combine_lr": 0.03, "decay": 0.002}),
    ("sgdn-cam-hd-2", "lenet5", {**FILTERS, "hyper_lr": 1e-3, "combine_lr": 0.03, "momentum": 0.9, "nesterov": True}),
    ("adam-hd", "lenet5", {"lr": 1e-3, "hyper_lr": 1e-8}),
    ("l4adam", "lenet5", {"lr": 0.15}),
    (
        "adam-cam-hd-2",
        "resnet",
        {**FILTERS, "hyper_lr": 1e-8, "combine_lr": 0.001, "decay": 0.001, "weight_decay": 1e-4},
    ),
    ("sgdn-cam-hd-2", "resnet", {**FILTERS, "lr": 0.1, "hyper_lr": 1e-6, "combine_lr": 0.001, "decay": 0.001}),
    ("adabound-cam-hd-2", "resnet", {**FILTERS, "hyper_lr": 1e-8, "combine_lr": 0.001, "decay": 0.001}),
    ("sgdn", "resnet", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("l4adam", "resnet", {"lr": 0.15, "weight_decay": 5e-4}),
    ("radam", "resnet", {"weight_decay": 1e-4}),
    ("adam-hd", "resnet", {"hyper_lr": 1e-9, "weight_decay": 1e-4}),
]


@pytest.mark.parametrize(("name", "task", "wanted"), SETTINGS)
def test_a_task_has_the_settings_of_the_paper(name: str, task: str, wanted: dict[str, Any]) -> None:
    found = optimizers.find(name).resolve(task=task)
    assert {key: found[key] for key in wanted} == wanted


def test_the_batch_sizes_are_those_of_the_paper() -> None:
    by_task = {task: optimizers.batch_size(task) for task in optimizers.TASKS}
    assert by_task == {
        "ffnn:100,100": 32, "ffnn:1000,100": 64, "ffnn:1000,1000": 128, "ffnn": 64, "lenet5": 256, "resnet": 256,
    }  # fmt: skip
    assert [optimizers.batch_size("lenet5", data) for data in ("mnist", "cifar10", "svhn")] == [256, 256, 128]


def test_the_task_of_a_model_is_found_from_its_name() -> None:
    names = ("ffnn:100,100", "ffnn:1000, 1000", "ffnn:30", "lenet5", "resnet18", "resnet34:0.25", "lstm", "transformer")
    wanted = ["ffnn:100,100", "ffnn:1000,1000", "ffnn", "lenet5", "resnet", "resnet", None, None]
    assert [optimizers.task_of(name) for name in names] == wanted
