"""Optimizers of other packages, driven as their documentation says; skipped where they are not installed."""

from __future__ import annotations

import importlib
import inspect
import warnings

import pytest
import torch
from torch import nn

from camhd import report
from digits import digits, loss_of, needs, network, train
from models import batch, build, snapshot
from training import assert_same


def test_the_options_of_a_peer_are_known_without_its_package() -> None:
    for name, kind in (
        ("prodigy", "Prodigy"),
        ("dadapt-adam", "DAdaptAdam"),
        ("schedule-free-adamw", "AdamWScheduleFree"),
    ):
        entry = needs(name)
        taken = inspect.signature(getattr(importlib.import_module(entry.package.module), kind)).parameters
        assert set(entry.accepts) <= set(taken)


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


def test_gdtuo_trains_recurrent_networks_too() -> None:
    """The recurrent modules of torch keep a second list of their weights, which GDTUO does not know of."""
    entry = needs("gdtuo-adam")
    model = build("gru", torch.float32)
    driver = entry.build(model)
    before = snapshot(model)
    losses = []
    for t in range(40):
        driver.zero_grad()
        inputs, targets = batch(model, t)
        loss = loss_of(model, inputs, targets)
        driver.backward(loss)
        driver.step(loss)
        losses.append(float(loss.detach()))
    change = {name: float((p.detach() - before[name]).abs().max()) for name, p in model.named_parameters()}
    assert min(change.values()) > 0.01, "every tensor has gone on moving, not for one step only"
    assert sum(losses[-5:]) < sum(losses[:5])


def test_gdtuo_refuses_shared_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    with pytest.raises(ValueError, match=r"without shared parameters.*'0\.weight' and '1\.weight' are one"):
        needs("gdtuo-adam").build(model)


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
