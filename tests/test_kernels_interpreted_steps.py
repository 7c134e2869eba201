"""The kernels of the paper's rules as plain Python, against plain torch, where param groups differ in all they can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cases import HAS_NUMBA
from reference_long_horizon import BASES

if not HAS_NUMBA:
    pytest.skip("needs camhd[fused]", allow_module_level=True)

import interpreted
from camhd.hyper import Multiplicative
from pairs import Pair, overflowing, small, story

interpreted.load()  # when tests are collected: a mutation tester changes functions that are there
# β of every level, such that rates move by percents: of directions that grow with the gradient, and of others.
BETAS = {"global": 1.0, "layer": 1.0, "unit": 3.0, "parameter": 30.0}
SIZES = {"sgd": 3e-7, "momentum": 1e-7, "sgdn": 1e-7, "adabound": 3e-6, "amsbound": 3e-6}


def pair(base: str, levels: tuple[str, ...], **options: Any) -> Pair:
    beta = {level: SIZES.get(base, 1e-6) * BETAS[level] for level in levels}
    second = {"hyper_lr": {level: 0.6 * value for level, value in beta.items()}, "weight_decay": 0.03}
    given = {"levels": levels, "hyper_lr": beta, "combine_lr": 0.3, "hyper_rule": "additive", "max_change": None}
    settings = {**given, **options}
    if "hyper_lr" in options:
        del second["hyper_lr"]
    if "weight_decay" in options:
        del second["weight_decay"]
    return Pair(base, second, **settings)


def changes(made: Pair) -> list[float]:
    """By how much the rates of every level have changed: a test in which none has shows nothing."""
    state = made.both[0].tree.state
    return [float((level.rates / level.starts - 1).abs().max()) for level in (*state.levels, *state.leaves)]


@pytest.mark.parametrize("base", BASES)
def test_every_rule_lives_through_it_all(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    made = pair(base, ("global", "unit", "parameter"))
    story(made)
    assert max(changes(made)) > 0.01


@pytest.mark.parametrize("levels", [("layer", "parameter"), ("unit", "parameter")], ids="-".join)
@pytest.mark.parametrize("rule", ["additive", "multiplicative"])
@pytest.mark.parametrize("base", ["adam", "sgdn"])
def test_a_cap_on_the_scalars_own_rates(
    base: str, rule: str, levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of them meet it, others do not, and γ learns from all."""
    small(monkeypatch)
    own: dict[str, Any] = {} if rule == "additive" else {"hyper_lr": 0.0015}
    made = pair(base, levels, hyper_rule=rule, max_change=1.002, **own)
    story(made)
    assert max(changes(made)) > 0.003


@pytest.mark.parametrize(
    "options",
    [
        {"maximize": True, "weight_decay": 0.0},
        {"min_lr": 0.0099, "max_lr": 0.0101},
        {"combine": "fixed", "combine_lr": None},
        {"combine_lr": 0.0},
        {"combine_lr": 1e9},  # so large a step against γ that nothing is left of it
    ],
    ids=lambda options: "-".join(options),
)
@pytest.mark.parametrize("levels", [("layer", "parameter"), ("layer",)], ids="-".join)
def test_whatever_is_set(levels: tuple[str, ...], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    story(pair("adam", levels, **options))


@pytest.mark.parametrize("levels", [("layer", "unit"), ("unit", "parameter")], ids="-".join)
@pytest.mark.parametrize("final", [1e3, 1e-3, 0.3])
def test_bounds_of_adabound(levels: tuple[str, ...], final: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at the lower bound, all at the upper one, and some at each."""
    small(monkeypatch)
    story(pair("adabound", levels, final_lr=final, gamma=0.2))


class Own(Multiplicative):
    """A rule of a user's own: the kernels do not know it, so that the tree learns, and it wants the norms."""


@pytest.mark.parametrize("base", ["adam", "sgd"])
def test_a_rule_of_ones_own_that_looks_at_norms(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    made = pair(base, ("layer", "unit"), hyper_rule=Own(), hyper_lr=0.02)
    story(made)
    assert min(changes(made)) > 1e-3


@pytest.mark.parametrize("levels", [("layer", "unit"), ("unit", "parameter")], ids="-".join)
def test_rates_that_would_overflow_stay(levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their hypergradients are finite, and times β they are not."""
    small(monkeypatch)
    made = pair("sgd", levels, hyper_lr={levels[0]: 1e308, levels[1]: 1e-9})
    for named in made.named:
        for _, p in named:
            p.grad = torch.full_like(p, 100.0)
    made.finish()
    made.finish()
    assert made.both[0].skipped == 1
    assert changes(made)[0] == 0


@pytest.mark.parametrize("combine", ["softmax", "normalized"])
def test_weights_that_would_overflow_stay(combine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    options = {"combine": combine, "combine_lr": 1e308, "weights": (0.6, 0.4), "hyper_lr": 1e-12}
    overflowing(pair("sgd", ("layer", "unit"), **options))


@pytest.mark.parametrize("levels", [("layer", "unit"), ("unit", "parameter")], ids="-".join)
def test_a_rate_of_0_may_grow_whatever_the_cap(levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    made = pair("adam", levels, max_change=1.1)
    made.step()
    for optimizer in made.both:
        state = optimizer.tree.state
        state.levels[0].rates.zero_()
        for leaf in state.leaves:
            leaf.rates.view(-1)[::2] = 0.0
    made.step()
    made.step()
    assert made.both[0].tree.state.levels[0].rates.max() > 0


def test_decoupled_decay_of_1_and_cosines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two constants of a step that happen to be the same number."""
    small(monkeypatch)
    story(pair("adamw", ("layer", "parameter"), hyper_rule="multiplicative", hyper_lr=0.02, weight_decay=1.0))


def test_softmax_of_large_numbers() -> None:
    learning, logits = interpreted.load().learning, torch.tensor([800.0, 799.0, -800.0], dtype=torch.float64)
    found = learning.gammas(logits.numpy(), learning.SOFTMAX)
    np.testing.assert_allclose(found, logits.softmax(0).numpy(), rtol=1e-14)


@pytest.mark.parametrize("rest", [0.5, 0.0])
def test_a_cap_near_the_largest_number(rest: float) -> None:
    """The rate is above what there is; the cap lets it grow to the largest number, and not to ∞."""
    k, most = interpreted.load().kernels, np.finfo(np.float64).max
    with np.errstate(all="ignore"):
        assert k.capped(np.inf, 0.9 * most, 2.0, 0.5, 0.0, most) == most
        assert k.capped(rest, 0.0, 2.0, 0.5, 0.0, most) == rest


@pytest.mark.parametrize("capped", [False, True])
def test_the_largest_change_is_still_a_change(capped: bool) -> None:
    package = interpreted.load()
    k, runs, most = package.kernels, package.runs, np.finfo(np.float64).max
    c = np.zeros(k.CONSTANTS)
    c[[k.ONE, k.CHAIN, k.LEARNS, k.EPS, k.EPS_, k.SCALE_, k.B1]] = 1.0
    c[k.BETA], c[k.LARGEST], c[k.MAX_LR] = most, most, np.inf
    arrays = [np.array([value]) for value in (1.0, 1.0, 0.0, 0.0, 3.0)]
    runs._adam_learn_and_move(capped)(*arrays, 0.0, 0.0, 1, c)
    assert arrays[3] == most


def test_weights_that_would_all_become_0_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    learning = small(monkeypatch).learning
    gamma = np.array([0.25, 0.75])
    found = learning.new_weights(gamma, np.array([2.0, 3.0]), 1.0, learning.NORMALIZED)
    np.testing.assert_array_equal(found, gamma)
