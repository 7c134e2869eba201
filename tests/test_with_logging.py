"""Rates where people look at them: TensorBoard, W&B-style dictionaries, MLflow-like modules, and `group["lr"]`."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import torch
from torch import nn

import camhd
from camhd import report
from cases import CLOSE, EXACT, Setup, learning
from models import backward, build, snapshot

pytestmark = pytest.mark.usefixtures("papers_form")

FAST: dict[str, Any] = {"lr": 0.01, "hyper_lr": 1e-3, "combine_lr": 0.1}


def train(model: nn.Module, optimizer: Any, steps: int, scheduler: Any = None) -> None:
    for t in range(1, steps + 1):
        backward(model, t)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


class Run:
    """As a W&B run: `log(dictionary, step=…)`, numbers only, steps that never go back."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def log(self, data: dict[str, float], step: int | None = None) -> None:
        assert step is not None
        assert not self.rows or step > self.rows[-1][0]
        assert all(type(key) is str and type(value) is float for key, value in data.items())
        self.rows.append((step, json.loads(json.dumps(data))))


class Metrics(Run):
    """As `mlflow`, or a Lightning logger: `log_metrics(dictionary, step)`."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        super().log(metrics, step)

    def log(self, *_: Any) -> None:  # type: ignore[override] # it is not to be called at all
        raise AssertionError("log_metrics is the one to call")


@pytest.mark.parametrize("kind", [Run, Metrics])
def test_a_dictionary_of_numbers_goes_to_who_takes_one(kind: type[Run]) -> None:
    model, run = build("mlp"), kind()
    optimizer = camhd.Adam(model, levels=("global", "layer", "unit"), **FAST)
    with report.RateLogger(optimizer, run, every=3, limit=5):
        train(model, optimizer, 7)
    assert [step for step, _ in run.rows] == [3, 6]
    train(model, optimizer, 0)
    flat, rates = report.scalars(optimizer, limit=5), optimizer.rates()
    assert flat["rates/global"] == rates["global"]
    assert flat["rates/layer/fc2"] == rates["layer"]["fc2"]
    assert flat["weights/unit"] == optimizer.combination()["unit"]
    assert flat["rates/unit/max"] == max(float(value.max()) for value in rates["unit"].values())
    assert set(run.rows[-1][1]) == set(flat)
    assert run.rows[-1][1] != run.rows[0][1]


def test_layers_with_weights_of_their_own_are_named() -> None:
    optimizer = camhd.Adam(build("mlp"), combine=camhd.combine.PerLayer())
    assert {"weights/global/fc1", "weights/layer/fc3"} <= set(report.scalars(optimizer))


def test_tensorboard_and_a_dictionary_have_the_same_names(tmp_path: Any) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard", reason="tensorboard is not installed")
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed"
    )
    model = build("mlp")
    optimizer = camhd.Adam(model, **FAST)
    writer = tensorboard.SummaryWriter(str(tmp_path))
    with report.RateLogger(optimizer, writer, every=2):
        train(model, optimizer, 4)
    writer.close()
    read = events.EventAccumulator(str(tmp_path))
    read.Reload()
    flat = report.scalars(optimizer)
    tags = read.Tags()["scalars"]
    assert set(tags) == set(flat)
    for tag in tags:
        assert read.Scalars(tag)[-1].value == pytest.approx(flat[tag], rel=CLOSE)


def test_pythons_own_logger_is_not_taken_for_one() -> None:
    with pytest.raises(TypeError, match=r"'to' must be the path .* or have log_metrics\(\) or log\(\) with a step"):
        report.RateLogger(camhd.Adam(build("mlp")), logging.getLogger("mine"))


# What a param group moves with


@pytest.mark.parametrize("levels", [("global",), ("global", "layer", "unit"), ("layer", "parameter")])
@pytest.mark.parametrize("form", ["normalized", "per-layer softmax", "network"])
def test_what_a_group_moves_with_is_the_mean_of_what_its_scalars_move_with(levels: Any, form: str) -> None:
    """Read off the next step: plain SGD moves each scalar by κ·g, and that step learns nothing, so its κ is today's."""
    model = build("mlp")
    options = learning("sgd", model, decay=0.01, lr_limit=0.005, weight_decay=0.0)
    second = {"lr": 0.004, "weight_decay": 0.0}
    optimizer = Setup("sgd", levels, form, options, second=second).library(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
    train(model, optimizer, 8, scheduler)
    found = report.effective(optimizer)
    names = {id(p): name for name, p in model.named_parameters()}
    optimizer.tree.state.moved = frozenset()  # nothing to look back on: this step learns nothing
    before = snapshot(model)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert found is not None
    for group, mean in zip(optimizer.param_groups, found, strict=True):
        moved = torch.cat([(before[names[id(p)]] - p.detach()).flatten() for p in group["params"]])
        assert mean == pytest.approx(float(moved.mean()), rel=1e-9)
    assert found[0] != pytest.approx(found[1], rel=0.1)


def test_whoever_reads_the_lr_of_a_group_sees_the_schedule() -> None:
    """`group["lr"]` is lr₀·c, as schedulers wrote it; what is learned on top of it is in `effective`."""
    model = build("mlp")
    optimizer = camhd.Adam(model, **FAST)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    train(model, optimizer, 5, scheduler)
    assert scheduler.get_last_lr() == pytest.approx([0.01 * 0.9**5], rel=EXACT)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.9**5, rel=EXACT)
    learned = report.effective(optimizer)
    assert learned is not None
    gamma, rates = optimizer.combination(), optimizer.rates()
    count = {f"fc{i}": sum(p.numel() for p in getattr(model, f"fc{i}").parameters()) for i in (1, 2, 3)}
    layers = sum(rates["layer"][name] * n for name, n in count.items()) / sum(count.values())
    expected = 0.9**5 * (gamma["global"] * rates["global"] + gamma["layer"] * layers)
    assert learned[0] == pytest.approx(expected, rel=1e-10)
    assert learned[0] != pytest.approx(0.01 * 0.9**5, rel=1e-3)


def test_an_optimizer_without_a_tree_moves_with_its_lr() -> None:
    plain = torch.optim.Adam([{"params": [nn.Parameter(torch.ones(2))], "name": "body"}], lr=0.25)
    assert report.effective(plain) == [0.25]
    assert report.scalars(plain) == {"lr/body": 0.25, "rates/lr/body": 0.25}
    assert report.scalars(None) == {}
    assert report.scalars(camhd.baselines.L4Adam(build("mlp"))) == {}  # no step size yet
