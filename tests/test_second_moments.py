"""What a new g² counts for in the second moments, with the default rule and with any other."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd.rules.adam import square_shares
from cases import EXACT
from reference_rules import square_weight

BETAS = (0.9, 0.999)
BACKENDS = ["foreach", "fused"]
KINDS = {
    "adam": (camhd.Adam, {}, False),
    "adamw": (camhd.AdamW, {}, False),
    "adabound": (camhd.AdaBound, {}, False),
    "amsgrad": (camhd.Adam, {"amsgrad": True}, True),
    "amsbound": (camhd.AdaBound, {"amsbound": True}, True),
}


def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(40, 1, bias=False, dtype=torch.float64)


def averages(opt: Any, param: Tensor, sizes: list[float], noise: float = 0.0) -> tuple[list[float], list[float]]:
    """The mean of v̂ after gradients of these sizes in one direction and some noise; and what it should be.

    What it should be follows from what the rule has said before each step, and from the gradients.
    """
    made = torch.Generator().manual_seed(0)
    found, wanted, average = [], [], torch.zeros_like(param)
    for t, size in enumerate(sizes, 1):
        least = opt._tree.square_weight() if isinstance(opt, camhd.Optimizer) else 0.0
        param.grad = size * (1 + noise * torch.randn(param.shape, generator=made, dtype=param.dtype))
        opt.step()
        average = torch.lerp(average, param.grad.square(), square_weight(t, *BETAS, least))
        found.append(float(opt.state[param]["exp_avg_sq"].mean()) / (1 - 0.999**t))
        wanted.append(float(average.mean()))
    return found, wanted


@pytest.mark.parametrize("least", [0.0, 0.003, 0.08, 0.5, 3.0])
@pytest.mark.parametrize("betas", [BETAS, (0.0, 0.99), (0.9, 0.5), (0.5, 0.0)])
def test_shares_make_the_average_that_its_weights_say(betas: tuple[float, float], least: float) -> None:
    average, v = 0.0, 0.0
    for t, square in enumerate(torch.rand(1500, dtype=torch.float64).tolist(), 1):
        average += square_weight(t, *betas, least) * (square - average)
        kept, taken = square_shares(betas, t, least)
        v = kept * v + taken * square
        assert v / (1 - betas[1] ** t) == pytest.approx(average, rel=EXACT)


@pytest.mark.parametrize("t", [1, 2, 10, 5000])
def test_where_nothing_is_asked_for_shares_are_those_of_adam(t: int) -> None:
    assert square_shares(BETAS, t, 0.0) == pytest.approx((0.999 if t > 1 else 0.0, 0.001), rel=1e-9)


@pytest.mark.parametrize("least", [0.0, 0.03, 1.0])
@pytest.mark.parametrize("t", [1, 2, 10, 50, 400])
def test_numbers_and_tensors_give_the_same_shares(t: int, least: float) -> None:
    step, wanted = torch.tensor(float(t), dtype=torch.float64), torch.tensor(least, dtype=torch.float64)
    for found in (
        square_shares(BETAS, step, wanted),
        square_shares(BETAS, t, wanted),
        square_shares(BETAS, step, least),
    ):
        assert [float(value) for value in found] == pytest.approx(square_shares(BETAS, t, least), rel=EXACT)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_the_default_rule_forgets_squares_of_long_ago(kind: str, backend: str) -> None:
    make, options, remembers = KINDS[kind]
    model, sizes = layer(), [100.0] * 20 + [1.0] * 150
    opt = make(model, backend=backend, **options)
    found, wanted = averages(opt, model.weight, sizes)
    if remembers:
        assert found[-1] > 1000
        return
    assert found == pytest.approx(wanted, rel=1e-9)
    assert found[-1] < 1.01
    assert opt._tree.square_weight() == pytest.approx(0.5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_noise_second_moments_are_adams(backend: str) -> None:
    model, sizes = layer(), [1.0] * 300
    opt = camhd.Adam(model, backend=backend)
    found, wanted = averages(opt, model.weight, sizes, noise=1e3)
    assert found == pytest.approx(wanted, rel=1e-9)
    torchs = torch.optim.Adam(layer().parameters())
    theirs, _ = averages(torchs, torchs.param_groups[0]["params"][0], sizes, noise=1e3)
    assert found[-1] == pytest.approx(theirs[-1], rel=0.02)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "options",
    [
        {"hyper_rule": "additive"},
        {"hyper_rule": "multiplicative"},
        {"hyper_rule": camhd.hyper.LongHorizon(squares=0.0)},
        {"levels": ("layer",)},  # no rate speaks for all parameters
        {"hyper_lr": 0.0},  # no evidence
    ],
)
def test_otherwise_second_moments_are_torchs(options: dict[str, Any], backend: str) -> None:
    ours, theirs = layer(), layer()
    sizes = [100 / (1 + t) for t in range(50)]
    found, _ = averages(camhd.Adam(ours, backend=backend, **options), ours.weight, sizes)
    torchs, _ = averages(torch.optim.Adam(theirs.parameters()), theirs.weight, sizes)
    assert found == pytest.approx(torchs, rel=EXACT)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_that_joins_later_counts_its_own_steps(backend: str) -> None:
    model = nn.ModuleList([layer(), layer()])
    opt = camhd.Adam(model, backend=backend)
    early, late = (one.weight for one in model)
    averages(opt, early, [1.0] * 30)
    early.grad = None
    found, wanted = averages(opt, late, [5.0, 1.0, 2.0, 1.0])
    assert found == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("manual", [True, False], ids=["by hand", "planned"])
def test_both_backends_agree_after_a_restart(manual: bool) -> None:
    found = []
    for backend in BACKENDS:
        model = layer()
        opt = camhd.Adam(model, backend=backend, restarts=() if manual else [20])
        averages(opt, model.weight, [3.0] * 19)
        if manual:
            opt.restart()
            assert opt._tree.square_weight() == 0
        found.append(averages(opt, model.weight, [1.0, 2.0, 0.5, 4.0])[0])
        assert not math.isnan(found[-1][-1])
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_a_checkpoint_goes_on_with_what_the_rule_has_said() -> None:
    ends = []
    for stops in (False, True):
        model = layer()
        opt = camhd.Adam(model)
        averages(opt, model.weight, [3.0] * 15)
        if stops:
            saved, opt = opt.state_dict(), camhd.Adam(model)
            opt.load_state_dict(saved)
        averages(opt, model.weight, [1.0] * 5, noise=0.5)
        ends.append(opt.state[model.weight]["exp_avg_sq"].clone())
    assert torch.equal(*ends)
