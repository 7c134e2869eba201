"""One snapshot of the rates, against `rates()`, against NumPy and against what was put in."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd import report
from cases import CLOSE, EXACT
from models import backward, build
from training import step

pytestmark = pytest.mark.usefixtures("papers_form")

FAST = {"lr": 0.01, "hyper_lr": 1e-3, "combine_lr": 0.1}


def trained(model: nn.Module, levels: tuple[str, ...], steps: int = 4, **options: Any) -> camhd.Adam:
    optimizer = camhd.Adam(model, levels=levels, **{**FAST, **options})
    for t in range(1, steps + 1):
        backward(model, t)
        optimizer.step()
    return optimizer


def by_name(level: str, rates: Any) -> dict[str, float]:
    """The rates of one level as `rates()` gives them, by the names that `groups` should give."""
    if not isinstance(rates, dict):
        return {level: rates}
    found: dict[str, float] = {}
    for name, value in rates.items():
        numbers = value.flatten().tolist() if isinstance(value, Tensor) else [value]
        found |= {name if len(numbers) == 1 else f"{name}[{i}]": number for i, number in enumerate(numbers)}
    return found


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("mlp", ("global", "layer", "unit", "parameter")),
        ("cnn", ("layer", "filter", "parameter")),
        ("lstm", ("global", "layer", "gate", "parameter")),
    ],
)
def test_a_snapshot_has_every_rate_under_its_name(name: str, levels: tuple[str, ...]) -> None:
    optimizer = trained(build(name), levels)
    found, names, rates = (
        report.snapshot(optimizer, limit=1000),
        report.groups(optimizer, limit=1000),
        optimizer.rates(),
    )
    assert list(found) == list(names) == list(rates)
    for level, summary in found.items():
        want = by_name(level, rates[level])
        assert summary["count"] == len(want)
        assert dict(zip(names[level], summary["values"], strict=True)) == want
    assert len({value for summary in found.values() for value in summary["values"]}) > 10, "rates that differ"


def test_a_snapshot_goes_into_json_and_comes_back() -> None:
    optimizer = trained(build("mlp"), ("global", "layer", "parameter"))
    found = report.snapshot(optimizer, limit=10)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert set(found["layer"]) == {"count", "values"}
    assert set(found["parameter"]) == {"count", "quantiles", "histogram"}
    assert report.groups(optimizer, limit=10)["parameter"] is None


@pytest.mark.parametrize("level", ["unit", "parameter"])
def test_beyond_the_limit_there_are_quantiles_and_a_histogram(level: str) -> None:
    optimizer = trained(build("cnn", torch.float64), ("global", level))
    rates = torch.cat([value.flatten() for value in optimizer.rates()[level].values()]).numpy()
    found = report.snapshot(optimizer, limit=3)[level]
    assert found["count"] == len(rates)
    assert found["quantiles"] == pytest.approx(np.quantile(rates, list(report.QUANTILES.values())), rel=EXACT)
    histogram = found["histogram"]
    logs = np.log10(rates)
    assert histogram["low"] <= logs.min() < logs.max() <= histogram["high"] + EXACT
    counts, _ = np.histogram(logs, bins=32, range=(histogram["low"], histogram["high"] + EXACT))
    assert histogram["counts"] == counts.tolist()
    assert histogram["zero"] == 0
    assert sum(count > 0 for count in counts) > 3, "a histogram that shows something"


def with_rates(rates: Tensor, level: str = "unit") -> camhd.SGD:
    """An optimizer with these rates at a level; they are put in through a checkpoint, as a user could."""
    optimizer = camhd.SGD([("fc.weight", nn.Parameter(torch.ones(rates.shape)))], levels=("global", level), lr=1e-3)
    state = optimizer.state_dict()
    state["state"][0][f"rate.{level}"] = rates
    state["state"][0][f"start.{level}"] = torch.full(rates.shape, 1e-3)
    optimizer.load_state_dict(state)
    return optimizer


def test_rates_of_zero_are_counted_apart() -> None:
    rates = torch.cat([torch.zeros(30), torch.logspace(-5, -1, 70)])
    found = report.snapshot(with_rates(rates))["unit"]
    assert found["quantiles"][:3] == [0.0, 0.0, 0.0]
    assert found["histogram"]["zero"] == 30
    assert sum(found["histogram"]["counts"]) == 70
    assert found["histogram"]["low"] == pytest.approx(-5, rel=CLOSE)
    assert found["histogram"]["high"] == pytest.approx(-1, rel=CLOSE)
    assert max(found["histogram"]["counts"]) <= 3, "evenly spread, as they were put in"


def test_rates_that_are_all_alike_or_all_zero_have_a_histogram_too() -> None:
    same = report.snapshot(camhd.SGD(nn.Linear(3, 100), lr=1e-3, levels=("unit",)))["unit"]["histogram"]
    assert same["low"] < -3 < same["high"]
    assert sorted(same["counts"])[-1] == 100
    none = report.snapshot(with_rates(torch.zeros(100)))["unit"]["histogram"]
    assert none == {"low": None, "high": None, "counts": [0] * 32, "zero": 100}


@pytest.mark.parametrize("lies", ["contiguous", "channels_last"])
def test_very_many_rates_are_read_through_a_sample_that_is_true_to_them(lies: str) -> None:
    model = nn.Conv2d(256, 128, 3, bias=False)
    if lies == "channels_last":
        model = model.to(memory_format=torch.channels_last)
    optimizer = camhd.SGD(model, levels=("global", "parameter"), lr=1e-3)
    leaf = optimizer.tree.state.leaves[0].rates
    assert leaf.is_contiguous() == (lies == "contiguous")
    spread = torch.logspace(-6, -2, leaf.numel())[torch.randperm(leaf.numel())].view(leaf.shape)
    leaf.copy_(spread)
    leaf[:, :, 1, 1] = 1e-1  # one of nine places of every filter: a sample in step with the shape would miss the share
    leaf[5, 6, 0, 0], leaf[7, 8, 2, 2] = 1e-9, 5.0  # and two single ones
    found = report.snapshot(optimizer)["parameter"]
    assert found["count"] == leaf.numel() == 294_912
    assert 0.75 * report.SAMPLE < found["sample"] <= report.SAMPLE
    assert found["quantiles"][0] == pytest.approx(1e-9, rel=CLOSE)
    assert found["quantiles"][-1] == 5.0
    true = torch.quantile(leaf.flatten().log10(), torch.tensor(list(report.QUANTILES.values()))[1:-1])
    assert np.log10(found["quantiles"][1:-1]) == pytest.approx(true.numpy(), abs=0.05)
    assert found["quantiles"] == report.snapshot(optimizer)["parameter"]["quantiles"]
    shares = np.array(found["histogram"]["counts"]) / found["sample"]
    top = math.floor((-1 + 9) / (math.log10(5) + 9) * 32)
    assert shares[top] == pytest.approx(1 / 9, abs=0.01)


def test_reading_changes_nothing() -> None:
    results = []
    for watched in (False, True):
        model = build("cnn")
        optimizer = camhd.Adam(model, levels=("global", "filter", "parameter"), **FAST)
        for t in range(1, 8):
            step(optimizer, model, t)
            if watched:
                report.snapshot(optimizer), report.groups(optimizer), report.weights(optimizer), report.rate(optimizer)
        results.append([p.detach().clone() for p in model.parameters()])
    assert all(map(torch.equal, *results))


def test_what_a_scheduler_sets_is_shown_as_the_global_rate_where_it_is_that() -> None:
    optimizer = trained(build("mlp"), ("global", "layer"), schedule="global")
    optimizer.param_groups[0]["lr"] = 0.005
    assert report.snapshot(optimizer)["global"] == {"count": 1, "values": [0.005]}
    assert report.rate(optimizer) == 0.005


def test_weights_are_given_by_level_or_by_layer_and_level() -> None:
    model = build("mlp")
    plain = trained(model, ("global", "layer"))
    assert report.weights(plain) == plain.combination()
    assert set(report.weights(plain)) == {"global", "layer"}
    own = trained(build("mlp"), ("global", "unit"), combine=camhd.combine.PerLayer())
    assert report.weights(own) == own.combination()
    assert set(report.weights(own)) == {"fc1", "fc2", "fc3"}
    assert report.weights(torch.optim.SGD(model.parameters())) == {}


def test_an_optimizer_without_a_tree_shows_its_lr() -> None:
    model = build("mlp")
    two = [{"params": model.fc1.parameters(), "lr": 0.1}, {"params": model.fc2.parameters(), "name": "second"}]
    optimizer = torch.optim.SGD(two, lr=0.02)
    assert report.snapshot(optimizer) == {"lr": {"count": 2, "values": [0.1, 0.02]}}
    assert report.groups(optimizer) == {"lr": ["0", "second"]}
    assert report.rate(optimizer) == pytest.approx(0.06)
    for group in optimizer.param_groups:
        group["d"] = 1e-3  # as in D-Adaptation and Prodigy
    assert report.snapshot(optimizer)["lr"]["values"] == pytest.approx([1e-4, 2e-5])
    assert report.snapshot(None) is None
    assert report.groups(None) == {}
    assert report.rate(None) is None


def test_l4_shows_its_step_size() -> None:
    model = build("mlp")
    optimizer = camhd.baselines.L4Mom(model)
    assert report.snapshot(optimizer) is None
    step(optimizer, model, 1)
    assert report.snapshot(optimizer) == {"lr": {"count": 1, "values": [optimizer.param_groups[0]["step_size"]]}}


def test_the_rate_to_show_is_the_global_one_or_the_mean_of_the_coarsest_level() -> None:
    for levels in (("global", "layer"), ("layer", "unit"), ("parameter",)):
        optimizer = trained(build("mlp"), levels)
        rates = by_name(levels[0], optimizer.rates()[levels[0]]).values()
        assert report.rate(optimizer) == pytest.approx(sum(rates) / len(rates), rel=EXACT)
