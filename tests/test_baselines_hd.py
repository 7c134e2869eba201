"""Hypergradient descent: as it was released against its formulas, as it should be against autograd."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from camhd import baselines
from cases import EXACT, HYPER
from compare import close
from models import build, snapshot, twin
from training import assert_same, loss_of, step, swaying_loss

# Hypergradient descent as it was released, transcribed from its description: h = g_t·∂u_{t−1}/∂α, α ← α − βh, then the
# step; no clamp; Adam's α changed inside the loop over tensors; ε before bias correction; L2 in g before h.


class ReleasedSGD:
    def __init__(self, params: list[Tensor], lr: float, beta: float, decay: float = 0, mu: float = 0, nesterov=False):
        self.params, self.lr, self.beta, self.decay, self.mu, self.nesterov = params, lr, beta, decay, mu, nesterov
        self.buffer: Tensor | None = None
        self.last: Tensor | None = None

    def step(self) -> None:
        g = torch.cat([(p.grad + self.decay * p.data).flatten() for p in self.params])
        if self.last is not None:
            self.lr += self.beta * float(g @ self.last)
        d = g
        if self.mu:
            self.buffer = g if self.buffer is None else self.mu * self.buffer + g
            d = g + self.mu * self.buffer if self.nesterov else self.buffer
        self.last, at = d, 0
        for p in self.params:
            p.data -= self.lr * d[at : at + p.numel()].view_as(p)
            at += p.numel()


class ReleasedAdam:
    def __init__(self, groups: list[dict[str, Any]], beta: float, eps: float, decay: float):
        self.groups, self.beta, self.eps, self.decay = groups, beta, eps, decay
        self.state: dict[Tensor, list[Any]] = {p: [0, 0.0, 0.0] for group in groups for p in group["params"]}

    def step(self) -> None:
        for group in self.groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                t, m, v = self.state[p]
                g = p.grad + self.decay * p.data
                if t > 0:
                    d = m / (v.sqrt() + self.eps) * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
                    group["lr"] += self.beta * float((g * d).sum())
                t, m, v = t + 1, 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                self.state[p] = [t, m, v]
                p.data -= group["lr"] * math.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (v.sqrt() + self.eps)


FAITHFUL_SGD = {
    "plain": (baselines.SGDHD, 3e-3, {}, {}),
    "momentum": (baselines.SGDHD, 1e-3, {"momentum": 0.9}, {"mu": 0.9}),
    "nesterov": (baselines.SGDNHD, 1e-3, {}, {"mu": 0.9, "nesterov": True}),
    "decay": (baselines.SGDHD, 3e-3, {"weight_decay": 0.1}, {"decay": 0.1}),
    "nesterov-decay": (baselines.SGDNHD, 1e-3, {"weight_decay": 0.1}, {"mu": 0.9, "nesterov": True, "decay": 0.1}),
}


@pytest.mark.parametrize("case", FAITHFUL_SGD.values(), ids=FAITHFUL_SGD)
def test_faithful_sgd_hd_is_the_released_code(case: Any) -> None:
    kind, beta, options, theirs = case
    model = build("cnn")
    other = twin(model)
    ours = kind(model, lr=0.01, hyper_lr=beta, faithful=True, **options)
    reference = ReleasedSGD(list(other.parameters()), 0.01, beta, **theirs)
    rates = []
    for t in range(1, 31):
        step(ours, model, t, swaying_loss)
        other.zero_grad()
        swaying_loss(other, t).backward()
        reference.step()
        rates.append(reference.lr)
        assert ours.rates()["global"] == pytest.approx(reference.lr, rel=EXACT, abs=0.01 * EXACT)
    assert_same(model, other)
    assert max(rates) > 0.012, "the rate must have moved"
    assert min(rates) < 0, "and it must have become negative, which is the fault to reproduce"


@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_faithful_adam_hd_is_the_released_code(decay: float) -> None:
    model = build("cnn")
    other = twin(model)
    eps, beta = 1e-2, 1e-3  # an ε that matters

    def halves(net: nn.Module) -> list[dict[str, Any]]:
        params = list(net.named_parameters())
        return [{"params": params[:3]}, {"params": params[3:], "lr": 0.02}]

    ours = baselines.AdamHD(halves(model), lr=0.01, eps=eps, weight_decay=decay, hyper_lr=beta, faithful=True)
    groups = [{"params": [p for _, p in half["params"]], "lr": half.get("lr", 0.01)} for half in halves(other)]
    reference = ReleasedAdam(groups, beta, eps, decay)
    lowest = 1.0
    for t in range(1, 31):
        without = "head.bias" if t % 7 == 0 else ""  # a tensor that is left out now and then
        for net, optimizer in ((model, ours), (other, reference)):
            net.zero_grad()
            swaying_loss(net, t).backward()
            if without:
                net.get_parameter(without).grad = None
            optimizer.step()
        close(list(ours.rates()["group"].values()), [group["lr"] for group in groups])
        lowest = min(lowest, *(group["lr"] for group in groups))
    assert_same(model, other)
    assert lowest < 0
    assert ours.skipped == 0


def test_faithful_adam_hd_depends_on_the_order_of_the_tensors_and_ours_does_not() -> None:
    results = {}
    for faithful in (True, False):
        for turned in (True, False):
            model = build("mlp")
            params = list(model.named_parameters())
            optimizer = baselines.AdamHD(params[::-1] if turned else params, lr=0.01, hyper_lr=1e-3, faithful=faithful)
            for t in range(1, 11):
                step(optimizer, model, t)
            results[faithful, turned] = model
    assert_same(results[False, True], results[False, False])
    change = [(a - b).abs().max() for a, b in zip(*(results[True, x].parameters() for x in (True, False)), strict=True)]
    assert max(change) > 1e-6


def test_what_is_not_faithful_never_has_a_negative_rate() -> None:
    for kind, beta in ((baselines.SGDHD, 1e-2), (baselines.AdamHD, 1e-3)):
        model = build("cnn")
        optimizer, rates = kind(model, lr=0.01, hyper_lr=beta), []
        for t in range(1, 31):
            step(optimizer, model, t, swaying_loss)
            rates.append(optimizer.rates()["global"])
        assert min(rates) == 0
        assert max(rates) > 0.012


def test_the_defaults_are_those_of_the_released_code() -> None:
    model = build("mlp")
    defaults = {
        "SGDHD": {"lr": 1e-3, "hyper_lr": 1e-6, "momentum": 0, "nesterov": False, "weight_decay": 0},
        "SGDNHD": {"lr": 1e-3, "hyper_lr": 1e-6, "momentum": 0.9, "nesterov": True, "weight_decay": 0},
        "AdamHD": {"lr": 1e-3, "hyper_lr": 1e-8, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0},
    }
    for name, wanted in defaults.items():
        for faithful in (False, True):
            (group,) = getattr(baselines, name)(model, faithful=faithful).param_groups
            assert {key: group[key] for key in wanted} == wanted
        (group,) = getattr(baselines, name)(model, hyper_rule="multiplicative").param_groups
        assert group["hyper_lr"] == 0.02


# Hypergradient descent as it should be, against torch's directions and autograd's derivative of the loss.


class Directions:
    """d_t of a torch optimizer: how far it moves with a rate of 1, from the same parameters and gradients."""

    def __init__(self, kind: type[torch.optim.Optimizer], model: nn.Module, **options: Any):
        self.shadow = {n: nn.Parameter(p.detach().clone()) for n, p in model.named_parameters()}
        self.optimizer = kind(self.shadow.values(), lr=1.0, **options)

    def __call__(self, model: nn.Module) -> dict[str, Tensor]:
        for name, p in model.named_parameters():
            self.shadow[name].data.copy_(p.data)
            self.shadow[name].grad = p.grad.clone()
        before = {n: p.detach().clone() for n, p in self.shadow.items()}
        self.optimizer.step()
        return {n: before[n] - p.detach() for n, p in self.shadow.items()}


SGDN = {"momentum": 0.9, "nesterov": True}
HD = {
    "sgd": (baselines.SGDHD, torch.optim.SGD, {}, {}, 1e-2),
    "sgd-decay": (baselines.SGDHD, torch.optim.SGD, {"weight_decay": 0.1}, {}, 1e-2),
    "sgdn": (baselines.SGDNHD, torch.optim.SGD, {}, SGDN, 1e-3),
    "adam": (baselines.AdamHD, torch.optim.Adam, {}, {}, 1e-4),
    "adam-decay": (baselines.AdamHD, torch.optim.Adam, {"weight_decay": 0.1}, {}, 1e-4),
}


@pytest.mark.parametrize("backend", ["foreach", "auto"])
@pytest.mark.parametrize("rule", ["additive", "multiplicative"])
@pytest.mark.parametrize("case", HD.values(), ids=HD)
def test_the_rate_follows_the_derivative_that_autograd_gives(case: Any, rule: str, backend: str) -> None:
    kind, theirs, options, more, beta = case
    beta = 0.1 if rule == "multiplicative" else beta
    model = build("mlp")
    optimizer = kind(model, lr=0.01, hyper_lr=beta, hyper_rule=rule, backend=backend, **options)
    directions = Directions(theirs, model, **options, **more)
    decay, move, moved = options.get("weight_decay", 0.0), None, 0.0
    for t in range(1, 21):
        rate = optimizer.rates()["global"]
        want = rate
        if move is not None:
            start, direction = move
            alpha = torch.tensor(rate, dtype=torch.float64, requires_grad=True)
            theta = {n: start[n] - alpha * direction[n] for n in start}
            f = loss_of(model, t, theta) + decay / 2 * sum(p.square().sum() for p in theta.values())
            (slope, *gradient) = torch.autograd.grad(f, [alpha, *theta.values()])
            norms = math.sqrt(sum(float(g.square().sum()) for g in gradient))
            norms *= math.sqrt(sum(float(d.square().sum()) for d in direction.values()))
            want = rate - beta * float(slope) if rule == "additive" else rate * (1 - beta * float(slope) / norms)
        start = snapshot(model)
        step(optimizer, model, t)
        with torch.no_grad():
            now = snapshot(model)
            for name, p in model.named_parameters():
                p.copy_(start[name])
            move = start, directions(model)
            for name, p in model.named_parameters():
                p.copy_(now[name])
        got = optimizer.rates()["global"]
        assert got - rate == pytest.approx(max(want, 0.0) - rate, rel=HYPER, abs=4e-16 * rate)
        moved = max(moved, abs(got - rate) / rate)
        for name, p in now.items():
            close(p, start[name] - got * move[1][name])
    assert moved > 1e-3


def test_what_hypergradient_descent_refuses() -> None:
    model = build("mlp")
    groups = [{"params": [model.fc1.weight]}, {"params": [model.fc2.weight]}]
    with pytest.raises(ValueError, match=r"must have one param group.*got 2; leave 'faithful' out"):
        baselines.SGDHD(groups, faithful=True)
    one = baselines.SGDHD([model.fc1.weight], faithful=True)
    with pytest.raises(ValueError, match="must have one param group"):
        one.add_param_group({"params": [model.fc2.weight]})
    assert len(one.param_groups) == 1
    baselines.SGDHD(groups)
    baselines.AdamHD(groups, faithful=True)
    for name, value in {"hyper_rule": "multiplicative", "min_lr": 1e-6, "max_lr": 1.0, "backend": "fused"}.items():
        with pytest.raises(ValueError, match=f"'{name}' must be left out with faithful=True"):
            baselines.AdamHD(model, faithful=True, **{name: value})
    with pytest.raises(TypeError, match="AdamHD has no option 'levels'; the options are hyper_lr"):
        baselines.AdamHD(model, levels=("layer",))
