"""The guards: bounds, the simplex, hypergradients that are not finite. Silent when not needed."""

import pytest
import torch
from torch import nn

import camhd

pytestmark = pytest.mark.usefixtures("papers_form")
WILD = {"hyper_lr": 10.0, "combine_lr": 10.0, "max_change": None}


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def train(net, opt, steps, loss=lambda y: y.square().mean()):
    for t in range(steps):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(t), dtype=torch.float64)
        opt.zero_grad()
        loss(net(x)).backward()
        opt.step()


def all_rates(opt):
    values = []
    for rates in opt.rates().values():
        flat = rates.values() if isinstance(rates, dict) else [rates]
        values += [torch.as_tensor(v, dtype=torch.float64).flatten() for v in flat]
    return torch.cat(values)


LEVELS = ("global", "layer", "unit", "parameter")


@pytest.mark.parametrize(
    "combine", ["normalized", "softmax", camhd.combine.PerLayer(), camhd.combine.Network()], ids=str
)
def test_no_rate_leaves_its_bounds(combine):
    net = model()
    opt = camhd.SGD(net, lr=0.01, levels=LEVELS, min_lr=0.004, max_lr=0.02, combine=combine, **WILD)
    seen = []
    for t in range(12):
        before = [p.detach().clone() for p in net.parameters()]
        train(net, opt, 1, lambda y, t=t: (-1) ** (t // 3) * y.sum())  # agreeing steps, then a reversal
        rates = all_rates(opt)
        assert ((rates >= 0.004) & (rates <= 0.02)).all()
        seen.append(rates)
        for p, old in zip(net.parameters(), before, strict=True):
            moved, grad = (p - old).abs(), p.grad.abs()
            assert (moved <= 0.02 * grad * (1 + 1e-9) + 1e-15).all(), "nor does the combined one"
    assert any((rates == 0.004).any() for rates in seen), "the lower bound was needed"
    assert any((rates == 0.02).any() for rates in seen), "and the upper one"


def test_rates_never_go_negative_by_default():
    """Released HD code has no floor: its rate goes negative on one step in ten (peers.md)."""
    net = model()
    opt = camhd.SGD(net, lr=0.5, levels=("global",), hyper_lr=100.0)
    for _ in range(20):
        train(net, opt, 1, lambda y: (y * torch.randn_like(y)).sum())
        assert all_rates(opt).min() >= 0


@pytest.mark.parametrize("combine", ["normalized", "softmax", camhd.combine.PerLayer("softmax")], ids=str)
def test_weights_never_leave_the_simplex(combine):
    net = model()
    opt = camhd.SGD(net, lr=0.05, levels=LEVELS, combine=combine, hyper_lr=1e-2, combine_lr=10.0)
    touched = False
    for t in range(15):
        train(net, opt, 1, lambda y, t=t: (-1) ** (t // 3) * y.sum())
        found = opt.combination()
        for gamma in found.values() if isinstance(next(iter(found.values())), dict) else [found]:
            weights = list(gamma.values())
            assert min(weights) >= 0
            assert sum(weights) == pytest.approx(1, abs=1e-12)
            touched |= min(weights) < 0.2
    assert touched


def test_when_all_weights_would_vanish_they_stay_as_they_were():
    net = model()
    opt = camhd.SGD(net, lr=0.05, combine_lr=1e9, hyper_lr=0.0, weights=(0.7, 0.3))

    def flip(step):
        return lambda y: (1 if step % 2 else -1) * y.sum()

    for step in range(4):  # gradients that reverse: ∂f/∂γ > 0 for all, so all γ would go far below 0
        train(net, opt, 1, flip(step))
        assert opt.combination() == pytest.approx({"global": 0.7, "layer": 0.3})


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("levels", [("global", "layer"), LEVELS], ids=["cells", "scalars"])
@pytest.mark.parametrize("hyper_rule", ["additive", "multiplicative"])
def test_a_hypergradient_that_is_not_finite_leaves_rates_and_weights_and_is_counted(poison, levels, hyper_rule):
    net = model()
    opt = camhd.SGD(net, lr=0.05, levels=levels, hyper_rule=hyper_rule, hyper_lr=0.1, combine_lr=0.5)
    train(net, opt, 3)
    assert opt.skipped == 0
    rates, weights = all_rates(opt), opt.combination()
    opt.zero_grad()
    net(torch.ones(2, 4, dtype=torch.float64)).sum().backward()
    net[2].bias.grad[1] = poison
    opt.step()
    assert opt.skipped == 1
    assert torch.equal(all_rates(opt), rates)
    assert opt.combination() == weights


def test_a_hypergradient_that_overflows_is_not_finite_either():
    big = nn.Parameter(torch.tensor([1.0]))
    opt = camhd.SGD([big], lr=1e-30, levels=("global",))
    for _ in range(3):
        opt.zero_grad()
        (big * 1e25).sum().backward()  # g·s = 1e50: finite factors, infinite product in float32
        opt.step()
    assert opt.skipped == 2
    assert opt.rates()["global"] == pytest.approx(1e-30)


def test_a_frozen_level_does_not_learn_while_the_others_do():
    net = model()
    opt = camhd.SGD(net, lr=0.05, hyper_lr={"layer": 0.1})
    train(net, opt, 4)
    assert opt.rates()["global"] == 0.05
    assert all(rate != 0.05 for rate in opt.rates()["layer"].values())


def test_restart_brings_the_rates_back_and_keeps_the_weights():
    net = model()
    opt = camhd.SGD(net, lr=0.05, levels=LEVELS, hyper_lr=0.1, combine_lr=0.5)
    train(net, opt, 4)
    weights = opt.combination()
    opt.restart()
    assert (all_rates(opt) == 0.05).all()
    assert opt.combination() == weights
    train(net, opt, 1)
    assert (all_rates(opt) == 0.05).all(), "a fresh rate has no move to look back on"
    train(net, opt, 1)
    assert (all_rates(opt) != 0.05).any()


def test_a_step_that_fails_halfway_leaves_no_direction_to_mix_with_new_rates(monkeypatch):
    net = model()
    opt = camhd.Adam(net, lr=0.01, hyper_lr=0.1, backend="foreach")
    train(net, opt, 3)
    rates = all_rates(opt)
    with monkeypatch.context() as patch:
        patch.setattr(opt.rule, "advance", lambda *_: (_ for _ in ()).throw(RuntimeError("halfway")))
        with pytest.raises(RuntimeError, match="halfway"):
            train(net, opt, 1)
    train(net, opt, 1)
    assert torch.equal(all_rates(opt), rates)
    train(net, opt, 1)
    assert not torch.equal(all_rates(opt), rates)
