"""Every scheduler of torch.optim.lr_scheduler, warm-up from 0, and averaged weights (SWA, EMA)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler, swa_utils

import camhd
from cases import EXACT, Setup, learning
from compare import assert_alike, assert_same_state
from models import backward, batch, build, twin

pytestmark = pytest.mark.usefixtures("papers_form")

STEPS = 30
LR = 0.01


def chained(optimizer: Any) -> Any:
    parts = [lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=9), lr_scheduler.ExponentialLR(optimizer, 0.97)]
    return lr_scheduler.ChainedScheduler(parts, optimizer)


def sequential(optimizer: Any) -> Any:
    parts = [lr_scheduler.LinearLR(optimizer, 0.1, total_iters=9), lr_scheduler.CosineAnnealingLR(optimizer, 15)]
    return lr_scheduler.SequentialLR(optimizer, parts, milestones=[9])


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda t: min(1.0, t / 10)),  # warm-up from 0
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda t: 0.95 if t % 2 else 1.02),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 8, gamma=0.3),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [10, 20], gamma=0.1),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.25, total_iters=12),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=20),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.93),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, total_iters=25, power=2.0),  # and then 0
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 20, eta_min=1e-4),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 7, T_mult=2),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 1e-3, 0.02, step_size_up=6, mode="triangular2"),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.03, total_steps=STEPS + 1),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1, threshold=0.5),
    "ChainedScheduler": chained,
    "SequentialLR": sequential,
    "SWALR": lambda o: swa_utils.SWALR(o, swa_lr=0.004, anneal_epochs=10),
}
BASES = {"LRScheduler", "_LRScheduler"}
OPTIONS: dict[str, dict[str, Any]] = {"SGD": {"momentum": 0.9}, "Adam": {}}


def advance(scheduler: Any, t: int) -> None:
    if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
        scheduler.step(1.0 + (t % 4))
    else:
        scheduler.step()


def test_the_table_has_every_scheduler_of_torch() -> None:
    kinds = [kind for kind in vars(lr_scheduler).values() if isinstance(kind, type)]
    found = {kind.__name__ for kind in kinds if issubclass(kind, lr_scheduler.LRScheduler)} - BASES
    assert found
    assert found <= set(SCHEDULERS), "torch has a new scheduler"


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_without_learning_it_does_to_ours_what_it_does_to_torchs(name: str, kind: str) -> None:
    ours, theirs = build("mlp"), build("mlp")
    still = {"hyper_lr": 0.0, "combine_lr": 0.0}
    optimizers = [
        getattr(camhd, kind)(ours, lr=LR, **OPTIONS[kind], **still),
        getattr(torch.optim, kind)(theirs.parameters(), lr=LR, **OPTIONS[kind]),
    ]
    schedulers = [SCHEDULERS[name](optimizer) for optimizer in optimizers]
    for t in range(1, STEPS + 1):
        for model, optimizer, scheduler in zip((ours, theirs), optimizers, schedulers, strict=True):
            backward(model, t)
            optimizer.step()
            advance(scheduler, t)
        assert optimizers[0].param_groups[0]["lr"] == optimizers[1].param_groups[0]["lr"]
    assert_alike(dict(ours.named_parameters()), dict(theirs.named_parameters()))


@pytest.mark.parametrize("rule", ["momentum", "adam"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_with_learning_it_is_a_factor_of_the_step_and_of_the_hypergradient(name: str, rule: str) -> None:
    """The literal algorithm of the specification is handed the scheduler's lr, step by step."""
    model = build("mlp")
    other = twin(model)
    setup = Setup(rule, ("global", "layer", "unit"), "normalized", learning(rule, model))
    optimizer, reference = setup.library(model), setup.reference(other)
    scheduler = SCHEDULERS[name](optimizer)
    for t in range(1, STEPS + 1):
        group = optimizer.param_groups[0]
        reference.param_groups[0].update({key: group[key] for key in ("lr", "momentum", "betas") if key in group})
        for one in (model, other):
            backward(one, t)
        optimizer.step()
        reference.step()
        advance(scheduler, t)
    assert_same_state(optimizer, model, reference, other)
    assert optimizer.rates()["global"] != pytest.approx(LR, rel=1e-4)


@pytest.mark.parametrize("name", [name for name in SCHEDULERS if name not in ("LambdaLR", "MultiplicativeLR")])
def test_optimizer_and_scheduler_go_on_from_a_checkpoint(name: str) -> None:
    """What a scheduler saves and what the optimizer saves fit together, at any step of it."""
    model = build("mlp")
    optimizer = camhd.SGD(model, lr=LR, momentum=0.9, hyper_lr=1e-4)
    scheduler = SCHEDULERS[name](optimizer)
    second = build("mlp")
    for t in range(1, STEPS + 1):
        backward(model, t)
        optimizer.step()
        advance(scheduler, t)
        if t == 13:
            saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), scheduler.state_dict()))
    resumed = camhd.SGD(second, lr=LR, momentum=0.9, hyper_lr=1e-4)
    again = SCHEDULERS[name](resumed)
    for part, state in zip((second, resumed, again), saved, strict=True):
        part.load_state_dict(state)
    for t in range(14, STEPS + 1):
        backward(second, t)
        resumed.step()
        advance(again, t)
    assert all(map(torch.equal, model.parameters(), second.parameters()))
    assert optimizer.rates() == resumed.rates()


def test_warm_up_from_zero_by_hand() -> None:
    """With c = 0, ½, 1: a step that does not move teaches nothing, half a step teaches half."""
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = camhd.SGD([p], lr=0.1, levels=("global",), hyper_lr=1e-3)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda t: min(1.0, t / 2))
    seen = []
    for _ in range(4):
        p.grad = torch.full_like(p, 2.0)
        before = p.item()
        optimizer.step()
        scheduler.step()
        seen.append((before - p.item(), optimizer.rates()["global"]))
    rates = [0.1, 0.1, 0.1 + 1e-3 * 0.5 * 4, 0.1 + 1e-3 * 1.5 * 4]
    assert [rate for _, rate in seen] == pytest.approx(rates, rel=EXACT)
    assert [moved for moved, _ in seen] == pytest.approx([0, 0.5 * 0.1 * 2, rates[2] * 2, rates[3] * 2], rel=EXACT)


# Averaged weights


@pytest.mark.parametrize("average", ["mean", "ema"])
def test_averaged_weights_are_averages_of_the_weights_the_optimizer_made(average: str) -> None:
    model = build("cnn")
    optimizer = camhd.SGD(model, lr=0.05, momentum=0.9, hyper_lr=1e-4)
    scheduler = swa_utils.SWALR(optimizer, swa_lr=0.02, anneal_epochs=5)
    ema = swa_utils.get_ema_multi_avg_fn(0.9) if average == "ema" else None
    averaged = swa_utils.AveragedModel(model, multi_avg_fn=ema)
    seen = []
    for t in range(1, 13):
        backward(model, t)
        optimizer.step()
        averaged.update_parameters(model)
        scheduler.step()
        seen.append([p.detach().clone() for p in model.parameters()])
    weights = [0.9**11, *(0.1 * 0.9 ** (11 - t) for t in range(1, 12))] if ema else [1 / 12] * 12
    for i, p in enumerate(averaged.module.parameters()):
        expected = sum(w * values[i] for w, values in zip(weights, seen, strict=True))
        torch.testing.assert_close(p.detach(), expected, rtol=1e-10, atol=EXACT)
    assert optimizer.rates()["global"] != 0.05


def test_averaging_and_its_batch_statistics_leave_the_optimizer_alone() -> None:
    ends = []
    for with_average in (False, True):
        model = build("cnn")
        optimizer = camhd.AdamW(model, lr=0.01, hyper_lr=1e-5)
        averaged = swa_utils.AveragedModel(model)
        for t in range(1, 9):
            backward(model, t)
            optimizer.step()
            if with_average:
                averaged.update_parameters(model)
        if with_average:
            before = averaged.module.stem.norm.running_mean.clone()
            swa_utils.update_bn([batch(model, t)[0] for t in range(1, 5)], averaged)
            assert not torch.equal(averaged.module.stem.norm.running_mean, before)
        backward(model, 9)
        optimizer.step()
        ends.append((optimizer.rates(), [p.detach().clone() for p in model.parameters()]))
    assert ends[0][0] == ends[1][0]
    assert all(map(torch.equal, ends[0][1], ends[1][1]))
