"""A state that is not whole or not of this optimizer: the exact error, and an optimizer that nothing has touched."""

from __future__ import annotations

import copy
import io
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import camhd
from camhd.tree.saved import READ, VERSION
from cases import CLOSE
from faults import Places, clone, same
from state_cases import ADDITIVE, CASES, FIRST, REST, RULE_SINCE, at, model, train

NAN, INF = float("nan"), float("inf")
FILES = sorted((pathlib.Path(__file__).parent / "states").glob("v*/*.pt"))
HEAD = ("param_groups", 0, "camhd")
DAMAGED = "; the state is damaged, go back to an earlier one."
NOT_WHOLE = "; the state is not complete."
ANOTHER = "; it was saved from another model, other levels or another hyper rule."
AS_BEFORE = (
    "; build the optimizer as the one that wrote the state: from the same model, with names (the model itself or its "
    "named_parameters()) or without."
)


def _saved_by(make: Callable[[nn.Module], Any], net: Callable[[], nn.Module] = model) -> Callable[[Any], Any]:
    """The state of another optimizer."""

    def change(state: Any) -> Any:
        other = net()
        opt = make(other)
        train(other, opt, 0, 2)
        return opt.state_dict()

    return change


def _wider() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def _deeper() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))


class _Renamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 2), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).tanh())


def _adam(**options: Any) -> Callable[[nn.Module], Any]:
    return lambda m: camhd.Adam(m, lr=0.01, **{**ADDITIVE, **options})


BROKEN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "not a state": (lambda s: {"epoch": 3}, "camhd.Adam needs a dict with 'state' and 'param_groups', got ['epoch']."),
    "no state": (at("state"), "camhd.Adam needs a dict with 'state' and 'param_groups', got ['param_groups']."),
    "groups of another type": (
        at("param_groups", value="all"),
        "'param_groups' of the state must be a list of dicts, got 'all'.",
    ),
    "state of another type": (at("state", value=[1]), "'state' of the state must be a dict by parameter, got (1,)."),
    "torch's own": (
        _saved_by(lambda m: torch.optim.Adam(m.parameters())),
        "the state was not written by a camhd optimizer (it has no 'camhd' header), so it has no learning rates to go "
        "on with; load a state that camhd.Adam wrote, not flattened (torch's flatten_optimizer_state_dict keeps only "
        "what the base optimizer has).",
    ),
    "another class": (
        _saved_by(CASES["sgd"]),
        "the state was saved by an optimizer with the base rule 'SGD', but this one has 'Adam'; build the optimizer "
        "that wrote it.",
    ),
    "another class of one rule": (
        _saved_by(lambda m: camhd.AdamW(m, lr=0.01, **ADDITIVE)),
        "the state was saved with decoupled_weight_decay=True, but this optimizer has False; build the optimizer that "
        "wrote it.",
    ),
    "other levels": (
        _saved_by(_adam(levels=("layer", "unit"))),
        "the state was saved with the levels ('layer', 'unit'), this optimizer has ('global', 'layer'); build it with "
        "the same 'levels'.",
    ),
    "other shapes": (
        _saved_by(_adam(), _wider),
        "'direction' of parameter '0.weight' has shape (4, 3) in the state, but the parameter has (2, 3); it was saved "
        "from another model.",
    ),
    "more layers": (
        _saved_by(_adam(), _deeper),
        "param group 0 has 6 parameters in the state, but 4 in this optimizer; it was saved from another model.",
    ),
    "fewer layers": (
        _saved_by(_adam(), lambda: nn.Sequential(nn.Linear(3, 2))),
        "param group 0 has 2 parameters in the state, but 4 in this optimizer; it was saved from another model.",
    ),
    "another number of groups": (
        _saved_by(lambda m: camhd.Adam([{"params": m[0].named_parameters()}, {"params": m[2].named_parameters()}])),
        "the state has 2 param groups, but this optimizer has 1; loaded state dict has a different number of parameter "
        "groups.",
    ),
    "other names": (
        _saved_by(_adam(), _Renamed),
        "param group 0 has the parameter 'first.weight' in the state where this optimizer has '0.weight'; it was saved "
        "from another model or in another order. If the model was only renamed, change 'param_names' in the state.",
    ),
    "no names, where names join": (
        _saved_by(CASES["adam-without-names"]),
        "'0.weight' and '0.bias' share one rate of the level 'layer' in this optimizer, but have a rate each in the "
        f"state{AS_BEFORE}",
    ),
    "no names, in the first format": (
        lambda s: torch.load(FILES[0].parent / "adam-without-names.pt", weights_only=True)["optimizer"],
        f"'rate.layer' of parameter '0.bias' in the state is not the rate of the other parameters that share it "
        f"here{AS_BEFORE}",
    ),
    "names of another number": (
        at("param_groups", 0, "param_names", value=["0.weight"]),
        "'param_names' of param group 0 in the state must be 4 names, got ('0.weight',).",
    ),
    "a newer version": (
        at(*HEAD, "version", value=VERSION + 1),
        "the state has format version 7, this camhd reads 1 to 6; load it with the version of camhd that wrote it.",
    ),
    "no version": (
        at(*HEAD, "version"),
        "the state has format version None, this camhd reads 1 to 6; load it with the version of camhd that wrote it.",
    ),
    "a header of another type": (
        at(*HEAD, value=7),
        "the state's 'camhd' header must be a dict, got 7; it was changed by hand.",
    ),
    "a header cut off": (at(*HEAD, "last_moves"), f"the state's 'camhd' header has no 'last_moves'{NOT_WHOLE}"),
    "a header without sharing": (at(*HEAD, "shared"), f"the state's 'camhd' header has no 'shared'{NOT_WHOLE}"),
    "a version that is true": (
        at(*HEAD, "version", value=True),
        "the state has format version True, this camhd reads 1 to 6; load it with the version of camhd that wrote it.",
    ),
    "a step that is true": (
        at(*HEAD, "step", value=True),
        "'step' of the state must be a whole number of 0 or more, got True.",
    ),
    "a negative step": (
        at(*HEAD, "step", value=-1),
        "'step' of the state must be a whole number of 0 or more, got -1.",
    ),
    "a step that is text": (
        at(*HEAD, "step", value="4"),
        "'step' of the state must be a whole number of 0 or more, got '4'.",
    ),
    "skipped that is no count": (
        at(*HEAD, "skipped", value=0.5),
        "'skipped' of the state must be a whole number of 0 or more, got 0.5.",
    ),
    "moves of more groups": (
        at(*HEAD, "last_moves", value=[[1.0, 1.0], [1.0, 1.0]]),
        "'last_moves' of the state must be two finite numbers for each of the 1 param groups, got "
        "([1.0, 1.0], [1.0, 1.0]).",
    ),
    "a move that is not finite": (
        at(*HEAD, "last_moves", value=[[NAN, 1.0]]),
        "'last_moves' of the state must be two finite numbers for each of the 1 param groups, got ([nan, 1.0],).",
    ),
    "a move that is true": (
        at(*HEAD, "last_moves", value=[[True, 1.0]]),
        "'last_moves' of the state must be two finite numbers for each of the 1 param groups, got ([True, 1.0],).",
    ),
    "a move of one number": (
        at(*HEAD, "last_moves", value=[[1.0]]),
        "'last_moves' of the state must be two finite numbers for each of the 1 param groups, got ([1.0],).",
    ),
    "sharing that is no table": (
        at(*HEAD, "shared", value=5),
        "'shared' of the state must say for each of the 4 parameters with whom it shares its rate of the level "
        "'global', got None.",
    ),
    "sharing of another number": (
        at(*HEAD, "shared", "layer", value=[0]),
        "'shared' of the state must say for each of the 4 parameters with whom it shares its rate of the level "
        "'layer', got (0,).",
    ),
    "another combination": (
        _saved_by(_adam(combine="softmax")),
        "the state's combination has ['logits'], this optimizer's ['weights']; build it with the same 'combine'.",
    ),
    "weights of another number": (
        at(*HEAD, "weights", "weights", value=[1.0]),
        "the state's combination has 'weights' of shape (1,), this optimizer's is (2,); build it with the same levels, "
        "layers and 'combine'.",
    ),
    "weights that are text": (
        at(*HEAD, "weights", "weights", value=["a", "b"]),
        "'weights' in 'weights' of the state must be lists of numbers, got ('a', 'b').",
    ),
    "last weights that are text": (
        at(*HEAD, "last_weights", "weights", value=["a", "b"]),
        "'weights' in 'last_weights' of the state must be lists of numbers, got ('a', 'b').",
    ),
    "weights off the simplex": (
        at(*HEAD, "weights", "weights", value=[0.7, 0.7]),
        f"'weights' of the state must be weights of 0 or more that sum to 1, got {{'weights': [0.7, 0.7]}}{DAMAGED}",
    ),
    "negative weights": (
        at(*HEAD, "last_weights", "weights", value=[1.5, -0.5]),
        f"'last_weights' of the state must be weights of 0 or more that sum to 1, got {{'weights': [1.5, -0.5]}}"
        f"{DAMAGED}",
    ),
    "weights that are not finite": (
        at(*HEAD, "weights", "weights", value=[NAN, 0.5]),
        f"'weights' of the state must be finite, got {{'weights': [nan, 0.5]}}{DAMAGED}",
    ),
    "no rate": (
        at("state", 0, "rate.layer"),
        f"the state of parameter '0.weight' must have 'rate.layer' of shape (1,), found None{ANOTHER}",
    ),
    "a rate of another shape": (
        at("state", 0, "rate.layer", value=torch.ones(3)),
        "the state of parameter '0.weight' must have 'rate.layer' of shape (1,), found a float32 tensor of shape "
        f"(3,){ANOTHER}",
    ),
    "a rate of whole numbers": (
        at("state", 0, "rate.layer", value=torch.ones(1, dtype=torch.int64)),
        "the state of parameter '0.weight' must have 'rate.layer' of shape (1,), found a int64 tensor of shape "
        f"(1,){ANOTHER}",
    ),
    "a rate of NaN": (
        at("state", 3, "rate.global", value=torch.tensor([NAN])),
        f"'rate.global' of parameter '2.bias' in the state must be finite and 0 or more, found nan{DAMAGED}",
    ),
    "a negative rate": (
        at("state", 3, "rate.global", value=torch.tensor([-0.5])),
        f"'rate.global' of parameter '2.bias' in the state must be finite and 0 or more, found -0.5{DAMAGED}",
    ),
    "copies of a rate that differ": (
        at("state", 3, "rate.global", value=torch.tensor([0.5])),
        "'rate.global' of parameter '2.bias' in the state is not the rate of the other parameters that share it "
        f"here{AS_BEFORE}",
    ),
    "a rate too many": (
        at("state", 1, "rate.unit", value=torch.ones(2)),
        "the state of parameter '0.bias' has 'rate.unit', which this optimizer has no use for; it was saved with other "
        "levels or another hyper rule.",
    ),
    "another hyper rule": (
        _saved_by(_adam(hyper_rule="long_horizon")),
        "the state of parameter '0.weight' has 'trace', for which Adam has no use; it was saved by another optimizer.",
    ),
    "no note of moving": (
        at("state", 1, "moved"),
        f"the state of parameter '0.bias' must have 'moved', True or False, found None{NOT_WHOLE}",
    ),
    "no moment": (at("state", 1, "exp_avg_sq"), f"the state of parameter '0.bias' has no 'exp_avg_sq'{NOT_WHOLE}"),
    "a moment of another shape": (
        at("state", 1, "direction", value=torch.zeros(7)),
        "'direction' of parameter '0.bias' has shape (7,) in the state, but the parameter has (2,); it was saved from "
        "another model.",
    ),
    "a moment that is a list": (
        at("state", 1, "direction", value=[0.0, 0.0]),
        "'direction' of parameter '0.bias' in the state must be a real tensor, got (0.0, 0.0).",
    ),
    "a negative count": (
        at("state", 1, "step", value=torch.tensor(-2.0)),
        "'step' of parameter '0.bias' in the state must be 0 or more, got a float32 tensor of shape ().",
    ),
    "an entry too many": (
        at("state", 1, "fisher", value=torch.zeros(2)),
        "the state of parameter '0.bias' has 'fisher', for which Adam has no use; it was saved by another optimizer.",
    ),
    "a parameter too many": (
        at("state", 9, value={}),
        "the state has entries for 9, which is none of its parameters; it was changed by hand.",
    ),
    "a parameter's state of another type": (
        at("state", 2, value=3.0),
        "the state of parameter '2.weight' must be a dict, got 3.0.",
    ),
    "a parameter without state": (
        at("state", 2),
        f"the state of parameter '2.weight' must have 'moved', True or False, found None{NOT_WHOLE}",
    ),
    "a number twice": (
        at("param_groups", 0, "params", value=[0, 1, 1, 2]),
        "'params' in the state must be a different number for each, got (0, 1, 1, 2).",
    ),
    "no numbers": (
        at("param_groups", 0, "params"),
        "param group 0 of the state must have 'params', a list, got None.",
    ),
    "an option missing": (at("param_groups", 0, "betas"), f"param group 0 of the state has no 'betas'{NOT_WHOLE}"),
    "an lr of NaN": (
        at("param_groups", 0, "lr", value=NAN),
        "param group 0 of the state cannot be used: Invalid learning rate: nan; 'lr' must be 0 or more and finite.",
    ),
    "betas that are text": (
        at("param_groups", 0, "betas", value="fast"),
        "param group 0 of the state cannot be used: 'betas' must be two numbers, got 'fast'.",
    ),
    "a first lr of infinity": (
        at("param_groups", 0, "lr0", value=INF),
        "'lr0' of param group 0 in the state must be 0 or more and finite, got inf.",
    ),
    "a last move without options": (
        at("param_groups", 0, "last_move", value={"eps": 1.0}),
        "'last_move' of param group 0 in the state must be None or have betas, eps, amsgrad, weight_decay, "
        "decoupled_weight_decay, got {'eps': 1.0}.",
    ),
}


def snapshot(net: nn.Module, opt: Any) -> Any:
    inner = opt.rule.inner.state_dict() if hasattr(opt.rule, "inner") else None
    return clone({"model": dict(net.state_dict()), "opt": opt.state_dict(), "inner": inner})


@pytest.mark.parametrize("name", BROKEN)
def test_a_state_that_does_not_fit_is_a_clear_error_and_nothing_changes(name):
    change, message = BROKEN[name]
    net = model()
    opt = _adam()(net)
    train(net, opt, 0, 2)
    before, tree, state, groups = snapshot(net, opt), opt.tree.state, opt.state, opt.param_groups
    broken = change(copy.deepcopy(opt.state_dict()))
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        opt.load_state_dict(broken)
    assert str(raised.value) == message
    assert same(snapshot(net, opt), before)
    assert (opt.tree.state, opt.state, opt.param_groups) == (tree, state, groups)
    other = model()
    clean = _adam()(other)
    train(other, clean, 0, 3)
    train(net, opt, 2, 3)
    assert same(snapshot(net, opt), snapshot(other, clean))


@pytest.mark.parametrize("value", [None, [], "state.pt", 3])
def test_what_is_no_dict_is_refused_as_such(value):
    with pytest.raises(TypeError) as raised:
        _adam()(model()).load_state_dict(value)
    assert str(raised.value) == f"load_state_dict() takes a dict that state_dict() gave, got {type(value).__name__}."


@pytest.mark.parametrize("trouble", ["missing", "of another optimizer"])
def test_a_wrapped_optimizers_own_part_must_fit_too(trouble):
    net = model()
    opt = CASES["wrapped-rmsprop"](net)
    train(net, opt, 0, 2)
    before, broken = snapshot(net, opt), copy.deepcopy(opt.state_dict())
    if trouble == "missing":
        del broken["inner"]
        message = "the state has no 'inner' part, the state of the wrapped optimizer; the state is not complete."
    else:
        broken["inner"]["param_groups"][0]["params"] = [0]
        message = (
            "the 'inner' part of the state does not load into the wrapped RMSprop: loaded state dict contains a "
            "parameter group that doesn't match the size of optimizer's group"
        )
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        opt.load_state_dict(broken)
    assert str(raised.value) == message
    assert same(snapshot(net, opt), before)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_off_anywhere_is_no_state_at_all(share, tmp_path):
    path = tmp_path / "state.pt"
    whole = FILES[0].read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises((RuntimeError, EOFError, OSError, pickle.UnpicklingError)):
        torch.load(path, weights_only=True)


@pytest.mark.parametrize("name", ["adam", "wrapped-rmsprop", "nesterov-parameter"])
def test_loading_that_fails_at_any_call_leaves_the_optimizer_as_it_was(name):
    net = model()
    opt = CASES[name](net)
    train(net, opt, 0, 2)
    saved = clone(opt.state_dict())
    train(net, opt, 2, 3)
    before, places = snapshot(net, opt), Places()
    other = CASES[name](model())
    with places.watching():
        other.load_state_dict(clone(saved))
    chosen = places.chosen()
    for turn, place in enumerate(chosen[:: max(1, len(chosen) // 40)]):
        error = (RuntimeError, KeyboardInterrupt)[turn % 2]
        watched = Places(place, error)
        fresh = clone(saved)
        try:
            with watched.watching():
                opt.load_state_dict(fresh)
        except (error, ValueError):
            assert same(snapshot(net, opt), before), watched.found[place]
        else:
            opt.load_state_dict(clone(before["opt"]))
    opt.load_state_dict(saved)


def test_there_are_files_of_every_version_that_is_read():
    assert {int(path.parent.name[1:]) for path in FILES} == set(READ)
    assert VERSION in READ
    for version in READ:
        assert {path.stem for path in FILES if path.parent.name == f"v{version}"} == set(CASES)


def version_of(path):
    return int(path.parent.name[1:])


SAME_RULE = [path for path in FILES if version_of(path) >= RULE_SINCE.get(path.stem, 0)]
OTHER_RULE = [path for path in FILES if path not in SAME_RULE]


@pytest.mark.parametrize("path", SAME_RULE, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_state_that_an_earlier_version_wrote_goes_on_as_if_never_stopped(path):
    saved = torch.load(path, weights_only=True)
    assert path.stat().st_size < 30_000
    header = saved["optimizer"]["param_groups"][0]["camhd"]
    assert header["version"] == version_of(path)
    net = model()
    opt = CASES[path.stem](net)
    net.load_state_dict(saved["model"])
    opt.load_state_dict(saved["optimizer"])
    train(net, opt, FIRST, FIRST + REST)
    never = model()
    stopped = CASES[path.stem](never)
    train(never, stopped, 0, FIRST + REST)
    for one, other in zip(net.parameters(), never.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=CLOSE, atol=CLOSE)
    if version_of(path) < 6:  # how large gradients had been was not said; nothing but averaged weights depends on it
        for level in (*opt.tree.state.levels, *stopped.tree.state.levels):
            for name in {"slope", "past_slope"} & set(level.rule):
                level.rule[name].zero_()
    for one, other in zip(opt.tree.state.vectors(), stopped.tree.state.vectors(), strict=True):
        torch.testing.assert_close(one, other, rtol=CLOSE, atol=1e-8)
    assert opt.tree.state.step == stopped.tree.state.step == FIRST + REST
    assert opt.state_dict()["param_groups"][0]["camhd"]["version"] == VERSION
    fresh = CASES[path.stem](model())
    assert not same(fresh.rates(), opt.rates())


@pytest.mark.parametrize("path", OTHER_RULE, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_state_of_the_default_rule_as_it_was_goes_on_with_the_rates_that_were_learned(path):
    """From then on the rule is another, so there is no run to compare with; what was not saved is as it says there."""
    saved = torch.load(path, weights_only=True)
    net = model()
    opt = CASES[path.stem](net)
    net.load_state_dict(saved["model"])
    opt.load_state_dict(saved["optimizer"])
    entries = saved["optimizer"]["state"][0]
    for name, level in zip(opt.tree.layout.names, opt.tree.state.levels, strict=True):
        own = level.rates[:1]  # the first parameter's
        assert torch.equal(own, entries[f"rate.{name}"])
        assert torch.equal(level.rule["against"][:1], entries[f"hyper_against.{name}"])
        largest = entries[f"hyper_peak.{name}"] if version_of(path) >= 3 else own
        assert torch.equal(level.rule["peak"][:1], largest)
    assert not opt.tree.state.tracing.usual.any()
    before = opt.tree.state.levels[0].rates.clone()
    train(net, opt, FIRST, FIRST + REST)
    assert opt.tree.state.step == FIRST + REST
    assert not torch.equal(opt.tree.state.levels[0].rates, before)
    assert all(p.isfinite().all() for p in net.parameters())
    assert opt.state_dict()["param_groups"][0]["camhd"]["version"] == VERSION


@pytest.mark.parametrize("version", READ[1:])
def test_who_shares_is_looked_at_in_every_version_that_says_it(version):
    path = next(path for path in FILES if version_of(path) == version and path.stem == "adam")
    saved, opt = torch.load(path, weights_only=True)["optimizer"], CASES["adam"](model())
    header = saved["param_groups"][0]["camhd"]
    header["shared"]["layer"] = [0, 1, 2, 2]
    with pytest.raises(ValueError, match="share one rate of the level 'layer' in this optimizer"):
        opt.load_state_dict(saved)
    del header["shared"]
    with pytest.raises(ValueError, match="header has no 'shared'"):
        opt.load_state_dict(saved)


def test_the_largest_rates_are_those_of_the_state_and_are_missed_if_it_should_say_them():
    net = model()
    opt = CASES["adam-long-horizon"](net)
    train(net, opt, 0, FIRST)
    saved = opt.state_dict()
    for entries in saved["state"].values():
        for name in ("global", "layer"):
            entries[f"hyper_peak.{name}"] *= 2
    wanted = [2 * level.rule["peak"] for level in opt.tree.state.levels]
    opt.load_state_dict(clone(saved))
    for level, peaks in zip(opt.tree.state.levels, wanted, strict=True):
        assert torch.equal(level.rule["peak"], peaks)
    del saved["state"][0]["hyper_peak.global"]
    with pytest.raises(ValueError, match=r"'0\.weight' must have 'hyper_peak\.global' of shape"):
        opt.load_state_dict(saved)


def test_what_is_saved_reads_with_weights_only():
    net = model()
    opt = CASES["adamw-two-groups"](net)
    train(net, opt, 0, 2)
    file = io.BytesIO()
    torch.save(opt.state_dict(), file)
    file.seek(0)
    assert same(torch.load(file, weights_only=True), opt.state_dict())


def test_a_wrapper_around_the_model_does_not_make_it_another():
    net = model()
    opt = _adam()(net)
    train(net, opt, 0, 2)
    wrapped = nn.Sequential()
    wrapped.add_module("module", copy.deepcopy(net))
    other = _adam()(wrapped)
    other.load_state_dict(opt.state_dict())
    assert other.param_groups[0]["param_names"][0] == "module.0.weight"
    assert list(other.rates()["layer"].values()) == list(opt.rates()["layer"].values())
    opt.load_state_dict(other.state_dict())


def test_a_loaded_state_brings_no_names_of_its_own():
    net = model()
    opt = CASES["adam-without-names"](net)
    named = camhd.Adam(net, lr=0.01, **{**ADDITIVE, "levels": ("global",)})
    unnamed = camhd.Adam(net.parameters(), lr=0.01, **{**ADDITIVE, "levels": ("global",)})
    unnamed.load_state_dict(named.state_dict())  # who shares a rate does not depend on names here
    assert "param_names" not in unnamed.param_groups[0]
    named.load_state_dict(unnamed.state_dict())
    assert named.param_groups[0]["param_names"][0] == "0.weight"
    assert opt.rates()["layer"].keys() == {"0", "1", "2", "3"}
