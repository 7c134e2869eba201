"""The stability property: no gradient breaks a rate, a weight between levels or a parameter.

After any steps every rate is finite and within its bounds, γ is on the simplex, and the parameters are finite if the
base rule with the same rates would leave them so.

CI draws 500 runs, always the same. For 10,000 new ones:

    pytest tests/test_stability.py --hypothesis-profile=search

Every run that ever failed is an `example` below.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from torch import Tensor

import camhd
from stability import RUNS, UNIT, Replay, Run, Step, all_rates, kappas

EXAMPLES = 500 if settings().derandomize else 10_000

# Besides those below, two whose lr was so large that wrap() took torch's SGD for an optimizer that it cannot wrap.

# A rate above 65504, which torch's own SGD refuses in float16.
RATE_ABOVE_THE_DTYPE = Run(
    layers=("column", "linear"),
    levels=("global", "unit"),
    rule="sgd",
    dtype="float16",
    backend="foreach",
    lr=0.0,
    hyper_lr=1.0,
    combine_lr=0.06122133937267536,
    weight_decay=1000.0,
    max_change=None,
    steps=(Step(odd=1e38, where=1, without=1), Step(size=0.0, where=2)),
)
# The bounds of the long-horizon rule pulled the global rate to 0.0047, whatever min_lr said.
PULLED_BELOW_MIN_LR = Run(
    layers=("gru", "norm"),
    levels=("global",),
    rule="wrap sgd",
    hyper_rule="long_horizon",
    combine="per layer",
    dtype="float64",
    backend="foreach",
    lr=1.0,
    hyper_lr=1.855804802368185e-08,
    combine_lr=0.8075226989451204,
    weight_decay=1.0,
    bounds=(0.36072785196311863, 12.589254117941675),
    decay=0.01,
    groups=2,
    steps=(
        Step(odd=0.0, without=1),
        Step(size=0.0, odd=1e30, where=5, without=0, factor=10.0),
        Step(odd=-math.inf, where=4),
        Step(odd=-0.0, where=3, factor=10.0),
    ),
)


@pytest.mark.slow
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(RUNS)
@example(PULLED_BELOW_MIN_LR)
@example(RATE_ABOVE_THE_DTYPE)
@example(Run(layers=("linear", "linear"), rule="wrap sgd", lr=976.3, groups=2))
@example(Run(layers=("column", "norm"), rule="wrap sgd", dtype="float16", lr=1000.0, groups=2))
@example(replace(PULLED_BELOW_MIN_LR, rule="sgd", levels=("global", "layer"), layers=("linear",), backend="fused"))
def test_no_gradient_breaks_a_rate_a_weight_or_a_parameter(run: Run) -> None:
    check(run)


def check(run: Run) -> None:
    params, optimizer = run.build()
    replay, before = Replay(run, params, optimizer), dict(all_rates(optimizer))
    finite = True
    for t, step in enumerate(run.steps):
        for group in optimizer.param_groups:
            group["lr"] = step.factor * group["lr0"]
        grads = step.gradients(params, t)
        for p, g in zip(params, grads, strict=True):
            p.grad = g
        optimizer.step()
        rates = kappas(optimizer)
        replay.step(grads, rates, [step.factor] * len(params))
        before = rates_hold(run, optimizer, before)
        weights_hold(run, optimizer)
        finite = finite and comfortable(run, replay, grads)
        if finite:
            for p, (level, kappa) in zip(params, enumerate(rates), strict=True):
                assert p.isfinite().all(), f"parameter {level} at step {t}: {p}, κ {kappa}, gradient {p.grad}"


def rates_hold(run: Run, optimizer: camhd.Optimizer, before: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every rate is finite, within its bounds and within the cap on its change; returns them."""
    low, high = optimizer.config.min_lr, optimizer.config.max_lr
    slack = 1e-6
    now = dict(all_rates(optimizer))
    for level, rates in now.items():
        assert rates.isfinite().all(), (level, rates)
        assert (rates >= low * (1 - slack)).all(), (level, rates)
        assert (rates <= (math.inf if high is None else high) * (1 + slack)).all(), (level, rates)
        old = before[level]
        if run.max_change is not None:
            learned = old > 0
            assert (rates <= old * run.max_change * (1 + slack))[learned].all(), (level, old, rates)
            if run.hyper_rule != "long_horizon":  # its bounds may pull a rate down further
                assert (rates >= old / run.max_change * (1 - slack) - 1e-45)[learned].all(), (level, old, rates)
    return now


def weights_hold(run: Run, optimizer: camhd.Optimizer) -> None:
    """γ is on the simplex, where there is one."""
    assert all(value.isfinite().all() for value in optimizer.combination_state().values())
    if run.combine in ("network", "closed"):
        return
    found = optimizer.combination()
    for gamma in found.values() if run.combine.startswith("per layer") else [found]:
        weights = list(gamma.values())
        assert min(weights) >= 0
        assert math.isclose(sum(weights), 1, rel_tol=1e-5 if run.dtype != "float64" else 1e-12), weights


def comfortable(run: Run, replay: Replay, grads: list[Tensor | None]) -> bool:
    """Whether plain torch has finite parameters, and not by a hair's breadth: sums may be rounded in another order."""
    values = torch.cat(replay.values())
    if replay.refused:
        return False
    most = torch.finfo(values.dtype).max / 1e3
    if run.rule.startswith("wrap"):  # it is asked for its step at an lr so large that no digit of it is lost
        most /= UNIT[values.dtype]
        if not all(g is None or (g.abs() < most).all() for g in grads):
            return False
    return bool((values.abs() < most).all())


def test_the_property_can_fail() -> None:
    """An optimizer whose rate was broken behind its back does not pass."""
    run = Run(steps=(Step(),))
    _, optimizer = run.build()
    before = dict(all_rates(optimizer))
    optimizer._tree.state.levels[0].rates.fill_(math.nan)
    try:
        rates_hold(run, optimizer, before)
    except AssertionError:
        return
    raise RuntimeError("a rate of NaN was not noticed")
