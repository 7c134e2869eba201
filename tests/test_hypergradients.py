"""Every hypergradient against torch.autograd: must-be-true 1, and the third line of section 8 of the specification.

The library is seen from outside: β and δ are so large that the change of a rate or a weight from one step to the next
*is* its hypergradient, and :class:`differentiate.Observer` compares it with what autograd gives for the same move.
"""

from __future__ import annotations

import dataclasses
from itertools import cycle
from typing import Any

import pytest
from torch import nn

from cases import CHAINS, COMBINATIONS, HAS_NUMBA, REGULARIZED, RULES, Setup, everything_in_play
from differentiate import Observer
from models import build

pytestmark = pytest.mark.usefixtures("papers_form")

SCHEDULE = (1.0, 0.5, 0.8, 1.3, 1.1)  # what a scheduler makes of lr, step by step
MULTIPLICATIVE = {"hyper_rule": "multiplicative"}

needs_ancestors = {(levels, form) for levels in CHAINS for form in REGULARIZED if len(levels) == 1}
CASES = [(rule, levels, form) for rule in RULES for levels in CHAINS for form in COMBINATIONS]
# A sixth, in which every two of a rule, a chain and a form meet; the others are thorough.
PLACES = {name: i for names in (RULES, CHAINS, COMBINATIONS) for i, name in enumerate(names)}
MATRIX = [
    pytest.param(*case, marks=[] if sum(map(PLACES.__getitem__, case)) % 6 == 0 else pytest.mark.thorough)
    for case in CASES
    if case[1:] not in needs_ancestors
]
ROUND_ROBIN = [
    (rule, levels, form)
    for (rule, form), levels in zip(
        ((rule, form) for rule in RULES for form in COMBINATIONS),
        cycle(levels for levels in CHAINS if len(levels) > 1),
        strict=False,
    )
]


def case_name(value: Any) -> str:
    return ">".join(value) if isinstance(value, tuple) else str(value)


def multiplicative(setup: Setup) -> Setup:
    """β of the multiplicative rule is a fraction of the rate."""
    options = {**setup.options, **MULTIPLICATIVE, "hyper_lr": 0.1}
    return dataclasses.replace(setup, options=options, second={**(setup.second or {}), "hyper_lr": 0.07})


def watch(optimizer: Any, model: nn.Module, setup: Setup, **without: tuple[str, ...]) -> Observer:
    """Five steps under a schedule; ``without`` says which parameters have no gradient at ``step3`` and so on."""
    observer = Observer(optimizer, model, setup)
    for t, factor in enumerate(SCHEDULE, start=1):
        observer.step(factor, without.get(f"step{t}", ()))
    observer.assert_everything_moved()
    return observer


# The oracle itself.


@pytest.mark.parametrize(("rule", "levels", "form"), ROUND_ROBIN, ids=case_name)
def test_the_reference_agrees_with_autograd(rule: str, levels: tuple[str, ...], form: str) -> None:
    model = build(CHAINS[levels])
    setup = everything_in_play(rule, levels, form, model)
    watch(setup.reference(model), model, setup)


@pytest.mark.parametrize("levels", CHAINS, ids=case_name)
@pytest.mark.parametrize("rule", ["nesterov", "adamw", "adabound"])
def test_the_reference_agrees_with_autograd_under_the_multiplicative_rule(rule: str, levels: tuple[str, ...]) -> None:
    model = build(CHAINS[levels])
    setup = multiplicative(everything_in_play(rule, levels, "normalized", model))
    watch(setup.reference(model), model, setup)


# The library.


@pytest.mark.parametrize(("rule", "levels", "form"), MATRIX, ids=case_name)
def test_hypergradients_are_those_of_autograd(rule: str, levels: tuple[str, ...], form: str) -> None:
    assert_those_of_autograd(rule, levels, form, "foreach")


@pytest.mark.skipif(not HAS_NUMBA, reason="needs camhd[fused]")
@pytest.mark.parametrize(("rule", "levels", "form"), MATRIX, ids=case_name)
def test_hypergradients_of_the_kernels_are_those_of_autograd(rule: str, levels: tuple[str, ...], form: str) -> None:
    assert_those_of_autograd(rule, levels, form, "fused")


def assert_those_of_autograd(rule: str, levels: tuple[str, ...], form: str, backend: str) -> None:
    model = build(CHAINS[levels])
    setup = dataclasses.replace(everything_in_play(rule, levels, form, model), backend=backend)
    watch(setup.library(model), model, setup)


@pytest.mark.parametrize("levels", CHAINS, ids=case_name)
@pytest.mark.parametrize("rule", RULES)
def test_cosines_of_the_multiplicative_rule_are_those_of_autograd(rule: str, levels: tuple[str, ...]) -> None:
    model = build(CHAINS[levels])
    setup = multiplicative(everything_in_play(rule, levels, "normalized", model))
    watch(setup.library(model), model, setup)


@pytest.mark.parametrize("form", [form for form in COMBINATIONS if form not in REGULARIZED])
def test_weights_learn_by_the_same_hypergradients_under_the_multiplicative_rule(form: str) -> None:
    model = build("lstm")
    setup = multiplicative(everything_in_play("momentum", ("global", "gate", "unit"), form, model))
    watch(setup.library(model), model, setup)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", ["mean", "size"])
def test_hyper_scale_divides_or_multiplies_by_the_size_of_the_group(rule: str, scale: str) -> None:
    model = build("cnn")
    factor = 20.0 if scale == "mean" else 0.005  # brings the changes back to percents of the rates
    setup = everything_in_play(rule, ("global", "layer", "filter"), "normalized", model, hyper_scale=scale)
    beta = setup.options["hyper_lr"] * factor
    options = {**setup.options, "hyper_lr": beta}
    setup = dataclasses.replace(setup, options=options, second={**(setup.second or {}), "hyper_lr": 0.6 * beta})
    watch(setup.library(model), model, setup)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("levels", [("global", "layer", "unit"), ("unit",)], ids=case_name)
def test_units_of_the_input_axis_are_columns(rule: str, levels: tuple[str, ...]) -> None:
    model = build("cnn")
    setup = everything_in_play(rule, levels, "normalized", model)
    setup = dataclasses.replace(setup, axis="input")
    watch(setup.library(model), model, setup)


@pytest.mark.parametrize("form", COMBINATIONS)
@pytest.mark.parametrize("rule", RULES)
def test_a_parameter_without_a_gradient_has_no_hypergradient_now_and_no_direction_next(rule: str, form: str) -> None:
    model = build("cnn")
    setup = everything_in_play(rule, ("global", "layer", "filter"), form, model)
    watch(setup.library(model), model, setup, step2=("conv.bias", "head.weight"), step3=("stem.norm.weight",))


@pytest.mark.parametrize("rule", RULES)
def test_a_maximised_objective_has_the_hypergradients_of_its_negative(rule: str) -> None:
    model = build("mlp")
    setup = everything_in_play(rule, ("global", "layer", "parameter"), "normalized", model, maximize=True)
    watch(setup.library(model), model, setup)


@pytest.mark.parametrize("rule", RULES)
def test_any_function_of_the_step_can_be_the_decay(rule: str) -> None:
    model = build("mlp")
    setup = everything_in_play(rule, ("global", "layer"), "softmax", model, decay=lambda t: 0.9 / t)
    watch(setup.library(model), model, setup)


@pytest.mark.parametrize("form", [form for form in COMBINATIONS if form not in REGULARIZED])
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_each_level_may_have_its_own_hyper_lr(rule: str, form: str) -> None:
    model = build("mlp")
    levels = ("global", "layer", "parameter")
    setup = everything_in_play(rule, levels, form, model)
    beta = setup.options["hyper_lr"]
    by_level = {"global": 0.5 * beta, "layer": beta, "parameter": 2.0 * beta}
    setup = dataclasses.replace(
        setup,
        options={**setup.options, "hyper_lr": by_level},
        second={**(setup.second or {}), "hyper_lr": {**by_level, "layer": 0.3 * beta}},
    )
    watch(setup.library(model), model, setup)
