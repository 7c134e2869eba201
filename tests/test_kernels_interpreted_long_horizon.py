"""The kernels of the long-horizon rule as plain Python, against plain torch: whatever can happen to a step.

Sizes are small (`pairs.small`), so that runs end inside chunks and lie in pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cases import HAS_NUMBA
from models import build
from reference_long_horizon import BASES

if not HAS_NUMBA:
    pytest.skip("needs camhd[fused]", allow_module_level=True)

import camhd
import interpreted
from camhd.hyper import LongHorizon
from pairs import CLASSES, LR, Pair, overflowing, small, story

interpreted.load()  # when tests are collected: a mutation tester changes functions that are there
THREE = ("global", "layer", "unit")


@pytest.mark.parametrize("levels", [("global", "layer"), THREE], ids="-".join)
@pytest.mark.parametrize("base", BASES)
def test_every_rule_lives_through_it_all(base: str, levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    decay = {} if levels == THREE else {"weight_decay": 0.0}  # with L2 decay, no direction is 0
    story(Pair(base, {"hyper_lr": 0.5, **decay}, levels=levels, **decay))


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
    {"maximize": True, "weight_decay": 0.0},
    {
        "hyper_rule": LongHorizon(
            fast=3.0, tie=0.5, small=1.0, memory=0.9, floor=0.5, sudden=1.01, recent=0.6, squares=0.4
        )
    },
    {"hyper_rule": LongHorizon(floor=0.0)},
    {"hyper_lr": {"global": 1.0, "layer": 0.0, "unit": 0.7}},
    {"lr": 5.0},
    {"combine": camhd.combine.PerLayer(), "combine_lr": 0.3},
]


BOTH = [("sgd", options) for options in OPTIONS] + [("adam", options) for options in OPTIONS[1:13:2]]


@pytest.mark.parametrize(
    ("base", "options"), BOTH, ids=lambda value: value if isinstance(value, str) else "-".join(value)
)
def test_whatever_is_set(base: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The last combination learns in the tree, between the two passes."""
    small(monkeypatch)
    second = {"hyper_lr": 0.5} if "hyper_lr" not in options else {}
    story(Pair(base, second, **{"levels": THREE, **options}))


@pytest.mark.parametrize("base", ["sgd", "adam"])
def test_a_layer_that_has_no_bound_leaves_the_others_theirs(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One does not move, and has none; a first lr that is far too large comes down for all others."""
    small(monkeypatch)
    pair = Pair(base, {}, levels=THREE, lr=500 * LR, weight_decay=0.0)
    pair.step(zero=("c.weight",), factors=(500.0, 500.0))
    assert pair.both[0].tree.state.levels[0].rates.item() < 250 * LR
    pair.step(zero=("c.weight",), factors=(500.0, 500.0))


@pytest.mark.parametrize("combine", ["softmax", "normalized"])
def test_weights_that_would_overflow_stay(combine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    overflowing(Pair("sgd", levels=THREE, combine=combine, combine_lr=1e308, weights=(0.6, 0.3, 0.1)))


def test_adabound_with_steps_that_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    story(Pair("adabound", levels=THREE, bounds="paper", decay_bound="sqrt"))


@pytest.mark.parametrize("base", ["sgdn", "adam"])
def test_the_sum_of_squares_is_the_same_to_the_bit_whoever_forms_it(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second pass of a step, or the first pass of the next one; so a run goes on from a checkpoint to the bit."""
    package = small(monkeypatch)
    monkeypatch.setattr(package.plan, "FEW_SCALARS", 0)  # then a chunk is half as long as the longest one
    pair = Pair(base, levels=THREE)
    pair.step()
    plan, at = pair.both[0].backend._fused.plan, package.block
    constants, found = plan.block._arrays[at.CONSTANTS], np.full_like(plan.sizes, np.nan)
    for item in plan.items:
        c = constants[item[package.tables.SLOT]]
        package.trace_items._measure(item, plan.block.numbers[at.CHUNK], plan.places, c, found, np.zeros(0))
    np.testing.assert_array_equal(found, plan.sizes)


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
