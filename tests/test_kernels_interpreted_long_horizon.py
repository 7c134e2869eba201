"""The kernels of the long-horizon rule as plain Python, against plain torch: whatever can happen to a step.

The two are handed the same gradients and must hold the same numbers after every step: parameters, rates, what the rule
and the traces remember, γ. Sizes are small (`interpreted.use`), so that runs end inside chunks and lie in pieces.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cases import EXACT
from models import build
from reference_long_horizon import BASES

if importlib.util.find_spec("numba") is None:
    pytest.skip("needs camhd[fused]", allow_module_level=True)

import camhd
import interpreted
from camhd.hyper import LongHorizon
from camhd.hyper.base import Pull
from camhd.tree.numbers import within

interpreted.load()  # when tests are collected: a mutation tester changes functions that are there
Named = list[tuple[str, nn.Parameter]]
CLASSES = {"sgd": camhd.SGD, "adam": camhd.Adam, "adamw": camhd.AdamW, "adabound": camhd.AdaBound}
ALIKE = 1e-11
# Rows of several pieces, short rows, single scalars, a long run; gradients of very different size.
SHAPES = {
    "a.weight": (2, 70),
    "a.bias": (2,),
    "b.weight": (7, 5),
    "b.bias": (7,),
    "c.weight": (4, 3),
    "d.weight": (1, 2),
}
SCALES = {"a.weight": 0.01, "a.bias": 1.0, "b.weight": 3.0, "b.bias": 0.001, "c.weight": 0.1, "d.weight": 30.0}


class Pair:
    """The same parameters under both backends."""

    def __init__(self, base: str, shapes: dict[str, tuple[int, ...]] = SHAPES, split: int = 4, **options: Any) -> None:
        self.random = torch.Generator().manual_seed(0)
        values = {name: self.draw(shape) for name, shape in shapes.items()}
        values["b.bias"].zero_()  # below the floor
        self.named: list[Named] = [[(n, nn.Parameter(v.clone())) for n, v in values.items()] for _ in range(2)]
        kind, fixed = BASES[base]
        second = {"hyper_lr": 0.5, "weight_decay": 0.03}
        self.both: list[Any] = []
        for backend, named in zip(("fused", "foreach"), self.named, strict=True):
            groups = [{"params": named[:split]}, {"params": named[split:], **second}]
            given = {"lr": 0.01, "weight_decay": 0.01, "hyper_rule": "long_horizon", "backend": backend}
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
                group["lr"] = 0.01 * factor
        self.finish()

    def finish(self) -> None:
        for optimizer in self.both:
            optimizer.step()
        self.alike()

    def alike(self) -> None:
        mine, theirs = self.both
        assert "backend fused" in repr(mine)
        fused, passes = mine.backend._fused, interpreted.load().passes
        if fused.in_kernels:  # otherwise helpers have got another table for each pass
            control = fused.plan.team.control
            assert control[passes.DONE] == control[passes.DONE_2] == len(fused.plan.items)
        for (name, p), (_, q) in zip(*self.named, strict=True):
            same(p, q, name)
            for key, kept in theirs.state[q].items():
                if key in mine.state[p]:
                    same(mine.state[p][key], kept, f"{name} {key}")
        ours, state = mine.tree.state, theirs.tree.state
        for i, (one, other) in enumerate(zip(ours.levels, state.levels, strict=True)):
            for key, kept in other.tensors().items():
                same(one.tensors()[key], kept, f"level {i} {key}")
        same(ours.tracing.kappa, state.tracing.kappa, "κ")
        same(ours.tracing.memory, state.tracing.memory, "φ")
        for of_mine, of_theirs in ((ours.weights, state.weights), (ours.last_weights, state.last_weights)):
            for key, kept in of_theirs.items():
                same(of_mine[key], kept, f"γ {key}")
        assert (int(ours.skipped), ours.step, ours.moved) == (int(state.skipped), state.step, state.moved)


def same(got: Tensor, want: Tensor, name: str) -> None:
    size = float(want.detach().nan_to_num(0, 0, 0).abs().max()) if want.numel() else 0.0
    torch.testing.assert_close(
        got, want, rtol=ALIKE, atol=ALIKE * size, equal_nan=True, msg=lambda text: f"{name}: {text}"
    )


def story(pair: Pair) -> None:
    """Parameters that wait, gradients of zeros, groups whose schedules differ, somebody who writes to the weights."""
    pair.step(without=("b.weight",))
    pair.step(without=("a.bias", "d.weight"), factors=(0.9, 0.5))
    pair.step(zero=("a.bias", "c.weight"), factors=(0.8, 1.7))
    pair.step(zero=("c.weight", "d.weight"), without=("b.bias",), factors=(1.3, 0.0))
    for named in pair.named:
        with torch.no_grad():
            named[0][1].mul_(0.01)
    pair.step(factors=(0.7, 0.6))
    pair.step(factors=(0.5, 0.6))


THREE = ("global", "layer", "unit")


def small(monkeypatch: pytest.MonkeyPatch, threads: int = 1) -> Any:
    package = interpreted.use(monkeypatch, threads)
    monkeypatch.setattr(package.plan, "LARGEST_ITEM", 28)
    return package


@pytest.mark.parametrize("levels", [("global", "layer"), THREE], ids="-".join)
@pytest.mark.parametrize("base", BASES)
def test_every_rule_lives_through_it_all(base: str, levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    story(Pair(base, levels=levels, weight_decay=0.01 * (levels == THREE)))


OPTIONS: list[dict[str, Any]] = [
    {"levels": ("global",)},
    {"levels": ("unit",)},
    {"combine": "softmax", "combine_lr": 3.0, "weights": (0.6, 0.3, 0.1)},
    {"combine": "normalized", "combine_lr": 0.3, "weights": (0.6, 0.3, 0.1)},
    {"combine": "fixed", "weights": (0.6, 0.3, 0.1)},
    {"restarts": (3, 5)},
    {"decay": 0.3, "lr_limit": 0.02},
    {"min_lr": 0.0098, "max_lr": 0.0103},
    {"max_change": 1.03},
    {"maximize": True},
    {"hyper_rule": LongHorizon(fast=3.0, tie=0.5, small=1.0, memory=0.9, floor=0.5)},
    {"hyper_rule": LongHorizon(floor=0.0)},
    {"hyper_lr": {"global": 1.0, "layer": 0.0, "unit": 0.7}},
    {"lr": 5.0},
    {"combine": camhd.combine.PerLayer(), "combine_lr": 0.3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("base", ["sgd", "adam"])
def test_whatever_is_set(base: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The last combination learns in the tree, between the two passes."""
    small(monkeypatch)
    story(Pair(base, **{"levels": THREE, **options}))


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("combine", ["normalized", camhd.combine.PerLayer()], ids=["kernels learn", "tree learns"])
def test_threads_share_the_work(combine: Any, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, threads)
    story(Pair("sgdn", levels=THREE, combine=combine, combine_lr=0.3))


@pytest.mark.parametrize(("base", "poison"), [("sgd", float("nan")), ("sgd", float("inf")), ("adam", float("nan"))])
def test_a_gradient_that_is_not_finite_teaches_nothing(
    base: str, poison: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch)
    pair = Pair(base, levels=THREE, combine="softmax", combine_lr=3.0)
    pair.step()
    pair.step()
    kept = [level.rates.clone() for level in pair.both[0].tree.state.levels]
    for named in pair.named:
        named[2][1].grad[1, 2] = poison
    pair.finish()
    assert pair.both[0].skipped == 1
    for level, rates in zip(pair.both[0].tree.state.levels, kept, strict=True):
        assert (level.rates <= rates).all()  # none has learned; the bounds may have pulled one down
    pair.step()


class Gates(Pair):
    """Recurrent layers, whose gates are groups of rows that are not next to each other in the rates."""

    def __init__(self, base: str, **options: Any) -> None:
        self.random = torch.Generator().manual_seed(0)
        models = [build("gru"), build("gru")]
        self.named = [list(model.named_parameters()) for model in models]
        self.both = []
        for backend, model in zip(("fused", "foreach"), models, strict=True):
            given = {"lr": 0.01, "hyper_rule": "long_horizon", "backend": backend}
            self.both.append(CLASSES[BASES[base][0]](model, **{**BASES[base][1], **given, **options}))


@pytest.mark.parametrize("levels", [("global", "gate"), ("layer", "gate", "unit")], ids="-".join)
def test_groups_by_an_index(levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    weights = (0.7, 0.2, 0.1)[-len(levels) :] if len(levels) == 3 else (0.7, 0.3)
    pair = Gates("sgdn", levels=levels, weights=weights, combine_lr=0.3)
    first = pair.named[0][1][0]
    for t in range(4):
        pair.step(without=(first,) if t == 1 else (), zero=(first,) if t == 2 else (), factors=(0.9**t,))


# --------------------------------------------------------------------------- one function at a time


def one_by_one(rates: Tensor, sums: dict[str, Tensor]) -> Pull:
    """The same sums as the rule in plain torch wants them, of groups that have all one scheduler's factor."""
    whole = torch.where(sums["traces"] > 0, sums["traces"], 1)
    sizes = torch.where(sums["sizes"] > 0, sums["sizes"], 1)
    norms, moved = sums["grads"].sqrt() * sums["traces"].sqrt(), (sums["moved"] / sizes).sqrt()
    return Pull(sums["pull"], norms, 1, moved, sums["above"], (sums["factors"] / whole).sqrt())


def proposed(rule: LongHorizon, rates: Tensor, state: Tensor, sums: dict[str, Tensor], caps: Any, bounds: Any) -> Any:
    """What the kernel makes of these sums, and whether it calls that finite. The rates above come after the others."""
    package, count = interpreted.load(), len(rates)
    h, settings = package.horizon, package.trace_plan._settings(rule)
    both, work = np.concatenate([rates, sums["above"]]), np.zeros((h.WORK_ROWS, 2 * count))
    for row, name in enumerate(("pull", "grads", "traces", "factors", "moved", "sizes")):
        work[row, :count] = sums[name]
    parents = np.concatenate([np.arange(count, 2 * count), np.full(count, -1)])
    kept = np.concatenate([state, np.zeros((3, count))], axis=1)
    with np.errstate(all="ignore"):
        finite = h.propose(both, kept, parents, settings, bounds, np.tile(caps, 2), work)
    return finite, torch.tensor(work[h.RATE, :count]), torch.tensor(work[h.NEW : h.NEW + 3, :count])


# Of each rate: itself, the one above, β Σ g·D, Σ g², Σ D², Σ c² D², Σ κ² d², Σ θ².
CASES = {
    "with the trace": (0.1, 0.2, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "against it": (0.1, 0.2, 0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "far off, up": (0.1, 9e6, -20.0, 30.0, 20.0, 20.0, 1e-7, 40.0),
    "far off, down": (9e6, 0.1, 20.0, 30.0, 20.0, 20.0, 1e-7, 40.0),
    "scheduled": (0.1, 0.2, -0.02, 0.1, 0.5, 0.3, 1e-7, 0.3),
    "scheduled up": (0.1, 0.2, -0.02, 0.1, 0.5, 0.9, 1e-7, 0.3),
    "no trace": (0.1, 0.2, 0.0, 0.1, 0.0, 0.0, 0.0, 0.3),
    "no gradient": (0.1, 0.2, -0.02, 0.0, 0.5, 0.5, 1e-7, 0.3),
    "neither with nor against": (0.1, 0.2, 0.0, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "a schedule of 0": (0.1, 0.2, 0.0, 0.1, 0.5, 0.0, 1e-7, 0.3),
    "no weights": (0.1, 0.2, -0.02, 0.1, 0.5, 0.5, 1e-6, 0.0),
    "a rate of 0": (0.0, 0.2, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "0 above": (0.1, 0.0, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "both below 1": (0.5, 0.9, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
    "both above 1": (1.5, 1.9, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),
}
NAMES = ("above", "pull", "grads", "traces", "factors", "moved", "sizes")
KEPT = ("square", "seen", "against")


@pytest.mark.parametrize("bounds", [(0.0, float("inf")), (0.09, 1.6)], ids=["free", "bounded"])
@pytest.mark.parametrize("cap", [float("inf"), 1.02])
@pytest.mark.parametrize("rule", [LongHorizon(), LongHorizon(fast=4.0, tie=0.3)], ids=["default", "wild"])
def test_what_rates_become(rule: LongHorizon, cap: float, bounds: tuple[float, float]) -> None:
    table = torch.tensor(list(CASES.values()), dtype=torch.float64).T
    rates, sums = table[0], dict(zip(NAMES, table[1:], strict=True))
    ages = (torch.arange(len(rates)) % 3).double()
    old = {"square": 0.01 * ages, "seen": 2.0 * ages, "against": 4.0 * ages}
    finite, got, kept = proposed(rule, rates, torch.stack(list(old.values())), sums, np.full(len(rates), cap), bounds)
    want, new = rule.update(rates, one_by_one(rates, sums), old)
    want = (want if cap == float("inf") else within(want, rates, cap)).clamp(*bounds)
    assert finite
    for name, one, other in zip(CASES, got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=0, msg=name)
    for name, row in zip(KEPT, kept, strict=True):
        torch.testing.assert_close(row, new[name], rtol=EXACT, atol=0, msg=name)


@pytest.mark.parametrize(
    "case",
    [
        (1.7e308, 1.7e308, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),  # the rate overflows
        (0.1, 0.2, -1e170, 1.0, 1.0, 1.0, 1e-7, 0.3),  # the square of the cosine does
        (0.1, 0.2, -1e200, 1e-300, 1e-300, 1e-300, 1e-7, 0.3),  # the cosine does
        (1e300, 1e-300, -0.02, 0.1, 0.5, 0.5, 1e-7, 0.3),  # the quotient of the two rates does
    ],
)
def test_what_is_not_finite_is_said(case: tuple[float, ...]) -> None:
    table = torch.tensor([case, CASES["with the trace"]], dtype=torch.float64).T
    sums = dict(zip(NAMES, table[1:], strict=True))
    finite, _, _ = proposed(LongHorizon(), table[0], torch.zeros(3, 2), sums, np.full(2, np.inf), (0.0, np.inf))
    assert not finite


@pytest.mark.parametrize(
    ("dots", "rate", "finite"),
    [
        ((1.0, 2.0), 0.1, True),
        ((1.5e308, 1.5e308), 1e-9, False),
        ((1e305, 1.0), 1e10, False),
        ((np.nan, 1), 0.1, False),
    ],
)
def test_a_sum_that_is_not_finite_is_said(dots: tuple[float, float], rate: float, finite: bool) -> None:
    """Of one tensor with two rows that have a rate each: the sum of both may overflow where neither does."""
    package = interpreted.load()
    h, t = package.horizon, package.tables
    places, cells = np.zeros((1, t.PLACE_COLUMNS), np.int64), np.ones((h.CELL_ROWS, 2))
    cells[h.DOT] = dots
    slope, work, index = np.zeros(1), np.zeros((h.WORK_ROWS, 2)), np.array([[0, 1]])
    form, base, one = np.full((1, 1), h.ROW_BY_ROW), np.zeros((1, 1), np.int64), np.ones((1, 1))
    with np.errstate(all="ignore"):
        found = h.sum_up(places, cells, np.ones(2), form, base, index, np.full(2, rate), one, 0, one, slope, work)
    assert bool(found) is finite
    np.testing.assert_array_equal(work[h.PULL], -np.array(dots))
