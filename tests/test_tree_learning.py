"""What only shows in odd company: groups that share a rate, layers that come later, options that meet others."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from camhd.rules.sgd import SGD
from camhd.tree import bounds
from camhd.tree.state import Signal
from cases import EXACT, everything_in_play
from compare import assert_same_state, close
from models import backward, build, twin
from reference_long_horizon import Reference as LongHorizon
from reference_rules import DEFAULTS, RULES

pytestmark = pytest.mark.usefixtures("papers_form")


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def step(model: nn.Module, optimizer: Any, t: int = 1) -> None:
    backward(model, t)
    optimizer.step()


def test_layers_that_come_later_are_in_the_saved_state() -> None:
    """Each layer has weights of its own, and so has the note of those of the last move."""
    found = []
    for saved in (False, True):
        model = build("mlp")
        named = list(model.named_parameters())
        options: dict[str, Any] = {"lr": 0.01, "combine": camhd.combine.PerLayer(), "hyper_lr": 1e-3, "combine_lr": 0.1,
            "hyper_rule": "additive"}  # fmt: skip
        optimizer = camhd.Adam(named[:4], **options)
        step(model, optimizer, 1)
        step(model, optimizer, 2)
        optimizer.add_param_group({"params": named[4:]})
        step(model, optimizer, 3)
        if saved:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = camhd.Adam([{"params": named[:4]}, {"params": named[4:]}], **options)
            optimizer.load_state_dict(state)
        step(model, optimizer, 4)
        found.append([p.detach() for p in model.parameters()])
    assert all(map(torch.equal, *found))


def test_the_global_rate_can_only_be_the_schedules_if_there_is_one() -> None:
    with pytest.raises(ValueError, match="schedule='global' needs the level 'global'"):
        camhd.Adam(build("mlp"), levels=("layer",), schedule="global")
    named = list(build("mlp").named_parameters())
    groups = [{"params": named[:4], "lr": 0.2}, {"params": named[4:], "lr": 0.3}]
    optimizer = camhd.Adam(groups, lr=0.1, levels=("layer", "global"), schedule="global")
    assert optimizer.rates()["global"] == 0.2
    optimizer.param_groups[0]["lr"] = 0.15
    assert optimizer.rates()["global"] == 0.15


@pytest.mark.parametrize("backend", ["foreach", "auto"])
@pytest.mark.parametrize("levels", [("global", "layer"), ("layer", "parameter")])
@pytest.mark.parametrize("combine", ["network", "per-layer softmax"])
def test_cosines_of_unusual_combinations(combine: str, levels: tuple[str, ...], backend: str) -> None:
    """The multiplicative rule has no share of a level in it, whatever the combination is."""
    model = build("mlp")
    setup = everything_in_play("adam", levels, combine, model, hyper_rule="multiplicative", hyper_lr=0.02)
    setup = type(setup)(**{**vars(setup), "second": {**(setup.second or {}), "hyper_lr": 0.01}, "backend": backend})
    other = twin(model)
    optimizer = setup.library(model)
    reference = setup.reference(other, optimizer.combination_state() if combine == "network" else None)
    for t in range(1, 5):
        backward(model, t)
        backward(other, t)
        optimizer.step()
        reference.step()
        assert_same_state(optimizer, model, reference, other)


@pytest.mark.parametrize(("scale", "beta"), [("mean", 1e-3), ("size", 1e-6)])
@pytest.mark.parametrize("levels", [("global", "unit"), ("layer", "parameter")])
def test_rates_may_depend_on_the_size_of_their_group(levels: tuple[str, ...], scale: str, beta: float) -> None:
    """The three readings of the paper's β, in plain torch, against the literal algorithm."""
    model = build("mlp")
    setup = everything_in_play("momentum", levels, "normalized", model, hyper_scale=scale, hyper_lr=beta)
    setup = type(setup)(**{**vars(setup), "second": {**(setup.second or {}), "hyper_lr": beta}, "backend": "foreach"})
    other = twin(model)
    optimizer, reference = setup.library(model), setup.reference(other)
    for t in range(1, 5):
        backward(model, t)
        backward(other, t)
        optimizer.step()
        reference.step()
        assert_same_state(optimizer, model, reference, other)


# --------------------------------------------------------------------------- the long horizon


@pytest.mark.parametrize("bounds_of", ["released", "paper"])
@pytest.mark.parametrize("decay_bound", [None, "sqrt"])
@pytest.mark.parametrize("amsbound", [False, True])
def test_adabounds_direction_is_its_step_between_the_bounds(
    amsbound: bool, decay_bound: str | None, bounds_of: str
) -> None:
    """After a first step the trace of directions holds that step's; the literal rule's ∂U/∂κ is its oracle."""
    options: dict[str, Any] = {"final_lr": 0.1, "gamma": 1e-6, "bounds": bounds_of, "decay_bound": decay_bound}
    param = nn.Parameter(vector(1.0, -2.0, 0.5))
    optimizer = camhd.AdaBound([param], lr=1e-3, amsbound=amsbound, hyper_rule="long_horizon", **options)
    state: dict[str, Any] = {}
    traces = []
    for t in range(2):
        before = param.detach().clone()
        param.grad = vector(0.3, -0.7, 0.2) * (t + 1)
        optimizer.step()
        kappa = torch.full_like(before, 1e-3)
        literal = {**DEFAULTS["adabound"], **options, "amsbound": amsbound}
        _, s = RULES["adabound"](state, param.grad, before, kappa, 1.0, literal)
        traces.append((optimizer.state[param]["trace"].clone(), s))
    close(traces[0][0], traces[0][1])
    kept = (traces[1][0] - traces[1][1]) / traces[0][1]
    close(kept, kept[:1].expand(3), rtol=1e-9)  # D ← φ D + d with one φ


def test_weights_that_start_at_zero_count_as_large_as_the_floor() -> None:
    """Against the literal reference: a layer of zeros, and one of weights far below the floor."""
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        made = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        with torch.no_grad():
            made[0].weight.mul_(1e-4)
            made[2].weight.zero_()
            made[2].bias.zero_()
        models.append(made)
    optimizer = camhd.Adam(models[0], lr=1.0, hyper_rule="long_horizon", backend="foreach")
    reference = LongHorizon(models[1], 1.0, "adam", ("global", "layer"))
    random = torch.Generator().manual_seed(1)
    for _ in range(6):
        x = torch.randn(16, 6, generator=random, dtype=torch.float64)
        for model, opt in ((models[0], optimizer), (models[1], reference)):
            model.zero_grad()
            nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()
            opt.step()
        for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-14)


def test_a_shared_rate_comes_down_to_the_mean_of_its_layers_bounds() -> None:
    """The geometric mean, weighted by sizes, in the units in which each layer has it; one without a bound is out."""
    named = list(build("mlp").named_parameters())
    groups = [{"params": named[:2]}, {"params": named[2:], "lr": 0.3}]
    tree = camhd.Adam(groups, lr=0.1, levels=("global", "layer"), hyper_rule="long_horizon")._tree
    for level in tree.state.levels:
        level.rates.fill_(5.0)
    most = vector(0.2, 0.6, torch.inf)
    signal = Signal(lengths=dict(enumerate(tree.cells.by_slot(torch.ones_like(tree.cells.numbers)))))
    bounds.pull_down(tree.cells, tree.state, signal, most, 0.0)
    sizes = [named[i][1].numel() + named[i + 1][1].numel() for i in (0, 2)]
    logs = vector(0.2, 0.6 / 3).log()  # of the second group a rate is three times what the global one says
    expected = ((vector(*sizes) * logs).sum() / sum(sizes)).exp()
    close(tree.state.levels[0].rates, expected.reshape(1))
    close(tree.state.levels[1].rates, vector(0.2, 0.6, 5.0))
    bounds.pull_down(tree.cells, tree.state, signal, most / 10, 0.05)  # not below the lowest rate there may be
    close(tree.state.levels[1].rates, vector(0.05, 0.06, 5.0))
    signal.lengths.pop(2), signal.lengths.pop(3)  # a layer that does not move has no bound
    bounds.pull_down(tree.cells, tree.state, signal, most / 100, 0.0)
    close(tree.state.levels[1].rates, vector(0.002, 0.06, 5.0))


# --------------------------------------------------------------------------- rules


def test_which_states_sgd_writes_to() -> None:
    """A tensor whose state is still to be made is not cut into pieces, or it would be made for a piece."""
    plain, heavy = {"momentum": 0.0, "nesterov": False}, {"momentum": 0.9, "nesterov": False}
    names = [SGD().state_names(options) for options in (plain, heavy, {"momentum": 0.9, "nesterov": True})]
    assert [set(found) for found in names] == [{"direction"}, {"momentum_buffer"}, {"momentum_buffer", "direction"}]


class Counting(torch.optim.Optimizer):
    """Plain SGD that counts its steps in its param group, as some optimizers do, and has an option of its own."""

    def __init__(self, params: Any, lr: float = 0.1, damp: float = 1.0) -> None:
        super().__init__(params, {"lr": lr, "damp": damp, "count": 0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # it gives no loss
        for group in self.param_groups:
            group["count"] += 1
            for p in group["params"]:
                p.sub_(p.grad * group["lr"] * group["damp"])


def test_options_go_in_and_counts_come_out_of_a_wrapped_optimizer() -> None:
    param = nn.Parameter(vector(1.0, 2.0))
    inner = Counting([param])
    optimizer = camhd.wrap(inner, levels=("global",), hyper_lr=0.0, combine_lr=0.0, hyper_rule="additive")
    assert "Wrapped(Counting)" in repr(optimizer)
    for damp in (1.0, 0.5):
        optimizer.param_groups[0]["damp"] = damp
        before = param.detach().clone()
        param.grad = vector(1.0, -1.0)
        optimizer.step()
        close(param.detach(), before - 0.1 * damp * vector(1.0, -1.0), rtol=EXACT)
    assert optimizer.param_groups[0]["count"] == inner.param_groups[0]["count"] == 2
    assert optimizer.param_groups[0]["lr"] == inner.param_groups[0]["lr"] == 0.1
