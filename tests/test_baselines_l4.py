"""L4 against its formulas, written down here once more."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from camhd import baselines
from cases import EXACT
from models import build, snapshot, twin
from training import assert_same, loss_of, step


class LiteralL4:
    def __init__(self, params: list[Tensor], adam: bool, decay: float):
        self.params, self.adam, self.decay = params, adam, decay
        self.lowest: float | None = None
        self.t, self.m, self.v = 0, [0.0] * len(params), [0.0] * len(params)

    def step(self, loss: float) -> float:
        self.t += 1
        directions, dot = [], 0.0
        for i, p in enumerate(self.params):
            g = p.grad + self.decay * p.data
            self.m[i] = 0.9 * self.m[i] + 0.1 * g
            self.v[i] = 0.999 * self.v[i] + 0.001 * g * g
            mean = self.m[i] / (1 - 0.9**self.t)
            v = mean / ((self.v[i] / (1 - 0.999**self.t)).sqrt() + 1e-4) if self.adam else mean
            dot += float((mean * v).sum())
            directions.append(v)
        self.lowest = 0.75 * loss if self.lowest is None else min(self.lowest, loss)
        eta = 0.15 * (loss - 0.9 * self.lowest) / (dot + 1e-12)
        for p, v in zip(self.params, directions, strict=True):
            p.data -= eta * v
        self.lowest *= 1.001
        return eta


L4 = {"mom": (baselines.L4Mom, False), "adam": (baselines.L4Adam, True)}
every_l4 = pytest.mark.parametrize("kind", [baselines.L4Mom, baselines.L4Adam])


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("case", L4.values(), ids=L4)
def test_l4_is_its_formulas(case: Any, decay: float) -> None:
    kind, adam = case
    model = build("cnn")
    other = twin(model)
    params = list(model.parameters())
    ours = kind([{"params": params[:3]}, {"params": params[3:]}], weight_decay=decay)  # sums run over both groups
    reference = LiteralL4(list(other.parameters()), adam, decay)
    losses = []
    for t in range(1, 31):
        losses.append(step(ours, model, t))
        other.zero_grad()
        loss = loss_of(other, t)
        loss.backward()
        eta = reference.step(float(loss.detach()))
        assert [group["step_size"] for group in ours.param_groups] == pytest.approx([eta] * 2, rel=EXACT)
    assert_same(model, other)
    assert losses[-1] < losses[0]


@every_l4
def test_l4_takes_its_loss_from_a_closure_or_as_it_is(kind: type[baselines.L4]) -> None:
    model = build("mlp")
    other = twin(model)
    by_loss, by_closure = kind(model), kind(other.parameters())

    def closure() -> Tensor:
        by_closure.zero_grad()
        loss = loss_of(other, t)
        loss.backward()
        return loss

    for t in range(1, 6):
        value = step(by_loss, model, t)
        assert float(by_closure.step(closure).detach()) == value
    assert_same(model, other, 0.0)
    with pytest.raises(TypeError, match=r"needs the loss: call step\(closure\) or step\(loss=loss\)"):
        by_loss.step()
    with pytest.raises(TypeError, match="one of the two"):
        by_loss.step(closure, loss=1.0)


@every_l4
def test_l4_skips_a_step_that_would_make_weights_nan(kind: type[baselines.L4]) -> None:
    model = build("mlp")
    other = twin(model)
    optimizer, untroubled = kind(model), kind(other)
    for t in range(1, 9):
        step(untroubled, other, t)
        before = snapshot(model)
        for bad in (math.nan, math.inf, -math.inf):
            optimizer.zero_grad()
            loss_of(model, t).backward()
            optimizer.step(loss=bad)
            optimizer.step(loss=torch.tensor(bad, requires_grad=True))
            model.fc2.weight.grad[0, 0] = bad
            optimizer.step(loss=1.0)
        assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
        step(optimizer, model, t)
    assert optimizer.skipped == 8 * 9
    assert_same(model, other, 0.0)  # nothing of the skipped steps is left in the averages
    with pytest.raises(ValueError, match=r"loss of 0 or more, .*got -0\.5; add a constant"):
        optimizer.step(loss=-0.5)
    with pytest.raises(ValueError, match="as one number, got a tensor of shape"):
        optimizer.step(loss=torch.ones(2))


@every_l4
def test_l4_stands_still_where_there_is_no_slope_and_no_loss(kind: type[baselines.L4]) -> None:
    model = build("mlp")
    before = snapshot(model)
    optimizer = kind(model)
    for loss in (1.0, 0.5, 0.0):
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimizer.step(loss=loss)
    optimizer.zero_grad()
    optimizer.step(loss=0.0)  # without any gradient
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_what_l4_refuses() -> None:
    weight = nn.Parameter(torch.ones(2))
    for options in ({"lr": -1.0}, {"weight_decay": -0.1}, {"decay": 1.0}):
        with pytest.raises(ValueError, match="Invalid"):
            baselines.L4Mom([weight], **options)
    with pytest.raises(ValueError, match="Invalid epsilon"):
        baselines.L4Adam([weight], eps=-1.0)
    optimizer = baselines.L4Mom([weight])
    with pytest.raises(TypeError, match=r"more than half precision, got torch\.float16"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2, dtype=torch.float16))]})
    assert len(optimizer.param_groups) == 1
