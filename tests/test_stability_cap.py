"""`max_change`: no step changes a rate by more than a factor; against the literal reference and its promise."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import camhd
from cases import BACKENDS, CHAINS, RULES, Setup, everything_in_play, pulls
from compare import assert_same_state, flat
from models import backward, build, feed, gradients_of, snapshot, twin

pytestmark = pytest.mark.usefixtures("papers_form")

CAP, LOOSER, FAR = 1.2, 1.3, 1000
ENDS = (CAP, 1 / CAP)
PAPER = {"hyper_rule": "additive"}


class Wide(nn.Module):
    """One matrix that is long enough for the kernels of long runs, fed with gradients instead of data."""

    gates: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(60, 7).double()


def wild(rule: str, levels: tuple[str, ...], form: str, model: nn.Module, **changes: Any) -> Setup:
    """β so large that most rates would change by a multiple of themselves at every step; the groups' caps differ."""
    setup = everything_in_play(rule, levels, form, model)
    beta = FAR * setup.options["hyper_lr"]
    options = {**setup.options, "hyper_lr": beta, "max_change": CAP, **changes}
    second = {**(setup.second or {}), "max_change": LOOSER, "hyper_lr": beta}
    tied = {"pull": pulls(levels, beta) if setup.pull else {}, "over_time": setup.over_time / FAR}
    return dataclasses.replace(setup, options=options, second=second, **tied)


def alike(setup: Setup, model: nn.Module, steps: int = 6) -> tuple[Any, Tensor]:
    """Both step by step; returns how often a rate was held back at either end."""
    other = twin(model)
    optimizer, reference = setup.library(model), setup.reference(other)
    held = torch.zeros(2, dtype=torch.int64)
    for t in range(1, steps + 1):
        before = {level: rate.clone() for level, rate in reference.rate.items()}
        for one in (model, other):
            backward(one, t)
        optimizer.step()
        reference.step()
        assert_same_state(optimizer, model, reference, other)
        for level, old in before.items():
            ratio = reference.rate[level] / old
            held += torch.stack([(ratio - end).abs().lt(1e-9).sum() for end in ENDS])
    return optimizer, held


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_agrees_with_the_literal_cap(rule: str, backend: str) -> None:
    model = build("mlp")
    setup = dataclasses.replace(wild(rule, ("global", "layer", "parameter"), "fixed", model), backend=backend)
    optimizer, held = alike(setup, model)
    # Param groups of different lr that share a rate leave a per-scalar level to plain torch; see the next test.
    assert "backend foreach" in repr(optimizer)
    assert held.min() > 0, "some rates were held back on their way up, some on their way down"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", RULES)
def test_every_kernel_agrees_with_the_literal_cap(rule: str, backend: str) -> None:
    model = build("mlp")
    setup = wild(rule, ("global", "layer", "parameter"), "normalized", model)
    second = {k: v for k, v in (setup.second or {}).items() if k != "lr"}
    optimizer, held = alike(dataclasses.replace(setup, second=second, backend=backend), model)
    assert f"backend {backend}" in repr(optimizer)
    assert held.min() > 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", CHAINS, ids="-".join)
def test_every_chain_of_levels_agrees_with_the_literal_cap(levels: tuple[str, ...], backend: str) -> None:
    model = build(CHAINS[levels])
    setup = wild("nesterov", levels, "softmax", model, min_lr=0.004, max_lr=0.04)
    _, held = alike(dataclasses.replace(setup, backend=backend), model)
    assert held.sum() > 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("form", ["per-layer normalized", "virtual", "closed", "last"])
def test_every_combination_agrees_with_the_literal_cap(form: str, backend: str) -> None:
    model = build("mlp")
    _, held = alike(dataclasses.replace(wild("adam", ("global", "layer"), form, model), backend=backend), model)
    assert held.sum() > 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", [("global", "layer", "unit"), ("layer", "parameter")], ids="-".join)
def test_the_multiplicative_rule_agrees_with_the_literal_cap(levels: tuple[str, ...], backend: str) -> None:
    model = build("mlp")
    setup = wild("adamw", levels, "fixed", model, hyper_rule="multiplicative", decay=None)
    setup = dataclasses.replace(setup, options={**setup.options, "hyper_lr": 0.9}, backend=backend)
    second = {"max_change": LOOSER, "hyper_lr": 0.9}
    optimizer, held = alike(dataclasses.replace(setup, second=second), model)
    assert f"backend {backend}" in repr(optimizer)
    assert held.min() > 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_long_runs_of_scalars_agree_with_the_literal_cap(weight_decay: float, backend: str) -> None:
    model, other = Wide(), Wide()
    setup = everything_in_play("adam", ("global", "parameter"), "normalized", build("mlp"))
    shared = {"lr": 0.02, "hyper_lr": 0.05, "max_change": CAP, "weight_decay": weight_decay, "combine_lr": 0.01}
    setup = dataclasses.replace(setup, options=shared, second=None, backend=backend)
    optimizer, reference = setup.library(model), setup.reference(other)
    for step in gradients_of(model, 6):
        feed(optimizer, model, [step])
        feed(reference, other, [step])
        assert_same_state(optimizer, model, reference, other)
    assert f"backend {backend}" in repr(optimizer)
    assert float(flat(optimizer.rates()["parameter"]).max()) == pytest.approx(0.02 * CAP**5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", ["additive", "multiplicative"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_one_bad_batch_changes_no_rate_by_more_than_the_cap(dtype: torch.dtype, rule: str, backend: str) -> None:
    """A batch whose gradient is a million times as large, in the middle of quiet training, and back again."""
    model = build("mlp", dtype)
    beta = {"additive": 1e-3, "multiplicative": 1e3}[rule]
    levels = ("global", "layer", "unit", "parameter")
    optimizer = camhd.SGD(model, lr=0.01, levels=levels, hyper_rule=rule, hyper_lr=beta, backend=backend)
    before, most = flat_rates(optimizer), 1.0
    for t, size in enumerate([1, 1, 1, 1e6, 1, 1]):
        feed(optimizer, model, gradients_of(model, t + 1, size)[-1:])
        ratio = flat_rates(optimizer) / before
        assert float(ratio.max()) <= 2 * (1 + 1e-6)
        assert float(ratio.min()) >= 0.5 * (1 - 1e-6)
        before, most = flat_rates(optimizer), max(most, float(ratio.max()))
    assert most == pytest.approx(2), "the cap was needed"


def flat_rates(optimizer: camhd.Optimizer) -> Tensor:
    return torch.cat([flat(rates) for rates in optimizer.rates().values()])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rate_of_zero_may_become_any_other(backend: str) -> None:
    """No factor leads away from 0; a group that starts with lr 0 learns its first rate without a cap."""
    model = build("mlp")
    optimizer = camhd.SGD(model, lr=0.0, levels=("layer", "parameter"), **PAPER, hyper_lr=1.0, backend=backend)
    feed(optimizer, model, gradients_of(model, 2))
    first = flat_rates(optimizer)
    assert first.max() > 0.01
    feed(optimizer, model, gradients_of(model, 3)[2:])
    assert (flat_rates(optimizer) <= 2 * first * (1 + 1e-9))[first > 0].all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_none_is_the_papers_form(backend: str) -> None:
    model = build("mlp")
    optimizer = camhd.SGD(model, lr=0.01, levels=("global",), **PAPER, hyper_lr=0.01, max_change=None, backend=backend)
    one, two = gradients_of(model, 2)
    feed(optimizer, model, [one, two])
    dot = sum(float((one[name] * two[name]).sum()) for name in one)
    assert optimizer.rates()["global"] == pytest.approx(0.01 + 0.01 * dot, rel=1e-12)
    assert optimizer.rates()["global"] > 0.1


def test_the_smallest_cap_of_its_members_holds_for_a_shared_rate() -> None:
    model = build("mlp")
    groups = [
        {"params": list(model.fc1.named_parameters("fc1"))},
        {"params": list(model.fc2.named_parameters("fc2")), "max_change": 1.5},
        {"params": list(model.fc3.named_parameters("fc3")), "max_change": None},
    ]
    optimizer = camhd.SGD(groups, lr=0.01, levels=("global", "layer"), **PAPER, hyper_lr=10.0)
    feed(optimizer, model, gradients_of(model, 2))
    rates = optimizer.rates()
    assert rates["global"] == pytest.approx(0.015)
    assert rates["layer"]["fc1"] == pytest.approx(0.02)
    assert rates["layer"]["fc2"] == pytest.approx(0.015)
    assert rates["layer"]["fc3"] > 0.1


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_can_be_changed_in_mid_training_and_is_saved(backend: str) -> None:
    model = build("mlp")
    optimizer = camhd.SGD(model, lr=0.01, levels=("global", "parameter"), **PAPER, hyper_lr=10.0, backend=backend)
    feed(optimizer, model, gradients_of(model, 2))
    assert optimizer.rates()["global"] == pytest.approx(0.02)
    optimizer.param_groups[0]["max_change"] = 1.1
    saved = copy.deepcopy(optimizer.state_dict())
    other = twin(model)
    resumed = camhd.SGD(other, lr=0.01, levels=("global", "parameter"), **PAPER, hyper_lr=10.0, backend=backend)
    resumed.load_state_dict(saved)
    for one, net in ((optimizer, model), (resumed, other)):
        feed(one, net, gradients_of(net, 3)[2:])
        assert one.rates()["global"] == pytest.approx(0.022)
        assert float(flat(one.rates()["parameter"]).max()) == pytest.approx(0.022)
    assert snapshot(model)["fc1.weight"].equal(snapshot(other)["fc1.weight"])


def test_a_state_from_before_there_was_a_cap_goes_on_without_one() -> None:
    model = build("mlp")
    optimizer = camhd.SGD(model, lr=0.01, levels=("global",), **PAPER, hyper_lr=0.01)
    feed(optimizer, model, gradients_of(model, 1))
    saved = copy.deepcopy(optimizer.state_dict())
    del saved["param_groups"][0]["max_change"]
    saved["param_groups"][0]["camhd"]["version"] = 1
    optimizer.load_state_dict(saved)
    feed(optimizer, model, gradients_of(model, 2)[1:])
    assert optimizer.rates()["global"] > 0.1


@pytest.mark.parametrize("value", [1, 1.0, 0.5, 0, -2.0, math.inf, math.nan])
def test_a_factor_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"'max_change' must be above 1 and finite, got .*; it is a factor: .* None"):
        camhd.Adam(build("mlp"), max_change=value)


@pytest.mark.parametrize("value", ["2", True, (2.0,)])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="'max_change' must be a number"):
        camhd.Adam(build("mlp"), max_change=value)


def test_it_is_checked_in_a_param_group_too() -> None:
    model = build("mlp")
    with pytest.raises(ValueError, match="'max_change' must be above 1"):
        camhd.Adam([{"params": list(model.named_parameters()), "max_change": 0.9}])


def test_the_default_is_two() -> None:
    model = build("mlp")
    assert camhd.Adam(model).param_groups[0]["max_change"] == 2.0
    assert camhd.wrap(torch.optim.SGD(model.parameters(), lr=0.1)).param_groups[0]["max_change"] == 2.0
    assert camhd.baselines.AdamHD(model).param_groups[0]["max_change"] is None
