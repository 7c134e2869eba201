"""What people rely on in a torch optimizer holds for every baseline."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import camhd
from camhd import baselines
from models import build
from training import assert_same, step

EVERY: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGDHD": lambda params: baselines.SGDHD(params, lr=0.05, hyper_lr=1e-2, weight_decay=1e-3),
    "SGDHD-faithful": lambda params: baselines.SGDHD(params, lr=0.05, hyper_lr=1e-2, momentum=0.9, faithful=True),
    "SGDNHD": lambda params: baselines.SGDNHD(params, lr=0.05, hyper_rule="multiplicative"),
    "AdamHD": lambda params: baselines.AdamHD(params, lr=0.01, hyper_lr=1e-4),
    "AdamHD-faithful": lambda params: baselines.AdamHD(params, lr=0.01, hyper_lr=1e-4, faithful=True),
    "L4Mom": lambda params: baselines.L4Mom(params, weight_decay=1e-3),
    "L4Adam": lambda params: baselines.L4Adam(params),
    "AdaBound": lambda params: baselines.AdaBound(params, lr=0.01),
    "AMSBound": lambda params: baselines.AMSBound(params, lr=0.01),
}
every = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@every
def test_a_saved_state_goes_on_to_the_bit(make: Any, dtype: torch.dtype) -> None:
    def fresh() -> tuple[nn.Module, torch.optim.Optimizer, Any]:
        model = build("mlp", dtype)
        optimizer = make(model)
        return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)

    model, optimizer, scheduler = fresh()
    for t in range(1, 13):
        if t == 7:
            file = io.BytesIO()
            torch.save([x.state_dict() for x in (model, optimizer, scheduler)], file)
            copies = [copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
        step(optimizer, model, t)
        scheduler.step()
    file.seek(0)
    resumed = fresh()
    for part, saved in zip(resumed, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(saved)
    for t in range(7, 13):
        step(resumed[1], resumed[0], t)
        resumed[2].step()
    assert_same(resumed[0], model, 0.0)
    if hasattr(optimizer, "rates"):
        assert resumed[1].rates() == optimizer.rates()
    for net, twin_optimizer in copies:
        lr = twin_optimizer.param_groups[0]["lr"]
        for t in range(7, 13):
            step(twin_optimizer, net, t)
            lr *= 0.95
            twin_optimizer.param_groups[0]["lr"] = lr
        assert_same(net, model, 0.0)


@every
def test_a_module_its_parameters_and_named_parameters_are_the_same(make: Any) -> None:
    results = []
    for form in (lambda m: m, lambda m: m.parameters(), lambda m: m.named_parameters()):
        model = build("mlp")
        optimizer = make(form(model))
        for t in range(1, 6):
            step(optimizer, model, t)
        results.append(model)
    assert_same(results[1], results[0], 0.0)
    assert_same(results[2], results[0], 0.0)


@pytest.mark.parametrize("make", [make for name, make in EVERY.items() if name != "SGDHD-faithful"])
def test_parameters_added_in_mid_training_take_part(make: Any) -> None:
    model = build("mlp")
    optimizer = make(list(model.parameters())[:4])
    for t in range(1, 4):
        step(optimizer, model, t)
    before = model.fc3.weight.detach().clone()
    optimizer.add_param_group({"params": model.fc3.parameters(), "weight_decay": 0.1})
    losses = [step(optimizer, model, t) for t in range(4, 30)]
    assert not torch.equal(model.fc3.weight, before)
    assert losses[-1] < losses[0]


@every
def test_sparse_gradients_are_refused_before_anything_moves(make: Any) -> None:
    embedding = nn.Embedding(5, 3, sparse=True)
    before = embedding.weight.detach().clone()
    optimizer = make(embedding)
    loss = embedding(torch.tensor([1, 2])).square().sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        optimizer.step(lambda: loss)
    assert torch.equal(embedding.weight, before)


def test_they_are_found_from_the_package_itself() -> None:
    assert camhd.baselines is baselines
    for name in ("SGDHD", "SGDNHD", "AdamHD", "L4Mom", "L4Adam", "AdaBound", "AMSBound"):
        assert issubclass(getattr(camhd.baselines, name), torch.optim.Optimizer)
    text = repr(baselines.AdamHD(build("mlp"), faithful=True))
    assert "Adam of the released HD code" in text
    assert "tensor by tensor" in text
