"""Saving and going on: exact, in a fresh process, with weights_only, or a clear error."""

import copy
import pathlib
import subprocess
import sys

import pytest
import torch
from torch import nn

import camhd
from continue_training import FIRST, REST, RUNS, build, train
from state_cases import at

pytestmark = pytest.mark.usefixtures("papers_form")


def same(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.fixture(scope="module")
def continued(tmp_path_factory):
    """Every case saved after FIRST steps and taken on by one fresh process."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for name, dtype in RUNS:
        model, opt, scheduler = build(name, dtype)
        train(model, opt, scheduler, FIRST, 0)
        state = {"model": model.state_dict(), "optimizer": opt.state_dict(), "scheduler": scheduler.state_dict()}
        torch.save(state, folder / f"{name}-{str(dtype).split('.')[1]}.pt")
    program = pathlib.Path(__file__).with_name("continue_training.py")
    subprocess.run([sys.executable, str(program), str(folder)], check=True, timeout=300)
    return folder


@pytest.mark.parametrize(("name", "dtype"), RUNS, ids=lambda v: str(v).replace("torch.", ""))
def test_a_fresh_process_goes_on_bit_by_bit(continued, name, dtype, monkeypatch):
    monkeypatch.undo()  # the other process has the default of the library, and so had the first part
    model, opt, scheduler = build(name, dtype)
    train(model, opt, scheduler, FIRST + REST, 0)
    done = torch.load(continued / f"{name}-{str(dtype).split('.')[1]}.done.pt", weights_only=True)
    assert same(dict(model.state_dict()), dict(done["model"]))
    assert same(opt.state_dict(), done["optimizer"])
    rates = [v for k, v in done["optimizer"]["state"][0].items() if k.startswith(("rate.", "start."))]
    assert rates
    assert all(rate.dtype == torch.float32 for rate in rates)


def test_rates_moved_before_the_checkpoint_so_that_the_test_above_means_something():
    model, opt, scheduler = build("adam", torch.float32)
    train(model, opt, scheduler, FIRST, 0)
    assert opt.rates()["global"] != pytest.approx(0.01, rel=1e-3)
    assert opt.combination()["global"] != 0.5


def test_loading_into_another_dtype_keeps_float32_rates():
    _, opt, _ = trained = build("adam-deep", torch.float32)
    train(*trained, 3, 0)
    _, half, _ = build("adam-deep", torch.bfloat16)
    half.load_state_dict(opt.state_dict())
    assert half.rates()["global"] == opt.rates()["global"]
    assert all(v.dtype == torch.float32 for v in half.rates()["parameter"].values())


def test_a_state_dict_does_not_change_when_training_goes_on():
    model, opt, scheduler = build("adam", torch.float32)
    train(model, opt, scheduler, 3, 0)
    rates = {k: v.clone() for k, v in opt.state_dict()["state"][0].items() if k.startswith("rate.")}
    saved = opt.state_dict()
    train(model, opt, scheduler, 3, 3)
    assert all(torch.equal(saved["state"][0][k], v) for k, v in rates.items())


HEAD = ("param_groups", 0, "camhd")
BROKEN = {
    "not a state": (lambda s: {"epoch": 3}, "needs a dict with 'state' and 'param_groups', got \\['epoch'\\]"),
    "torch's own": (
        lambda s: torch.optim.Adam(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)).parameters()).state_dict(),
        "not written by a camhd optimizer",
    ),
    "other rule": (at(*HEAD, "rule", value="SGD"), "base rule 'SGD', but this one has 'Adam'"),
    "other version": (at(*HEAD, "version", value=99), "format version 99, this camhd reads 1"),
    "other levels": (at(*HEAD, "levels", value=["layer"]), r"levels \('layer',\), this optimizer has \('global',"),
    "other combination": (at(*HEAD, "weights", value={"logits": [0.0, 0.0]}), "combination has \\['logits'\\]"),
    "other weights": (at(*HEAD, "weights", "weights", value=[1.0]), r"'weights' of shape \(1,\)"),
    "no rate": (at("state", 0, "rate.layer", value=...), "parameter '0.weight' must have 'rate.layer'"),
    "other shape": (at("state", 1, "direction", value=torch.zeros(7)), r"'direction' of parameter '0.bias' has shape"),
    "fewer parameters": (at("param_groups", 0, "params", value=[0, 1]), "param group 0 has 2 parameters in the state"),
    "more groups": (lambda s: {**s, "param_groups": [*s["param_groups"], {"params": []}]}, "2 param groups"),
}


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN)
def test_a_wrong_state_is_a_clear_error_and_leaves_the_optimizer_untouched(change, message):
    model, opt, scheduler = build("adam", torch.float32)
    train(model, opt, scheduler, 3, 0)
    broken = change(copy.deepcopy(opt.state_dict()))
    before = copy.deepcopy(opt.state_dict())
    with pytest.raises(ValueError, match=message):
        opt.load_state_dict(broken)
    assert same(opt.state_dict(), before)
    train(model, opt, scheduler, 1, 3)


def test_a_wrapped_optimizers_state_without_its_inner_part_is_refused():
    model, opt, scheduler = build("wrapped-rmsprop", torch.float32)
    train(model, opt, scheduler, 2, 0)
    state = opt.state_dict()
    del state["inner"]
    with pytest.raises(ValueError, match="no 'inner' part"):
        opt.load_state_dict(state)


def test_parameters_added_later_load_into_an_optimizer_that_had_them_from_the_start():
    """The unit of a shared rate is decided when the rate is made, so a checkpoint must carry it."""

    def two(model):
        first, second = model[0].named_parameters(), model[2].named_parameters()
        return [{"params": first, "lr": 0.02}, {"params": second, "lr": 0.04}]

    model, _, _ = build("adam", torch.float32)
    first, second = two(model)
    opt = camhd.SGD([first], lr=0.01, hyper_lr=1e-2, combine_lr=0.5)
    opt.add_param_group(second)
    other_model, _, _ = build("adam", torch.float32)
    other = camhd.SGD(two(other_model), lr=0.01, hyper_lr=1e-2, combine_lr=0.5)
    idle = torch.optim.lr_scheduler.LambdaLR(opt, lambda _: 1.0)
    train(model, opt, idle, 3, 0)
    other_model.load_state_dict(model.state_dict())
    other.load_state_dict(opt.state_dict())
    train(model, opt, idle, 3, 3)
    train(other_model, other, torch.optim.lr_scheduler.LambdaLR(other, lambda _: 1.0), 3, 3)
    assert all(map(torch.equal, model.parameters(), other_model.parameters()))
