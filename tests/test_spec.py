"""Section 8 of the specification: signs, sums, scales and orders.

Its other lines have files of their own: the base optimizer (``test_base_rules``), hypergradient descent, autograd
(``test_hypergradients``), the theorems, and section 9 (``test_param_groups``, ``test_schedules``).
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import camhd
from cases import CHAINS, RULES, Setup, block_of, strength
from compare import close, flat
from models import backward, build, feed, gradients_of

pytestmark = pytest.mark.usefixtures("papers_form")

# Signs, sums and scales.


@pytest.mark.parametrize("hyper_rule", ["additive", "multiplicative"])
@pytest.mark.parametrize("sign", [1, -1], ids=["agree", "disagree"])
def test_a_rate_rises_where_successive_gradients_agree_and_falls_where_they_do_not(sign: int, hyper_rule: str) -> None:
    model = build("mlp")
    optimizer = camhd.SGD(model, lr=0.1, levels=("global", "layer", "parameter"), hyper_lr=1e-3, hyper_rule=hyper_rule)
    g = gradients_of(model, 1)[0]
    feed(optimizer, model, [g, {name: sign * value for name, value in g.items()}])
    for rates in optimizer.rates().values():
        assert bool((sign * (flat(rates) - 0.1) > 0).all())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("levels", [chain for chain in CHAINS if len(chain) > 1], ids=">".join)
def test_hypergradients_sum_up_the_tree(rule: str, levels: tuple[str, ...]) -> None:
    """With equal weights and one β, the changes of all rates of a level add up to the same at every level."""
    model = build(CHAINS[levels])
    beta = 0.05 * 0.02 / strength(model, rule)
    options = {**RULES[rule].options, "lr": 0.02, "hyper_lr": beta}
    optimizer = Setup(rule, levels, "fixed", options).library(model)
    old = optimizer.rates()
    for t in range(1, 6):
        backward(model, t)
        optimizer.step()
        new = optimizer.rates()
        sums = [float((flat(new[level]) - flat(old[level])).sum()) for level in new]
        assert sums == pytest.approx([sums[0]] * len(sums), rel=1e-9, abs=1e-15)
        assert (t == 1) == (sums[0] == 0)
        old = new


SCALE = 8.0


@pytest.mark.parametrize("levels", [("global",), ("global", "layer"), ("layer", "unit", "parameter")], ids=">".join)
@pytest.mark.parametrize(
    ("rule", "power"),
    [("sgd", 2), ("momentum", 2), ("dampening", 2), ("nesterov", 2), ("adam", 1), ("amsgrad", 1), ("adamw", 1)],
)
def test_rates_of_the_additive_rule_move_by_a_power_of_the_scale_of_the_loss(
    rule: str, power: int, levels: tuple[str, ...]
) -> None:
    """c² for SGD, c for Adam (whose ε is out of the way)."""
    moved = []
    for factor in (1.0, SCALE):
        model = build("mlp")
        options = {**RULES[rule].options, "lr": 0.1, "hyper_lr": 1e-5, "weight_decay": 0.0}
        options |= {} if power == 2 else {"eps": 1e-300}
        optimizer = Setup(rule, levels, "fixed", options).library(model)
        feed(optimizer, model, gradients_of(model, 6, factor))
        moved.append(torch.cat([flat(rates) - 0.1 for rates in optimizer.rates().values()]))
    torch.testing.assert_close(moved[1], SCALE**power * moved[0], rtol=1e-9, atol=1e-14)
    assert float(moved[0].abs().max()) > 1e-5


@pytest.mark.parametrize("form", ["fixed", "normalized", "per-layer fixed"])
@pytest.mark.parametrize("levels", [("global",), ("global", "layer"), ("layer", "unit", "parameter")], ids=">".join)
@pytest.mark.parametrize("rule", ["sgd", "momentum", "nesterov", "adam", "amsgrad", "adamw"])
def test_rates_of_the_multiplicative_rule_do_not_see_the_scale_of_the_loss(
    rule: str, levels: tuple[str, ...], form: str
) -> None:
    ends = []
    for factor in (1.0, SCALE):
        model = build("mlp")
        options = {**RULES[rule].options, "lr": 0.1, "hyper_lr": 0.05, "hyper_rule": "multiplicative"}
        options |= {"weight_decay": 0.0, "combine_lr": 0.0}
        options |= {} if RULES[rule].linear_in_gradient else {"eps": 1e-300}
        optimizer = Setup(rule, levels, form, options).library(model)
        feed(optimizer, model, gradients_of(model, 6, factor))
        ends.append(torch.cat([flat(rates) for rates in optimizer.rates().values()]))
    close(ends[1], ends[0])
    assert float((ends[0] / 0.1 - 1).abs().max()) > 0.1


def test_the_multiplicative_rule_does_not_see_the_size_of_the_group() -> None:
    rates = []
    for copies in (1, 50):
        p = nn.Parameter(torch.ones(copies, 3, dtype=torch.float64))
        optimizer = camhd.SGD([p], lr=0.1, levels=("global",), hyper_lr=0.05, hyper_rule="multiplicative")
        for g in ([1.0, 2.0, -1.0], [1.0, 1.0, 1.0], [0.5, 2.0, 0.0]):
            p.grad = torch.tensor(g, dtype=torch.float64).expand(copies, 3).clone()
            optimizer.step()
        rates.append(optimizer.rates()["global"])
    close(rates[1], rates[0])


@pytest.mark.parametrize(("scale", "power"), [("sum", 1), ("mean", 0), ("size", 2)])
def test_hyper_scale_says_how_a_rate_grows_with_the_size_of_its_group(scale: str, power: int) -> None:
    """N equal scalars: H grows as n; the rate moves by β n, β or β n²."""
    moved = []
    for n in (1, 10):
        p = nn.Parameter(torch.ones(n, dtype=torch.float64))
        optimizer = camhd.SGD([p], lr=0.1, levels=("layer",), hyper_lr=1e-3, hyper_scale=scale, max_change=None)
        for _ in range(2):
            p.grad = torch.full_like(p, 2.0)
            optimizer.step()
        moved.append(optimizer.rates()["layer"]["0"] - 0.1)
    assert moved[0] == pytest.approx(1e-3 * 4.0, rel=1e-10)
    assert moved[1] == pytest.approx(10**power * moved[0], rel=1e-10)


# The order of the parameters.


@pytest.mark.parametrize("levels", [c for c in CHAINS if "gate" not in c], ids=">".join)
@pytest.mark.parametrize("rule", RULES)
def test_the_order_of_the_parameters_does_not_matter(rule: str, levels: tuple[str, ...]) -> None:
    models, optimizers = [], []
    for order in (lambda names: names, lambda names: names[::-1], lambda names: names[2:] + names[:2]):
        model = build("cnn")
        beta = 0.05 * 0.02 / strength(model, rule)
        options = {**RULES[rule].options, "lr": 0.02, "hyper_lr": beta, "combine_lr": 0.1}
        names = [camhd.levels.Block(block_of) if level == "block" else level for level in levels]
        make = getattr(camhd, RULES[rule].camhd)
        optimizers.append(make(order(list(model.named_parameters())), levels=tuple(names), **options))
        models.append(model)
        for t in range(1, 6):
            backward(model, t)
            optimizers[-1].step()
    for model, optimizer in zip(models[1:], optimizers[1:], strict=True):
        for level, rates in optimizers[0].rates().items():
            other = optimizer.rates()[level]
            keys = list(rates) if isinstance(rates, dict) else [None]
            for key in keys:
                close(other if key is None else other[key], rates if key is None else rates[key])
        for name, p in models[0].named_parameters():
            close(model.get_parameter(name), p)


@pytest.mark.parametrize("levels", [("global", "layer"), ("layer", "global")], ids=">".join)
def test_levels_may_be_spelled_in_either_order(levels: tuple[str, ...]) -> None:
    by_name = {"global": 0.8, "layer": 0.2}
    ends = []
    for weights in (by_name, tuple(by_name[level] for level in levels)):
        model = build("mlp")
        optimizer = camhd.SGD(model, lr=0.05, levels=levels, weights=weights, hyper_lr=1e-2, combine_lr=1e-1)
        assert optimizer.combination() == pytest.approx(by_name)
        for t in range(1, 6):
            backward(model, t)
            optimizer.step()
        assert list(optimizer.rates()) == list(optimizer.combination()) == ["global", "layer"]
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*ends)


# The first step, and the guards.


@pytest.mark.parametrize("rule", RULES)
def test_the_first_step_leaves_rates_and_weights_alone(rule: str) -> None:
    model = build("mlp")
    options = {**RULES[rule].options, "lr": 0.02, "hyper_lr": 10.0, "combine_lr": 10.0}
    optimizer = Setup(rule, ("global", "layer"), "normalized", options).library(model)
    backward(model, 1)
    optimizer.step()
    assert bool((torch.cat([flat(r) for r in optimizer.rates().values()]) == 0.02).all())
    assert list(optimizer.combination().values()) == [0.5, 0.5]
    backward(model, 2)
    optimizer.step()
    assert optimizer.rates()["global"] != 0.02
