"""The registry: every optimizer of the lab by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import nn

from ... import SGD, AdaBound, Adam, AdamW, HyperOptions, baselines
from ..choices import choose_a
from . import paper, peers
from .drivers import Driver
from .entry import Entry, Package, option_names

# Rates and β where neither the paper nor a person says: those of Adam are torch's and the paper's; SGD's β is that of
# the paper's LeNet-5 row, SGDN's a tenth, because its directions are ten times as long.
SGD_LR, SGDN_LR, ADAM_LR = {"lr": 0.1}, {"lr": 0.01, "momentum": 0.9, "nesterov": True}, {"lr": 1e-3}
SGD_BETA, SGDN_BETA, ADAM_BETA = {"hyper_lr": 1e-3}, {"hyper_lr": 1e-4}, {"hyper_lr": 1e-7}
MULTIPLICATIVE = {"hyper_rule": "multiplicative"}
LONG_HORIZON = {"hyper_rule": "long_horizon"}
LEVELS = {2: ("global", "layer"), 3: ("global", "layer", "unit")}


def find(name: str) -> Entry:
    """The entry of that name; an unknown name lists the choices and the nearest one.

    >>> find("adam-cam-hd-2").label
    'Adam-CAM-HD, 2 levels'
    """
    known = _registry()
    return known[choose_a("optimizer", name, known)]


def build(name: str, model: nn.Module, options: Mapping[str, Any] | None = None, task: str | None = None) -> Driver:
    """An optimizer over a model, ready to be driven.

    Args:
        name: its name in the registry.
        model: the model.
        options: what is set, in place of defaults.
        task: picks the paper's settings for it: "ffnn", "ffnn:100,100", "lenet5", "resnet"; see `task_of`.

    >>> driver = build("adam", nn.Linear(2, 2), {"lr": 0.5})
    >>> driver.rate()
    0.5
    """
    return find(name).build(model, options, task)


def names() -> list[str]:
    """All names, in the order in which a person would read them."""
    return list(_registry())


def entries() -> list[Entry]:
    """All entries, in the order of `names`."""
    return list(_registry().values())


@cache
def _registry() -> dict[str, Entry]:
    return {
        entry.name: entry for entry in (*_torch(), *_hypergradient(), *_baselines(), *_camhd(), *_default(), *_peers())
    }


def _paper(name: str) -> dict[str, Mapping[str, Any]]:
    found = {task: paper.settings(task).get(name) for task in paper.TASKS}
    return {task: options for task, options in found.items() if options is not None}


def _own(
    name: str, label: str, kind: Callable[..., torch.optim.Optimizer], extra: Mapping[str, Any], **defaults: Any
) -> Entry:
    """An optimizer that is built from the model itself."""
    return Entry(name, label, kind, option_names(kind, 1, extra), defaults, _paper(name))


def _learned(name: str, label: str, kind: Callable[..., torch.optim.Optimizer], **defaults: Any) -> Entry:
    """A camhd class in the paper's form."""
    accepts = option_names(kind, 1, HyperOptions.__annotations__)
    return Entry(name, label, paper.in_its_form(kind), accepts, defaults, _paper(name))


def _torch() -> Iterator[Entry]:
    for name, label, kind, defaults in (
        ("sgd", "SGD", torch.optim.SGD, SGD_LR),
        ("sgdn", "SGDN", torch.optim.SGD, SGDN_LR),
        ("adam", "Adam", torch.optim.Adam, ADAM_LR),
        ("adamw", "AdamW", torch.optim.AdamW, ADAM_LR),
        ("radam", "RAdam", torch.optim.RAdam, ADAM_LR),
        ("nadam", "NAdam", torch.optim.NAdam, ADAM_LR),
    ):
        yield Entry(name, label, _over_parameters(kind), option_names(kind, 1), defaults, _paper(name))


def _over_parameters(kind: Callable[..., torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    return lambda model, **options: kind(model.parameters(), **options)


def _hypergradient() -> Iterator[Entry]:
    extra = baselines.HDOptions.__annotations__
    sgdn = {"lr": SGDN_LR["lr"]}
    yield _own("sgd-hd", "SGD-HD", baselines.SGDHD, extra, **SGD_LR, **SGD_BETA)
    yield _own("sgd-hd-mult", "SGD-HD, multiplicative", baselines.SGDHD, extra, **SGD_LR, **MULTIPLICATIVE)
    yield _own("sgdn-hd", "SGDN-HD", baselines.SGDNHD, extra, **sgdn, **SGDN_BETA)
    yield _own("sgdn-hd-mult", "SGDN-HD, multiplicative", baselines.SGDNHD, extra, **sgdn, **MULTIPLICATIVE)
    yield _own("adam-hd", "Adam-HD", baselines.AdamHD, extra, **ADAM_LR, **ADAM_BETA)
    yield _own("adam-hd-mult", "Adam-HD, multiplicative", baselines.AdamHD, extra, **ADAM_LR, **MULTIPLICATIVE)


def _baselines() -> Iterator[Entry]:
    yield _own("l4mom", "L4Mom", baselines.L4Mom, {}, lr=0.15)
    yield _own("l4adam", "L4Adam", baselines.L4Adam, {}, lr=0.15)
    yield _own("adabound", "AdaBound", baselines.AdaBound, {}, **ADAM_LR)
    yield _own("amsbound", "AMSBound", baselines.AMSBound, {}, **ADAM_LR)


def _camhd() -> Iterator[Entry]:
    for name, label, kind, defaults in (
        ("sgd", "SGD", SGD, {**SGD_LR, **SGD_BETA}),
        ("sgdn", "SGDN", SGD, {**SGDN_LR, **SGDN_BETA}),
        ("adam", "Adam", Adam, {**ADAM_LR, **ADAM_BETA}),
        ("adamw", "AdamW", AdamW, {**ADAM_LR, **ADAM_BETA}),
        ("adabound", "AdaBound", AdaBound, ADAM_LR),
    ):
        for count, levels in LEVELS.items():
            full, shown = f"{name}-cam-hd-{count}", f"{label}-CAM-HD, {count} levels"
            yield _learned(full, shown, kind, **defaults, levels=levels)


def _default() -> Iterator[Entry]:
    """The rule that needs no tuning, with lr as the only argument; and the same with other levels than its own."""
    extra = HyperOptions.__annotations__
    yield _own("adam-default", "camhd Adam", Adam, extra, **ADAM_LR, **LONG_HORIZON)
    yield _own("sgdn-default", "camhd SGDN", SGD, extra, **SGDN_LR, **LONG_HORIZON)
    for name, words, levels in (("1", "one level", ("global",)), ("3", "three levels", LEVELS[3])):
        yield _own(
            f"adam-default-{name}", f"camhd Adam, {words}", Adam, extra, **ADAM_LR, **LONG_HORIZON, levels=levels
        )


def _peers() -> Iterator[Entry]:
    """Each set as its own documentation says."""
    common = ("lr", "betas", "eps", "weight_decay")
    yield Entry(
        "prodigy", "Prodigy", _of_module("Prodigy"),
        (*common, "beta3", "decouple", "use_bias_correction", "safeguard_warmup", "d0", "d_coef", "growth_rate",
         "slice_p"),
        {"lr": 1.0}, package=Package("prodigyopt", "prodigyopt"),
    )  # fmt: skip
    yield Entry(
        "dadapt-adam", "D-Adapt Adam", _of_module("DAdaptAdam"),
        (*common, "decouple", "use_bias_correction", "d0", "growth_rate"),
        {"lr": 1.0}, package=Package("dadaptation", "dadaptation"),
    )  # fmt: skip
    yield Entry(
        "schedule-free-adamw", "Schedule-Free AdamW", _of_module("AdamWScheduleFree"),
        (*common, "warmup_steps", "r", "weight_lr_power", "foreach"),
        {"lr": 0.0025}, package=Package("schedulefree", "schedulefree"),
    )  # fmt: skip
    yield Entry(
        "mechanic-adam", "Mechanic (Adam)", peers.mechanic, option_names(peers.mechanic, 2),
        {"lr": 1.0}, package=Package("mechanic-pytorch", "mechanic_pytorch"),
    )  # fmt: skip
    gdtuo = "gradient-descent-the-ultimate-optimizer"
    yield Entry(
        "gdtuo-adam", "GDTUO (Adam / SGD)", peers.ultimate, option_names(peers.ultimate, 2),
        {"lr": 1e-3, "hyper_lr": 1e-5}, package=Package(gdtuo, f"{gdtuo.replace('-', '_')}.gdtuo"),
    )  # fmt: skip


def _of_module(name: str) -> Callable[..., torch.optim.Optimizer]:
    def make(module: Any, model: nn.Module, **options: Any) -> torch.optim.Optimizer:
        optimizer: torch.optim.Optimizer = getattr(module, name)(model.parameters(), **options)
        return optimizer

    return make
