"""AdaBound against its formulas and against the package that brought it."""

from __future__ import annotations

import math

import pytest
import torch

from camhd import baselines
from cases import CLOSE, EXACT
from models import build, twin
from training import assert_same, loss_of, step

BOUNDS = {"lr": 0.01, "final_lr": 0.2, "gamma": 0.01, "weight_decay": 0.01}


@pytest.mark.parametrize("backend", ["foreach", "auto"])
@pytest.mark.parametrize("maximum", [False, True], ids=["AdaBound", "AMSBound"])
def test_adabound_is_its_formulas(maximum: bool, backend: str) -> None:
    model = build("cnn")
    other = twin(model)
    optimizer = (baselines.AMSBound if maximum else baselines.AdaBound)(model, backend=backend, **BOUNDS)
    moments = [[torch.zeros_like(p) for _ in range(3)] for p in other.parameters()]
    clipped = set()
    for t in range(1, 41):
        lr = BOUNDS["lr"] * (0.1 if t > 30 else 1.0)  # a scheduler's drop
        optimizer.param_groups[0]["lr"] = lr
        step(optimizer, model, t)
        other.zero_grad()
        loss_of(other, t).backward()
        for p, (m, v, top) in zip(other.parameters(), moments, strict=True):
            g = p.grad + 0.01 * p.data
            m.copy_(0.9 * m + 0.1 * g)
            v.copy_(0.999 * v + 0.001 * g * g)
            top.copy_(torch.maximum(top, v))
            s = lr * math.sqrt(1 - 0.999**t) / (1 - 0.9**t) / ((top if maximum else v).sqrt() + 1e-8)
            final = 0.2 * lr / 0.01
            low, high = final * (1 - 1 / (0.01 * t + 1)), final * (1 + 1 / (0.01 * t))
            clipped |= {"low"} if (s < low).any() else set()
            clipped |= {"high"} if (s > high).any() else set()
            clipped |= {"neither"} if ((s > low) & (s < high)).any() else set()
            p.data -= s.clamp(low, high) * m
    assert clipped == {"low", "high", "neither"}
    assert_same(model, other)
    assert optimizer.rates()["global"] == 0.01, "its rate does not learn"


@pytest.mark.filterwarnings("ignore:This overload of add")  # the package is older than torch's present signatures
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("maximum", [False, True], ids=["AdaBound", "AMSBound"])
def test_adabound_is_the_package_of_its_authors(maximum: bool, dtype: torch.dtype) -> None:
    package = pytest.importorskip("adabound", reason="the package adabound, which is the oracle, is not installed")
    model = build("cnn", dtype)
    other = twin(model)
    ours = (baselines.AMSBound if maximum else baselines.AdaBound)(model, **BOUNDS)
    theirs = package.AdaBound(other.parameters(), amsbound=maximum, **BOUNDS)
    schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 30, 0.1) for optimizer in (ours, theirs)]
    for t in range(1, 41):
        step(ours, model, t)
        step(theirs, other, t)
        for scheduler in schedulers:
            scheduler.step()
    assert_same(model, other, EXACT if dtype == torch.float64 else CLOSE)
