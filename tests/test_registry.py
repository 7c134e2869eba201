"""The registry: every name trains on digits, resumes exactly and has the paper's settings; peers where installed."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import warnings
from functools import cache

import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd import report
from camhd.lab import models, optimizers
from camhd.lab.optimizers.entry import Package
from training import assert_same

FAMILIES = ("sgd", "sgdn", "adam", "adamw", "adabound")
NAMES = [
    "sgd", "sgdn", "adam", "adamw", "radam", "nadam",
    "sgd-hd", "sgd-hd-mult", "sgdn-hd", "sgdn-hd-mult", "adam-hd", "adam-hd-mult",
    "l4mom", "l4adam", "adabound", "amsbound",
    *(f"{family}-cam-hd-{levels}" for family in FAMILIES for levels in (2, 3)),
    "prodigy", "dadapt-adam", "schedule-free-adamw", "mechanic-adam", "gdtuo-adam",
]  # fmt: skip


@cache
def digits() -> tuple[Tensor, Tensor]:
    found = importlib.import_module("sklearn.datasets").load_digits()
    return torch.tensor(found.data, dtype=torch.float32) / 16, torch.tensor(found.target)


def network() -> nn.Module:
    torch.manual_seed(0)
    return models.ffnn((32,), inputs=64)


def needs(name: str) -> optimizers.Entry:
    """The entry, if its package is here."""
    entry = optimizers.find(name)
    if not entry.installed:
        pytest.skip(f"the package {entry.package.name} is not installed")
    return entry


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(inputs), targets)


def train(driver: optimizers.Driver, model: nn.Module, first: int, last: int, batch: int = 64) -> None:
    """Steps `first` to `last`, as the lab takes them; the batch of a step depends on its number alone."""
    inputs, targets = digits()
    for t in range(first, last):
        chosen = torch.randint(len(inputs), (batch,), generator=torch.Generator().manual_seed(t))
        driver.zero_grad()
        loss = loss_of(model, inputs[chosen], targets[chosen])
        driver.backward(loss)
        driver.step(loss)


@torch.no_grad()
def evaluate(driver: optimizers.Driver, model: nn.Module) -> float:
    driver.eval()
    found = float(loss_of(model, *digits()))
    driver.train()
    return found


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
            model = models.resnet18(width=1 / 32) if task == "resnet" else models.lenet5()
            built = entry.build(model, back)  # lists in place of tuples
            assert built.optimizer is not None or name == "gdtuo-adam"


def test_options_stand_above_the_paper_and_the_paper_above_defaults() -> None:
    entry = optimizers.find("adam-cam-hd-2")
    assert entry.resolve()["levels"] == ("global", "layer")
    assert entry.resolve(task="lenet5")["levels"] == ("global", "filter")
    assert entry.resolve({"levels": ["layer"], "weights": [1.0]}, "lenet5")["levels"] == ["layer"]
    driver = optimizers.build("adam-cam-hd-2", models.lenet5(), {"lr": 0.5}, task="lenet5")
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
    with pytest.raises(ValueError, match=r"no optimizer 'zzz'; The choices are sgd, .*gdtuo-adam\."):
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


def test_the_options_of_a_peer_are_known_without_its_package() -> None:
    for name, kind in (
        ("prodigy", "Prodigy"),
        ("dadapt-adam", "DAdaptAdam"),
        ("schedule-free-adamw", "AdamWScheduleFree"),
    ):
        entry = needs(name)
        taken = inspect.signature(getattr(importlib.import_module(entry.package.module), kind)).parameters
        assert set(entry.accepts) <= set(taken)


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


# What the peers' drivers do for them


def test_schedule_free_evaluates_at_other_weights_than_it_trains_at() -> None:
    driver = needs("schedule-free-adamw").build(model := network())
    train(driver, model, 0, 5)
    trained = [p.detach().clone() for p in model.parameters()]
    driver.eval()
    assert not all(map(torch.equal, trained, model.parameters()))
    driver.train()
    for got, want in zip(model.parameters(), trained, strict=True):
        torch.testing.assert_close(got.detach(), want)


def test_gdtuo_is_driven_as_its_documentation_says() -> None:
    """Its loop has create_graph=True; without, the numbers are the same."""
    entry = needs("gdtuo-adam")
    gdtuo = importlib.import_module(entry.package.module)
    model, other = network(), network()
    driver = entry.build(model, {"hyper_lr": 1e-3})
    train(driver, model, 0, 20)
    wrapper = gdtuo.ModuleWrapper(other, optimizer=gdtuo.Adam(optimizer=gdtuo.SGD(1e-3)))
    wrapper.initialize()
    inputs, targets = digits()
    for t in range(20):
        chosen = torch.randint(len(inputs), (64,), generator=torch.Generator().manual_seed(t))
        wrapper.begin()
        loss = loss_of(wrapper.module, inputs[chosen], targets[chosen])
        wrapper.zero_grad()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using backward.. with create_graph")
            loss.backward(create_graph=True)
        wrapper.step()
    assert_same(model, other, 0.0)
    assert driver.rate() == float(wrapper.optimizer.parameters["alpha"].detach())
    assert abs(driver.rate() / 1e-3 - 1) > 0.1, "its rate has learned"


def test_the_drivers_of_peers_show_the_rate_that_is_used() -> None:
    for name in ("prodigy", "dadapt-adam"):
        driver = needs(name).build(model := network())
        assert driver.rate() == 1e-6
        train(driver, model, 0, 30)
        (group,) = driver.optimizer.param_groups
        assert driver.rate() == group["d"] * group["lr"] > 1e-6
        assert report.snapshot(driver.optimizer)["lr"]["values"] == [driver.rate()]


def test_mechanic_shows_how_far_its_base_optimizer_is_scaled() -> None:
    driver = needs("mechanic-adam").build(model := network(), {"lr": 0.5})
    assert driver.rate() is None
    train(driver, model, 0, 30)
    scale = float(driver.optimizer.state["_mechanic"]["s"].sum())
    assert driver.rate() == 0.5 * scale > 1e-8
    assert report.snapshot(driver.optimizer)["lr"]["values"] == [driver.rate()]
