"""The kernels as plain Python against the literal algorithm: every rule, every form of a level, every boundary.

The compiled kernels are compared with plain torch in test_backends.py, on tensors of ordinary size. Here the same
sources run uncompiled with chunks of four scalars and long runs of nine, so that small models have it all: runs that
end inside a chunk, chunks that end inside a run, runs in several pieces, items of several runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cases import CLOSE, EXACT, HAS_NUMBA, RULES, Setup, everything_in_play
from compare import assert_same_state, flat
from models import backward, build, twin
from reference import Reference
from reference_long_horizon import BASES
from reference_long_horizon import Reference as LongHorizon

if not HAS_NUMBA:
    pytest.skip("needs camhd[fused]", allow_module_level=True)

import camhd
import interpreted

interpreted.load()  # when tests are collected: a mutation tester changes functions that are there
STEPS = 5


def agree(setup: Setup, model: nn.Module, without: Mapping[int, tuple[str, ...]] = {}, steps: int = STEPS) -> Reference:
    """Both over some steps, with a schedule that falls by a tenth each; the same numbers after each step."""
    other = twin(model)
    optimizer, reference = setup.library(model), setup.reference(other)
    for t in range(1, steps + 1):
        for mine, theirs in zip(reference.param_groups, optimizer.param_groups, strict=True):
            mine["lr"] = theirs["lr"]
        for one in (model, other):
            backward(one, t, without.get(t, ()))
        optimizer.step()
        assert "backend fused" in repr(optimizer)
        each_item_once(optimizer)
        reference.step()
        assert_same_state(optimizer, model, reference, other)
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
    return reference


def each_item_once(optimizer: Any) -> None:
    """Both passes have said of every work item that it is done, and of none twice: threads wait for these numbers."""
    plan, passes = optimizer.backend._fused.plan, interpreted.load().passes
    assert plan.team.control[passes.DONE] == plan.team.control[passes.DONE_2] == len(plan.items)


def kernels(rule: str, levels: tuple[str, ...], combine: str, model: nn.Module, **changes: Any) -> Setup:
    """Everything in play that the kernels know: two param groups, but of one lr0."""
    setup = everything_in_play(rule, levels, combine, model, **changes)
    second = {**(setup.second or {}), "lr": setup.options["lr"]}
    if "hyper_lr" in changes:
        second["hyper_lr"] = 0.6 * changes["hyper_lr"]
    return dataclasses.replace(setup, second=second, backend="fused")


CHAINS = {
    "global": ("mlp", ("global",)),
    "two": ("mlp", ("global", "layer")),
    "filter": ("cnn", ("global", "layer", "filter")),
    "gate": ("gru", ("global", "gate")),
    "parameter": ("mlp", ("parameter",)),
    "three": ("mlp", ("global", "layer", "parameter")),
    "deep": ("cnn", ("global", "layer", "filter", "parameter")),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_on_every_form_of_a_level(rule: str, chain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.use(monkeypatch)
    name, levels = CHAINS[chain]
    model = build(name)
    first = next(name for name, _ in model.named_parameters())
    agree(kernels(rule, levels, "normalized", model), model, without={3: (first,)})


@pytest.mark.parametrize(
    "changes",
    [
        {"hyper_rule": "multiplicative", "hyper_lr": 0.02},
        {"hyper_scale": "mean"},
        {"hyper_scale": "size", "hyper_lr": 1e-6},
        {"min_lr": 0.0195, "max_lr": 0.0205},
        {"maximize": True},
        {"restarts": (3,)},
        {"decay": 0.5},
    ],
    ids=lambda changes: next(iter(changes)) + " " + str(next(iter(changes.values()))),
)
@pytest.mark.parametrize("chain", ["filter", "gate", "deep"])
def test_every_option(changes: dict[str, Any], chain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.use(monkeypatch)
    name, levels = CHAINS[chain]
    model = build(name)
    rule = {"filter": "nesterov", "gate": "adamw", "deep": "adam"}[chain]
    agree(kernels(rule, levels, "normalized", model, **changes), model)


@pytest.mark.parametrize("chain", ["two", "three"])
@pytest.mark.parametrize("combine", ["fixed", "softmax", "per-layer normalized", "virtual"])
def test_every_combination(combine: str, chain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weighted means learn in the kernels; the others in the tree, between the two passes."""
    interpreted.use(monkeypatch)
    name, levels = CHAINS[chain]
    if chain == "three" and combine in ("per-layer normalized", "virtual"):
        pytest.skip("these have no kernels for a rate of each scalar")
    model = build(name)
    agree(kernels("adam", levels, combine, model), model)


def test_cosines_where_the_tree_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pass has to sum the norms for it."""
    interpreted.use(monkeypatch)
    model = build("mlp")
    changes = {"hyper_rule": "multiplicative", "hyper_lr": 0.02}
    agree(kernels("adam", ("global", "layer"), "per-layer normalized", model, **changes), model)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("chain", ["two", "deep"])
def test_threads_share_the_work_and_change_nothing(chain: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.use(monkeypatch, threads)
    name, levels = CHAINS[chain]
    model = build(name)
    agree(kernels("momentum", levels, "normalized", model), model)


class Wide(nn.Module):
    """Runs that are longer than an item: 90 and 70 scalars of one cell each."""

    gates: Mapping[str, tuple[str, ...]] = {}
    inputs = (8, 30)

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(30, 3)
        self.head = nn.Linear(3, 3, bias=False)
        self.row = nn.Linear(30, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.wide(x))) + self.row(x) * x[:, :3]


@pytest.mark.parametrize("levels", [("global", "layer"), ("global", "unit"), ("layer", "parameter")])
@pytest.mark.parametrize("rule", RULES)
def test_runs_in_pieces(rule: str, levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    package = interpreted.use(monkeypatch)
    monkeypatch.setattr(package.plan, "LARGEST_ITEM", 28)
    torch.manual_seed(0)
    model = Wide().double()
    agree(kernels(rule, levels, "normalized", model), model, without={3: ("head.weight",)})


@pytest.mark.parametrize("levels", [("global", "layer"), ("unit", "parameter")])
@pytest.mark.parametrize("rule", RULES)
def test_cosines_of_runs_in_pieces(rule: str, levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The multiplicative rule is the one that looks at norms."""
    package = interpreted.use(monkeypatch)
    monkeypatch.setattr(package.plan, "LARGEST_ITEM", 28)
    torch.manual_seed(0)
    model = Wide().double()
    agree(kernels(rule, levels, "normalized", model, hyper_rule="multiplicative", hyper_lr=0.02), model, steps=4)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("chain", ["two", "three", "parameter"])
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_a_gradient_that_is_not_finite_teaches_nothing(
    rule: str, chain: str, poison: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 8's guard: rates and γ stay, the step is counted; the parameters go where the rule takes them."""
    interpreted.use(monkeypatch)
    name, levels = CHAINS[chain]
    model = build(name)
    other = twin(model)
    setup = kernels(rule, levels, "normalized", model)
    optimizer, reference = setup.library(model), setup.reference(other)
    for t in range(1, 5):
        for one in (model, other):
            backward(one, t)
            if t == 3:
                one.fc2.weight.grad[1, 2] = poison
        optimizer.step()
        reference.step()
        if t == 3:
            assert optimizer.skipped == reference.skipped == 1
            for got, want in zip(model.parameters(), other.parameters(), strict=True):
                finite = want.isfinite()
                assert torch.equal(got.isfinite(), finite)
                torch.testing.assert_close(got[finite], want[finite], rtol=EXACT, atol=EXACT)
            break
        assert_same_state(optimizer, model, reference, other)
    rates, expected = optimizer.rates(), reference.rates()
    for level in levels:
        torch.testing.assert_close(flat(rates[level]), flat(expected[level]), rtol=EXACT, atol=0)


@pytest.mark.parametrize("chain", ["filter", "deep"])
@pytest.mark.parametrize("rule", ["momentum", "adam", "adamw", "adabound"])
def test_single_precision_stays_single(rule: str, chain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreted.use(monkeypatch)
    name, levels = CHAINS[chain]
    exact = build(name)
    model = twin(exact).float()
    setup = kernels(rule, levels, "normalized", exact)
    optimizer, reference = setup.library(model), setup.reference(exact)
    for t in range(1, STEPS + 1):
        for one in (model, exact):
            backward(one, t)
        optimizer.step()
        reference.step()
    for (n, got), (_, want) in zip(model.named_parameters(), exact.named_parameters(), strict=True):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.double(), want, rtol=CLOSE, atol=CLOSE, msg=n)


@pytest.mark.parametrize("kernel", ["own_rates", "own_capped_rates"])
@pytest.mark.parametrize("cosine", [False, True])
def test_a_change_that_is_not_finite_is_none(cosine: bool, kernel: str) -> None:
    """Of a scalar's own rate: the others learn all the same. The sign of a product is its cosine."""
    k = interpreted.load().kernels
    c = np.zeros(k.CONSTANTS)
    c[[k.ONE, k.BETA, k.CHAIN, k.LEARNS]] = 1.0
    c[k.MAX_LR], c[k.COSINE], c[k.GROW], c[k.SHRINK], c[k.LARGEST] = np.inf, cosine, 1e9, 1e-9, np.finfo(float).max
    e, s, r = np.array([1e200, 1.0, -1.0, 0.0]), np.array([1e200, 0.5, 0.5, 1.0]), np.array([0.1, 0.1, 0.7, 0.2])
    if cosine:
        e[0], c[k.BETA], r[0] = 1.0, 1e200, 1e200  # r · step is what overflows
        e[1:3], s[1:3] = 0.0, 0.0
    w = np.zeros(4)
    with np.errstate(all="ignore"):
        getattr(k, kernel)(e, s, r, w, 4, 2.0, 3.0, c)
    expected = [1e200, 0.1, 0.7, 0.2] if cosine else [0.1, 0.6, 0.2, 0.2]
    np.testing.assert_allclose(r, expected, rtol=EXACT)
    np.testing.assert_allclose(w, 2 + 3 * r, rtol=EXACT)


class Capped(Reference):
    """No rate changes by more than a factor in one step."""

    def _learn_rates(self, h: Any, g: Any) -> None:
        old = self.rate
        super()._learn_rates(h, g)
        self.rate = {n: rate.clamp(old[n] / CAP, old[n] * CAP) for n, rate in self.rate.items()}


CAP = 1.01


@pytest.mark.parametrize(
    "changes", [{"hyper_lr": 3e-2}, {"hyper_rule": "multiplicative", "hyper_lr": 0.05}], ids=["sums", "cosines"]
)
@pytest.mark.parametrize("rule", ["nesterov", "adam", "adamw"])
@pytest.mark.parametrize("chain", ["filter", "deep"])
def test_no_rate_changes_by_more_than_a_factor(
    chain: str, rule: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreted.use(monkeypatch)
    name, levels = CHAINS[chain]
    model = build(name)
    other = twin(model)
    setup = kernels(rule, levels, "normalized", model, **changes)
    options, second = {**setup.options, "combine_lr": 0.0}, {**(setup.second or {}), "max_change": CAP}
    reference = dataclasses.replace(setup, options=options).reference(other)
    reference.__class__ = Capped
    optimizer = dataclasses.replace(setup, options={**options, "max_change": CAP}, second=second).library(model)
    for t in range(1, 5):
        for one in (model, other):
            backward(one, t)
        optimizer.step()
        reference.step()
        assert_same_state(optimizer, model, reference, other)


# --------------------------------------------------------------------------- the long horizon


@pytest.mark.parametrize("levels", [("global",), ("global", "layer"), ("global", "layer", "unit")], ids="-".join)
@pytest.mark.parametrize("base", BASES)
def test_the_long_horizon_rule(base: str, levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Against its own literal reference, with runs in pieces."""
    package = interpreted.use(monkeypatch)
    monkeypatch.setattr(package.plan, "LARGEST_ITEM", 28)
    random = torch.Generator().manual_seed(0)
    shapes = {"a.weight": (3, 30), "a.bias": (3,), "b.weight": (2, 5), "b.bias": (2,)}
    start = {n: torch.randn(shape, generator=random, dtype=torch.float64) for n, shape in shapes.items()}
    start["b.bias"].zero_()  # below the floor
    mine, theirs = ([(n, nn.Parameter(value.clone())) for n, value in start.items()] for _ in range(2))
    kind, fixed = BASES[base]
    classes = {"sgd": camhd.SGD, "adam": camhd.Adam, "adamw": camhd.AdamW, "adabound": camhd.AdaBound}
    decay = 0.0 if len(levels) == 2 else 0.01  # with L2 decay the gradient is no longer at hand as it came
    options = {"lr": 1e-2, "levels": levels, "weight_decay": decay, "hyper_rule": "long_horizon", "backend": "fused"}
    optimizer = classes[kind](mine, **{**fixed, **options})
    reference = LongHorizon(theirs, 1e-2, base, levels, weight_decay=decay)
    for _ in range(STEPS):
        for (_, p), (_, q) in zip(mine, theirs, strict=True):
            noise = torch.randn(p.shape, generator=random, dtype=torch.float64)
            p.grad, q.grad = (0.5 * one.detach() + 1.5 * noise for one in (p, q))  # some directions agree, some do not
        optimizer.step()
        reference.step()
        assert "backend fused" in repr(optimizer)
        each_item_once(optimizer)
        for (n, p), (_, q) in zip(mine, theirs, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-12, msg=n)
