"""The same parameters under both backends, the fused one with kernels as plain Python: both must hold the same numbers.

Parameters, states, rates, what the rule and the traces remember, γ: all of it, after every step. Both are handed the
same gradients.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
import interpreted
from reference_long_horizon import BASES

Named = list[tuple[str, nn.Parameter]]
CLASSES = {"sgd": camhd.SGD, "adam": camhd.Adam, "adamw": camhd.AdamW, "adabound": camhd.AdaBound}
ALIKE = 1e-11
# Rows of several pieces, short rows, single scalars, rows that just count as long; gradients of very different size.
SHAPES = {
    "a.weight": (2, 70), "a.bias": (2,), "b.weight": (7, 5), "b.bias": (7,), "f.bias": (6,), "c.weight": (4, 9),
    "d.weight": (2, 66), "e.weight": (1, 2),
}  # fmt: skip
SCALES = {"a.weight": 0.01, "b.weight": 3.0, "b.bias": 0.001, "c.weight": 0.1, "e.weight": 30.0}
LR = 0.01


def small(monkeypatch: pytest.MonkeyPatch, threads: int = 1) -> Any:
    """The interpreted kernels, and items so small that tensors of these sizes have several."""
    package = interpreted.use(monkeypatch, threads)
    monkeypatch.setattr(package.plan, "LARGEST_ITEM", 28)
    return package


class Pair:
    """Both optimizers, each with parameters of its own in two param groups.

    Args:
        base: one of `BASES`.
        second: options that the second group has otherwise.
        options: of both optimizers.
    """

    def __init__(self, base: str, second: dict[str, Any] | None = None, **options: Any) -> None:
        self.random = torch.Generator().manual_seed(0)
        values = {name: self.draw(shape) for name, shape in SHAPES.items()}
        values["b.bias"].zero_()  # below the floor
        self.named: list[Named] = [[(n, nn.Parameter(v.clone())) for n, v in values.items()] for _ in range(2)]
        kind, fixed = BASES[base]
        other = {"hyper_lr": 0.5, "weight_decay": 0.03} if second is None else second
        self.both: list[Any] = []
        for backend, named in zip(("fused", "foreach"), self.named, strict=True):
            groups = [{"params": named[:4]}, {"params": named[4:], **other}]
            given = {"lr": LR, "weight_decay": 0.01, "hyper_rule": "long_horizon", "backend": backend}
            self.both.append(CLASSES[kind](groups, **{**fixed, **given, **options}))

    def draw(self, shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=self.random, dtype=torch.float64)

    def step(self, without: tuple[str, ...] = (), zero: tuple[str, ...] = (), factors: Any = (1.0, 1.0)) -> None:
        """One step of both; parameters named in `zero` have a gradient of zeros, those in `without` none at all."""
        for (name, p), (_, q) in zip(*self.named, strict=True):
            grad = SCALES.get(name, 1.0) * (0.5 * p.detach() + 1.5 * self.draw(p.shape))
            grad = torch.zeros_like(grad) if name in zero else grad
            p.grad, q.grad = (None, None) if name in without else (grad, grad.clone())
        for optimizer in self.both:
            for group, factor in zip(optimizer.param_groups, factors, strict=True):
                group["lr"] = factor * LR
        self.finish()

    def finish(self) -> None:
        """The step itself."""
        mine, theirs = self.both
        mine.step()
        assert "backend fused" in repr(mine)
        self.complete(mine.backend._fused)
        theirs.step()
        self.alike()

    def alike(self) -> None:
        """All numbers of one are those of the other."""
        mine, theirs = self.both
        for (name, p), (_, q) in zip(*self.named, strict=True):
            same(p, q, name)
            for key, kept in theirs.state[q].items():
                if key in mine.state[p]:
                    same(mine.state[p][key], kept, f"{name} {key}")
        ours, state = mine.tree.state, theirs.tree.state
        for i, (one, other) in enumerate(
            zip([*ours.levels, *ours.leaves], [*state.levels, *state.leaves], strict=True)
        ):
            for key, kept in other.tensors().items():
                same(one.tensors()[key], kept, f"level {i} {key}")
        if state.tracing is not None:
            same(ours.tracing.kappa, state.tracing.kappa, "κ")
            same(ours.tracing.memory, state.tracing.memory, "φ")
        for of_mine, of_theirs in ((ours.weights, state.weights), (ours.last_weights, state.last_weights)):
            for key, kept in of_theirs.items():
                same(of_mine[key], kept, f"γ {key}")
        assert (int(ours.skipped), ours.step, ours.moved) == (int(state.skipped), state.step, state.moved)

    def complete(self, fused: Any) -> None:
        """Every item was taken once in each pass; of what has moved, Σ θ² is known and need not be summed again."""
        passes, plan = interpreted.load().passes, fused.plan
        if fused.in_kernels:  # otherwise helpers get another table for each pass
            assert plan.team.control[passes.DONE] == plan.team.control[passes.DONE_2] == len(plan.items)
        if hasattr(plan, "stale"):
            assert not plan.stale[list(fused.memory.actives)].any()


def overflowing(pair: Pair) -> None:
    """Two steps with gradients so large that an enormous δ makes of ∂f/∂γ what is not finite; levels' rates differ."""
    for turn in range(2):
        for named in pair.named:
            for _, p in named:
                p.grad = torch.full_like(p, 100.0)
        for optimizer in pair.both:
            optimizer.tree.state.levels[0].rates.mul_(1.0 + turn)
        pair.finish()
    assert pair.both[0].skipped == 1


def same(got: Tensor, want: Tensor, name: str) -> None:
    """Equal but for the last digits of the largest number."""
    size = float(want.detach().nan_to_num(0, 0, 0).abs().max()) if want.numel() else 0.0
    assert got.shape == want.shape, name
    assert torch.allclose(got, want, rtol=ALIKE, atol=ALIKE * size, equal_nan=True), f"{name}: {got} and not {want}"


def story(pair: Pair) -> None:
    """Parameters that wait, gradients of zeros, groups whose schedules differ, somebody who writes to the weights."""
    pair.step(without=("b.weight",))
    pair.step(without=("a.bias", "e.weight"), factors=(0.9, 0.5))
    pair.step(zero=("a.bias", "c.weight"), factors=(0.8, 1.7))
    pair.step(zero=("c.weight", "e.weight"), without=("b.bias",), factors=(1.3, 0.0))
    for named in pair.named:
        with torch.no_grad():
            named[0][1].mul_(0.01)
            named[2][1].mul_(0.5)
    pair.step(factors=(0.7, 0.6))
