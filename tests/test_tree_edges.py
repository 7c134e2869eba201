"""Where the tree and the rules come to an edge: bounds, zero directions, steps cut short, lines for the compiler.

The oracles are the formulas of docs/default-rule.md in plain floats, torch's own optimizers, and the same step taken
in another way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd.hyper import HyperRule, LongHorizon, Pull, State, Trace
from camhd.rules import base
from camhd.tree import bounds
from camhd.tree.commit import Commit, Whole
from camhd.tree.config import GroupRates, TreeConfig
from camhd.tree.numbers import times_, within
from camhd.tree.saved import entry, shown
from camhd.tree.state import Move, Signal, Tracing
from camhd.tree.sums import Sums, sum_up
from cases import everything_in_play
from compare import assert_same_state, close
from models import backward, build, twin
from reference_long_horizon import Reference
from state_cases import ADDITIVE, CASES, model, train

pytestmark = pytest.mark.usefixtures("papers_form")


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --------------------------------------------------------------------------- the long horizon


def literal(numbers: dict[str, float], tied: bool) -> Any:
    """(4) to (7) of docs/default-rule.md, for one rate."""
    rate, hyper, norm, moved, factor, reach, above, size, *kept = numbers.values()
    square, seen, against, peak, slope, past = kept
    cosine = -hyper / (norm * factor) if norm * factor > 0 else 0.0
    if cosine == 0:
        return rate, kept
    square, seen = 0.95 * square + 0.05 * cosine**2, seen + 1
    y = max(-1.0, min(1.0, cosine / math.sqrt(square / (1 - 0.95**seen))))
    against = max(against + (2.0 if cosine < 0 else -0.5), seen * min(1.0, seen / 1000))
    fading = 1 / (1 + against / 10)
    beta = 0.1 * fading * (1 + 2 * fading * 1e-3 / (1e-3 + moved))
    if tied and rate > 0 and above > 0:
        apart = math.log(rate / above)
        if y > 0 and apart > 0:
            y /= 1 + min(1.0, apart) * (rate * reach / 0.5) ** 2
        y -= 0.1 * apart
    leading = min(factor, 1.0) * beta * y
    step = leading + min(factor, 1.0) * 0.02 * cosine
    new = min(rate * (1 + max(-0.5, min(0.5, step))), max(peak, rate * (1 + max(0.0, leading))))
    return new, (square, seen, against, max(peak, new), 0.95 * slope + 0.05 * size, 0.998 * past + 0.002 * size)


@pytest.mark.parametrize("tied", [False, True])
def test_one_step_of_the_long_horizon_rule_is_its_formula(tied: bool) -> None:
    """With evidence for and against, steps small and large, factors below and above 1, and rates of 0."""
    columns: dict[str, list[float]] = {
        "rate": [0.1, 0.02, 0.3, 0.0, 1.0, 0.5, 0.4, 1e-9],
        "hyper": [0.3, -0.2, 1e-4, -0.5, 0.0, -2.0, -0.3, -0.9],
        "norm": [0.5, 0.9, 1.0, 0.6, 1.0, 2.0, 0.0, 1.0],
        "moved": [0.0, 1e-3, 0.5, 1e-4, 0.1, 0.02, 0.1, 0.0],
        "factor": [1.0, 0.5, 1.5, 1.0, 1.0, 2.0, 1.0, 1.0],
        "reach": [3.0, 9.0, 2.0, 1.0, 1.0, 0.6, 1.0, 1.0],
        "above": [0.2, 0.02, 0.0, 0.1, 0.1, 0.1, 0.1, 1.0],
        "size": [0.1, 3.0, 0.0, 2.0, 1.0, 0.5, 1.0, 7.0],
        "square": [0.2, 0.0, 0.9, 0.1, 0.3, 0.04, 0.1, 0.0],
        "seen": [7.0, 0.0, 100.0, 300.0, 5.0, 4000.0, 4.0, 0.0],
        "against": [14.0, 0.0, 60.0, 2.0, 4.0, 30.0, 2.0, 0.0],
        "peak": [0.1, 0.0, 0.4, 0.0, 2.0, 0.50001, 0.4, 1.0],
        "slope": [0.3, 0.0, 2.0, 1.0, 1.0, 4.0, 0.1, 0.0],
        "past_slope": [0.1, 0.0, 3.0, 2.0, 1.0, 0.5, 0.2, 0.0],
    }
    at = {name: vector(*values) for name, values in columns.items()}
    pull = Pull(at["hyper"], at["norm"], 3, at["moved"], at["above"] if tied else None, at["factor"], at["reach"])
    pull = pull._replace(slope=at["size"])
    kept = {name: at[name] for name in ("square", "seen", "against", "peak", "slope", "past_slope")}
    rates, state = LongHorizon().update(at["rate"], pull, kept)
    each = [dict(zip(columns, numbers, strict=True)) for numbers in zip(*columns.values(), strict=True)]
    wanted = [literal(numbers, tied) for numbers in each]
    close(rates, vector(*[rate for rate, _ in wanted]))
    for i, name in enumerate(kept):
        close(state[name], vector(*[after[i] for _, after in wanted]))


def traced_tree() -> Any:
    opt = camhd.Adam(build("mlp"), lr=0.1, levels=("global", "layer"), hyper_rule="long_horizon", backend="foreach")
    return opt._tree


def by_slot(*values: float) -> dict[int, Tensor]:
    return {slot: vector(value).reshape(()) for slot, value in enumerate(values)}


def test_the_largest_step_of_a_layer() -> None:
    """The bound of a layer that has moved, that of a first step, and none where there is no direction."""
    tree = traced_tree()
    trace = tree.config.hyper_rule.traced
    tree.state.tracing.kappa.copy_(vector(0.1, 0.0, 0.0, 0.0, 0.2, 0.2))
    signal = Signal(lengths=by_slot(4.0, 5.0, 1.0, 3.0, 0.0, 0.0), sizes=by_slot(20.0, 16.0, 1e-12, 9.0, 1.0, 1.0))
    found = bounds.limits(tree.cells, tree.state.tracing, signal, trace)
    floor = float(tree.cells.numbers[2]) * 0.01**2
    first, second = 0.1 * math.sqrt(36 / 9), 0.01 * math.sqrt((floor + 9) / 4)
    close(found[:2], vector(first, second))
    assert found[2:].tolist() == [math.inf]
    lost = Signal(lengths=by_slot(*[1.0] * 6), sizes=by_slot(math.nan, 1.0, math.inf, 1.0, 4.0, 5.0))
    found = bounds.limits(tree.cells, tree.state.tracing, lost, trace)  # weights that are not finite bound nothing
    assert found[:2].tolist() == [math.inf] * 2
    close(found[2:], vector(0.1 * math.sqrt(9 / 2)))


def summed(tree: Any, signal: Signal, level: int) -> Sums:
    """What the groups of a level sum up, with a pull of nothing."""
    groups = [GroupRates(0.1, 0.1, 0.1, 1.0)] * len(tree.state.last_moves)
    pull = torch.zeros(tree.cells.total, dtype=torch.float64)
    return sum_up(tree.config, tree.cells, tree.state, level, pull, signal, groups)


def test_how_far_a_group_would_go() -> None:
    tree = traced_tree()
    tree.state.tracing = Tracing(vector(0.1, 0.2, 0.3, 0.0, 0.5, 0.5), vector(*[0.0] * 6), vector(*[0.0] * 6))
    signal = Signal(lengths=by_slot(4.0, 5.0, 1.0, 3.0, 0.0, 0.0), sizes=by_slot(20.0, 16.0, 0.4, 0.3, 1.0, 1.0))
    moved, sizes = vector(0.04 + 0.2, 0.09, 0.0), vector(36.0, 0.7, 1.0)
    close(summed(tree, signal, 1).moved, (moved / sizes).sqrt())
    close(summed(tree, signal, 0).moved, (moved.sum() / 36.7).sqrt().reshape(1))
    still = summed(tree, Signal(lengths=by_slot(*[0.0] * 6), sizes=by_slot(*[1.0] * 6)), 1).moved
    assert still is not None
    assert still.tolist() == [0.0, 0.0, 0.0]
    of_nothing = bounds.part_of(vector(0.09, 4.0, 0.0), vector(0.0, 16.0, 0.0))
    close(of_nothing, vector(0.3, 0.5, 0.0))  # weights of zero without a floor: as if they were 1, as in the kernels


def test_the_mean_factor_of_groups_of_different_schedules() -> None:
    named = list(build("mlp").named_parameters())
    groups = [{"params": named[:2]}, {"params": named[2:]}]
    tree = camhd.Adam(groups, lr=0.1, hyper_rule="long_horizon", backend="foreach")._tree
    tree.state.last_moves = [Move(0.5, 1.0), Move(4.0, 0.5)]
    signal = Signal(moves=by_slot(1.0, 2.0, 3.0, 0.0, 0.0, 0.0))
    close(summed(tree, signal, 0).factor, vector(math.sqrt((3 * 0.25 + 3 * 4) / 6)))
    close(summed(tree, signal, 1).factor, vector(0.5, 2.0, 0.0))


def test_what_a_trace_keeps() -> None:
    """As much less as rates have grown; all of it where they fell or at a first step; nothing is noted at rest."""
    tree = traced_tree()
    before = vector(0.1, 0.4, 0.0, 0.2, 0.3, 0.3), vector(0.5, 0.5, 0.5, 0.5, 0.7, 0.8)
    tracing = Tracing(before[0].clone(), before[1].clone(), vector(*[0.0] * 6))
    signal = Signal(lengths={slot: torch.ones((), dtype=torch.float64) for slot in range(4)})
    bounds.remember(tracing, signal, tree.cells, vector(0.2, 0.1, 0.3, 0.2, 9.0, 9.0), 0.9)
    close(tracing.memory, vector(0.45, 0.9, 0.9, 0.9, 0.7, 0.8))
    close(tracing.kappa, vector(0.2, 0.1, 0.3, 0.2, 0.3, 0.3))
    shut = Tracing(vector(*[0.1] * 6), vector(*[0.5] * 6), vector(*[0.0] * 6))
    bounds.remember(shut, signal, tree.cells, vector(*[0.0] * 6), 0.9)
    close(shut.memory, vector(0.9, 0.9, 0.9, 0.9, 0.5, 0.5))
    fresh = bounds.fresh(tree.cells)
    for value in fresh.tensors().values():
        assert torch.equal(value, torch.zeros(6, dtype=torch.float64))
    assert len({value.data_ptr() for value in fresh.tensors().values()}) == 3


def test_a_layer_whose_direction_is_suddenly_long_takes_a_part_of_its_step() -> None:
    """The first of these layers is twice too long and has a new member, the second is as usual, the third is new."""
    tree, trace = traced_tree(), Trace(0.998, 0.01, 0.1, 0.01, sudden=3.0, recent=0.75)
    tracing = bounds.fresh(tree.cells)
    tracing.usual = vector(2.0, 0.0, 5.0, 5.0, 0.0, 0.0)
    signal = Signal(layers=torch.stack([vector(144.0, 16.0, 9.0), *[vector(1.0, 1.0, 1.0)] * 2]))
    close(bounds.shortened(tree.cells, tracing, signal, trace), vector(0.5, 0.5, 1.0, 1.0, 1.0, 1.0))
    close(tracing.usual, vector(3.0, 3.0, 4.75, 4.75, 3.0, 3.0))
    signal.layers[0] = vector(0.0, torch.inf, torch.nan)  # nothing is known of these
    close(bounds.shortened(tree.cells, tracing, signal, trace), vector(*[1.0] * 6))
    close(tracing.usual, vector(3.0, 3.0, 4.75, 4.75, 3.0, 3.0))


def test_a_bound_of_0_pulls_no_rate_down_to_it() -> None:
    """Weights of zero without a floor have a bound of 0: they stand still, and their rates stay."""
    tree = traced_tree()
    for level in tree.state.levels:
        level.rates.fill_(5.0)
    most = vector(0.0, 0.6, torch.inf)  # of each layer
    signal = Signal(lengths={slot: torch.ones((), dtype=torch.float64) for slot in range(6)})
    bounds.pull_down(tree.cells, tree.state, signal, most, 0.0)
    close(tree.state.levels[0].rates, vector(0.6))
    close(tree.state.levels[1].rates, vector(5.0, 0.6, 5.0))


def test_a_layer_of_one_scalar_has_a_bound_too() -> None:
    param = nn.Parameter(vector(2.0))
    options: dict[str, Any] = {"hyper_rule": "long_horizon", "levels": ("global",), "backend": "foreach"}
    opt = camhd.SGD([param], lr=1.0, **options)
    param.grad = vector(4.0)
    opt.step()
    assert opt.rates()["global"] == pytest.approx(0.01 * 2 / 4, rel=1e-12)
    close(param.detach(), vector(2.0 * 0.99))


def test_layers_that_take_turns_keep_their_traces() -> None:
    """One that does not move is looked back on when it does, as the literal reference has it."""
    nets = [nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)).double() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    opt = camhd.Adam(nets[0], lr=0.02, hyper_rule="long_horizon", backend="foreach")
    reference = Reference(nets[1], 0.02)
    for t in range(6):
        for net, stepper in zip(nets, (opt, reference), strict=True):
            for i, p in enumerate(net.parameters()):
                p.grad = (p.detach() + t).sin() if (i < 2) == (t % 2 == 0) else None
            stepper.step()
        for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
            close(p.detach(), q.detach(), rtol=1e-10)
    assert opt.tree.moved == frozenset(range(4))


def test_a_direction_of_zero_does_not_stop_the_learning() -> None:
    """Momentum that cancels the gradient: nothing moves, but the trace says that the rate was too large."""
    param = nn.Parameter(vector(1.0, 2.0))
    options: dict[str, Any] = {"hyper_rule": "long_horizon", "levels": ("global",), "backend": "foreach"}
    opt = camhd.SGD([param], lr=1e-3, momentum=0.5, **options)
    for grad in (vector(1.0, -1.0), vector(-0.5, 0.5)):
        param.grad = grad
        opt.step()
    fading = 1 / (1 + 2 / 10)
    beta = 0.1 * fading * (1 + 2 * fading)
    assert opt.rates()["global"] == pytest.approx(1e-3 * (1 - beta - 0.02), rel=1e-12)
    assert opt.skipped == 0
    close(param.detach(), vector(1.0, 2.0) - 1e-3 * vector(1.0, -1.0))


def test_a_restart_forgets_the_traces() -> None:
    net = model()
    opt = CASES["adam-long-horizon"](net)
    train(net, opt, 0, 2)
    tracing = opt.tree.state.tracing
    assert tracing is not None
    assert bool((tracing.kappa > 0).all())
    assert bool((tracing.memory > 0).all())
    opt.restart()
    assert not opt.tree.state.tracing.kappa.any()
    assert not opt.tree.state.tracing.memory.any()
    assert opt.tree.moved == frozenset()


# --------------------------------------------------------------------------- commits


class Counted:
    """Something begun."""

    def __init__(self) -> None:
        self.times = 0

    def finish(self) -> None:
        self.times += 1


def test_whoever_looks_first_brings_to_an_end_what_was_begun() -> None:
    net = model()
    opt = CASES["sgd"](net)
    held, begun = Whole(opt.tree.state), Counted()
    assert held.unsettled is held.state
    held.promise(begun)
    assert held.unsettled is opt.tree.state
    assert begun.times == 0
    assert held.state is opt.tree.state
    assert begun.times == 1
    assert held.state is opt.tree.state
    held.settle()
    assert begun.times == 1
    held.promise(begun)
    assert held.__getstate__()["_pending"] is None
    assert begun.times == 2
    held.promise(begun)
    held.promise(None)
    held.settle()
    assert begun.times == 2


@pytest.mark.parametrize("name", ["sgd", "nesterov-parameter"])
def test_a_commit_that_is_cut_short_is_finished_by_the_next_look(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nets = model(), model()
    opts = [CASES[name](net) for net in nets]
    for net, opt in zip(nets, opts, strict=True):
        opt.backend.name = "foreach"
        train(net, opt, 0, 2)
    whole, calls = Commit.finish, []

    def cut(commit: Commit) -> None:
        calls.append(commit)
        if len(calls) == 1:
            raise KeyboardInterrupt
        whole(commit)

    monkeypatch.setattr(Commit, "finish", cut)
    with pytest.raises(KeyboardInterrupt):
        train(nets[0], opts[0], 2, 3)
    found = opts[0].tree.state
    assert len(calls) == 2
    monkeypatch.undo()
    train(nets[1], opts[1], 2, 3)
    wanted = opts[1].tree.state
    assert found.step == wanted.step == 3
    assert all(map(torch.equal, found.vectors(), wanted.vectors()))
    assert len(found.all_levels()) == len(found.levels) + len(found.leaves)
    pairs = zip(found.all_levels(), wanted.all_levels(), strict=True)
    assert all(torch.equal(one.rates, other.rates) for one, other in pairs)


# --------------------------------------------------------------------------- while compiling


@pytest.mark.parametrize("name", ["adam", "adamw", "adabound"])
def test_what_is_computed_while_compiling_are_the_same_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and decays are tensors then, or they would be compiled in; here the same lines run without a compiler."""
    makers: dict[str, Any] = {
        "adam": camhd.Adam,
        "adamw": lambda m, **o: camhd.AdamW(m, weight_decay=0.1, **o),
        "adabound": lambda m, **o: camhd.AdaBound(m, gamma=0.4, decay_bound="sqrt", **o),
    }
    found = []
    for compiling in (False, True):
        net = model().double()
        options = {**ADDITIVE, "decay": 0.05 if name != "adamw" else lambda t: 0.9**t, "backend": "foreach"}
        opt = makers[name](net, lr=0.02, **options)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda on=compiling: on)
        for t in range(4):
            for i, p in enumerate(net.parameters()):
                p.grad = (p.detach() * (i + 1) + t).cos()
            opt.step()
        monkeypatch.undo()
        found.append((net, opt))
    (one, plain), (other, traced) = found
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        close(q.detach(), p.detach())
    for a, b in zip(plain.tree.state.vectors(), traced.tree.state.vectors(), strict=True):
        close(b, a)


def test_decays_are_numbers_unless_a_compiler_would_fix_them(monkeypatch: pytest.MonkeyPatch) -> None:
    decay = TreeConfig.make(decay=0.1).decay
    assert type(decay(3)) is float
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    found = decay(3)
    assert isinstance(found, Tensor)
    assert float(found) == pytest.approx(math.exp(-0.3), rel=1e-12)


def test_counts_are_numbers_unless_a_compiler_would_fix_them(monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"step": torch.tensor(3.0)}
    batch = base.Batch(0, {}, {}, 1.0, 1.0, [0], [torch.ones(2)], [torch.ones(2)], [state])
    assert batch.counts() == [3.0]
    assert type(batch.counts()[0]) is float
    whole = base.Batch(0, {}, {}, 1.0, 1.0, [0, 1], [torch.ones(2**20)] * 2, [torch.ones(2**20)] * 2, [state, state])
    assert len(list(whole.pieces(()))) > 1
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    (count,) = batch.counts()
    assert isinstance(count, Tensor)
    assert count.dtype == torch.float64
    assert float(count) == 3.0
    assert list(whole.pieces(())) == [whole]


# --------------------------------------------------------------------------- states


class Heavy(HyperRule):
    """A rate with momentum: its state has either sign."""

    def start(self, rates: Tensor) -> State:
        return {"speed": torch.zeros_like(rates)}

    def update(self, rates: Tensor, pull: Pull, state: Mapping[str, Tensor]) -> tuple[Tensor, State]:
        speed = 0.5 * state["speed"] + pull.hyper
        return rates - speed, {"speed": speed}


@pytest.mark.parametrize("levels", [("global", "layer"), ("global", "parameter")])
def test_a_hyper_rules_own_state_may_be_negative(levels: tuple[str, ...]) -> None:
    nets = model(), model()
    options: dict[str, Any] = {**ADDITIVE, "hyper_rule": Heavy(), "levels": levels}
    opts = [camhd.Adam(net, lr=0.01, **options) for net in nets]
    train(nets[0], opts[0], 0, 3)
    saved = opts[0].state_dict()
    speeds = [v for found in saved["state"].values() for k, v in found.items() if k.startswith("hyper_speed")]
    assert min(float(speed.min()) for speed in speeds) < 0
    nets[1].load_state_dict(nets[0].state_dict())
    opts[1].load_state_dict(saved)
    for net, opt in zip(nets, opts, strict=True):
        train(net, opt, 3, 5)
    assert all(map(torch.equal, nets[0].parameters(), nets[1].parameters()))
    assert all(map(torch.equal, opts[0].tree.state.vectors(), opts[1].tree.state.vectors()))


def test_the_number_that_is_wrong_is_the_one_that_is_shown() -> None:
    tree = camhd.Adam(model(), lr=0.01, **{**ADDITIVE, "levels": ("global", "unit")}).tree
    found = {"rate.unit": torch.tensor([0.0, 0.5])}
    assert entry(tree, found, "rate.unit", "a", (2,)) is found["rate.unit"]
    for values, shown_one in (([0.0, -0.5], "-0.5"), ([0.5, math.inf], "inf"), ([-0.25, math.nan], "-0.25")):
        with pytest.raises(ValueError, match=f"must be finite and 0 or more, found {shown_one};"):
            entry(tree, {"rate.unit": torch.tensor(values)}, "rate.unit", "a", (2,))
    with pytest.raises(ValueError, match="must be finite, found nan;"):
        entry(tree, {"hyper_x.unit": torch.tensor([-1.0, math.nan])}, "hyper_x.unit", "a", (2,))
    assert len(shown("x" * 78)) == 80
    assert shown("x" * 78) == repr("x" * 78)
    assert shown("x" * 79) == f"'{'x' * 76}..."


def _two_groups(net: nn.Module, root: str = "group") -> Any:
    named = list(net.named_parameters())
    groups = [{"params": named[:2], "lr": 0.02}, {"params": named[2:], "lr": 0.03}]
    return camhd.Adam(groups, lr=0.01, **{**ADDITIVE, "levels": (root, "layer")})


@pytest.mark.parametrize("name", [*CASES, "groups"])
def test_a_state_that_is_loaded_and_saved_again_is_the_same(name: str) -> None:
    make = _two_groups if name == "groups" else CASES[name]
    net, other = model(), model()
    opt = make(net)
    train(net, opt, 0, 2)
    saved = opt.state_dict()
    again = make(other)
    again.load_state_dict(saved)
    anew = again.state_dict()
    assert [set(found) for found in anew["state"].values()] == [set(found) for found in saved["state"].values()]
    assert anew["param_groups"] == saved["param_groups"]
    pairs = zip(opt.tree.state.vectors(), again.tree.state.vectors(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert again.tree.cells.alike == opt.tree.cells.alike
    flags = [[ratio is None for ratio in o.tree.cells.ratios] for o in (opt, again)]
    assert flags[0] == flags[1]  # no factors where all would be 1


def test_where_rates_started_is_saved_only_if_it_is_not_the_groups_first_lr() -> None:
    for make, wanted in (
        (CASES["adam"], {"rate.global", "rate.layer"}),
        (_two_groups, {"rate.group", "rate.layer"}),
        (lambda net: _two_groups(net, "global"), {"rate.global", "start.global", "rate.layer"}),
    ):
        for entries in make(model()).state_dict()["state"].values():
            assert {key for key in entries if "." in key} == wanted


# --------------------------------------------------------------------------- combinations


def test_regularised_rates_of_one_level_are_plain_ones() -> None:
    """There is nothing above to be tied to."""
    nets = model(), model()
    for net, combine in zip(nets, ("fixed", camhd.combine.Regularized(5.0)), strict=True):
        options = {**ADDITIVE, "levels": ("layer",), "combine": combine, "combine_lr": None}
        train(net, camhd.Adam(net, lr=0.01, **options), 0, 3)
    assert all(map(torch.equal, nets[0].parameters(), nets[1].parameters()))


def test_the_multiplicative_rules_own_beta() -> None:
    net = model()
    opt = camhd.Adam(net, hyper_rule="multiplicative", backend="foreach")
    train(net, opt, 0, 2)
    assert opt.param_groups[0]["hyper_lr"] == 0.02
    with pytest.raises(ValueError, match="'hyper_scale' must be left out with hyper_rule='multiplicative'"):
        camhd.Adam(model(), hyper_rule="multiplicative", hyper_scale="mean")
    with pytest.raises(ValueError, match="'hyper_scale' must be left out with hyper_rule='long_horizon'"):
        camhd.Adam(model(), hyper_rule="long_horizon", hyper_scale="mean")


def test_cosines_of_single_scalars_are_signs() -> None:
    """α ← α (1 ± β), whatever the base rule makes of the gradient and whatever the weights of the levels are."""
    param = nn.Parameter(vector(1.0, 2.0, 3.0))
    options: dict[str, Any] = {"levels": ("layer", "parameter"), "hyper_rule": "multiplicative", "backend": "foreach"}
    opt = camhd.Adam([param], lr=0.01, hyper_lr=0.05, **options)
    for grad in (vector(0.1, 0.2, -0.3), vector(0.3, -0.1, -0.2)):
        param.grad = grad
        opt.step()
    close(opt.rates()["parameter"]["0"], 0.01 * vector(1.05, 0.95, 1.05))


def test_regularised_scalars_without_a_gradient_are_tied_like_the_others() -> None:
    """Against the literal algorithm: what the levels above learned pulls at them, too."""
    net = build("mlp")
    setup = everything_in_play("adam", ("global", "layer", "parameter"), "closed", net)
    other = twin(net)
    opt, reference = type(setup)(**{**vars(setup), "backend": "foreach"}).library(net), setup.reference(other)
    for t in range(1, 5):
        for one, stepper in ((net, opt), (other, reference)):
            backward(one, t)
            if t == 3:
                next(one.parameters()).grad = None
            stepper.step()
        assert_same_state(opt, net, reference, other)


def test_regularised_scalars_are_tied_by_their_own_beta() -> None:
    """β of 0 at the level of the scalars: neither their hypergradient nor those above move them."""
    net = model()
    beta = {"global": 1e-3, "layer": 1e-3, "parameter": 0.0}
    options: dict[str, Any] = {"levels": tuple(beta), "hyper_lr": beta, "hyper_rule": "additive", "backend": "foreach"}
    opt = camhd.Adam(net, lr=0.01, combine=camhd.combine.Regularized(50.0, solve="closed"), **options)
    train(net, opt, 0, 4)
    assert opt.rates()["layer"]["0"] != pytest.approx(0.01, rel=1e-3)
    for rates in opt.rates()["parameter"].values():
        assert torch.equal(rates, torch.full_like(rates, 0.01))


def test_which_saved_weights_are_on_the_simplex() -> None:
    """Weights of 0 are, rounding is forgiven, more than that is not; of each layer by itself."""
    linear = camhd.combine.Normalized()
    for good in ([1.0, 0.0], [0.25, 0.75], [0.5, 0.5005]):
        assert linear.trouble({"weights": vector(*good)}) is None
    for bad in ([0.5, 0.5015], [0.5, 0.4985], [1.5, -0.5], [0.7, 0.7]):
        assert "sum to 1" in str(linear.trouble({"weights": vector(*bad)}))
    assert linear.trouble({"weights": vector(math.nan, 1.0)}) == "must be finite"
    per_layer = camhd.combine.PerLayer()
    assert per_layer.trouble({"weights": torch.stack([vector(0.5, 0.5), vector(1.0, 0.0)])}) is None
    assert "sum to 1" in str(per_layer.trouble({"weights": torch.stack([vector(0.5, 0.5), vector(0.7, 0.7)])}))


def test_a_networks_first_weights_are_as_large_as_the_number_of_levels_asks_for() -> None:
    """Hidden units get inputs of size 1 from any number of levels."""
    for levels in (1, 3, 8):
        state = camhd.combine.Network(hidden=4000).start(torch.full((levels,), 1 / levels, dtype=torch.float64), 1)
        assert float(state["w1"].square().mean()) == pytest.approx(1 / levels, rel=0.1)
    assert repr(camhd.combine.Network()) == "Network(hidden=8, seed=0)"
    assert camhd.combine.Network().start(vector(0.5, 0.5), 1)["w1"].shape == (8, 2)


# --------------------------------------------------------------------------- cells and settings


def test_units_of_what_must_be_free_of_the_first_lr() -> None:
    named = list(build("mlp").named_parameters())
    groups = [{"params": named[:2], "lr": 0.3}, {"params": named[2:4], "lr": 0.0}, {"params": named[4:], "lr": 2.0}]
    cells = camhd.Adam(groups, lr=0.1, levels=("global", "layer"), backend="foreach")._tree.cells
    close(cells.unit, vector(0.3, 0.3, 1.0, 1.0, 2.0, 2.0))


def test_a_param_group_without_parameters_changes_nothing() -> None:
    nets = model(), model()
    for net, more in zip(nets, ([], [{"params": [], "lr": 0.5}]), strict=True):
        groups = [{"params": list(net.parameters())}, *more]
        train(net, camhd.Adam(groups, lr=0.01, backend="foreach", **ADDITIVE), 0, 3)
    assert all(map(torch.equal, nets[0].parameters(), nets[1].parameters()))


@pytest.mark.parametrize("levels", [("global", "layer"), ("global", "unit")])
def test_two_pieces_of_a_parameter_are_both_counted(levels: tuple[str, ...]) -> None:
    opt = camhd.Adam(build("mlp"), lr=0.1, levels=levels, backend="foreach")
    cells = opt._tree.cells
    for slot, shape in ((0, cells.layout.slots[0].shape), (1, cells.layout.slots[1].shape)):
        value = torch.arange(float(math.prod(shape)), dtype=torch.float64).view(shape)
        whole = cells.sum_to(slot, value)
        parts = [cells.sum_to(slot, value[:2]), cells.sum_to(slot, value[2:])]
        close(cells.join(slot, parts), whole)
        assert torch.equal(cells.rows(slot, whole, slice(1, 3)), whole[1:3] if levels[-1] == "unit" else whole)


def test_a_state_of_any_kind_goes_with_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PIECE", 16)
    param = torch.arange(12.0).view(4, 3)
    state = {"m": param + 1, "step": torch.tensor(2.0), "note": "as it is", "none": None}
    found = list(base.Batch(0, {}, {}, 1.0, 1.0, [0], [param], [param], [state]).pieces(("m",)))
    assert len(found) == 4
    assert all(piece.states[0]["note"] == "as it is" and piece.states[0]["none"] is None for piece in found)
    assert torch.equal(torch.cat([piece.states[0]["m"] for piece in found]), param + 1)


def test_sums_are_in_single_precision_at_least() -> None:
    """Of parameters in half precision, too: thousands of products lose no digits."""
    random = torch.Generator().manual_seed(0)
    param = nn.Parameter(torch.randn(5000, generator=random).bfloat16())
    tree = camhd.SGD([param], lr=0.1, levels=("global",), hyper_rule="additive", backend="foreach")._tree
    grad, last = (torch.randn(5000, generator=random).bfloat16() for _ in range(2))
    observer = tree.observer([])
    observer.see([0], [None], [grad], [last], [1.0], False)
    found = observer.signal().dots[0]
    assert found.dtype == torch.float32
    close(found, (grad.double() * last.double()).sum(), rtol=1e-5)


def test_numbers_that_multiply_and_numbers_that_bound() -> None:
    values = [vector(1.0, 3.0), vector(2.0)]
    times_(values, [2.0, 2.0])
    close(torch.cat(values), vector(2.0, 6.0, 4.0))
    times_(values, [1.0, 1.0])
    close(torch.cat(values), vector(2.0, 6.0, 4.0))
    found = within(vector(5.0, 0.1, 1.5, 7.0, 7.0), vector(1.0, 1.0, 1.0, 0.0, -1.0), 2.0)
    close(found, vector(2.0, 0.5, 1.5, 7.0, 7.0))


def test_settings_that_are_nearly_right() -> None:
    assert TreeConfig.make().combine_lr == 0.0
    assert sum(TreeConfig.make(weights=(0.5, 0.5 + 9e-7)).weights) == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(ValueError, match="'weights' must be 0 or more and sum to 1"):
        TreeConfig.make(weights=(0.5, 0.5 + 1.5e-6))
    with pytest.raises(TypeError, match="'restarts' must be step numbers from 1 on"):
        TreeConfig.make(restarts="12")
    with pytest.raises(TypeError, match="'restarts' must be step numbers from 1 on"):
        TreeConfig.make(restarts=3)  # type: ignore[arg-type] # what is refused


def test_levels_that_would_nest_otherwise_with_what_is_added_are_refused() -> None:
    """A block for each tensor holds a layer of one tensor, and is held by a layer of two."""
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3)
    block = camhd.levels.Block(lambda name: name)
    opt = camhd.SGD([("a.weight", first.weight)], lr=0.1, levels=(block, "layer"), hyper_rule="additive")
    assert opt.tree.layout.names == ("block", "layer")
    named = [(f"b.{name}", p) for name, p in second.named_parameters()]
    with pytest.raises(
        ValueError, match=r"the levels nest as \('block', 'layer'\) so far, but as \('layer', 'block'\)"
    ):
        opt.add_param_group({"params": named})
