"""Hyper rules by themselves: one step against the equations of sections 3 and 7, and what arguments they take."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import camhd
import reference_long_horizon as literal
from camhd import hyper
from camhd.hyper import Pull
from camhd.rules.probe import _alike
from compare import close


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_additive_rule_subtracts_the_pull() -> None:
    rates, state = hyper.Additive().update(vector(0.1, 0.2), Pull(vector(0.05, -0.3), None, 1), {})
    close(rates, vector(0.05, 0.5))
    assert state == {}


def test_the_multiplicative_rule_follows_the_cosine_and_stays_where_there_is_none() -> None:
    pull = Pull(vector(0.05, -0.3, 0.0, 0.7), vector(0.5, 1.5, 2.0, 0.0), 1)
    rates, _ = hyper.Multiplicative().update(vector(0.1, 0.2, 0.3, 0.4), pull, {})
    close(rates, vector(0.1 * (1 - 0.1), 0.2 * (1 + 0.2), 0.3, 0.4))


def test_how_a_rate_depends_on_the_size_of_its_group() -> None:
    sizes = vector(4.0, 1.0, 0.0)
    assert hyper.scale_factor("sum", sizes) is None
    mean, size = hyper.scale_factor("mean", sizes), hyper.scale_factor("size", sizes)
    assert mean is not None
    assert size is not None
    close(mean, vector(0.25, 1.0, 1.0))
    close(size, sizes)


def test_names_of_rules() -> None:
    assert isinstance(hyper.hyper_rule("additive"), hyper.Additive)
    own = hyper.Multiplicative()
    assert hyper.hyper_rule(own) is own
    assert hyper.name_of(own) == "multiplicative"
    assert hyper.name_of(hyper.hyper_rule()) == hyper.name_of(hyper.hyper_rule(None)) == hyper.DEFAULT
    for wrong in ("subtractive", 3):
        with pytest.raises(ValueError, match="'hyper_rule' must be one of"):
            hyper.hyper_rule(wrong)  # type: ignore[arg-type] # that is the point


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("memory", (0.0, 0.5, 0.999), (-0.1, 1.0, float("nan"))),
        ("spread", (0.0, 0.999), (-0.1, 1.0, float("nan"))),
        ("patience", (1e-9, 5.0), (0.0, -1.0, float("nan"))),
        ("settle", (1e-9, 5.0), (0.0, -1.0, float("nan"))),
        ("favour", (0.0, 0.5), (-1e-9, float("nan"))),
        ("small", (1e-9,), (0.0, -1.0)),
        ("first", (1e-9,), (0.0, -1.0)),
        ("bound", (1e-9,), (0.0, -1.0)),
        ("fast", (0.0, 0.5), (-1e-9, float("nan"))),
        ("steady", (0.0, 0.5), (-1e-9,)),
        ("boost", (0.0, 0.5), (-1e-9,)),
        ("tie", (0.0, 0.5), (-1e-9,)),
        ("reach", (1e-9, float("inf")), (0.0, -1.0, float("nan"))),
        ("floor", (0.0, 0.5), (-1e-9,)),
        ("sudden", (1.0, float("inf")), (0.999, 0.0, float("nan"))),
        ("recent", (0.0, 0.999), (-1e-9, 1.0, float("nan"))),
        ("squares", (0.0, 0.5), (-1e-9, float("nan"))),
        ("average", (0.0, 1.0), (-1e-9, 1.001, float("nan"))),
    ],
)
def test_arguments_of_the_long_horizon_rule(name: str, good: tuple[float, ...], bad: tuple[float, ...]) -> None:
    for value in good:
        hyper.LongHorizon(**{name: value})
    for value in bad:
        with pytest.raises(ValueError, match=f"'{name}' must"):
            hyper.LongHorizon(**{name: value})
    for wrong in ("0.5", None, True, [0.5]):
        with pytest.raises(TypeError, match=re.escape(f"'{name}' must be a number, got {wrong!r}.")):
            hyper.LongHorizon(**{name: wrong})


def test_the_long_horizon_rule_has_the_numbers_of_its_page() -> None:
    rule: Any = hyper.LongHorizon()
    assert rule.traced is not None
    assert rule.traced == hyper.Trace(
        literal.RHO, literal.FIRST, literal.BOUND, literal.FLOOR, literal.SUDDEN, literal.RECENT
    )
    own = (rule.fast, rule.patience, rule.favour, rule.settle, rule.steady, rule.spread)
    assert own == (
        literal.BETA_MAX, literal.PATIENCE, literal.FAVOUR, literal.SETTLE, literal.STEADY, literal.SPREAD,
    )  # fmt: skip
    own = (rule.boost, rule.small, rule.tie, rule.reach, rule.squares, rule.average)
    assert own == (literal.BOOST, literal.SMALL, literal.TIE, literal.REACH, literal.SQUARES, literal.AVERAGE)
    assert rule.hyper_lr == 1.0
    assert rule.combine_lr == 0.0


def test_where_there_is_no_cosine_the_long_horizon_rule_changes_nothing() -> None:
    """No gradient, no direction, or the two at right angles; and a rate of 0 has no distance to the one above it."""
    rule, rates = hyper.LongHorizon(), vector(0.1, 0.1, 0.1, 0.0)
    state = {name: value + 0.5 for name, value in rule.start(rates).items()}
    pull = Pull(vector(0.0, 0.0, -0.2, -0.2), vector(0.0, 2.0, 0.4, 0.4), 3, vector(*[1e-3] * 4), vector(*[0.2] * 4))
    ones = vector(*[1.0] * 4)
    new, kept = rule.update(rates, pull._replace(factor=ones, reach=ones, slope=ones), state)
    assert torch.equal(new[:2], rates[:2])
    for name, value in kept.items():
        assert torch.equal(value[:2], state[name][:2])
        assert not torch.equal(value[2:], state[name][2:]) or name == "peak"
    assert new[2] > rates[2]
    assert new[3] == 0
    assert new.isfinite().all()


def test_no_step_of_the_long_horizon_rule_is_more_than_a_half() -> None:
    """However fast it is told to be, a rate grows by half or shrinks by half."""
    rule = hyper.LongHorizon(fast=100.0, tie=0.0)
    ones = vector(1.0, 1.0)
    pull = Pull(vector(-0.2, 0.2), vector(0.4, 0.4), 1, moved=1e-3 * ones, factor=ones, reach=ones, slope=ones)
    rates, _ = rule.update(vector(0.1, 0.1), pull, rule.start(ones))
    close(rates, vector(0.15, 0.05))


class Noting(hyper.HyperRule):
    """Keeps the step numbers that it is told."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def update(self, rates: torch.Tensor, pull: Pull, state: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        self.steps.append(pull.step)
        return rates, {}


def test_a_rule_is_told_the_number_of_the_step_at_every_level() -> None:
    param, rule = torch.nn.Parameter(vector(1.0, 2.0)), Noting()
    optimizer = camhd.SGD([param], lr=0.1, levels=("global", "parameter"), hyper_rule=rule, backend="foreach")
    for _ in range(3):
        param.grad = vector(1.0, 1.0)
        optimizer.step()
    assert rule.steps == [2, 2, 3, 3]


def test_states_are_alike_if_all_they_hold_is() -> None:
    """What the trial of a wrapped optimizer compares: numbers to some digits, anything else exactly."""
    alike = [
        ({"a": 1.0, "b": [1, "x"]}, {"a": 1.0 + 1e-9, "b": [1, "x"]}),
        (vector(1.0, 2.0), vector(1.0, 2.0 + 1e-9)),
        (None, None),
        ((1.0, 2), [1.0, 2]),
    ]
    apart: list[tuple[Any, Any]] = [
        ({"a": 1.0}, {"a": 1.001}),
        ({"a": 1.0}, {"b": 1.0}),
        ({"a": 1.0}, 3),
        (3, {"a": 1.0}),
        ([1], [1, 2]),
        ([1], 1),
        (1.0, "1"),
        (1.0, None),
        (vector(1.0), vector(1.0, 1.0)),
        (vector(1.0), vector(1.1)),
        (True, False),
    ]
    assert all(_alike(one, other) for one, other in alike)
    assert not any(_alike(one, other) for one, other in apart)
