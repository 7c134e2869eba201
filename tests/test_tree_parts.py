"""The tree by its parts: cells against the reference, settings at their limits, levels, pieces, rules at the door."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd.hyper import Additive, LongHorizon
from camhd.rules import base
from camhd.tree.config import GroupRates, TreeConfig, check_hyper_lr
from camhd.tree.numbers import times_
from camhd.tree.state import Level, NewLeaf, Signal, Tracing
from cases import EXACT
from compare import close
from models import build
from reference_levels import Partition

pytestmark = pytest.mark.usefixtures("papers_form")

# --------------------------------------------------------------------------- cells

CHAINS = [("mlp", ("global", "layer")), ("cnn", ("layer", "filter")), ("gru", ("global", "gate", "unit"))]


def optimizer(name: str, levels: tuple[str, ...], **options: Any) -> tuple[nn.Module, Any]:
    model = build(name)
    return model, camhd.Adam(model, lr=0.1, levels=levels, backend="foreach", hyper_rule="additive", **options)


def rates_of(opt: Any) -> list[GroupRates]:
    return [opt._rates_of(group) for group in opt.param_groups]


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def drawn(model: nn.Module, seed: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return {n: torch.randn(p.shape, generator=random, dtype=torch.float64) for n, p in model.named_parameters()}


@pytest.mark.parametrize(("name", "levels"), CHAINS)
def test_sums_go_up_and_rates_come_down_as_the_reference_says(name: str, levels: tuple[str, ...]) -> None:
    model, opt = optimizer(name, levels)
    cells, scalars, others = opt._tree.cells, drawn(model, 0), drawn(model, 1)
    shapes = {n: p.shape for n, p in model.named_parameters()}
    options = {n: {"gates": model.gates, "axis": "output", "output_dim": {}, "blocks": None} for n in shapes}
    own = {slot: cells.sum_to(slot, value) for slot, value in enumerate(scalars.values())}
    dots = {slot: cells.dot(slot, v, others[n]) for slot, (n, v) in enumerate(scalars.items())}
    for i, level in enumerate(levels):
        partition = Partition(level, shapes, options)
        for parts, values in ((own, scalars), (dots, {n: v * others[n] for n, v in scalars.items()})):
            wanted = partition.down(partition.up(values))
            found = cells.by_slot(cells.spread(i, cells.sum_up(i, cells.gather(parts))))
            for n, at_cells in zip(shapes, found, strict=True):
                close(at_cells.expand(shapes[n]), wanted[n], rtol=EXACT)
        sizes = partition.down(partition.up({n: torch.ones(shape, dtype=torch.float64) for n, shape in shapes.items()}))
        at_cells = cells.by_slot(cells.spread(i, cells.sizes(i)))
        assert all(torch.equal(at.expand(shapes[n]), sizes[n]) for n, at in zip(shapes, at_cells, strict=True))
    numbers = cells.by_slot(cells.numbers)
    assert all(
        round(float((n.new_ones(shape) / n).sum())) == n.numel()
        for n, shape in zip(numbers, shapes.values(), strict=True)
    )


def test_what_a_parameter_does_not_have_is_0() -> None:
    _, opt = optimizer("mlp", ("layer",))
    cells = opt._tree.cells
    found = cells.gather({1: torch.tensor(2.0, dtype=torch.float64), 4: torch.tensor(3.0, dtype=torch.float64)})
    assert found.tolist() == [0, 2, 0, 0, 3, 0]


@pytest.mark.parametrize("levels", [("global", "layer"), ("global", "unit")])
def test_rows_and_pieces_of_a_parameters_cells(levels: tuple[str, ...]) -> None:
    """What pieces have summed is what the whole has, and some rows' cells are those of the whole."""
    model, opt = optimizer("mlp", levels)
    cells, value = opt._tree.cells, drawn(model, 0)["fc1.weight"]
    parts = [cells.sum_to(0, value[rows]) for rows in (slice(0, 2), slice(2, 3), slice(3, 5))]
    whole = cells.sum_to(0, value)
    close(cells.join(0, parts), whole)
    assert cells.join(0, parts[:1]) is parts[0]
    some = cells.rows(0, whole, slice(2, 4))
    assert torch.equal(some, whole[2:4] if levels[-1] == "unit" else whole)
    assert cells.rows(0, whole, None) is whole


def test_values_by_param_group() -> None:
    model = build("mlp")
    named = list(model.named_parameters())
    groups = [{"params": named[:2]}, {"params": named[2:], "lr": 0.3}]
    cells = camhd.Adam(groups, lr=0.1, levels=("global", "layer"), backend="foreach")._tree.cells
    ones = torch.arange(1.0, 7.0, dtype=torch.float64)
    close(cells.times_by_group(ones, [2.0, 3.0]), vector(2.0, 4.0, 9.0, 12.0, 15.0, 18.0))
    close(cells.by_group([2.0, 3.0]), vector(2.0, 2.0, 3.0, 3.0, 3.0, 3.0))
    close(cells.lr0, vector(0.1, 0.1, 0.3, 0.3, 0.3, 0.3))
    assert cells.layers.tolist() == [0, 0, 1, 1, 2, 2]
    alone = camhd.Adam(build("mlp"), lr=0.1, backend="foreach")._tree.cells
    assert alone.times_by_group(ones, [1.0]) is ones
    close(alone.times_by_group(ones, [2.0]), 2 * ones)
    close(alone.by_group([2.0]), vector(*[2.0] * 6))


def test_where_rates_start_and_in_which_units_they_are() -> None:
    """A rate whose members start alike starts there; one whose members differ starts at lr, as multiples of theirs."""
    model = build("mlp")
    named = list(model.named_parameters())
    groups = [{"params": named[:2]}, {"params": named[2:], "lr": 0.3}]
    tree = camhd.Adam(groups, lr=0.1, levels=("global", "layer"), backend="foreach")._tree
    close(tree.state.levels[0].rates, vector(0.1))
    close(tree.state.levels[1].rates, vector(0.1, 0.3, 0.3))
    close(tree.cells.spread(0, vector(0.2)), vector(0.2, 0.2, 0.6, 0.6, 0.6, 0.6))
    own = vector(0.1, 0.4, 0.5)
    close(tree.cells.spread(1, own), vector(0.1, 0.1, 0.4, 0.4, 0.5, 0.5))
    seen = tree.cells.seen_from(1, 0, vector(0.2))
    close(seen, vector(0.2, 0.6, 0.6))
    still = camhd.Adam([{"params": named[:2], "lr": 0.0}, {"params": named[2:]}], lr=0.3, levels=("global",))._tree
    close(still.cells.unit, vector(1.0, 1.0, 0.3, 0.3, 0.3, 0.3))
    nothing = camhd.Adam([{"params": named[:2], "lr": 0.2}, {"params": named[2:]}], lr=0.0, levels=("global",))._tree
    close(nothing.state.levels[0].rates, vector(0.2))


# --------------------------------------------------------------------------- levels


def test_a_level_grows_at_its_end_or_anywhere() -> None:
    rule = LongHorizon()
    level = Level.fresh(torch.tensor([1.0, 2.0]), rule)
    level.rates.mul_(10)
    level.rule["seen"].add_(5)
    assert level.starts.tolist() == [1.0, 2.0]
    more = level.extended(torch.tensor([7.0, 8.0, 9.0]), rule)
    assert (more.rates.tolist(), more.starts.tolist()) == ([10, 20, 9], [1, 2, 9])
    assert more.rule["seen"].tolist() == [5, 5, 0]
    moved = level.rearranged(torch.tensor([7.0, 8.0, 9.0]), rule, torch.tensor([2, 0]))
    assert (moved.rates.tolist(), moved.starts.tolist()) == ([20, 8, 10], [2, 8, 1])
    assert moved.rule["seen"].tolist() == [5, 0, 5]
    part = moved.part(slice(1, 3))
    assert (part.rates.tolist(), part.starts.tolist(), part.rule["seen"].tolist()) == ([8, 10], [8, 1], [0, 5])
    assert moved.part(None) is moved
    own = {"hyper_square", "hyper_seen", "hyper_against", "hyper_peak", "hyper_slope", "hyper_past_slope"}
    assert moved.tensors().keys() == {"rate", "start", *own}
    grown = Tracing(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])).extended(3)
    assert [value.tolist() for value in grown.tensors().values()] == [[1, 0, 0], [2, 0, 0], [3, 0, 0]]
    copied = grown.copy()
    grown.usual.add_(1)
    assert [value.tolist() for value in copied.tensors().values()] == [[1, 0, 0], [2, 0, 0], [3, 0, 0]]


def test_a_new_leaf_knows_whether_it_is_finite() -> None:
    leaf = NewLeaf.of(3, slice(0, 2), torch.tensor([1.0, float("nan")]), {"state": torch.tensor([0.0, 4.0])})
    assert [extreme.isfinite().item() for extreme in leaf.extremes] == [False, False, True, True]
    assert NewLeaf.of(0, None, torch.zeros(0), {}).extremes == []
    assert not Signal()
    assert Signal(dots={0: torch.zeros(())})
    assert Additive().start(torch.ones(2)) == {}


def test_numbers_multiply_tensors_in_place() -> None:
    tensors = [torch.tensor([1.0, 2.0]), torch.tensor(3.0)]
    times_(tensors, [2.0, torch.tensor(3.0)])
    assert [t.tolist() for t in tensors] == [[2, 4], 9]
    times_(tensors, [0.5, 1.0])
    assert [t.tolist() for t in tensors] == [[1, 2], 9]
    times_(tensors, [1.0, 1.0])
    assert [t.tolist() for t in tensors] == [[1, 2], 9]


# --------------------------------------------------------------------------- kappas


@pytest.mark.parametrize("levels", [("global", "unit"), ("layer", "parameter")])
def test_kappas_are_a_sequence_with_rows(levels: tuple[str, ...]) -> None:
    model, opt = optimizer("mlp", levels, decay=0.1, lr_limit=0.05)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    opt.step()
    kappas = opt._tree.last_kappa(rates_of(opt))
    assert len(kappas) == 6
    tau = math.exp(-0.1)
    for kappa in kappas:
        close(kappa, torch.full_like(kappa, tau * 0.1 + (1 - tau) * 0.05))
    assert torch.equal(kappas[-1], kappas[5])
    assert [k.shape for k in kappas[1:4:2]] == [kappas[1].shape, kappas[3].shape]
    assert torch.equal(kappas.at(0, slice(1, 3)), kappas[0][1:3])
    with pytest.raises(IndexError):
        kappas[6]


def test_a_network_keeps_the_combined_rate_within_the_bounds() -> None:
    model, opt = optimizer("mlp", ("global", "layer"), combine=camhd.combine.Network(2), min_lr=0.01, max_lr=0.2)
    for mean, bound in (([3.0, 3.0], 0.2), ([-1.0, 0.0], 0.01), ([0.5, 0.5], 0.1)):
        opt._tree.state.last_weights["mean"].copy_(torch.tensor(mean))
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        opt._tree.state.weights["mean"].copy_(torch.tensor(mean))
        opt.step()
        for kappa in opt._tree.last_kappa(rates_of(opt)):
            close(kappa, torch.full_like(kappa, bound))


# --------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "layer"}, "'schedule' must be"),
        ({"combine": camhd.combine.Regularized(1.0), "weights": (0.5, 0.5)}, "'weights' has no meaning"),
        ({"combine": "fixed", "combine_lr": 0.1}, "'combine_lr' must be left out"),
        ({"combine_lr": -0.1}, "'combine_lr' must be 0 or more"),
        ({"combine_lr": float("inf")}, "'combine_lr' must be 0 or more"),
        ({"weights": {"global": 1.0}}, "'weights' must name each"),
        ({"weights": (1.0,)}, "'weights' must have one number"),
        ({"weights": (1.5, -0.5)}, "'weights' must be 0 or more and sum to 1"),
        ({"weights": (0.5, 0.6)}, "sum to 1"),
        ({"weights": (float("inf"), 0.0)}, "'weights' must be 0 or more"),
        ({"min_lr": -1e-9}, "'min_lr' must be 0 or more"),
        ({"min_lr": float("inf")}, "'min_lr' must be 0 or more"),
        ({"min_lr": 0.2, "max_lr": 0.1}, "'max_lr' must be finite and at least"),
        ({"max_lr": float("inf")}, "'max_lr' must be finite"),
        ({"hyper_scale": "median"}, "'hyper_scale' must be one of"),
        ({"hyper_scale": "mean", "hyper_rule": "multiplicative"}, "'hyper_scale' must be left out"),
        ({"decay": -0.1}, "'decay' must be 0 or more"),
        ({"restarts": (0,)}, "'restarts' must be step numbers from 1 on"),
        ({"restarts": (1.5,)}, "'restarts' must be step numbers"),
        ({"hyper_rule": "long_horizon", "levels": ("layer", "parameter")}, "no cosine to learn from"),
        ({"hyper_rule": "long_horizon", "combine": camhd.combine.Regularized(1.0)}, "cannot be combined"),
    ],
    ids=str,
)
def test_settings_beyond_their_limits_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TreeConfig.make(**options)


@pytest.mark.parametrize("wrong", ["1", None, True, [1.0]])
@pytest.mark.parametrize("name", ["min_lr", "max_lr", "combine_lr"])
def test_settings_that_are_no_numbers_are_refused(name: str, wrong: Any) -> None:
    if wrong is None and name != "min_lr":
        assert TreeConfig.make(**{name: None})
        return
    with pytest.raises(TypeError, match=f"'{name}' must be a number"):
        TreeConfig.make(**{name: wrong})


def test_settings_at_their_limits_are_taken() -> None:
    made = TreeConfig.make(min_lr=0.0, max_lr=0.0, combine_lr=0.0, decay=0.0, restarts=(1,), weights=(0.0, 1.0))
    assert (made.min_lr, made.max_lr, made.combine_lr, made.weights) == (0.0, 0.0, 0.0, (0.0, 1.0))
    assert TreeConfig.make(min_lr=0.1, max_lr=0.1).max_lr == 0.1
    assert TreeConfig.make(levels="global").weights == (1.0,)
    assert TreeConfig.make(weights={"layer": 0.25, "global": 0.75}).weights == (0.75, 0.25)
    assert TreeConfig.make(weights=(0.5, 0.5 + 9e-7)).weights[0] == pytest.approx(0.5, abs=1e-6)
    assert TreeConfig.make(default_combine_lr=0.3).combine_lr == 0.3
    assert TreeConfig.make(default_combine_lr=0.3, combine_lr=0.0).combine_lr == 0.0
    assert TreeConfig.make(default_combine_lr=0.3, hyper_rule="long_horizon").combine_lr == 0.0
    assert not TreeConfig.make().decays
    assert TreeConfig.make(decay=0.1).decays
    assert TreeConfig.make(decay=0.1).decay(3) == pytest.approx(math.exp(-0.3), rel=EXACT)
    assert TreeConfig.make().decay(3) == 1.0
    assert TreeConfig.make(decay=lambda t: t / 2).decay(3) == 1.5
    assert [TreeConfig.make(restarts=(2, 4)).restarts(t) for t in range(1, 6)] == [False, True, False, True, False]
    assert TreeConfig.make(restarts=lambda t: t == 7).restarts(7)


def test_a_groups_beta_and_factor() -> None:
    group = GroupRates(0.2, 0.1, 0.1, {"layer": 3.0})
    assert (group.beta("layer"), group.beta("global")) == (3.0, 0.0)
    assert group._replace(hyper_lr=0.5).beta("global") == 0.5
    assert group.factor() == 2.0
    assert group._replace(lr=0.1).factor() == 1.0
    assert float(group._replace(lr=torch.tensor(0.4, dtype=torch.float64)).factor()) == pytest.approx(4.0)
    assert group._replace(lr=0.0, lr0=0.0).factor() == 1.0
    with pytest.raises(ValueError, match=r"'lr' was 0 when the param group was made and is 0.2 now"):
        group._replace(lr0=0.0).factor()
    check_hyper_lr({"layer": 0.0}, ("layer",))
    for wrong, message in (({"unit": 0.1}, "is none of"), ({"layer": -1.0}, "must be 0 or more"), (-1.0, "0 or more")):
        with pytest.raises(ValueError, match=message):
            check_hyper_lr(wrong, ("layer",))


# --------------------------------------------------------------------------- pieces


def batch(*shapes: tuple[int, ...], states: bool = True) -> base.Batch:
    params = [torch.arange(float(math.prod(shape))).reshape(shape) for shape in shapes]
    kept = [{"m": p + 100, "step": torch.tensor(1.0)} if states else {} for p in params]
    return base.Batch(0, {}, {}, 1.0, 1.0, list(range(len(params))), params, [p + 50 for p in params], kept)


def test_small_tensors_go_together_as_far_as_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four bytes each: three of 8 scalars fill 96 bytes to the last one, and a fourth does not fit."""
    monkeypatch.setattr(base, "PIECE", 96)
    found = list(batch((8,), (8,), (8,), (8,), (2,)).pieces(("m",)))
    assert [piece.slots for piece in found] == [[0, 1, 2], [3, 4]]
    assert [len(piece) for piece in found] == [3, 2]
    whole = batch((8,), (8,))
    assert next(iter(whole.pieces(("m",)))) is whole


def test_a_large_tensor_goes_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PIECE", 96)
    all_of_it = batch((3,), (9, 6), (2,))
    found = list(all_of_it.pieces(("m",)))
    assert [piece.slots for piece in found] == [[1], [1], [1], [0, 2]]
    rows = [piece.rows[0] for piece in found[:3]]
    assert [(r.start, r.stop) for r in rows] == [(0, 4), (4, 8), (8, 12)]
    for piece, some in zip(found, rows, strict=False):
        assert torch.equal(piece.params[0], all_of_it.params[1][some])
        assert torch.equal(piece.grads[0], all_of_it.grads[1][some])
        assert torch.equal(piece.states[0]["m"], all_of_it.states[1]["m"][some])
        assert piece.states[0]["step"] is all_of_it.states[1]["step"]
    exactly = list(batch((4, 6)).pieces(("m",)))
    assert len(exactly) == 1
    assert exactly[0].rows == ()


def test_what_cannot_be_cut_goes_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row, or a state that is still to be made; rows larger than a piece go one by one."""
    monkeypatch.setattr(base, "PIECE", 16)
    assert [piece.slots for piece in batch((1, 30)).pieces(("m",))] == [[0]]
    assert [len(piece.params[0]) for piece in batch((3, 30), states=False).pieces(("m",))] == [3]
    assert [len(piece.params[0]) for piece in batch((3, 30)).pieces(("m",))] == [1, 1, 1]


def test_some_of_a_batch() -> None:
    some = batch((2,), (3,), (4,)).pick([0, 2])
    assert (some.slots, [len(p) for p in some.params], some.rows) == ([0, 2], [2, 4], ())
    assert [g[0] for g in some.grads] == [50, 50]
    assert batch((2,), (3,), (4,)).among({2, 1}) == [1, 2]
    assert batch((2,), (3,)).counts() == [1.0, 1.0]


# --------------------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (camhd.SGD, {"momentum": -0.1}, "Invalid momentum value"),
        (camhd.SGD, {"momentum": float("inf")}, "Invalid momentum value"),
        (camhd.SGD, {"momentum": 0.0, "nesterov": True}, "Nesterov momentum requires"),
        (camhd.SGD, {"momentum": 0.9, "dampening": 0.1, "nesterov": True}, "Nesterov momentum requires"),
        (camhd.SGD, {"weight_decay": -0.1}, "Invalid weight_decay value"),
        (camhd.Adam, {"eps": -1e-9}, "Invalid epsilon value"),
        (camhd.Adam, {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0"),
        (camhd.Adam, {"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1"),
        (camhd.Adam, {"betas": (torch.tensor(0.9), 0.9)}, "both floats"),
        (camhd.AdaBound, {"eps": -1e-9}, "Invalid epsilon value"),
        (camhd.AdaBound, {"final_lr": -0.1}, "Invalid final learning rate"),
        (camhd.AdaBound, {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1"),
        (camhd.AdaBound, {"gamma": 0.0}, "Invalid gamma parameter"),
        (camhd.AdaBound, {"gamma": 1.0}, "Invalid gamma parameter"),
        (camhd.AdaBound, {"bounds": "tight"}, "'bounds' must be"),
        (camhd.AdaBound, {"decay_bound": "log"}, "'decay_bound' must be"),
        (camhd.AdaBound, {"weight_decay": -1.0}, "Invalid weight_decay value"),
    ],
    ids=str,
)
def test_options_of_rules_beyond_their_limits_are_refused(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make([nn.Parameter(torch.ones(2))], lr=0.1, **options)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (camhd.SGD, {"momentum": 0.0, "weight_decay": 0.0, "dampening": 0.5}),
        (camhd.SGD, {"momentum": 1e-9, "nesterov": True}),
        (camhd.Adam, {"betas": (0.0, 0.0), "eps": 0.0}),
        (camhd.AdaBound, {"final_lr": 0.0, "gamma": 1e-9, "eps": 0.0}),
        (camhd.AdaBound, {"gamma": 1 - 1e-9, "bounds": "paper", "decay_bound": "sqrt"}),
    ],
    ids=str,
)
def test_options_of_rules_at_their_limits_are_taken(make: Any, options: dict[str, Any]) -> None:
    make([nn.Parameter(torch.ones(2))], lr=0.1, **options)


def test_options_that_are_no_numbers_are_refused() -> None:
    for wrong in ("0.1", None):
        with pytest.raises(TypeError, match="'weight_decay' must be a number"):
            camhd.SGD([nn.Parameter(torch.ones(2))], lr=0.1, weight_decay=wrong)


def test_states_and_traces_are_wide_enough() -> None:
    for dtype, state, trace in (
        (torch.float16, torch.float32, torch.float32),
        (torch.bfloat16, torch.bfloat16, torch.float32),
        (torch.float32, torch.float32, torch.float32),
        (torch.float64, torch.float64, torch.float64),
    ):
        param = torch.ones(2, 3, dtype=dtype)
        assert (base.zeros(param).dtype, base.new_trace(param).dtype) == (state, trace)
        assert not base.zeros(param).any()
    wide = [torch.ones(2, dtype=torch.float32)]
    assert base.widened(wide) is wide
    assert base.widened([torch.ones(2, dtype=torch.float16)])[0].dtype == torch.float32
