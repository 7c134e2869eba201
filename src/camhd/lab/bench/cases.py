"""Who runs where: the models, the base rules, and torch's and camhd's optimizers as contestants."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import camhd
from camhd import presets

from .. import models

TWO_LEVELS = ("global", "layer")
LR = 1e-3
# Gradients never change here, so the rates would only ever grow. The work is the same, and the numbers stay small.
STILL: Mapping[str, Any] = {**presets.FORM, "hyper_lr": 1e-12, "combine_lr": 1e-12}
LONG_HORIZON: Mapping[str, Any] = {"hyper_rule": "long_horizon", "max_lr": LR}


# ---------------------------------------------------------------------- models


@dataclass(frozen=True)
class Case:
    """A model, and a batch that it can be trained on."""

    name: str
    title: str
    build: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, Tensor]] | None = None
    batch_title: str = ""

    def model(self) -> nn.Module:
        """The same parameters and the same random gradients every time."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = self.build()
            for p in model.parameters():
                p.grad = torch.randn_like(p) * 0.01
        return model

    def loss(self) -> Callable[[nn.Module], Tensor]:
        """The loss on one random batch, which stays the same."""
        if self.batch is None:
            raise ValueError(f"model {self.name!r} has no batch to be trained on.")
        inputs, targets = self.batch()

        def loss(model: nn.Module) -> Tensor:
            return F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())

        return loss


def matrix(size: float) -> Case:
    """One square matrix of about that many parameters."""
    side = round(math.sqrt(size))
    return Case(f"matrix-{size:.0e}".replace("e+0", "e"), f"{side} × {side}", lambda: _dense(side, side))


def _dense(rows: int, columns: int) -> nn.Module:
    return nn.Linear(columns, rows, bias=False)


def _images(count: int, channels: int, side: int) -> Callable[[], tuple[Tensor, Tensor]]:
    return lambda: (torch.randn(count, channels, side, side), torch.randint(10, (count,)))


def _tokens(count: int, length: int, vocabulary: int) -> Callable[[], tuple[Tensor, Tensor]]:
    return lambda: (torch.randint(vocabulary, (count, length)), torch.randint(vocabulary, (count, length)))


_SMALL = models.TRANSFORMER_SMALL
_50M = models.TRANSFORMER_50M
_BY_100, _BY_32 = "128 images", "32 images"
_ALL_CASES = (
    Case("ffnn-100", "FFNN(100,100)", lambda: models.ffnn((100, 100)), _images(128, 1, 28), _BY_100),
    Case("ffnn-1000", "FFNN(1000,1000)", lambda: models.ffnn((1000, 1000)), _images(128, 1, 28), _BY_100),
    Case("lenet5", "LeNet-5", models.lenet5, _images(128, 1, 28), _BY_100),
    Case("resnet18", "ResNet-18", models.resnet18, _images(32, 3, 32), _BY_32),
    Case("resnet34", "ResNet-34", models.resnet34, _images(32, 3, 32), _BY_32),
    Case(
        "transformer-small",
        "small transformer",
        lambda: models.transformer(_SMALL),
        _tokens(16, 64, _SMALL.vocabulary),
        "16 × 64 tokens",
    ),
    Case(
        "transformer-50m",
        "50M transformer",
        lambda: models.transformer(_50M),
        _tokens(4, 128, _50M.vocabulary),
        "4 × 128 tokens",
    ),
    Case("tensor-50m", "one tensor of 50M", lambda: _dense(5_000, 10_000)),
)
CASES: Mapping[str, Case] = {case.name: case for case in _ALL_CASES}


# ---------------------------------------------------------------------- contestants


@dataclass(frozen=True)
class Stepper:
    """Something that has been built over a model and can step."""

    step: Callable[[], object]
    holder: object  # what its state hangs on
    watch: Callable[[], Tensor]  # something that every step changes


def stepper(optimizer: torch.optim.Optimizer) -> Stepper:
    """An ordinary optimizer moves the first tensor that it was given."""
    params = (p for group in optimizer.param_groups for p in group["params"] if p.numel())
    first: Tensor = next(params)
    return Stepper(optimizer.step, optimizer, lambda: first)


@dataclass(frozen=True)
class Contestant:
    """One way to take a step."""

    library: str
    rule: str  # a key of RULES, or the name of a peer's class
    backend: str
    build: Callable[[nn.Module], Stepper]
    levels: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What a table calls it, within its rule."""
        return " ".join(filter(None, (self.library, ",".join(self.levels), self.backend)))

    @property
    def baseline(self) -> str:
        """What it is called where others are measured against it, which have the same levels if it has any."""
        return f"{self.library} {self.backend}" if self.library == "torch" else f"camhd {self.rule} {self.backend}"

    def is_measured_against(self, other: Contestant) -> bool:
        """Whether the other one is a baseline for it."""
        return other is not self and other.levels in ((), self.levels)


@dataclass(frozen=True)
class BaseRule:
    """A base rule by its class in torch and in camhd, and the options that both take."""

    title: str
    torch: Callable[..., torch.optim.Optimizer] | None
    camhd: Callable[..., camhd.Optimizer]
    options: Mapping[str, Any]
    learning: Mapping[str, Any] = field(default_factory=lambda: STILL)

    def has(self, levels: tuple[str, ...]) -> bool:
        """Whether its rates can be of these levels."""
        return self.learning is STILL or "parameter" not in levels


RULES: Mapping[str, BaseRule] = {
    "sgd": BaseRule("SGD", torch.optim.SGD, camhd.SGD, {}),
    "momentum": BaseRule("SGD, momentum", torch.optim.SGD, camhd.SGD, {"momentum": 0.9}),
    "nesterov": BaseRule("SGD, Nesterov", torch.optim.SGD, camhd.SGD, {"momentum": 0.9, "nesterov": True}),
    "adam": BaseRule("Adam", torch.optim.Adam, camhd.Adam, {}),
    "amsgrad": BaseRule("AMSGrad", torch.optim.Adam, camhd.Adam, {"amsgrad": True}),
    "adamw": BaseRule("AdamW", torch.optim.AdamW, camhd.AdamW, {"weight_decay": 1e-2}),
    "adabound": BaseRule("AdaBound", None, camhd.AdaBound, {}),
    "adam-default": BaseRule("Adam, the default rule", torch.optim.Adam, camhd.Adam, {}, LONG_HORIZON),
    "nesterov-default": BaseRule(
        "SGD, Nesterov, the default rule", torch.optim.SGD, camhd.SGD, {"momentum": 0.9, "nesterov": True}, LONG_HORIZON
    ),
}
VARIANTS: Mapping[str, Mapping[str, bool]] = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def torch_contestant(rule: str, variant: str) -> Contestant:
    """The optimizer of that rule in torch: its default, foreach or fused."""
    base = RULES[rule]

    def build(model: nn.Module) -> Stepper:
        if base.torch is None:
            raise ValueError(f"torch has no {base.title}.")
        return stepper(base.torch(model.parameters(), lr=LR, **base.options, **VARIANTS[variant]))

    return Contestant("torch", rule, variant, build)


def camhd_contestant(rule: str, levels: tuple[str, ...], backend: str) -> Contestant:
    """The optimizer of that rule in camhd."""
    base = RULES[rule]

    def build(model: nn.Module) -> Stepper:
        return stepper(base.camhd(model, lr=LR, **base.options, levels=levels, backend=backend, **base.learning))

    return Contestant("camhd", rule, backend, build, levels)


def baselines(
    rule: str, backends: tuple[str, ...], chains: Sequence[tuple[str, ...]] = (TWO_LEVELS,)
) -> list[Contestant]:
    """What a rule is measured against: torch's, or our Adam with the same chains of levels where torch has none."""
    if RULES[rule].torch is None:
        return [camhd_contestant("adam", levels, backend) for levels in chains for backend in backends]
    return [torch_contestant(rule, variant) for variant in VARIANTS]


def backend_of(holder: object) -> str:
    """The backend that a camhd optimizer really uses, as `print(optimizer)` says; else nothing."""
    found = re.search(r"\bbackend (\w+)", repr(holder)) if isinstance(holder, camhd.Optimizer) else None
    return found[1] if found else ""
