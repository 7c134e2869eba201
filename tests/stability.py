"""Random training runs for the stability property: what is drawn, how it is run, and plain torch to replay it with.

The oracle is the base rule of `torch.optim` itself: every scalar is a parameter of its own there, with the combined
rate κ that our optimizer reports as its lr. (AdaBound, which torch does not have, is written out.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

import camhd
from camhd.tree import Kappas, Within

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(2, 3),
    "conv": lambda: nn.Conv2d(1, 2, (1, 2)),
    "norm": lambda: nn.LayerNorm(2),
    "gru": lambda: nn.GRU(1, 1),
    "column": lambda: nn.Linear(1, 2, bias=False),
}
UNIT = {torch.float64: 2.0**30, torch.float32: 2.0**20, torch.bfloat16: 2.0**20, torch.float16: 2.0**8}
RULES: dict[str, tuple[type[camhd.Optimizer] | None, type[torch.optim.Optimizer] | None, dict[str, Any]]] = {
    "sgd": (camhd.SGD, torch.optim.SGD, {}),
    "momentum": (camhd.SGD, torch.optim.SGD, {"momentum": 0.9, "dampening": 0.1}),
    "nesterov": (camhd.SGD, torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "adam": (camhd.Adam, torch.optim.Adam, {}),
    "adam, no eps": (camhd.Adam, torch.optim.Adam, {"eps": 0.0}),
    "adamw": (camhd.AdamW, torch.optim.AdamW, {}),
    "amsgrad": (camhd.Adam, torch.optim.Adam, {"amsgrad": True}),
    "adabound": (camhd.AdaBound, None, {}),
    "wrap": (None, torch.optim.RMSprop, {}),
    "wrap sgd": (None, torch.optim.SGD, {"momentum": 0.5}),
}
COMBINATIONS: dict[str, Callable[[], Any]] = {
    "normalized": lambda: "normalized",
    "softmax": lambda: "softmax",
    "fixed": lambda: "fixed",
    "per layer": lambda: camhd.combine.PerLayer("normalized"),
    "per layer softmax": lambda: camhd.combine.PerLayer("softmax"),
    "network": lambda: camhd.combine.Network(hidden=2),
    "closed": lambda: camhd.combine.Regularized(1e-2, solve="closed"),
}


@dataclass(frozen=True)
class Step:
    """The gradients of one step: random numbers of a size, some of them odd, one tensor without any."""

    size: float = 1.0
    odd: float | None = None
    where: int = 0  # which tensor has the odd numbers; an even one in all places, another in one
    without: int = -1
    factor: float = 1.0  # what a scheduler makes of lr

    def gradients(self, params: list[Tensor], t: int) -> list[Tensor | None]:
        random = torch.Generator().manual_seed(t)
        found: list[Tensor | None] = []
        for i, p in enumerate(params):
            g = self.size * torch.randn(p.shape, generator=random, dtype=torch.float64)
            if self.odd is not None and i == self.where % len(params):
                g = g.new_full(g.shape, self.odd) if self.where % 2 == 0 else _first(g, self.odd)
            found.append(None if i == self.without else g.to(p.dtype))
        return found


def _first(g: Tensor, value: float) -> Tensor:
    g = g.clone()
    g.view(-1)[0] = value
    return g


@dataclass(frozen=True)
class Run:
    """One training run, in words and numbers only."""

    layers: tuple[str, ...] = ("linear",)
    levels: tuple[str, ...] = ("global", "layer")
    rule: str = "adam"
    hyper_rule: str = "additive"
    combine: str = "normalized"
    dtype: str = "float32"
    backend: str = "fused"
    lr: float = 1e-3
    hyper_lr: float = 1e-3
    combine_lr: float = 1e-3
    weight_decay: float = 0.0
    bounds: tuple[float, float] | None = None  # min_lr/lr and max_lr/lr
    max_change: float | None = 2.0
    decay: float | None = None
    groups: int = 1
    steps: tuple[Step, ...] = (Step(), Step())

    def legal(self) -> bool:
        """Whether there is such an optimizer: the others are refused at the door."""
        long, settled = self.hyper_rule == "long_horizon", self.combine == "closed"
        return not ((long and ("parameter" in self.levels or settled)) or (settled and self.groups > 1))

    def build(self) -> tuple[list[Tensor], camhd.Optimizer]:
        torch.manual_seed(0)
        model = nn.Sequential(*[LAYERS[kind]() for kind in self.layers]).to(getattr(torch, self.dtype))
        named = list(model.named_parameters())
        cut = next(i for i, (name, _) in enumerate(named) if name.startswith(f"{(len(self.layers) - 1)}."))
        parts = [named] if self.groups == 1 or cut == 0 else [named[:cut], named[cut:]]
        groups: list[dict[str, Any]] = [{"params": part} for part in parts]
        if len(groups) > 1:
            groups[1] |= {"lr": 3 * self.lr, "weight_decay": self.weight_decay / 2}
        ours, theirs, options = RULES[self.rule]
        base = {"lr": self.lr, "weight_decay": self.weight_decay, **options}
        learned: dict[str, Any] = {
            "levels": self.levels, "hyper_rule": self.hyper_rule, "combine": COMBINATIONS[self.combine](),
            "hyper_lr": self.hyper_lr, "max_change": self.max_change, "decay": self.decay, "backend": self.backend,
        }  # fmt: skip
        if self.combine not in ("fixed", "closed"):
            learned["combine_lr"] = self.combine_lr
        if self.bounds:
            learned |= {"min_lr": self.bounds[0] * self.lr, "max_lr": max(3.0, self.bounds[1]) * self.lr}
        if ours is not None:
            return [p for _, p in named], ours(groups, **base, **learned)
        assert theirs is not None
        return [p for _, p in named], camhd.wrap(theirs(groups, **base), model, **learned)


def kappas(optimizer: camhd.Optimizer) -> list[Tensor]:
    """κ of every scalar at the last move, as the optimizer knows it."""
    tree, groups = optimizer._tree, optimizer._group_rates()
    state = tree.state
    within = None if state.tracing is None else Within(state.tracing.kappa)  # the bound of its layer
    limits = [group.lr_limit for group in groups]
    found = Kappas(tree.config, tree.cells, state, state.last_weights, state.last_moves, limits, within)
    params = [p for group in optimizer.param_groups for p in group["params"]]
    return [found.at(i).expand(p.shape) for i, p in enumerate(params)]


class Replay:
    """The base rule in plain torch, with a rate for every scalar."""

    def __init__(self, run: Run, params: list[Tensor], optimizer: camhd.Optimizer) -> None:
        self.scalars = [[nn.Parameter(x.clone()) for x in p.detach().flatten()] for p in params]
        _, theirs, options = RULES[run.rule]
        self.final = [group["lr"] for group in optimizer.param_groups for _ in group["params"]]
        decays = [group["weight_decay"] for group in optimizer.param_groups for _ in group["params"]]
        groups = [
            {"params": [x], "weight_decay": decay} for row, decay in zip(self.scalars, decays, strict=True) for x in row
        ]
        make = theirs or AdaBound
        self.optimizer = make(groups, lr=0.0, **options)
        self.refused = False  # whether torch could not even be told the rate, which the dtype does not have

    def step(self, grads: list[Tensor | None], rates: list[Tensor], factors: list[float]) -> None:
        self.refused |= any(
            float(kappa.max()) > torch.finfo(p[0].dtype).max for kappa, p in zip(rates, self.scalars, strict=True)
        )
        if self.refused:
            return
        each = iter(self.optimizer.param_groups)
        for row, g, kappa, factor in zip(self.scalars, grads, rates, factors, strict=True):
            for i, x in enumerate(row):
                group = next(each)
                group["lr"], group["factor"] = float(kappa.reshape(-1)[i]), factor
                x.grad = None if g is None else g.reshape(-1)[i].clone()
        self.optimizer.step()

    def values(self) -> list[Tensor]:
        return [torch.stack([x.detach() for x in row]) for row in self.scalars]


class AdaBound(torch.optim.Optimizer):
    """Luo et al.'s released rule, one tensor after the other."""

    def __init__(self, params: Any, lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "factor": 1.0})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override] # no closure here
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, group, p.grad + group["weight_decay"] * p)

    def _move(self, p: Tensor, group: dict[str, Any], g: Tensor) -> None:
        state = self.state[p]
        t = state["t"] = state.get("t", 0) + 1
        wide = torch.float32 if p.dtype == torch.float16 else p.dtype
        m, v = state.get("m", torch.zeros_like(p, dtype=wide)), state.get("v", torch.zeros_like(p, dtype=wide))
        g = g.to(wide)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        state["m"], state["v"] = m, v
        final = 0.1 * group["factor"]
        low, high = final * (1 - 1 / (1e-3 * t + 1)), final * (1 + 1 / (1e-3 * t))
        scale = group["lr"] * math.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        p.sub_((scale / (v.sqrt() + 1e-8)).clamp(low, high) * m)


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False).map(lambda power: 10.0**power)


ODD = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e30, -1e30, 1e-30, 1e-45, 1e300, 1e38, 1e19]
STEPS = st.builds(
    Step,
    size=st.sampled_from([1.0, 1.0, 1e-6, 1e6, 1e-3, 1e12, 1e-30, 1e30, 0.0]),
    odd=st.none() | st.sampled_from(ODD),
    where=st.integers(0, 5),
    without=st.sampled_from([-1, -1, -1, 0, 1]),
    factor=st.sampled_from([1.0, 1.0, 1.0, 0.0, 0.1, 10.0]),
)
CHAINS = [
    ("global",), ("layer",), ("parameter",), ("global", "layer"), ("layer", "unit"), ("global", "layer", "parameter"),
    ("global", "layer", "gate", "unit", "parameter"), ("global", "group", "layer"), ("global", "unit"),
    ("global", "layer", "unit"),
]  # fmt: skip
RUNS = st.builds(
    Run,
    layers=st.lists(st.sampled_from(list(LAYERS)), min_size=1, max_size=2).map(tuple),
    levels=st.sampled_from(CHAINS),
    rule=st.sampled_from(list(RULES)),
    hyper_rule=st.sampled_from(["additive", "multiplicative", "long_horizon"]),
    combine=st.sampled_from(["normalized", "softmax", *COMBINATIONS]),
    dtype=st.sampled_from(["float32", "float64", "float32", "float64", "bfloat16", "float16"]),
    backend=st.sampled_from(["fused", "foreach"]),
    lr=powers(-8, 3) | st.sampled_from([0.0, 1.0, 1e-3]),
    hyper_lr=powers(-8, 3) | st.sampled_from([0.0, 1.0]),
    combine_lr=powers(-8, 3) | st.just(0.0),
    weight_decay=st.sampled_from([0.0, 0.0, 1e-2, 1.0, 1e3]),
    bounds=st.none() | st.tuples(powers(-6, 0), powers(0.5, 6)),
    max_change=st.sampled_from([2.0, None, 1.1, 100.0]),
    decay=st.sampled_from([None, None, 0.01]),
    groups=st.integers(1, 2),
    steps=st.lists(STEPS, min_size=2, max_size=6).map(tuple),
).filter(Run.legal)


def all_rates(optimizer: camhd.Optimizer) -> Iterator[tuple[str, Tensor]]:
    for level, tensors in optimizer._tree.level_rates().items():
        yield level, torch.cat([tensor.reshape(-1).double() for tensor in tensors])
