"""Mixed precision, gradient clipping and accumulation: the hypergradient sees what the step sees."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from cases import CLOSE, EXACT, Setup, learning
from compare import assert_same_state
from models import backward, build, draw, twin

pytestmark = pytest.mark.usefixtures("papers_form")

FAST: dict[str, Any] = {"hyper_lr": 1e-4, "combine_lr": 0.1}
OPTIMIZERS = {
    "default": lambda model: camhd.Adam(model, hyper_rule="long_horizon"),
    "SGD": lambda model: camhd.SGD(model, lr=0.05, momentum=0.9, levels=("global", "layer", "unit"), **FAST),
    "Adam": lambda model: camhd.Adam(model, lr=0.01, levels=("global", "layer", "parameter"), **FAST),
    "AdamW": lambda model: camhd.AdamW(model, lr=0.01, weight_decay=0.1, **FAST),
    "wrapped": lambda model: camhd.wrap(torch.optim.RMSprop(model.parameters(), lr=0.01), model, **FAST),
}
every_optimizer = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)


def data(t: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    return draw((16, 4), dtype, t)


def loss_of(model: nn.Module, t: int) -> Tensor:
    x, target = data(t, next(model.parameters()).dtype)
    return nn.functional.cross_entropy(model(x).float(), target)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


# autocast


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_under_autocast_the_literal_algorithm_sees_the_same_gradients(dtype: torch.dtype) -> None:
    """Gradients arrive in float32; handed to the literal algorithm in float64, they give the same rates."""
    model = build("mlp", torch.float32)
    other = twin(model).double()
    setup = Setup("adam", ("global", "layer", "unit"), "normalized", learning("adam", twin(model)))
    optimizer, reference = setup.library(model), setup.reference(other)
    for t in range(1, 31):
        optimizer.zero_grad()
        x, target = draw((16, 4), torch.float32, t)
        with torch.autocast("cpu", dtype):
            output = model(x)
            assert output.dtype == dtype
            loss = nn.functional.cross_entropy(output.float(), target)
        loss.backward()
        for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
            assert ours.grad is not None
            theirs.grad = ours.grad.double()
        optimizer.step()
        reference.step()
    for level in ("global", "layer"):
        assert optimizer.rates()[level] == pytest.approx(reference.rates()[level], rel=CLOSE)
    assert optimizer.rates()["global"] != pytest.approx(0.01, rel=1e-3)


# GradScaler


def scaled_step(
    model: nn.Module, optimizer: Any, scaler: torch.amp.GradScaler, t: int, clip: bool = False, spoil: bool = False
) -> None:
    optimizer.zero_grad()
    scaler.scale(loss_of(model, t)).backward()
    if spoil:
        model[0].weight.grad[1, 2] = torch.inf
    if clip:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("clip", [False, True])
@every_optimizer
def test_a_scaled_loss_gives_the_steps_of_the_loss_itself(make: Any, clip: bool) -> None:
    """The scale is a power of two, so that it leaves no trace in float32."""
    plain, scaled = network(), network()
    one, other = make(plain), make(scaled)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=4)
    for t in range(12):
        scaled_step(plain, one, torch.amp.GradScaler("cpu", enabled=False), t, clip)
        scaled_step(scaled, other, scaler, t, clip)
    assert scaler.get_scale() == 2.0**15
    assert same(plain.state_dict(), scaled.state_dict())
    assert same(one.state_dict(), other.state_dict())


@pytest.mark.parametrize("clip", [False, True])
@every_optimizer
def test_a_step_skipped_on_overflow_leaves_rates_weights_and_direction_alone(make: Any, clip: bool) -> None:
    """What is saved before and after it is the same, and later steps are those of a run that never saw the batch."""
    model, other = network(), network()
    optimizer, unspoilt = make(model), make(other)
    scalers = [torch.amp.GradScaler("cpu", init_scale=2.0**12) for _ in range(2)]
    for t in range(10):
        spoil = t in (0, 4, 5)
        before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        scale = scalers[0].get_scale()
        scaled_step(model, optimizer, scalers[0], t, clip, spoil)
        if spoil:
            assert same((model.state_dict(), optimizer.state_dict()), before)
            assert scalers[0].get_scale() == scale / 2
        else:
            scaled_step(other, unspoilt, scalers[1], t, clip)
    assert same(model.state_dict(), other.state_dict())
    assert same(optimizer.state_dict(), unspoilt.state_dict())
    assert optimizer.skipped == 0
    assert optimizer.rates()["global"] != pytest.approx(optimizer.param_groups[0]["lr0"], rel=1e-5)


def test_float16_with_autocast_and_a_scale_that_overflows_by_itself() -> None:
    model = network()
    optimizer = OPTIMIZERS["Adam"](model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=1000)
    losses, skipped = [], 0
    for t in range(40):
        optimizer.zero_grad()
        x, target = data(t)
        with torch.autocast("cpu", torch.float16):
            output = model(x)
        loss = nn.functional.cross_entropy(output.float(), target)
        scaler.scale(loss).backward()
        rates, scale = optimizer.rates()["layer"], scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < scale:
            skipped += 1
            assert optimizer.rates()["layer"] == rates
        losses.append(float(loss.detach()))
    assert 5 < skipped < 30, "2³⁰ overflows in float16, and halving ends that"
    assert optimizer.tree.state.step == 40 - skipped
    assert sum(losses[-5:]) < sum(losses[:5])


# Pure half precision


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_model_in_half_precision_learns_its_rates_in_float32(dtype: torch.dtype) -> None:
    """Plain SGD keeps the gradient itself: the change of the rate is the product of two half-precision gradients."""
    model = network(dtype)
    optimizer = camhd.SGD(model, lr=0.05, levels=("global",), hyper_lr=1e-2)
    last: list[Tensor] = []
    for t in range(12):
        optimizer.zero_grad()
        loss_of(model, t).backward()
        grads = [p.grad.double() for p in model.parameters() if p.grad is not None]
        rate = optimizer.rates()["global"]
        optimizer.step()
        if last:
            product = sum(float((g * d).sum()) for g, d in zip(grads, last, strict=True))
            assert optimizer.rates()["global"] - rate == pytest.approx(1e-2 * product, rel=1e-2, abs=1e-8)
        last = grads
    assert optimizer.tree.state.levels[0].rates.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_optimizer
def test_a_model_in_half_precision_trains_and_goes_on_from_a_checkpoint(make: Any, dtype: torch.dtype) -> None:
    model = network(dtype)
    optimizer = make(model)
    losses = []
    for t in range(30):
        if t == 15:
            saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        optimizer.zero_grad()
        loss = loss_of(model, t)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < sum(losses[:5])
    second = network(dtype)
    resumed = make(second)
    second.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    for t in range(15, 30):
        resumed.zero_grad()
        loss_of(second, t).backward()
        resumed.step()
    assert same(second.state_dict(), model.state_dict())
    assert resumed.rates()["global"] == optimizer.rates()["global"]


# Clipping and accumulation


@pytest.mark.parametrize("how", ["norm", "value"])
@pytest.mark.parametrize("rule", ["sgd", "nesterov", "adam", "adamw"])
def test_the_hypergradient_sees_the_clipped_gradient(rule: str, how: str) -> None:
    """The literal algorithm with gradients that were clipped outside of it."""
    model = build("mlp")
    other = twin(model)
    setup = Setup(rule, ("global", "layer", "unit"), "normalized", learning(rule, model))
    optimizer, reference = setup.library(model), setup.reference(other)
    for t in range(1, 21):
        for one in (model, other):
            backward(one, t)
        if how == "norm":
            norm = torch.cat([p.grad.flatten() for p in other.parameters() if p.grad is not None]).norm()
            for p in other.parameters():
                assert p.grad is not None
                p.grad = p.grad * min(1.0, 0.1 / (float(norm) + 1e-6))
            assert norm > 0.1, "nothing to clip"
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        else:
            for p in other.parameters():
                assert p.grad is not None
                p.grad = p.grad.clamp(-0.01, 0.01)
            nn.utils.clip_grad_value_(model.parameters(), 0.01)
        optimizer.step()
        reference.step()
    assert_same_state(optimizer, model, reference, other)


def test_the_rate_after_clipping_by_hand() -> None:
    p = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    optimizer = camhd.SGD([p], lr=0.1, levels=("global",), hyper_lr=1e-2)
    for g in ((3.0, 4.0), (0.0, 10.0)):
        p.grad = torch.tensor(g, dtype=torch.float64)
        nn.utils.clip_grad_norm_([p], 1.0)
        optimizer.step()
    assert optimizer.rates()["global"] == pytest.approx(0.1 + 1e-2 * 0.8, rel=CLOSE)  # (0.6, 0.8)·(0, 1)


@every_optimizer
@pytest.mark.parametrize("k", [2, 8])
def test_accumulation_over_k_batches_is_the_big_batch(make: Any, k: int) -> None:
    whole, parts = network(torch.float64), network(torch.float64)
    one, other = make(whole), make(parts)
    for t in range(15):
        x, target = draw((16, 4), torch.float64, t)
        one.zero_grad()
        nn.functional.cross_entropy(whole(x), target).backward()
        one.step()
        other.zero_grad()
        for some, answers in zip(x.chunk(k), target.chunk(k), strict=True):
            (nn.functional.cross_entropy(parts(some), answers) / k).backward()
        other.step()
    for p, q in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=EXACT)
    assert one.rates()["global"] == pytest.approx(other.rates()["global"], rel=1e-10)
    assert one.rates()["layer"] == pytest.approx(other.rates()["layer"], rel=1e-10)
    assert one.rates()["global"] != pytest.approx(one.param_groups[0]["lr0"], rel=1e-5)
