"""The registry: every name trains on digits and resumes exactly; peers where they are installed."""

from __future__ import annotations

import io
import json

import pytest
import torch
from torch import nn

import camhd
from camhd.lab import models as networks
from camhd.lab import optimizers
from camhd.lab.optimizers.entry import Package
from digits import evaluate, needs, network, train
from training import assert_same

FAMILIES = ("sgd", "sgdn", "adam", "adamw", "adabound")
NAMES = [
    "sgd", "sgdn", "adam", "adamw", "radam", "nadam",
    "sgd-hd", "sgd-hd-mult", "sgdn-hd", "sgdn-hd-mult", "adam-hd", "adam-hd-mult",
    "l4mom", "l4adam", "adabound", "amsbound",
    *(f"{family}-cam-hd-{levels}" for family in FAMILIES for levels in (2, 3)),
    "adam-default", "sgdn-default", "adam-default-1", "adam-default-3",
    "prodigy", "dadapt-adam", "schedule-free-adamw", "mechanic-adam", "gdtuo-adam",
]  # fmt: skip


every = pytest.mark.parametrize("name", NAMES)


def test_the_names_are_these() -> None:
    assert optimizers.names() == NAMES
    assert [entry.name for entry in optimizers.entries()] == NAMES
    labels = [entry.label for entry in optimizers.entries()]
    assert len(set(labels)) == len(labels)
    assert optimizers.find("adam-cam-hd-2").label == "Adam-CAM-HD, 2 levels"


@every
def test_every_name_trains_on_digits(name: str) -> None:
    entry, model = needs(name), network()
    driver = entry.build(model, {"lr": 0.01} if name == "radam" else None)  # whose first steps are very small
    before = evaluate(driver, model)
    train(driver, model, 0, 150)
    assert evaluate(driver, model) < 0.6 * before
    assert isinstance(driver.rate(), float)
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("first", ["model", "optimizer"])
@every
def test_every_name_resumes_exactly(name: str, first: str) -> None:
    entry, model = needs(name), network()
    driver = entry.build(model)
    train(driver, model, 0, 12)
    evaluate(driver, model)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": driver.state_dict()}, file)
    train(driver, model, 12, 24)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = network()
    other = entry.build(resumed)
    for part in ("model", "optimizer") if first == "model" else ("optimizer", "model"):
        (resumed if part == "model" else other).load_state_dict(saved[part])
    train(other, resumed, 12, 24)
    assert_same(resumed, model, 0.0)
    assert evaluate(other, resumed) == evaluate(driver, model)
    assert other.rate() == driver.rate()


@every
def test_a_state_from_before_the_first_step_resumes_too(name: str) -> None:
    entry, model, resumed = needs(name), network(), network()
    driver, other = entry.build(model), entry.build(resumed)
    other.load_state_dict(driver.state_dict())
    train(driver, model, 0, 3)
    train(other, resumed, 0, 3)
    assert_same(resumed, model, 0.0)


@every
def test_options_are_plain_data_and_go_through_json(name: str) -> None:
    entry = optimizers.find(name)
    for task in (None, *optimizers.TASKS):
        resolved = entry.resolve(task=task)
        assert resolved["lr"] > 0
        back = json.loads(json.dumps(resolved))
        if entry.installed:
            model = networks.resnet18(width=1 / 32) if task == "resnet" else networks.lenet5()
            built = entry.build(model, back)  # lists in place of tuples
            assert built.optimizer is not None or name == "gdtuo-adam"


def test_options_stand_above_the_paper_and_the_paper_above_defaults() -> None:
    entry = optimizers.find("adam-cam-hd-2")
    assert entry.resolve()["levels"] == ("global", "layer")
    assert entry.resolve(task="lenet5")["levels"] == ("global", "filter")
    assert entry.resolve({"levels": ["layer"], "weights": [1.0]}, "lenet5")["levels"] == ["layer"]
    driver = optimizers.build("adam-cam-hd-2", networks.lenet5(), {"lr": 0.5}, task="lenet5")
    assert list(driver.optimizer.rates()) == ["global", "filter"]
    assert driver.optimizer.rates()["global"] == 0.5
    assert driver.optimizer.combination() == pytest.approx({"global": 0.8, "filter": 0.2})
    faithful = optimizers.build("adam-hd", network(), {"faithful": True})
    assert "released" in repr(faithful.optimizer)


# What is refused


def test_an_unknown_name_lists_the_choices_and_the_nearest_one() -> None:
    with pytest.raises(
        ValueError, match=r"no optimizer 'adam-camhd-2'; did you mean 'adam-cam-hd-2'\?.*sgd, sgdn, adam,"
    ):
        optimizers.find("adam-camhd-2")
    with pytest.raises(ValueError, match=r"no optimizer 'zzz'\. The choices are sgd, .*gdtuo-adam\."):
        optimizers.build("zzz", network())


def test_an_unknown_option_or_task_is_refused() -> None:
    model = network()
    with pytest.raises(ValueError, match=r"'adam' has no option 'beta'; did you mean 'betas'\?"):
        optimizers.build("adam", model, {"beta": 1})
    with pytest.raises(ValueError, match=r"'adam-cam-hd-2' has no option 'hyper_rate'"):
        optimizers.build("adam-cam-hd-2", model, {"hyper_rate": 1})
    with pytest.raises(ValueError, match=r"'prodigy' has no option 'zzz'; its options are lr, betas"):
        optimizers.find("prodigy").resolve({"zzz": 1})
    with pytest.raises(ValueError, match=r"'task' must be one of 'ffnn:100,100', .*got 'alexnet'; .*task_of"):
        optimizers.build("adam", model, task="alexnet")


def test_a_missing_package_is_named_with_its_remedy() -> None:
    entry = optimizers.Entry("x", "X", lambda module, model: None, ("lr",), package=Package("no-such", "no_such.inner"))
    assert not entry.installed
    with pytest.raises(
        ImportError, match=r"'x' needs the package 'no-such'.*pip install 'camhd\[peers\]', or pip install"
    ):
        entry.build(network())


# Your own


def test_an_optimizer_of_your_own_is_one_function() -> None:
    entry = optimizers.from_function(lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-3), "rms")
    model = network()
    driver = entry.build(model)
    before = evaluate(driver, model)
    train(driver, model, 0, 100)
    assert evaluate(driver, model) < 0.6 * before
    assert (entry.name, entry.label, entry.installed, driver.rate()) == ("rms", "rms", True, 1e-3)


def test_a_function_of_your_own_may_have_options_and_need_the_loss() -> None:
    entry = optimizers.from_function(
        lambda model, fraction=0.15: camhd.baselines.L4Mom(model, lr=fraction), "mine", "Mine"
    )
    driver = entry.build(network(), {"fraction": 0.1})
    train(driver, network(), 0, 1)
    assert driver.optimizer.param_groups[0]["lr"] == 0.1
    with pytest.raises(ValueError, match="'mine' has no option 'lr'; its options are fraction"):
        entry.build(network(), {"lr": 0.1})
    with pytest.raises(TypeError, match=r"of optimizer 'own' must return a torch\.optim\.Optimizer.*got Linear"):
        optimizers.from_function(lambda model: nn.Linear(2, 2)).build(network())
    with pytest.raises(TypeError, match="'function' must make an optimizer from a model"):
        optimizers.from_function("adam")
