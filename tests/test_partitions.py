"""Who shares a rate: the library's levels against the table of section 2, as the reference reads it.

Not only the names and shapes that ``rates()`` shows: gradients are fed for some steps, so a scalar in the wrong group
gives itself away by what the rates become.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import camhd
from cases import block_of
from compare import assert_alike, flat
from models import feed, gradients_of
from reference import Reference

pytestmark = pytest.mark.usefixtures("papers_form")

LSTM, GRU = ("input", "forget", "cell", "output"), ("reset", "update", "new")


class Holder(nn.Module):
    """A module made of the given parts; a dot in a name makes a part of a part."""

    def __init__(self, **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


def vector(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.ones(shape))


ZOO: dict[str, tuple[nn.Module, dict[str, Any]]] = {
    "linear": (Holder(a=nn.Linear(3, 2), b=Holder(c=nn.Linear(2, 4, bias=False))), {}),
    "convolutions": (Holder(a=nn.Conv1d(2, 3, 2), b=nn.Conv2d(3, 2, (2, 1)), c=nn.Conv3d(1, 2, 2)), {}),
    "grouped convolution": (Holder(a=nn.Conv2d(4, 6, 2, groups=2)), {}),
    "norms": (Holder(a=nn.BatchNorm1d(3), b=nn.LayerNorm(4), c=nn.GroupNorm(2, 4)), {}),
    "embedding": (Holder(a=nn.Embedding(5, 3), b=nn.Linear(3, 5)), {}),
    "transposed convolution": (Holder(a=nn.ConvTranspose2d(2, 5, 2)), {"output_dim": {"a.weight": 1}}),
    "lstm": (Holder(a=nn.LSTM(2, 3), b=nn.Linear(3, 2)), {"gates": {"a": LSTM}}),
    "stacked lstm, both ways": (Holder(a=nn.LSTM(2, 3, 2, bidirectional=True)), {"gates": {"a": LSTM}}),
    "lstm without bias": (Holder(a=nn.LSTM(2, 3, bias=False)), {"gates": {"a": LSTM}}),
    "gru": (Holder(a=nn.GRU(3, 2, 2), b=Holder(c=nn.GRU(1, 2))), {"gates": {"a": GRU, "b.c": GRU}}),
    "cells": (Holder(a=nn.LSTMCell(2, 3), b=nn.GRUCell(2, 3)), {"gates": {"a": LSTM, "b": GRU}}),
    "nothing but an lstm": (nn.LSTM(2, 2), {"gates": {"(root)": LSTM}}),
}
CHAINS = [
    ("global",),
    ("layer",),
    ("gate",),
    ("unit",),
    ("parameter",),
    ("global", "block", "layer", "gate", "unit"),
    ("layer", "gate", "unit", "parameter"),
]


def assert_same_groups(optimizer: Any, reference: Reference, model: nn.Module) -> None:
    assert_alike(optimizer.rates(), reference.rates())
    for step in gradients_of(model, 4):
        feed(optimizer, model, [step])
        for name, p in model.named_parameters():
            reference.theta[name].grad = step[name]
            assert p.grad is not None
        reference.step()
    assert_alike(optimizer.rates(), reference.rates())


@pytest.mark.parametrize("levels", CHAINS, ids=">".join)
@pytest.mark.parametrize("name", ZOO)
def test_every_scalar_is_where_the_table_of_levels_puts_it(name: str, levels: tuple[str, ...]) -> None:
    module, where = ZOO[name]
    model = module.double()
    copies = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
    options = {"lr": 0.1, "hyper_lr": 1e-3}
    reference = Reference([{"params": copies}], "sgd", levels=levels, blocks=block_of, **options, **where)
    spelled = tuple(camhd.levels.Block(block_of) if level == "block" else level for level in levels)
    optimizer = camhd.SGD(model, levels=spelled, combine_lr=0.0, max_change=None, **options)
    assert_same_groups(optimizer, reference, model)


@pytest.mark.parametrize("levels", [("layer", "unit"), ("global", "layer", "unit", "parameter")], ids=">".join)
@pytest.mark.parametrize("name", ["linear", "convolutions", "norms", "embedding"])
def test_units_of_the_input_axis_are_columns_of_each_tensor(name: str, levels: tuple[str, ...]) -> None:
    model = ZOO[name][0].double()
    copies = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
    options = {"lr": 0.1, "hyper_lr": 1e-3}
    reference = Reference([{"params": copies}], "sgd", levels=levels, axis="input", **options)
    spelled = tuple(camhd.levels.Unit(axis="input") if level == "unit" else level for level in levels)
    assert_same_groups(camhd.SGD(model, levels=spelled, combine_lr=0.0, max_change=None, **options), reference, model)


@pytest.mark.parametrize("levels", [("layer",), ("global", "layer", "unit", "parameter")], ids=">".join)
def test_without_names_each_tensor_is_its_own_layer(levels: tuple[str, ...]) -> None:
    tensors = [torch.ones(shape, dtype=torch.float64) for shape in ((3, 2), (3,), (), (2, 1, 2))]
    bare = [nn.Parameter(x.clone()) for x in tensors]
    numbered = {str(i): x.clone().requires_grad_() for i, x in enumerate(tensors)}
    optimizer = camhd.SGD(bare, lr=0.1, hyper_lr=1e-3, combine_lr=0.0, max_change=None, levels=levels)
    reference = Reference([{"params": numbered}], "sgd", lr=0.1, hyper_lr=1e-3, levels=levels)
    for t in range(1, 5):
        for i, p in enumerate(bare):
            p.grad = torch.arange(p.numel(), dtype=torch.float64).reshape(p.shape).add(1).div(t + i)
            numbered[str(i)].grad = p.grad.clone()
        optimizer.step()
        reference.step()
    assert_alike(optimizer.rates(), reference.rates())


def test_parameters_of_the_root_module_are_a_layer_of_their_own() -> None:
    model = Holder(scale=vector(), shift=vector(3), fc=nn.Linear(3, 2)).double()
    rates = camhd.SGD(model, lr=0.1, levels=("layer",)).rates()
    assert list(rates["layer"]) == ["(root)", "fc"]


@pytest.mark.parametrize("name", ["linear", "convolutions", "norms", "embedding", "lstm", "gru", "cells"])
def test_named_parameters_give_the_levels_that_the_module_gives(name: str) -> None:
    model = ZOO[name][0].double()
    levels = ("global", "layer", "unit", "parameter")
    shown = [camhd.SGD(p, lr=0.1, levels=levels).rates() for p in (model, model.named_parameters())]
    assert_alike(*shown)


def test_every_level_covers_every_scalar_once() -> None:
    """N equal scalars with equal gradients: the sum of all changes is β n g² at any level."""
    for name, (module, _) in ZOO.items():
        model = module.double()
        count = sum(p.numel() for p in model.parameters())
        for level in ("global", "layer", "gate", "unit", "parameter"):
            optimizer = camhd.SGD(model, lr=0.1, levels=(level,), hyper_lr=1e-3, max_change=None)
            step = {n: torch.full_like(p, 2.0) for n, p in model.named_parameters()}
            feed(optimizer, model, [step, step])
            rates = optimizer.rates()[level]
            moved = float((flat(rates) - 0.1).sum())
            assert moved == pytest.approx(1e-3 * 4.0 * count, rel=1e-9), (name, level)
