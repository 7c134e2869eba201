"""Bad input gets a clear error: name, rule, value, remedy."""

import pytest
import torch
from torch import nn

import camhd
from camhd.combine import Network, PerLayer, Regularized

pytestmark = pytest.mark.usefixtures("papers_form")

INF, NAN = float("inf"), float("nan")

BAD_OPTIONS = [
    ({"lr": -1.0}, r"Invalid learning rate: -1\.0; 'lr' must be 0 or more and finite"),
    ({"lr": torch.tensor(0.0)}, "A Tensor lr must start above 0"),
    ({"lr": NAN}, "Invalid learning rate: nan"),
    ({"lr": INF}, "Invalid learning rate: inf"),
    ({"lr": torch.ones(2)}, r"Tensor lr must be 1-element, got shape \(2,\)"),
    ({"betas": (1.0, 0.5)}, r"Invalid beta parameter at index 0: 1\.0; 'betas' must lie in \[0, 1\)"),
    ({"betas": (0.5, -0.1)}, r"Invalid beta parameter at index 1: -0\.1"),
    ({"eps": -1e-8}, "Invalid epsilon value: -1e-08; 'eps' must be 0 or more"),
    ({"weight_decay": -1}, "Invalid weight_decay value: -1; 'weight_decay' must be 0 or more"),
    (
        {"weights": (0.5,)},
        r"'weights' must have one number for each of the 2 levels \('global', 'layer'\), got \(0\.5,\)",
    ),
    (
        {"weights": (0.5, 0.6)},
        r"'weights' must be 0 or more and sum to 1, got \(0\.5, 0\.6\) with the sum 1\.1; divide",
    ),
    ({"weights": (1.5, -0.5)}, "'weights' must be 0 or more and sum to 1"),
    ({"weights": {"global": 1.0}}, r"'weights' must name each of the levels \('global', 'layer'\), got \('global',\)"),
    ({"hyper_lr": -1e-7}, "'hyper_lr' must be 0 or more and finite, got -1e-07; 0 switches the learning off"),
    ({"hyper_lr": NAN}, "'hyper_lr' must be 0 or more and finite, got nan"),
    ({"hyper_lr": {"unit": 1.0}}, r"'hyper_lr' must be given by level, but 'unit' is none of \('global', 'layer'\)"),
    ({"hyper_lr": {"layer": -1.0}}, r"'hyper_lr\['layer'\]' must be 0 or more"),
    ({"combine_lr": -0.1}, "'combine_lr' must be 0 or more and finite, got -0.1"),
    (
        {"combine": "mean"},
        "'combine' must be one of 'normalized', 'softmax', 'fixed' or a camhd.combine object, got 'mean'",
    ),
    ({"combine": "fixed", "combine_lr": 0.1}, "'combine_lr' must be left out with combine='fixed'"),
    ({"combine": "softmax", "weights": (1.0, 0.0)}, "'weights' must be above 0 with combine='softmax'"),
    ({"combine": Regularized(1e6), "weights": (0.5, 0.5)}, "'weights' has no meaning with regularised rates"),
    ({"combine": Regularized(1e8)}, r"2·hyper_lr·Σλ must lie between 0 and 1 .* level 'layer' .* = 20; choose λ below"),
    ({"combine": Regularized(0.0)}, r"2·hyper_lr·Σλ must lie between 0 and 1"),
    (
        {"combine": Regularized({("global", "layer"): 1.0})},
        r"\('global', 'layer'\) is no such pair.*the pairs are \[\('layer', 'global'\)\]",
    ),
    (
        {"hyper_rule": "exponential"},
        "'hyper_rule' must be one of 'additive', 'multiplicative', 'long_horizon' .* got 'exponential'",
    ),
    ({"hyper_scale": "median"}, "'hyper_scale' must be one of 'sum', 'mean', 'size', got 'median'"),
    (
        {"hyper_rule": "multiplicative", "hyper_scale": "mean"},
        "'hyper_scale' must be left out with hyper_rule='multiplicative'",
    ),
    ({"decay": -0.1}, "'decay' must be 0 or more and finite, got -0.1"),
    ({"lr_limit": -1.0}, "'lr_limit' must be 0 or more and finite, or None for lr, got -1.0"),
    ({"min_lr": -1.0}, "'min_lr' must be 0 or more and finite, got -1.0"),
    ({"min_lr": 0.1, "max_lr": 0.01}, "'max_lr' must be finite and at least min_lr=0.1, got 0.01"),
    ({"max_lr": 1e-5}, r"'lr' must lie within \[min_lr, max_lr\] = \[0\.0, 1e-05\], got 0\.001"),
    ({"schedule": "layer"}, "'schedule' must be 'all' or 'global', got 'layer'"),
    ({"schedule": "global", "levels": ("layer",)}, "schedule='global' needs the level 'global'"),
    ({"restarts": (0, 10)}, r"'restarts' must be step numbers from 1 on, got \[0, 10\]"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS, ids=[str(i) for i in range(len(BAD_OPTIONS))])
def test_a_bad_option_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        camhd.Adam(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda m: camhd.Adam(m, hyperlr=1), TypeError, "Adam has no option 'hyperlr'; did you mean 'hyper_lr'"),
        (lambda m: camhd.Adam(m, fused=True), TypeError, "Adam has no option 'fused', got True; leave it out"),
        (lambda m: camhd.SGD(m, momentum=-0.5), ValueError, "Invalid momentum value: -0.5"),
        (lambda m: camhd.SGD(m, nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
        (
            lambda m: camhd.SGD(m, momentum=0.9, dampening=0.1, nesterov=True),
            ValueError,
            "got momentum=0.9, dampening=0.1",
        ),
        (lambda m: camhd.AdaBound(m, final_lr=-0.1), ValueError, "Invalid final learning rate: -0.1"),
        (
            lambda m: camhd.AdaBound(m, gamma=0.0),
            ValueError,
            r"Invalid gamma parameter: 0\.0; 'gamma' must lie in \(0, 1\)",
        ),
        (lambda m: camhd.AdaBound(m, bounds="mine"), ValueError, "'bounds' must be 'released' or 'paper', got 'mine'"),
        (lambda m: camhd.AdaBound(m, decay_bound="log"), ValueError, "'decay_bound' must be None or 'sqrt', got 'log'"),
        (lambda m: camhd.Adam(m, lr="fast"), TypeError, "'lr' must be a number, got 'fast'"),
        (lambda m: camhd.Adam(m, hyper_lr="x"), TypeError, "'hyper_lr' must be a number, got 'x'"),
        (lambda m: camhd.Adam(m, hyper_lr={"layer": None}), TypeError, "'hyper_lr.*' must be a number, got None"),
        (lambda m: camhd.Adam(m, combine_lr="x"), TypeError, "'combine_lr' must be a number, got 'x'"),
        (lambda m: camhd.Adam(m, weights=0.5), TypeError, "'weights' must have one number for each of the levels"),
        (lambda m: camhd.Adam(m, weights=("a", "b")), TypeError, "'weights.*' must be a number, got 'a'"),
        (lambda m: camhd.Adam(m, decay="x"), TypeError, "'decay' must be a number, got 'x'"),
        (lambda m: camhd.Adam(m, lr_limit="x"), TypeError, "'lr_limit' must be a number, got 'x'"),
        (lambda m: camhd.Adam(m, max_lr="x"), TypeError, "'max_lr' must be a number, got 'x'"),
        (lambda m: camhd.Adam(m, weight_decay="x"), TypeError, "'weight_decay' must be a number, got 'x'"),
        (lambda m: camhd.Adam([]), ValueError, "empty parameter list"),
        (lambda m: camhd.Adam(torch.ones(2)), TypeError, "iterable of Tensors or dicts"),
        (
            lambda m: camhd.Adam([{"params": m.parameters(), "levels": ("global",)}]),
            ValueError,
            "'levels' holds for the whole tree",
        ),
        (
            lambda m: camhd.Adam(
                [{"params": [m.weight]}, {"params": [m.bias], "hyper_lr": 1e-9}], combine=Regularized(1e6)
            ),
            ValueError,
            "'hyper_lr' must be the same in all param groups with regularised rates.* got 1e-07 and 1e-09",
        ),
        (lambda m: camhd.levels.Unit(axis="rows"), ValueError, "'axis' must be 'output' or 'input', got 'rows'"),
        (lambda m: camhd.levels.Block("encoder"), TypeError, "'block_of' must be a function"),
        (lambda m: PerLayer("mean"), ValueError, "'combine' of PerLayer must be one of"),
        (lambda m: Network(hidden=0), ValueError, "'hidden' must be at least 1, got 0"),
        (lambda m: Regularized(-1.0), ValueError, "λ must be 0 or more and finite, got -1.0"),
        (
            lambda m: Regularized(1.0, solve="newton"),
            ValueError,
            "'solve' must be one of 'virtual', 'closed', 'last', got 'newton'",
        ),
    ],
)
def test_a_bad_argument_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make(nn.Linear(3, 2))


def test_a_schedule_that_leaves_0_is_refused_before_anything_moves():
    model = nn.Linear(3, 2)
    opt = camhd.Adam(model, lr=0.0)
    model(torch.ones(1, 3)).sum().backward()
    opt.step()
    opt.param_groups[0]["lr"] = 0.1
    before = opt.state_dict()["state"][0]["step"].clone()
    with pytest.raises(ValueError, match=r"'lr' was 0 when the param group was made and is 0\.1 now"):
        opt.step()
    assert torch.equal(opt.state_dict()["state"][0]["step"], before)


def test_groups_that_share_a_rate_with_a_default_lr_of_0_stay_finite():
    model = nn.Linear(3, 2)
    opt = camhd.SGD([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.2}], lr=0.0)
    for _ in range(3):
        opt.zero_grad()
        model(torch.ones(1, 3)).square().sum().backward()
        opt.step()
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert opt.skipped == 0
