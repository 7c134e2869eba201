"""A step that fails anywhere leaves all of what was learned or all of what is new, and training goes on."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch

import camhd
from cases import HAS_NUMBA
from faults import EVERY, Case, Places, Seen, same, train

FAST: dict[str, Any] = {"lr": 0.02, "hyper_lr": 1e-2, "combine_lr": 1.0, "hyper_rule": "additive"}
COSINE: dict[str, Any] = {**FAST, "hyper_rule": "multiplicative"}
PLAIN = {"backend": "foreach"}
DEEP = ("global", "layer", "parameter")
ERRORS = (RuntimeError, KeyboardInterrupt)


def _adam(**options: Any) -> Any:
    return lambda m: camhd.Adam(m, **{**FAST, **options})


def _tied(m: Any) -> Any:
    tie = camhd.combine.Regularized(100.0)
    return camhd.SGD(m, lr=0.02, hyper_lr=1e-3, hyper_rule="additive", combine=tie, levels=DEEP, **PLAIN)


def _wrapped(m: Any) -> Any:
    inner = torch.optim.RMSprop(m.named_parameters(), lr=0.02)
    return camhd.wrap(inner, hyper_lr=1e-2, combine_lr=1.0, hyper_rule="additive")


CASES: dict[str, Any] = {  # how to make it, and how many steps it takes before the one that fails
    "foreach, adam": (_adam(**PLAIN), 3),
    "foreach, adam, first step": (_adam(**PLAIN), 0),
    "foreach, adamw, parameter": (lambda m: camhd.AdamW(m, weight_decay=0.1, levels=DEEP, **FAST, **PLAIN), 3),
    "foreach, adabound, multiplicative": (lambda m: camhd.AdaBound(m, **COSINE, **PLAIN), 3),
    "foreach, nesterov, softmax": (
        lambda m: camhd.SGD(m, momentum=0.9, nesterov=True, combine="softmax", **FAST, **PLAIN),
        3,
    ),
    "foreach, sgd, regularised": (_tied, 3),
    "foreach, adam, long horizon": (lambda m: camhd.Adam(m, lr=0.02, hyper_rule="long_horizon", **PLAIN), 3),
    "foreach, adam, restart": (_adam(restarts=(4,), levels=DEEP, **PLAIN), 3),
    "fused, nesterov, long horizon, restart": (
        lambda m: camhd.SGD(m, lr=0.02, momentum=0.9, nesterov=True, hyper_rule="long_horizon", restarts=(4,)),
        3,
    ),
    "fused, adam, long horizon": (lambda m: camhd.Adam(m, lr=0.02, hyper_rule="long_horizon"), 3),
    "foreach, wrapped": (_wrapped, 3),
    "foreach, hd as released": (lambda m: camhd.baselines.AdamHD(m, lr=0.02, hyper_lr=1e-2, faithful=True), 3),
    "fused, adam": (_adam(), 3),
    "fused, adam, first step": (_adam(), 0),
    "fused, adam, decay": (_adam(decay=0.01), 3),
    "fused, adamw, parameter": (lambda m: camhd.AdamW(m, weight_decay=0.1, levels=DEEP, **FAST), 3),
    "fused, momentum, first step": (lambda m: camhd.SGD(m, momentum=0.9, dampening=0.5, **FAST), 0),
    "fused, adabound, multiplicative": (lambda m: camhd.AdaBound(m, **COSINE), 3),
    "fused, adam, per layer": (_adam(combine=camhd.combine.PerLayer()), 3),
    "fused, adam, restart": (_adam(restarts=(4,), levels=DEEP), 3),
}
THOROUGH = (
    "foreach, adam",
    "fused, adam",
    "fused, adam, first step",
    "fused, adam, per layer",
)  # the others: a quarter


@pytest.mark.alike(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_failure_at_any_call_inside_a_step_leaves_all_old_or_all_new(name):
    if name.startswith("fused") and not HAS_NUMBA:
        pytest.skip("needs camhd[fused]")
    case = Case(*CASES[name])
    old = Seen.of(*case.ready())
    places = Places()
    with places.watching():
        case.opt.step()
    new = Seen.of(case.model, case.opt)
    assert f"backend {name.partition(',')[0]}" in repr(case.opt)
    assert not same(old.learned, new.learned)
    outcomes = set()
    chosen = places.chosen()
    for turn, place in enumerate(chosen if name in THOROUGH or EVERY else chosen[::4]):
        for error in ERRORS if EVERY else ERRORS[turn % 2 : turn % 2 + 1]:
            outcomes.add(fail_once(case, place, error, old, new))
    # Both ends of a step were reached, and in between it is cut: but the kernels take a whole step at once.
    whole = name.startswith("fused") and "per layer" not in name
    assert outcomes == ({"untouched", "done"} if whole else {"untouched", "cut", "done"})


def fail_once(case: Case, place: int, error: type[BaseException], old: Seen, new: Seen) -> str:
    """One failure at one place, and what is left: all that is promised must hold."""
    model, opt = case.ready()
    watched = Places(place, error)
    with suppress(error), watched.watching():  # what a look at the gradients meets, it may take for an odd gradient
        opt.step()
    assert watched.raised
    seen, where = Seen.of(model, opt), watched.found[place]
    assert same(seen.grads, old.grads), where
    assert same(seen.learned, old.learned) or same(seen.learned, new.learned), where
    if same(seen.params, old.params) and _same_or_made(seen.moments, old.moments) and seen.moved == old.moved:
        assert same(seen.learned, old.learned), where
        outcome = "untouched"
        opt.step()
        assert same(vars(Seen.of(model, opt)), vars(new)), where
    elif same(vars(seen), vars(new)):
        outcome = "done"
    else:
        outcome = "cut"
        assert not seen.moved, where  # nothing to look back on: no new rate meets an old direction
        for p, before, after in zip(seen.params, old.params, new.params, strict=True):
            assert (p - before).abs().max() <= 2 * (after - before).abs().max() + 1e-6, where
    check_going_on(case, outcome, EVERY or place % 8 == 0, where)
    return outcome


def _same_or_made(now: list[dict[str, Any]], before: list[dict[str, Any]]) -> bool:
    """The same moments; a parameter that had none may have got its zeros."""
    return all(
        same(a, b) or (not b and all(not torch.as_tensor(value).any() for value in a.values()))
        for a, b in zip(now, before, strict=True)
    )


def check_going_on(case: Case, outcome: str, compare: bool, where: Any) -> None:
    """Training goes on, exactly as that of an optimizer that knows the checkpoint alone."""
    model, opt = case.model, case.opt
    other, twin = case.twin() if compare else (None, None)
    before = Seen.of(model, opt)
    opt.step()
    after = Seen.of(model, opt)
    assert after.moved, where
    assert all(p.isfinite().all() for p in after.params), where
    if outcome == "cut" and not opt.config.hyper_rule.traced and not opt.config.restarts(4):
        levels = len(opt.tree.state.levels)
        assert same(before.learned["vectors"][:levels], after.learned["vectors"][:levels]), where
        assert same(before.learned["leaves"], after.learned["leaves"]), where
    if other is not None and twin is not None:
        for p, q in zip(other.parameters(), model.parameters(), strict=True):
            p.grad = q.grad
        twin.step()
        train(other, twin, 8, 9)
        train(model, opt, 8, 9)
        assert same(list(model.parameters()), list(other.parameters())), where
        assert same(opt.state_dict(), twin.state_dict()), where
        assert not same(after.learned, Seen.of(model, opt).learned), where
