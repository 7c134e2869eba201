"""Bad input gets a clear error: name, rule, value, remedy. One table, each row with the exact message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import camhd
from camhd import baselines
from camhd.combine import Network, PerLayer, Regularized
from camhd.levels import Block, Unit

pytestmark = pytest.mark.usefixtures("papers_form")

INF, NAN = float("inf"), float("nan")
Make = Callable[[nn.Module], Any]


def adam(**options: Any) -> Make:
    return lambda m: camhd.Adam(m, **options)


def sgd(**options: Any) -> Make:
    return lambda m: camhd.SGD(m, **options)


def adabound(**options: Any) -> Make:
    return lambda m: camhd.AdaBound(m, **options)


def step(opt: torch.optim.Optimizer, m: nn.Module) -> None:
    m(torch.ones(1, 3)).sum().backward()
    opt.step()


def sparse(m: nn.Module) -> None:
    table = nn.Embedding(4, 2, sparse=True)
    opt = camhd.Adam(table)
    table(torch.tensor([1])).sum().backward()
    opt.step()


def whole_numbers(m: nn.Module) -> None:
    counts = torch.zeros(3, dtype=torch.int64)
    opt = camhd.Adam([m[0].weight, counts])
    counts.grad = torch.ones(3, dtype=torch.int64)
    opt.step()


def lr_from_0(m: nn.Module) -> None:
    opt = camhd.Adam(m, lr=0.0)
    opt.param_groups[0]["lr"] = 0.1
    step(opt, m)


def two_hyper_lrs(m: nn.Module) -> None:
    groups = [{"params": [m[0].weight]}, {"params": [m[0].bias], "hyper_lr": 1e-9}]
    camhd.Adam(groups, hyper_lr=1e-7, combine=Regularized(1e6), hyper_rule="additive")


def of(m: nn.Module, **options: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(m.parameters(), lr=0.1, **options)


BAD: dict[str, tuple[Make, type[Exception], str]] = {
    "lr below 0": (
        adam(lr=-1.0),
        ValueError,
        "Invalid learning rate: -1.0; 'lr' must be 0 or more and finite.",
    ),
    "lr not a number": (
        adam(lr=NAN),
        ValueError,
        "Invalid learning rate: nan; 'lr' must be 0 or more and finite.",
    ),
    "lr infinite": (
        adam(lr=INF),
        ValueError,
        "Invalid learning rate: inf; 'lr' must be 0 or more and finite.",
    ),
    "lr text": (
        adam(lr="fast"),
        TypeError,
        "'lr' must be a number, got 'fast'.",
    ),
    "lr true": (
        adam(lr=True),
        TypeError,
        "'lr' must be a number, got True.",
    ),
    "lr of two elements": (
        adam(lr=torch.ones(2)),
        ValueError,
        "Tensor lr must be 1-element, got shape (2,).",
    ),
    "lr tensor of 0": (
        adam(lr=torch.tensor(0.0)),
        ValueError,
        "A Tensor lr must start above 0, because a schedule acts as a multiple of the first lr; start from "
        "the lr it should reach and let the schedule begin at 0.",
    ),
    "lr above its bound": (
        adam(max_lr=1e-5),
        ValueError,
        "'lr' must lie within [min_lr, max_lr] = [0.0, 1e-05], got 0.001.",
    ),
    "beta of 1": (
        adam(betas=(1.0, 0.5)),
        ValueError,
        "Invalid beta parameter at index 0: 1.0; 'betas' must lie in [0, 1).",
    ),
    "beta below 0": (
        adam(betas=(0.5, -0.1)),
        ValueError,
        "Invalid beta parameter at index 1: -0.1; 'betas' must lie in [0, 1).",
    ),
    "betas text": (
        adam(betas=("a", 0.9)),
        TypeError,
        "'betas' must be two numbers, got ('a', 0.9).",
    ),
    "one beta": (
        adam(betas=0.9),
        TypeError,
        "'betas' must be two numbers, got 0.9.",
    ),
    "three betas": (
        adam(betas=(0.9, 0.9, 0.9)),
        TypeError,
        "'betas' must be two numbers, got (0.9, 0.9, 0.9).",
    ),
    "betas tensors": (
        adam(betas=(torch.tensor(0.5), torch.tensor(0.5))),
        ValueError,
        "betas must be either both floats or both Tensors, and here both floats, got (tensor(0.5000), "
        "tensor(0.5000)); take betas=(float(beta1), float(beta2)).",
    ),
    "eps below 0": (
        adam(eps=-1e-8),
        ValueError,
        "Invalid epsilon value: -1e-08; 'eps' must be 0 or more and finite.",
    ),
    "eps not a number": (
        adam(eps=NAN),
        ValueError,
        "Invalid epsilon value: nan; 'eps' must be 0 or more and finite.",
    ),
    "eps infinite": (
        adam(eps=INF),
        ValueError,
        "Invalid epsilon value: inf; 'eps' must be 0 or more and finite.",
    ),
    "decay of weights below 0": (
        adam(weight_decay=-1),
        ValueError,
        "Invalid weight_decay value: -1; 'weight_decay' must be 0 or more and finite.",
    ),
    "decay of weights text": (
        adam(weight_decay="x"),
        TypeError,
        "'weight_decay' must be a number, got 'x'.",
    ),
    "decay of weights a list": (
        adam(weight_decay=[1]),
        TypeError,
        "'weight_decay' must be a number, got [1].",
    ),
    "momentum below 0": (
        sgd(momentum=-0.5),
        ValueError,
        "Invalid momentum value: -0.5; 'momentum' must be 0 or more and finite.",
    ),
    "dampening text": (
        sgd(momentum=0.9, dampening="x"),
        TypeError,
        "'dampening' must be a number, got 'x'.",
    ),
    "nesterov without momentum": (
        sgd(nesterov=True),
        ValueError,
        "Nesterov momentum requires a momentum and zero dampening, got momentum=0, dampening=0; set "
        "momentum=0.9, dampening=0.",
    ),
    "nesterov with dampening": (
        sgd(momentum=0.9, dampening=0.1, nesterov=True),
        ValueError,
        "Nesterov momentum requires a momentum and zero dampening, got momentum=0.9, dampening=0.1; set "
        "momentum=0.9, dampening=0.",
    ),
    "final lr below 0": (
        adabound(final_lr=-0.1),
        ValueError,
        "Invalid final learning rate: -0.1; 'final_lr' must be 0 or more and finite.",
    ),
    "adabound with a beta of 1": (
        adabound(betas=(0.9, 1.0)),
        ValueError,
        "Invalid beta parameter at index 1: 1.0; 'betas' must lie in [0, 1).",
    ),
    "adabound with eps below 0": (
        adabound(eps=-1e-8),
        ValueError,
        "Invalid epsilon value: -1e-08; 'eps' must be 0 or more and finite.",
    ),
    "gamma of 0": (
        adabound(gamma=0.0),
        ValueError,
        "Invalid gamma parameter: 0.0; 'gamma' must lie in (0, 1), or be None for 1 − β₂.",
    ),
    "gamma of 1": (
        adabound(gamma=1.0),
        ValueError,
        "Invalid gamma parameter: 1.0; 'gamma' must lie in (0, 1), or be None for 1 − β₂.",
    ),
    "gamma above 1": (
        adabound(gamma=1.5),
        ValueError,
        "Invalid gamma parameter: 1.5; 'gamma' must lie in (0, 1), or be None for 1 − β₂.",
    ),
    "gamma text": (
        adabound(gamma="x"),
        TypeError,
        "'gamma' must be a number, or None for 1 − β₂, got 'x'.",
    ),
    "unknown bounds": (
        adabound(bounds="mine"),
        ValueError,
        "'bounds' must be 'released' or 'paper', got 'mine'.",
    ),
    "unknown decay of bounds": (
        adabound(decay_bound="log"),
        ValueError,
        "'decay_bound' must be None or 'sqrt', got 'log'.",
    ),
    "unknown option": (
        adam(hyperlr=1),
        TypeError,
        "Adam has no option 'hyperlr'; did you mean 'hyper_lr'?",
    ),
    "torch's own option": (
        adam(fused=True),
        TypeError,
        "Adam has no option 'fused', got True; leave it out: how a step is carried out is chosen by itself, "
        "or by 'backend'.",
    ),
    "no levels": (
        adam(levels=()),
        ValueError,
        "'levels' must name at least one level, got (); for plain HD use levels=('global',).",
    ),
    "a level twice": (
        adam(levels=("layer", "layer")),
        ValueError,
        "'levels' must not repeat a level, but 'layer' is there twice; leave one out.",
    ),
    "an unknown level": (
        adam(levels=("layr",)),
        ValueError,
        "'levels' must be made of 'global', 'group', 'layer', 'gate', 'unit', 'filter', 'parameter' or "
        "camhd.levels objects, got 'layr'.",
    ),
    "levels a number": (
        adam(levels=3),
        TypeError,
        "'levels' must be a sequence of levels, got 3; for one level write levels=('layer',).",
    ),
    "levels that do not nest": (
        adam(levels=("global", Block(lambda name: name[-1]), "layer")),
        ValueError,
        "'levels' must nest, but 'layer' splits across 'block' in '0.weight': one of its groups has scalars "
        "in two groups of 'block'; leave one of the two levels out, or change what 'block' is made of.",
    ),
    "level across rows or columns": (
        lambda m: Unit(axis="rows"),
        ValueError,
        "'axis' must be 'output' or 'input', got 'rows'; rows are 'output'.",
    ),
    "blocks without a function": (
        lambda m: Block("encoder"),
        TypeError,
        "'block_of' must be a function of the parameter's name, got 'encoder'; for example "
        "camhd.levels.Block(lambda name: name.split('.')[0]).",
    ),
    "weights too few": (
        adam(weights=(0.5,)),
        ValueError,
        "'weights' must have one number for each of the 2 levels ('global', 'layer'), got (0.5,).",
    ),
    "weights too many for one": (
        adam(weights=(0.5, 0.6)),
        ValueError,
        "'weights' must be 0 or more and sum to 1, got (0.5, 0.6) with the sum 1.1; divide them by their sum.",
    ),
    "weights below 0": (
        adam(weights=(1.5, -0.5)),
        ValueError,
        "'weights' must be 0 or more and sum to 1, got (1.5, -0.5) with the sum 1; divide them by their sum.",
    ),
    "weights infinite": (
        adam(weights=(INF, 0.5)),
        ValueError,
        "'weights' must be 0 or more and sum to 1, got (inf, 0.5) with the sum inf; divide them by their sum.",
    ),
    "weights not a number": (
        adam(weights=(NAN, 0.5)),
        ValueError,
        "'weights' must be 0 or more and sum to 1, got (nan, 0.5) with the sum nan; divide them by their sum.",
    ),
    "weights one number": (
        adam(weights=0.5),
        TypeError,
        "'weights' must have one number for each of the levels ('global', 'layer'), got 0.5.",
    ),
    "weights text": (
        adam(weights=("a", "b")),
        TypeError,
        "'weights['global']' must be a number, got 'a'.",
    ),
    "weights without a level": (
        adam(weights={"global": 1.0}),
        ValueError,
        "'weights' must name each of the levels ('global', 'layer'), got ('global',).",
    ),
    "hyper_lr below 0": (
        adam(hyper_lr=-1e-7),
        ValueError,
        "'hyper_lr' must be 0 or more and finite, got -1e-07; 0 switches the learning off.",
    ),
    "hyper_lr infinite": (
        adam(hyper_lr=INF),
        ValueError,
        "'hyper_lr' must be 0 or more and finite, got inf; 0 switches the learning off.",
    ),
    "hyper_lr not a number": (
        adam(hyper_lr=NAN),
        ValueError,
        "'hyper_lr' must be 0 or more and finite, got nan; 0 switches the learning off.",
    ),
    "hyper_lr text": (
        adam(hyper_lr="x"),
        TypeError,
        "'hyper_lr' must be a number, got 'x'.",
    ),
    "hyper_lr of an unknown level": (
        adam(hyper_lr={"unit": 1.0}),
        ValueError,
        "'hyper_lr' must be given by level, but 'unit' is none of ('global', 'layer'); a level that is left "
        "out does not learn.",
    ),
    "hyper_lr of a level below 0": (
        adam(hyper_lr={"layer": -1.0}),
        ValueError,
        "'hyper_lr['layer']' must be 0 or more and finite, got -1.0; 0 switches the learning off.",
    ),
    "hyper_lr of a level none": (
        adam(hyper_lr={"layer": None}),
        TypeError,
        "'hyper_lr['layer']' must be a number, got None.",
    ),
    "combine_lr below 0": (
        adam(combine_lr=-0.1),
        ValueError,
        "'combine_lr' must be 0 or more and finite, got -0.1; 0 switches the learning off.",
    ),
    "combine_lr text": (
        adam(combine_lr="x"),
        TypeError,
        "'combine_lr' must be a number, got 'x'.",
    ),
    "combine_lr with nothing to learn": (
        adam(combine="fixed", combine_lr=0.1),
        ValueError,
        "'combine_lr' must be left out with combine='fixed', which learns no weights, got 0.1; use "
        "combine='normalized' to learn them.",
    ),
    "unknown combination": (
        adam(combine="mean"),
        ValueError,
        "'combine' must be one of 'normalized', 'softmax', 'fixed' or a camhd.combine object, got 'mean'.",
    ),
    "softmax with a weight of 0": (
        adam(combine="softmax", weights=(1.0, 0.0)),
        ValueError,
        "'weights' must be above 0 with combine='softmax', which cannot give a weight of 0, got (1.0, 0.0); "
        "use combine='normalized', or a small positive weight.",
    ),
    "regularised with weights": (
        adam(combine=Regularized(1e6), weights=(0.5, 0.5)),
        ValueError,
        "'weights' has no meaning with regularised rates, which have none; leave it out, or use combine='fixed'.",
    ),
    "regularised too much": (
        adam(combine=Regularized(1e8), hyper_lr=1e-7),
        ValueError,
        "2·hyper_lr·Σλ must lie between 0 and 1 with solve='virtual', but for level 'layer' it is "
        "2·1e-07·1e+08 = 20; choose λ below 1/(2·hyper_lr), or solve='closed', which takes any λ.",
    ),
    "regularised not at all": (
        adam(combine=Regularized(0.0), hyper_lr=1e-7),
        ValueError,
        "2·hyper_lr·Σλ must lie between 0 and 1 with solve='virtual', but for level 'layer' it is 2·1e-07·0 ="
        " 0; choose λ below 1/(2·hyper_lr), or solve='closed', which takes any λ.",
    ),
    "regularised upside down": (
        adam(combine=Regularized({("global", "layer"): 1.0})),
        ValueError,
        "λ must be given for (level, level above it), but ('global', 'layer') is no such pair of the levels "
        "('global', 'layer'); the pairs are [('layer', 'global')].",
    ),
    "regularised by text": (
        lambda m: Regularized("x"),
        TypeError,
        "λ must be a number, got 'x' for ('every', 'pair').",
    ),
    "regularised below 0": (
        lambda m: Regularized(-1.0),
        ValueError,
        "λ must be 0 or more and finite, got -1.0 for ('every', 'pair').",
    ),
    "regularised without end": (
        lambda m: Regularized(INF),
        ValueError,
        "λ must be 0 or more and finite, got inf for ('every', 'pair').",
    ),
    "regularised by an unknown way": (
        lambda m: Regularized(1.0, solve="newton"),
        ValueError,
        "'solve' must be one of 'virtual', 'closed', 'last', got 'newton'.",
    ),
    "regularised with two hyper_lrs": (
        two_hyper_lrs,
        ValueError,
        "'hyper_lr' must be the same in all param groups with regularised rates, whose pull depends on it, "
        "got 1e-07 and 1e-09.",
    ),
    "layers combined in an unknown way": (
        lambda m: PerLayer("mean"),
        ValueError,
        "'combine' of PerLayer must be one of 'normalized', 'softmax', 'fixed' or such an object, got 'mean'.",
    ),
    "no hidden units": (
        lambda m: Network(hidden=0),
        ValueError,
        "'hidden' must be at least 1, got 0; use combine='normalized' for none.",
    ),
    "half a hidden unit": (
        lambda m: Network(hidden=2.5),
        TypeError,
        "'hidden' must be a whole number, got 2.5.",
    ),
    "unknown hyper rule": (
        adam(hyper_rule="exponential"),
        ValueError,
        "'hyper_rule' must be one of 'additive', 'multiplicative', 'long_horizon' or a camhd.hyper object, "
        "got 'exponential'.",
    ),
    "unknown hyper scale": (
        adam(hyper_rule="additive", hyper_scale="median"),
        ValueError,
        "'hyper_scale' must be one of 'sum', 'mean', 'size', got 'median'.",
    ),
    "hyper scale without a meaning": (
        adam(hyper_rule="multiplicative", hyper_scale="mean"),
        ValueError,
        "'hyper_scale' must be left out with hyper_rule='multiplicative', which is free of the group's size, "
        "got 'mean'.",
    ),
    "long horizon with scalars": (
        adam(hyper_rule="long_horizon", levels=("global", "parameter")),
        ValueError,
        "the level 'parameter' has no cosine to learn from with hyper_rule='long_horizon'; leave it out of "
        "'levels', or use hyper_rule='additive'.",
    ),
    "long horizon, regularised": (
        adam(hyper_rule="long_horizon", combine=Regularized(1.0)),
        ValueError,
        "regularised rates cannot be combined with hyper_rule='long_horizon', which ties levels in its own "
        "way; use combine='fixed', or hyper_rule='additive'.",
    ),
    "decay below 0": (
        adam(decay=-0.1),
        ValueError,
        "'decay' must be 0 or more and finite, or a function of the step, got -0.1.",
    ),
    "decay infinite": (
        adam(decay=INF),
        ValueError,
        "'decay' must be 0 or more and finite, or a function of the step, got inf.",
    ),
    "decay that becomes infinite": (
        lambda m: step(camhd.Adam(m, decay=lambda t: INF), m),
        ValueError,
        "'decay' must give a finite number at every step, got inf at step 1.",
    ),
    "decay text": (
        adam(decay="x"),
        TypeError,
        "'decay' must be a number, got 'x'.",
    ),
    "decay that gives no number": (
        lambda m: step(camhd.Adam(m, decay=lambda t: NAN), m),
        ValueError,
        "'decay' must give a finite number at every step, got nan at step 1.",
    ),
    "limit of lr below 0": (
        adam(lr_limit=-1.0),
        ValueError,
        "'lr_limit' must be 0 or more and finite, or None for lr, got -1.0.",
    ),
    "limit of lr text": (
        adam(lr_limit="x"),
        TypeError,
        "'lr_limit' must be a number, got 'x'.",
    ),
    "min_lr below 0": (
        adam(min_lr=-1.0),
        ValueError,
        "'min_lr' must be 0 or more and finite, got -1.0.",
    ),
    "min_lr infinite": (
        adam(min_lr=INF),
        ValueError,
        "'min_lr' must be 0 or more and finite, got inf.",
    ),
    "max_lr infinite": (
        adam(max_lr=INF),
        ValueError,
        "'max_lr' must be finite and at least min_lr=0, got inf; leave it out for no upper bound.",
    ),
    "max_lr below min_lr": (
        adam(min_lr=0.1, max_lr=0.01),
        ValueError,
        "'max_lr' must be finite and at least min_lr=0.1, got 0.01; leave it out for no upper bound.",
    ),
    "max_lr text": (
        adam(max_lr="x"),
        TypeError,
        "'max_lr' must be a number, got 'x'.",
    ),
    "unknown schedule": (
        adam(schedule="layer"),
        ValueError,
        "'schedule' must be 'all' or 'global', got 'layer'.",
    ),
    "schedule of a level that is not there": (
        adam(schedule="global", levels=("layer",)),
        ValueError,
        "schedule='global' needs the level 'global', but 'levels' has only ('layer',); add it.",
    ),
    "restart before the first step": (
        adam(restarts=(0, 10)),
        ValueError,
        "'restarts' must be step numbers from 1 on, got [0, 10].",
    ),
    "restarts one number": (
        adam(restarts=3),
        TypeError,
        "'restarts' must be step numbers from 1 on, or a function of the step, got 3.",
    ),
    "max_change of 1": (
        adam(max_change=1.0),
        ValueError,
        "'max_change' must be above 1 and finite, got 1.0; it is a factor: 2.0 lets a rate double or halve in"
        " one step, and None lets it change by any amount.",
    ),
    "max_change infinite": (
        adam(max_change=INF),
        ValueError,
        "'max_change' must be above 1 and finite, got inf; it is a factor: 2.0 lets a rate double or halve in"
        " one step, and None lets it change by any amount.",
    ),
    "max_change text": (
        adam(max_change="x"),
        TypeError,
        "'max_change' must be a number, got 'x'.",
    ),
    "a group with a max_change below 1": (
        lambda m: camhd.Adam([{"params": m.parameters(), "max_change": 0.5}]),
        ValueError,
        "'max_change' must be above 1 and finite, got 0.5; it is a factor: 2.0 lets a rate double or halve in"
        " one step, and None lets it change by any amount.",
    ),
    "unknown backend": (
        adam(backend="gpu"),
        ValueError,
        "'backend' must be one of 'auto', 'foreach', 'fused', got 'gpu'.",
    ),
    "no parameters": (
        lambda m: camhd.Adam([]),
        ValueError,
        "optimizer got an empty parameter list",
    ),
    "parameters a number": (
        lambda m: camhd.Adam(3),
        TypeError,
        "camhd.Adam needs a module, parameters, named parameters or param-group dicts, got 3.",
    ),
    "parameters a set": (
        lambda m: camhd.Adam(set(m.parameters())),
        TypeError,
        "camhd.Adam needs parameters in an order that is the same in every run, got a set; pass a list.",
    ),
    "parameters a tensor": (
        lambda m: camhd.Adam(torch.ones(2)),
        TypeError,
        "params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.FloatTensor",
    ),
    "parameters that are none": (
        lambda m: camhd.Adam([1, 2]),
        TypeError,
        "optimizer can only optimize Tensors, but one of the params is int",
    ),
    "parameters that are results": (
        lambda m: camhd.Adam([m[0].weight * 2]),
        ValueError,
        "can't optimize a non-leaf Tensor",
    ),
    "names that are none": (
        lambda m: camhd.Adam([(1, m[0].weight)]),
        TypeError,
        "the name of a parameter must be a string, got 1.",
    ),
    "a parameter in two groups": (
        lambda m: camhd.Adam([{"params": [m[0].weight]}, {"params": [m[0].weight]}]),
        ValueError,
        "some parameters appear in more than one parameter group",
    ),
    "a group without parameters": (
        lambda m: camhd.Adam([{"lr": 0.1}]),
        ValueError,
        "a param group of camhd.Adam must have 'params', got ['lr'].",
    ),
    "a group with levels": (
        lambda m: camhd.Adam([{"params": m.parameters(), "levels": ("global",)}]),
        ValueError,
        "'levels' holds for the whole tree and cannot be set for one param group, got ('global',); pass it to"
        " the optimizer. A group may have its own hyper_lr, lr_limit, max_change, maximize.",
    ),
    "an added group that is none": (
        lambda m: camhd.Adam(m[0]).add_param_group(3),
        TypeError,
        "param_group must be a dict, but got <class 'int'>",
    ),
    "an added group without names": (
        lambda m: camhd.Adam(m[0]).add_param_group({"params": [m[1].weight]}),
        ValueError,
        "all optimizer param groups should be with/without names. cannot add param group without names to the"
        " optimizer",
    ),
    "an added group with a wrong lr": (
        lambda m: camhd.Adam(m[0]).add_param_group({"params": m[1].named_parameters(), "lr": -1}),
        ValueError,
        "Invalid learning rate: -1.0; 'lr' must be 0 or more and finite.",
    ),
    "wrapping no optimizer": (
        lambda m: camhd.wrap(m),
        TypeError,
        "wrap() needs a torch.optim.Optimizer, got Sequential.",
    ),
    "wrapping what learns already": (
        lambda m: camhd.wrap(camhd.Adam(m)),
        TypeError,
        "wrap() got a camhd.Adam, whose learning rates learn already.",
    ),
    "wrapping what is not linear": (
        lambda m: camhd.wrap(torch.optim.Rprop(m.parameters())),
        ValueError,
        "wrap() needs an optimizer whose step is lr times a direction, but the state after a step depends on "
        "lr (lr=1e-06 against 0.01) in Rprop; use one of camhd's own classes, or an optimizer that uses lr as"
        " a plain factor.",
    ),
    "wrapping with another model": (
        lambda m: camhd.wrap(of(m), nn.Linear(3, 2)),
        ValueError,
        "'model' must own all parameters of the wrapped optimizer, but one of shape (2, 3) is not among "
        "model.named_parameters().",
    ),
    "wrapping with maximize": (
        lambda m: camhd.wrap(of(m), maximize=True),
        ValueError,
        "'maximize' belongs to the wrapped optimizer; set it there, before wrapping.",
    ),
    "hd with levels": (
        lambda m: baselines.AdamHD(m, levels=("global",)),
        TypeError,
        "AdamHD has no option 'levels'; the options are hyper_lr, hyper_rule, faithful, min_lr, max_lr, "
        "maximize, backend.",
    ),
    "hd as released with bounds": (
        lambda m: baselines.AdamHD(m, faithful=True, max_lr=1.0),
        ValueError,
        "'max_lr' must be left out with faithful=True, because the released code has only the additive rule, "
        "no bounds and no backends, got 1.0.",
    ),
    "l4 without a loss": (
        lambda m: baselines.L4Adam(m).step(),
        TypeError,
        "L4 needs the loss: call step(closure) or step(loss=loss), one of the two.",
    ),
    "l4 with a decay that is text": (
        lambda m: baselines.L4Mom(m, decay="slow"),
        TypeError,
        "'betas' must be one number, got ('slow',).",
    ),
    "a sparse gradient": (
        sparse,
        RuntimeError,
        "camhd.Adam does not support sparse gradients, but that of 'weight' is sparse; use "
        "torch.optim.SparseAdam for it, or make the gradient dense (sparse=False in the embedding).",
    ),
    "a gradient of whole numbers": (
        whole_numbers,
        RuntimeError,
        "camhd.Adam needs gradients of real or complex numbers, but that of '1' is torch.int64; leave the "
        "parameter out, or make it floating-point.",
    ),
    "a closure that is none": (
        lambda m: camhd.Adam(m).step(3),
        TypeError,
        "step() takes a function that gives the loss, got 3; leave it out.",
    ),
    "an lr that leaves 0": (
        lr_from_0,
        ValueError,
        "'lr' was 0 when the param group was made and is 0.1 now, but a schedule acts as a multiple of the "
        "first lr; start from the lr the group should reach and let the schedule begin at 0.",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_the_exact_message(name):
    make, error, message = BAD[name]
    with pytest.raises(error) as raised:
        make(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)))
    assert type(raised.value) is error
    assert str(raised.value) == message


def test_the_table_has_kinds_enough_and_no_bare_error():
    assert len(BAD) >= 100
    internal = ("not supported between", "object is not iterable", "has no attribute", "assert", "unexpected keyword")
    for name, (_, error, message) in BAD.items():
        assert error in (TypeError, ValueError, RuntimeError), name
        assert len(message.split()) > 3, name
        assert not any(words in message for words in internal), name


def test_a_refused_step_has_touched_nothing():
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


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_refused_param_group_leaves_no_trace(wrapped):
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    inner = torch.optim.SGD(model[0].named_parameters(), lr=0.1)
    opt = camhd.wrap(inner) if wrapped else camhd.SGD(model[0], lr=0.1)
    tree, groups = opt.tree.state, list(opt.param_groups)
    given = {"params": list(model[1].named_parameters(prefix="1")), "lr": 0.1, "hyper_lr": -1.0}
    with pytest.raises(ValueError, match=r"'hyper_lr' must be 0 or more and finite, got -1\.0"):
        opt.add_param_group(given)
    assert given["hyper_lr"] == -1.0
    assert opt.param_groups == groups
    assert opt.tree.state is tree
    assert len(inner.param_groups) == 1
    step(opt, nn.Sequential(model[0]))
