"""Failures around a step: in closures, hooks and the user's functions, while saving, loading or adding parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import optimizer as torchs

import camhd
from camhd.tree.commit import Commit
from cases import BACKENDS, HAS_NUMBA
from faults import Places, Seen, backward, clone, network, same, train

FAST: dict[str, Any] = {"lr": 0.02, "hyper_lr": 1e-2, "combine_lr": 1.0, "hyper_rule": "additive"}
TWO = ("global", "layer")
ERRORS = (RuntimeError, KeyboardInterrupt)


def fail(error: type[BaseException]) -> Callable[..., Any]:
    def failing(*arguments: Any) -> Any:
        raise error("on purpose")

    return failing


def trained(backend: str, **options: Any) -> tuple[nn.Module, camhd.Optimizer]:
    model = network()
    opt = camhd.Adam(model, backend=backend, **{**FAST, **options})
    train(model, opt, 0, 3)
    backward(model, opt, 3)
    return model, opt


def everything(model: nn.Module, opt: camhd.Optimizer) -> dict[str, Any]:
    return {**vars(Seen.of(model, opt)), "saved": clone(opt.state_dict())}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("error", ERRORS)
def test_an_exception_in_a_closure_leaves_everything_as_before(backend, error):
    model, opt = trained(backend)
    before = everything(model, opt)
    with pytest.raises(error, match="on purpose"):
        opt.step(fail(error))
    assert same(everything(model, opt), before)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("everybodys", [False, True])
def test_an_exception_in_a_hook_before_a_step_leaves_everything_as_before(backend, everybodys):
    model, opt = trained(backend)
    before = everything(model, opt)
    register = torchs.register_optimizer_step_pre_hook if everybodys else opt.register_step_pre_hook
    hook = register(fail(KeyboardInterrupt))
    try:
        with pytest.raises(KeyboardInterrupt, match="on purpose"):
            opt.step()
    finally:
        hook.remove()
    assert same(everything(model, opt), before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_exception_in_a_hook_after_a_step_leaves_everything_as_after_it(backend):
    model, opt = trained(backend)
    opt.register_step_post_hook(fail(RuntimeError))
    with pytest.raises(RuntimeError, match="on purpose"):
        opt.step()
    other, twin = trained(backend)
    twin.step()
    assert same(everything(model, opt), everything(other, twin))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["decay", "restarts"])
def test_an_exception_in_a_function_of_the_users_leaves_everything_as_before(backend, name):
    def failing(step: int) -> float:
        if step == 4:
            raise KeyError("on purpose")
        return 0.0

    model, opt = trained(backend, **{name: failing})
    before = everything(model, opt)
    with pytest.raises(KeyError, match="on purpose"):
        opt.step()
    assert same(everything(model, opt), before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scaler_goes_on_after_a_step_that_failed(backend, monkeypatch):
    model, opt = trained(backend)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def scaled(t: int) -> None:
        backward(model, opt, t)
        for p in model.parameters():
            p.grad.mul_(scaler.get_scale())
        scaler.scale(torch.ones(()))
        scaler.step(opt)
        scaler.update()

    before = everything(model, opt)
    with monkeypatch.context() as patch:
        patch.setattr(opt.backend, "_choose", fail(RuntimeError))
        with pytest.raises(RuntimeError, match="on purpose"):
            scaled(3)
    scaler.update()
    after = everything(model, opt)
    assert same({**after, "grads": None}, {**before, "grads": None})
    scaled(3)
    assert opt.tree.state.step == 4
    assert not same(opt.rates(), before["learned"])


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_commit_that_fails_again_and_again_is_still_all_or_nothing(times, monkeypatch):
    """An impatient user: Ctrl-C while the rates are written, again while they are read, and again."""
    model, opt = trained("foreach", levels=("global", "layer", "parameter"))
    other, twin = trained("foreach", levels=("global", "layer", "parameter"))
    twin.step()
    new = Seen.of(other, twin).learned
    left, finish = [times], Commit.finish

    def failing(self: Commit) -> None:
        if left[0]:
            left[0] -= 1
            torch._foreach_copy_(self.state.vectors()[:1], self.draft.vectors()[:1])
            raise KeyboardInterrupt("on purpose")
        finish(self)

    monkeypatch.setattr(Commit, "finish", failing)
    with pytest.raises(KeyboardInterrupt):
        opt.step()
    for _ in range(times - 1):
        with pytest.raises(KeyboardInterrupt):
            opt.rates()
    seen = Seen.of(model, opt)
    assert same(seen.learned, new)
    assert not seen.moved


def test_an_interrupted_commit_is_finished_in_a_copy_too(monkeypatch):
    model, opt = trained("foreach")
    _, twin = trained("foreach")
    twin.step()
    with monkeypatch.context() as patch:
        patch.setattr(Commit, "finish", fail(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            opt.step()
    copied = camhd.Adam(model, **FAST)
    copied.load_state_dict(opt.state_dict())
    assert copied.rates() == opt.rates() == twin.rates()


@pytest.mark.parametrize(
    ("levels", "hyper_rule"),
    [(TWO, "additive"), ((*TWO, "parameter"), "additive"), (TWO, "long_horizon")],
    ids=["layer", "parameter", "long horizon"],
)
def test_a_failure_at_any_call_while_parameters_are_added_leaves_none_of_them(levels, hyper_rule):
    model = network()
    opt = camhd.Adam(model[0], levels=levels, backend="foreach", **{**FAST, "hyper_rule": hyper_rule})
    _train_first(model, opt)
    before, groups = clone(opt.state_dict()), list(opt.param_groups)
    places = Places()
    trial = camhd.Adam(network()[0], levels=levels, backend="foreach", **{**FAST, "hyper_rule": hyper_rule})
    with places.watching():
        trial.add_param_group({"params": list(network()[2].named_parameters(prefix="2")), "lr": 0.05})
    chosen = places.chosen()
    for turn, place in enumerate(chosen[:: max(1, len(chosen) // 60)]):
        watched = Places(place, ERRORS[turn % 2])
        with suppress(ERRORS[turn % 2], ValueError), watched.watching():  # a level that fails is said to be at fault
            opt.add_param_group({"params": list(model[2].named_parameters(prefix="2")), "lr": 0.05})
        if len(opt.param_groups) == 2:  # it was in already
            assert len(opt.tree.layout.slots) == 4
            return
        assert opt.param_groups == groups, watched.found[place]
        assert same(opt.state_dict(), before), watched.found[place]
    opt.add_param_group({"params": list(model[2].named_parameters(prefix="2")), "lr": 0.05})
    train(model, opt, 2, 4)


def _train_first(model: nn.Module, opt: camhd.Optimizer) -> None:
    for _ in range(2):
        opt.zero_grad()
        model[0](torch.ones(2, 3)).square().mean().backward()
        opt.step()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_failure_at_any_call_while_saving_changes_nothing(backend):
    model, opt = trained(backend)
    before, state, groups = everything(model, opt), opt.state, opt.param_groups
    places = Places()
    with places.watching():
        opt.state_dict()
    chosen = places.chosen()
    for turn, place in enumerate(chosen[:: max(1, len(chosen) // 40)]):
        with suppress(ERRORS[turn % 2]), Places(place, ERRORS[turn % 2]).watching():
            opt.state_dict()
        assert opt.state is state
        assert opt.param_groups is groups
    assert same(everything(model, opt), before)


@pytest.mark.skipif(not HAS_NUMBA, reason="needs camhd[fused]")
def test_helpers_do_not_wait_for_a_step_that_was_cut_short(monkeypatch):
    from camhd.backends.fused import threads

    monkeypatch.setattr(threads, "_parallel", None)
    monkeypatch.setattr(threads, "how_many", lambda scalars: 2)
    model, opt = trained("fused")
    team = opt.backend._fused.plan.team
    real, leader = team.entry, team.block.address

    def cut(address: int) -> None:
        if address == leader:
            raise KeyboardInterrupt("on purpose")
        real.call(address)

    before = everything(model, opt)
    team.entry = real._replace(call=cut)
    with pytest.raises(KeyboardInterrupt):
        opt.step()
    team.entry = real
    free = threading.Event()
    threads._helpers.queue.put((lambda address: free.set(), 0, None))
    assert free.wait(60)
    assert same(everything(model, opt), before)
    opt.step()
    assert opt.tree.state.step == 4
