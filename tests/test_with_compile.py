"""Compiled models with our optimizers, and models and steps both compiled (the step alone: test_compile.py)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch._dynamo as dynamo
from torch import nn

import camhd
from cases import CLOSE, EXACT
from models import backward, batch, build

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),  # torch and some packages, on import
    pytest.mark.usefixtures("papers_form"),
]

BLOCKS = camhd.levels.Block(lambda name: name.split(".")[0])
FAST: dict[str, Any] = {"lr": 0.01, "hyper_lr": 1e-4, "combine_lr": 0.1}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    dynamo.reset()


def train(model: nn.Module, compiled: Any, optimizer: Any, steps: range, step: Any = None) -> None:
    for t in steps:
        optimizer.zero_grad()
        x, target = batch(model, t)
        nn.functional.cross_entropy(compiled(x), target).backward()
        (step or optimizer.step)()


@pytest.mark.parametrize(
    ("kind", "levels"),
    [("SGD", ("global", BLOCKS, "layer", "filter")), ("Adam", ("layer", "parameter"))],
    ids=["SGD-four", "Adam-two"],
)
def test_a_compiled_model_trains_as_the_model_and_has_its_names(kind: str, levels: Any) -> None:
    """torch.compile puts `_orig_mod.` before every name; no block, layer or rate shows it."""
    plain, model = build("cnn"), build("cnn")
    compiled = torch.compile(model, backend="eager")
    one = getattr(camhd, kind)(plain, levels=levels, **FAST)
    other = getattr(camhd, kind)(compiled, levels=levels, **FAST)
    train(plain, plain, one, range(1, 11))
    train(model, compiled, other, range(1, 11))
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=EXACT)
    assert one.rates()["layer"] == pytest.approx(other.rates()["layer"], rel=1e-10)
    assert "_orig_mod" not in str(other.rates())
    if BLOCKS in levels:
        assert list(other.rates()["block"]) == ["stem", "conv", "head"]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # Dynamo's own
def test_a_part_that_is_compiled_has_its_name_too() -> None:
    model = build("cnn")
    model.stem.norm = torch.compile(model.stem.norm, backend="eager")
    model.head.compile(backend="eager")
    optimizer = camhd.Adam(model, levels=("global", "layer"))
    assert list(optimizer.rates()["layer"]) == ["stem.conv", "stem.norm", "conv", "head"]
    train(model, model, optimizer, range(1, 4))


def test_a_checkpoint_of_a_compiled_model_goes_on_uncompiled() -> None:
    model, second = build("mlp"), build("mlp")
    compiled = torch.compile(model, backend="eager")
    optimizer = camhd.AdamW(compiled, levels=("global", "layer", "unit"), **FAST)
    train(model, compiled, optimizer, range(1, 6))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(model, model, optimizer, range(6, 11))
    resumed = camhd.AdamW(second, levels=("global", "layer", "unit"), **FAST)
    second.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    train(second, second, resumed, range(6, 11))
    assert all(map(torch.equal, model.parameters(), second.parameters()))


def test_model_and_step_are_both_compiled() -> None:
    plain, model = build("mlp", torch.float32), build("mlp", torch.float32)
    options = {**FAST, "backend": "foreach"}
    one = camhd.Adam(plain, **options)
    other = camhd.Adam(model, **{**options, "lr": torch.tensor(0.01)})
    step = torch.compile(other.step, backend="aot_eager", fullgraph=True)
    train(plain, plain, one, range(1, 9))
    train(model, torch.compile(model, backend="aot_eager"), other, range(1, 9), step)
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=CLOSE, atol=CLOSE)
    assert one.rates()["layer"] == pytest.approx(other.rates()["layer"], rel=CLOSE)


def test_a_whole_training_step_in_one_compiled_function() -> None:
    """Forward, backward and step together: torch breaks the graph at backward(), and the numbers are the same."""
    plain, model = build("mlp"), build("mlp")
    one, other = (camhd.SGD(m, momentum=0.9, backend="foreach", **FAST) for m in (plain, model))

    @torch.compile(backend="eager")
    def whole(x: torch.Tensor, target: torch.Tensor) -> None:
        other.zero_grad()
        nn.functional.cross_entropy(model(x), target).backward()
        other.step()

    for t in range(1, 9):
        backward(plain, t)
        one.step()
        whole(*batch(model, t))
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=EXACT)


def test_a_wrapped_optimizer_is_compiled_with_breaks() -> None:
    plain, model = build("mlp"), build("mlp")
    options = {"hyper_lr": 1e-4, "combine_lr": 0.1}
    one, other = (camhd.wrap(torch.optim.RMSprop(m.parameters(), lr=0.01), m, **options) for m in (plain, model))
    train(plain, plain, one, range(1, 6))
    train(model, model, other, range(1, 6), torch.compile(other.step, backend="eager"))
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=EXACT)
