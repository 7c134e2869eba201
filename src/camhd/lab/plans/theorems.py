"""The paper's theorems as experiments: each function measures one thing, from plain arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import camhd

from ... import report
from .. import data as datasets

POINTS = 24  # of a curve
DECADE = 4  # points of the regret


def combination(levels: list[str], hyper_lr: float, steps: int, seed: int) -> dict[str, Any]:
    """Theorem 1: regularised rates are the weighted mean of unregularised ones, one step from the same state.

    Returns the largest relative difference between the two over steps and layers, and that between the virtual and the
    closed solution and the paper's `-4β²λ²(α_l - α_g)`.
    """
    if len(levels) != 2:
        raise ValueError(f"'levels' must be two, the paper's case, got {levels}.")
    pull = 0.2 / hyper_lr
    share = 2 * hyper_lr * pull
    worst = gap = 0.0
    made = {how: _Descent(levels, hyper_lr, pull, how, seed) for how in ("virtual", "closed")}
    for step in range(steps):
        for how, one in made.items():
            before, h = one.step()
            if not step:
                continue
            root = before["global"] - hyper_lr * sum(h.values())
            for layer, rate in one.rates()["layer"].items():
                virtual = before["layer"][layer] - hyper_lr * h[layer]
                mean = (1 - share) * virtual + share * root
                if how == "virtual":
                    worst = max(worst, abs(rate - mean) / abs(mean))
                else:
                    predicted = -(share**2) * (rate - root)
                    gap = max(gap, abs((mean - rate) - predicted) / abs(rate))
    return {"difference": worst, "gap_difference": gap, "share": share}


class _Descent:
    """Gradient descent on a small network with regularised rates."""

    def __init__(self, levels: Sequence[str], hyper_lr: float, pull: float, how: str, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
        self.inputs, self.targets = torch.randn(8, 4).double(), torch.randn(8, 3).double()
        combine = camhd.combine.Regularized({(levels[1], levels[0]): pull}, 0.0, how)
        self.optimizer = camhd.SGD(
            self.model, lr=0.05, levels=tuple(levels), hyper_lr=hyper_lr, combine=combine,
            hyper_rule="additive", max_change=None,
        )  # fmt: skip
        self._last: dict[str, Tensor] = {}

    def rates(self) -> Any:
        return self.optimizer.rates()

    def step(self) -> tuple[Any, dict[str, float]]:
        """The rates before a step, and the hypergradient of every layer."""
        self.optimizer.zero_grad()
        F.mse_loss(self.model(self.inputs), self.targets).backward()
        h: dict[str, float] = {}
        for name, p in self.model.named_parameters():
            assert p.grad is not None
            layer = name.rpartition(".")[0]
            h[layer] = h.get(layer, 0.0) - float((p.grad * self._last.get(name, torch.zeros(()))).sum())
            self._last[name] = p.grad.clone()
        before = self.optimizer.rates()
        self.optimizer.step()
        return before, h


def descent(levels: list[str], start: float, limit: float, decay: float, hyper_lr: float, steps: int) -> dict[str, Any]:
    """Theorem 3: gradient descent on a convex function with bounded gradient, `κ = τ α* + (1 - τ) α_∞`.

    Args:
        levels: from the root to the leaf.
        start: the initial rate, in units of 1/L.
        limit: α_∞, likewise.
        decay: r of τ = exp(−rt).
        hyper_lr: β.
        steps: how many.
    """
    smoothness = 1.0  # of Σ √(1 + (θ − θ*)²) along rotated axes
    torch.manual_seed(0)
    axes, _ = torch.linalg.qr(torch.randn(6, 6).double())
    best = torch.linspace(-2.0, 2.0, 6).double()
    model = nn.Module()
    model.a, model.b = (nn.Parameter(torch.ones(3).double()) for _ in range(2))
    optimizer = camhd.SGD(
        model, lr=start / smoothness, lr_limit=limit / smoothness, levels=tuple(levels), hyper_lr=hyper_lr, decay=decay,
        hyper_rule="additive", max_change=None,
    )  # fmt: skip
    marks = marked(steps)
    distances, largest = [], 0.0
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        (1 + (axes @ (torch.cat([model.a, model.b]) - best)) ** 2).sqrt().sum().backward()
        optimizer.step()
        # |α*| ≤ α_0 + t β (n_p M_p² + n_l M_l² + M_g²): every gradient along an axis is below 1 here.
        bound = start / smoothness + step * hyper_lr * (6 * 6 + 2 * 6 + 6)
        largest = max(largest, _largest(optimizer) / bound)
        if step in marks:
            distances.append(float((torch.cat([model.a, model.b]) - best).detach().norm()))
    return {"steps": marks, "distance": distances, "largest_share_of_bound": largest}


def _largest(optimizer: Any) -> float:
    """The largest rate of any level; their weighted mean is not above it."""
    levels = (report.snapshot(optimizer) or {}).values()
    return max(float(max(map(abs, level.get("values") or level["quantiles"]))) for level in levels)


def regret(levels: list[str], hyper_lr: float, decay_bound: str | None, steps: int, seed: int) -> dict[str, Any]:
    """Theorem 4: the regret of AdaBound-CAM-HD, example by example, against the best θ of the box in hindsight.

    Logistic regression on the bundled digits, drawn at random; every number of θ is kept in [-1, 1], which makes the
    set of the theorem bounded. `gap` bounds the error of the hindsight optimum (Frank and Wolfe's).
    """
    images, labels = next(datasets.Batches(datasets.load("digits").train, 2000, shuffle=False).epoch(0))
    inputs = images.flatten(1)
    order = torch.randint(len(inputs), (steps,), generator=torch.Generator().manual_seed(seed))
    torch.manual_seed(seed)
    model = nn.Linear(inputs.shape[1], 10)
    optimizer = camhd.AdaBound(
        model, lr=1e-3, levels=tuple(levels), hyper_lr=hyper_lr, bounds="paper", decay_bound=decay_bound,
        hyper_rule="additive", max_change=None,
    )  # fmt: skip
    marks = [mark for mark in marked(steps, 1 + round(DECADE * math.log10(steps))) if mark * mark >= steps]
    paid, regrets, gaps = 0.0, [], []
    losses: list[Tensor] = []
    best: Tensor | None = None
    for step, number in enumerate(order.tolist(), start=1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs[number : number + 1]), labels[number : number + 1])
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
        with torch.no_grad():
            for p in model.parameters():
                p.clamp_(-1, 1)
        if step in marks:
            paid += float(torch.stack(losses).double().sum())
            losses = []
            counts = order[:step].bincount(minlength=len(inputs))
            least, gap, best = hindsight(inputs, labels, counts, best)
            regrets.append(paid - least)
            gaps.append(gap)
    return {"steps": marks, "regret": regrets, "gap": gaps, "exponent": exponent(marks, regrets)}


def hindsight(
    inputs: Tensor, labels: Tensor, counts: Tensor, start: Tensor | None = None, rounds: int = 500
) -> tuple[float, float, Tensor]:
    """The least total loss over the box, how far it may be from the truth at most, and where it is reached.

    An accelerated projected gradient, which starts afresh whenever it goes uphill.
    """
    total = float(counts.sum())
    seen = counts.nonzero().flatten()
    x = torch.cat([inputs[seen], torch.ones(len(seen), 1)], 1).double()
    labels, weights = labels[seen], counts[seen].double() / total
    smoothness = 0.5 * float((weights * x.square().sum(1)).sum())
    here = old = torch.zeros(x.shape[1], 10).double() if start is None else start
    speed = 0
    for _ in range(rounds):
        ahead = here + (speed / (speed + 3)) * (here - old)
        slope = _gradient(x, labels, weights, ahead)
        old, here = here, (ahead - slope / smoothness).clamp(-1, 1)
        speed = 0 if float((slope * (here - old)).sum()) > 0 else speed + 1
    slope = _gradient(x, labels, weights, here)
    gap = float((slope * here).sum() + slope.abs().sum())
    loss = float((F.cross_entropy(x @ here, labels, reduction="none") * weights).sum())
    return total * loss, total * gap, here


def _gradient(x: Tensor, labels: Tensor, weights: Tensor, theta: Tensor) -> Tensor:
    chances = (x @ theta).softmax(1)
    chances[torch.arange(len(labels)), labels] -= 1
    return x.T @ (chances * weights[:, None])


def exponent(steps: Sequence[int], values: Sequence[float]) -> float:
    """The slope of log(values) over log(steps) in the last decade of steps; nan if a value is not positive.

    >>> round(exponent([1, 100, 1000, 10000], [3.0, 30.0, 300.0, 949.0]), 2)
    0.5
    """
    late = [(math.log(s), math.log(v)) for s, v in zip(steps, values, strict=True) if 10 * s >= steps[-1] and v > 0]
    if len(late) < 2 or len(late) < sum(10 * s >= steps[-1] for s in steps):
        return math.nan
    mean_x, mean_y = (sum(column) / len(late) for column in zip(*late, strict=True))
    return float(sum((x - mean_x) * (y - mean_y) for x, y in late) / sum((x - mean_x) ** 2 for x, _ in late))


def marked(steps: int, points: int = POINTS) -> list[int]:
    """Steps at which something is written down: evenly spread on a logarithmic axis, the last one among them.

    >>> marked(1000, 4)
    [1, 10, 100, 1000]
    """
    return sorted({round(steps ** (i / (points - 1))) for i in range(points)})
