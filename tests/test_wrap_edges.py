"""Wrapped optimizers at their edges: trials of any lr, options of any name, a Ctrl-C at the worst moment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd.rules.probe import _alike, has_l2_decay
from camhd.rules.wrapped import Wrapped
from compare import close
from state_cases import ADDITIVE, model, train

pytestmark = pytest.mark.usefixtures("papers_form")

PLAIN: dict[str, Any] = {"levels": ("global",), "hyper_lr": 0.0, "combine": "fixed"}


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_a_wrapped_optimizer_looks_back_as_far_as_our_own(name: str) -> None:
    """Bounds and traces of a direction that is asked for are those of one that is computed."""
    nets = model().double(), model().double()
    same_moments = camhd.hyper.LongHorizon(squares=0.0)  # those of a wrapped optimizer are its own
    rule: dict[str, Any] = {"hyper_rule": same_moments, "max_change": None, "backend": "foreach"}
    if name == "sgd":
        own: Any = camhd.SGD(nets[0], lr=0.3, momentum=0.9, **rule)
        inner: Any = torch.optim.SGD(nets[1].named_parameters(), lr=0.3, momentum=0.9)
    else:
        own = camhd.AdamW(nets[0], lr=0.3, weight_decay=0.1, **rule)
        inner = torch.optim.AdamW(nets[1].named_parameters(), lr=0.3, weight_decay=0.1)
    other = camhd.wrap(inner, **rule)
    for t in range(6):
        for net, opt in zip(nets, (own, other), strict=True):
            for i, p in enumerate(net.parameters()):
                p.grad = (p.detach() * (i + 1) + 0.1 * t).sin()
            opt.step()
    for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        close(q.detach(), p.detach(), rtol=1e-9)
    for a, b in zip(own.tree.state.vectors(), other.tree.state.vectors(), strict=True):
        close(b, a, rtol=1e-9)


@pytest.mark.parametrize("lr", [0.0, 1.5, 1e4])
def test_any_lr_may_be_that_of_a_wrapped_optimizer(lr: float) -> None:
    """A trial of it starts from a lr of its own where that is 0, and loses no digits where it is large."""
    net, other = model(), model()
    opt = camhd.wrap(torch.optim.SGD(net.parameters(), lr=lr), levels=("global",), hyper_lr=0.0, combine="fixed")
    own = camhd.SGD(other.parameters(), lr=lr, levels=("global",), hyper_lr=0.0, combine="fixed")
    train(net, opt, 0, 1)
    train(other, own, 0, 1)
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


def test_how_a_decay_acts_is_known_before_there_is_one() -> None:
    """It may be set later, as a scheduler of weight decay does."""
    for decay in (0.0, 0.3):
        for kind, l2 in ((torch.optim.AdamW, False), (torch.optim.Adam, True)):
            inner = kind([nn.Parameter(torch.ones(2, 2))], weight_decay=decay)
            assert has_l2_decay(inner, inner.param_groups[0]) is l2
    without = Fading([nn.Parameter(torch.ones(2, 2))])
    assert has_l2_decay(without, without.param_groups[0]) is False


class Fading(torch.optim.Optimizer):
    """Plain SGD with an option that has the name of one of ours."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr, "decay": 0.5})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # it gives no loss
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad * group["lr"] * group["decay"])


class Counting(Fading):
    """It begins to count in its param group when it is stepped first."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # it gives no loss
        for group in self.param_groups:
            group["k"] = group.get("k", 0) + 1
        super().step()


def test_what_a_wrapped_optimizer_adds_to_its_groups_is_its_own() -> None:
    param = nn.Parameter(vector(1.0, 2.0))
    inner = Counting([param])
    opt = camhd.wrap(inner, **PLAIN)
    for _ in range(3):
        param.grad = vector(1.0, -1.0)
        opt.step()
    assert inner.param_groups[0]["k"] == 3
    assert inner.param_groups[0]["lr"] == 0.1
    close(param.detach(), vector(1.0, 2.0) - 3 * 0.05 * vector(1.0, -1.0))


def test_a_wrapped_optimizer_keeps_its_own_options_whatever_they_are_called() -> None:
    param = nn.Parameter(vector(1.0, 2.0))
    opt = camhd.wrap(Fading([param]), levels=("global",), hyper_lr=0.0, combine="fixed")
    param.grad = vector(1.0, -1.0)
    opt.step()
    close(param.detach(), vector(1.0, 2.0) - 0.05 * vector(1.0, -1.0))
    assert opt.param_groups[0]["decay"] == 0.5


class Named(Fading):
    """It looks at the names of its parameters."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # it gives no loss
        for group in self.param_groups:
            assert len(set(group["param_names"])) == len(group["params"])
        super().step()


class Unnamed(Fading):
    """It cannot do with names."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # it gives no loss
        assert all("param_names" not in group for group in self.param_groups)
        super().step()


def test_a_trial_has_names_where_the_optimizer_has_them() -> None:
    net = model()
    camhd.wrap(Named(net.named_parameters()))
    camhd.wrap(Unnamed(net.parameters()))


def test_a_trial_touches_nothing_of_the_optimizer() -> None:
    """Neither what a scheduler has put in the place of step(), nor hooks, nor the parameters."""
    net = model()
    train(net, torch.optim.SGD(net.parameters(), lr=0.0), 0, 1)  # gradients that a step would take
    before = [p.detach().clone() for p in net.parameters()]
    inner = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.optim.lr_scheduler.StepLR(inner, 1)
    called: list[int] = []
    inner.register_step_pre_hook(lambda *_: called.append(1))
    inner.register_step_post_hook(lambda *_: called.append(2))
    camhd.wrap(inner)
    assert called == []
    assert all(map(torch.equal, net.parameters(), before))
    inner = torch.optim.Rprop(net.parameters())
    torch.optim.lr_scheduler.StepLR(inner, 1)
    with pytest.raises(ValueError, match="depends on lr"):
        camhd.wrap(inner)


class Small(torch.optim.Optimizer):
    """Small steps that are not linear in lr."""

    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # it gives no loss
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad * 1e-4 * (group["lr"] + group["lr"] ** 2))


class Saturating(Small):
    """Small steps that are nearly linear in lr, however large it is."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # it gives no loss
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad * 1e-3 * group["lr"] * (1 + 0.01 * group["lr"] / (1 + group["lr"])))


@pytest.mark.parametrize("kind", [Small, Saturating])
def test_small_steps_are_looked_at_as_closely(kind: type[Small]) -> None:
    with pytest.raises(ValueError, match="needs an optimizer whose step is lr times a direction"):
        camhd.wrap(kind(model().parameters()))


def test_a_count_may_be_a_number_or_a_tensor() -> None:
    assert _alike(torch.tensor(2.0), 2.0)
    assert _alike([2, {"a": torch.tensor([1.0])}], [2, {"a": torch.tensor([1.0])}])
    assert not _alike(torch.tensor(2.0), 3.0)
    assert not _alike(torch.ones(2), torch.ones(3))
    assert not _alike({"a": 1}, {"b": 1})
    assert not _alike(1.0, 1.0 + 1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex128])
def test_the_lr_at_which_a_direction_is_asked_for(dtype: torch.dtype) -> None:
    """A power of two, or to divide by it would round; large against 1, and far from the largest number there is."""
    unit = object.__new__(Wrapped)._unit({"params": [torch.ones(2, dtype=dtype)]})
    assert math.frexp(unit)[0] == 0.5
    assert 200 < unit < torch.finfo(dtype).max / 200


SIZES = {torch.float64: (1e3, 1e-10, 1e-8), torch.float32: (100.0, 1e-3, 1e-4), torch.bfloat16: (10.0, 1e-2, 0.02)}


@pytest.mark.parametrize("dtype", [*SIZES, torch.float16])
def test_a_direction_that_is_small_against_the_weights_keeps_its_digits(dtype: torch.dtype) -> None:
    weight, size, rtol = SIZES.get(dtype, (10.0, 1e-2, 0.01))
    param = nn.Parameter(torch.full((3,), weight).to(dtype))
    opt = camhd.wrap(torch.optim.SGD([param], lr=0.1), **PLAIN)
    param.grad = (torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64) * size).to(dtype)
    opt.step()
    close(opt.state[param]["direction"], param.grad.double(), rtol=rtol)


def test_a_large_direction_in_half_precision_stays_finite() -> None:
    """The lr at which it is asked for is as small as its range needs."""
    param = nn.Parameter(torch.ones(3, dtype=torch.float16))
    opt = camhd.wrap(torch.optim.SGD([param], lr=1e-3), **PLAIN)
    param.grad = torch.tensor([200.0, -100.0, 1.0], dtype=torch.float16)
    opt.step()
    close(opt.state[param]["direction"], param.grad.double(), rtol=1e-2)


@pytest.mark.parametrize("times", [1, 2])
def test_parameters_are_put_back_even_if_that_is_cut_short(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C while they are put back; a second one is let through."""
    net = model()
    inner = torch.optim.SGD(net.parameters(), lr=0.1)
    opt: Any = camhd.wrap(inner, **PLAIN)
    train(net, opt, 0, 1)
    before, whole, calls = [p.detach().clone() for p in net.parameters()], opt.rule._put_back, []

    def cut(batches: Any, befores: Any, lrs: Any) -> None:
        calls.append(1)
        if len(calls) <= times:
            raise KeyboardInterrupt
        whole(batches, befores, lrs)

    monkeypatch.setattr(opt.rule, "_put_back", cut)
    with pytest.raises(KeyboardInterrupt):
        train(net, opt, 1, 2)
    assert len(calls) == 2
    if times == 1:
        assert all(map(torch.equal, net.parameters(), before))
        assert inner.param_groups[0]["lr"] == 0.1


RULES: dict[str, Callable[[nn.Module, Any], Any]] = {
    "sgd": lambda m, o: camhd.SGD(m, lr=0.05, **o),
    "nesterov": lambda m, o: camhd.SGD(m, lr=0.05, momentum=0.9, nesterov=True, **o),
    "adamw": lambda m, o: camhd.AdamW(m, lr=0.01, **o),
    "adabound": lambda m, o: camhd.AdaBound(m, lr=0.01, **o),
    "wrapped": lambda m, o: camhd.wrap(torch.optim.RMSprop(m.named_parameters(), lr=0.01), **o),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("hyper_rule", ["additive", "long_horizon"])
def test_what_a_rule_gives_away_is_nobody_elses(rule: str, hyper_rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors that are `fresh` may be written to, so none of them is part of the state, a parameter or a gradient."""
    net = model()
    opt = RULES[rule](net, {**ADDITIVE, "hyper_rule": hyper_rule, "backend": "foreach"})
    seen = []
    for name in ("sensitivity", "direction"):
        whole = getattr(opt.rule, name)

        def looked_at(batch: Any, *more: Any, whole: Any = whole) -> Any:
            found = whole(batch, *more)
            kept = [value for state in batch.states for value in state.values() if isinstance(value, Tensor)]
            taken = {value.data_ptr() for value in (*kept, *batch.params, *batch.grads)}
            shared = any(tensor.data_ptr() in taken for tensor in found.tensors)
            seen.append(not (found.fresh and shared))
            return found

        monkeypatch.setattr(opt.rule, name, looked_at)
    train(net, opt, 0, 3)
    assert seen
    assert all(seen)
