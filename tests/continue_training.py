"""Cases for checkpoints, and a program that goes on from one: ``python continue_training.py FOLDER``.

The test writes ``NAME.pt`` after some steps; this program, a fresh process, loads each of them, takes the
remaining steps and writes ``NAME.done.pt``.
"""

import pathlib
import sys

import torch
from torch import nn

import camhd

FIRST, REST = 7, 6
FAST = {"hyper_lr": 1e-3, "combine_lr": 0.5}
PAPERS = {"hyper_rule": "additive", **FAST}
DEEP = ("global", "layer", "unit", "parameter")


class Momentum(camhd.hyper.HyperRule):
    """A hyper rule with state of its own: the pull is averaged over steps."""

    def start(self, rates):
        return {"average": torch.zeros_like(rates)}

    def update(self, rates, pull, state):
        average = 0.5 * state["average"] + 0.5 * pull.hyper
        return rates - average, {"average": average}


def _wrapped(inner):
    return lambda model: camhd.wrap(inner(model.named_parameters()), levels=DEEP, **PAPERS)


CASES = {
    "sgd": lambda m: camhd.SGD(m, lr=0.05, **PAPERS),
    "nesterov": lambda m: camhd.SGD(m, lr=0.05, momentum=0.9, nesterov=True, levels=DEEP, **PAPERS),
    "adam": lambda m: camhd.Adam(m, lr=0.01, **PAPERS),
    "adam-deep": lambda m: camhd.Adam(m, lr=0.01, weight_decay=0.01, levels=DEEP, combine="softmax", **PAPERS),
    "amsgrad-per-layer": lambda m: camhd.Adam(m, amsgrad=True, combine=camhd.combine.PerLayer(), **PAPERS),
    "adam-network": lambda m: camhd.Adam(m, combine=camhd.combine.Network(), levels=DEEP, **PAPERS),
    "adam-regularized": lambda m: camhd.Adam(
        m,
        hyper_lr=1e-3,
        hyper_rule="additive",
        combine=camhd.combine.Regularized(100.0, over_time=50.0),
        levels=("global", "layer", "unit"),
    ),
    "default": camhd.Adam,
    "default-nesterov": lambda m: camhd.SGD(m, momentum=0.9, nesterov=True, levels=("global", "layer", "unit")),
    "adam-own-hyper-rule": lambda m: camhd.Adam(m, hyper_rule=Momentum(), levels=DEEP, **FAST),
    "adamw": lambda m: camhd.AdamW(m, lr=0.01, weight_decay=0.5, decay=0.01, **PAPERS),
    "adabound": lambda m: camhd.AdaBound(m, lr=0.01, levels=DEEP, hyper_rule="multiplicative"),
    "two-groups": lambda m: camhd.AdamW(
        [{"params": m[0].named_parameters(), "lr": 0.02}, {"params": m[2].named_parameters(), "hyper_lr": 1e-2}],
        lr=0.01,
        **PAPERS,
    ),
    "wrapped-rmsprop": _wrapped(lambda p: torch.optim.RMSprop(p, lr=0.01)),
    "wrapped-nadam": _wrapped(lambda p: torch.optim.NAdam(p, lr=0.01)),
}
BFLOAT16 = ("adam-deep", "nesterov", "adamw", "adabound")
FLOAT16 = ("adam-deep",)
RUNS = [(name, torch.float32) for name in CASES]
RUNS += [(name, torch.bfloat16) for name in BFLOAT16] + [(name, torch.float16) for name in FLOAT16]


def build(name, dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)
    opt = CASES[name](model)
    return model, opt, torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)


def train(model, opt, scheduler, steps, start):
    dtype = next(model.parameters()).dtype
    for t in range(start, start + steps):
        x = torch.randn(8, 4, generator=torch.Generator().manual_seed(t)).to(dtype)
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()
        scheduler.step()


def main(folder):
    for name, dtype in RUNS:
        key = f"{name}-{str(dtype).split('.')[1]}"
        saved = torch.load(folder / f"{key}.pt", weights_only=True)
        model, opt, scheduler = build(name, dtype)
        model.load_state_dict(saved["model"])
        scheduler.load_state_dict(saved["scheduler"])
        opt.load_state_dict(saved["optimizer"])
        train(model, opt, scheduler, REST, FIRST)
        torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, folder / f"{key}.done.pt")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
