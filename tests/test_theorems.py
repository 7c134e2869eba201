"""The paper's two theorems, and the error of the approximation that the first one rests on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import camhd
from cases import CLOSE, EXACT, REGULARIZED, Setup, pulls, root_to_leaf
from models import backward, build, snapshot
from reference_levels import layer_of

pytestmark = pytest.mark.usefixtures("papers_form")

LR, BETA = 0.05, 1e-2
CHAINS = {
    ("global", "layer"): "mlp",
    ("layer", "parameter"): "mlp",
    ("global", "layer", "parameter"): "mlp",
    ("global", "layer", "filter", "parameter"): "cnn",
    ("global", "layer", "gate", "unit", "parameter"): "lstm",
}
chain_name = ">".join


def two_steps(optimizer: Any, model: nn.Module) -> Any:
    """The first move, and the first move that has learned."""
    for t in (1, 2):
        backward(model, t)
        optimizer.step()
    return optimizer


def regularized(model: nn.Module, pull: dict[tuple[str, str], float], solve: str = "virtual", **more: Any) -> Any:
    levels = tuple(dict.fromkeys(level for pair in pull for level in pair[::-1]))
    combine = camhd.combine.Regularized(pull, more.pop("over_time", 0.0), solve)
    return camhd.SGD(model, lr=LR, levels=levels, hyper_lr=BETA, combine=combine, **more)


# Theorem 1.


@pytest.mark.parametrize("levels", CHAINS, ids=chain_name)
def test_theorem_1_virtual_rates_are_the_fixed_combination_of_unregularised_ones(levels: tuple[str, ...]) -> None:
    """γ_n = 1 − 2βΣλ_nj and γ_j = 2βλ_nj. Dividing β_i by γ_i takes the chain-rule factor out of the fixed one."""
    pull = pulls(levels, BETA)
    *above, leaf = root_to_leaf(levels)
    gamma = {level: 2 * BETA * pull[leaf, level] for level in above}
    gamma[leaf] = 1 - sum(gamma.values())
    one, other = build(CHAINS[levels]), build(CHAINS[levels])
    virtual = two_steps(Setup("sgd", levels, "virtual", {"lr": LR, "hyper_lr": BETA}, pull=pull).library(one), one)
    options = {"lr": LR, "weights": gamma, "hyper_lr": {level: BETA / gamma[level] for level in levels}}
    fixed = two_steps(Setup("sgd", levels, "fixed", options).library(other), other)
    for got, want in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(got, want, rtol=EXACT, atol=EXACT)
    assert str(virtual.rates()) != str(fixed.rates())  # the leaf's own rate moves the one, the mean the other


@pytest.mark.parametrize("steps", [2, 3, 20])
def test_theorem_1_holds_from_any_state(steps: int) -> None:
    """Rates far apart: one more step is the weighted mean of the virtual rates, which are made by hand here."""
    model = build("mlp")
    lam, beta = {"layer": 8.0, "global": 3.0}, BETA
    pull = {("layer", "global"): 5.0, ("parameter", "layer"): lam["layer"], ("parameter", "global"): lam["global"]}
    optimizer = regularized(model, pull)
    for t in range(1, steps):
        backward(model, t)
        optimizer.step()
    last = {name: p.grad.clone() for name, p in model.named_parameters()}
    old = optimizer.rates()
    backward(model, steps)
    h = {name: -(p.grad * last[name]) for name, p in model.named_parameters()}
    optimizer.step()
    virtual_global = old["global"] - beta * float(sum(x.sum() for x in h.values()))
    for name, _ in model.named_parameters():
        layer = layer_of(name)
        total = float(sum(x.sum() for n, x in h.items() if layer_of(n) == layer))
        virtual_layer = old["layer"][layer] - beta * total
        virtual_own = old["parameter"][name] - beta * h[name]
        weights = [1 - 2 * beta * (lam["layer"] + lam["global"]), 2 * beta * lam["layer"], 2 * beta * lam["global"]]
        want = weights[0] * virtual_own + weights[1] * virtual_layer + weights[2] * virtual_global
        torch.testing.assert_close(optimizer.rates()["parameter"][name], want, rtol=EXACT, atol=EXACT * LR)


@pytest.mark.parametrize("lam", [0.5, 5.0, 20.0])
def test_the_gap_between_virtual_and_closed_is_that_of_the_paper(lam: float) -> None:
    """α_virtual − α_closed = −4β²λ²(α_l − α_g), at the closed rates."""
    pull = {("layer", "global"): lam}
    one, other = build("mlp"), build("mlp")
    virtual = two_steps(regularized(one, pull, "virtual"), one).rates()
    closed = two_steps(regularized(other, pull, "closed"), other).rates()
    assert virtual["global"] == closed["global"]
    for layer, rate in closed["layer"].items():
        gap = -4 * BETA**2 * lam**2 * (rate - closed["global"])
        assert virtual["layer"][layer] - rate == pytest.approx(gap, rel=1e-9, abs=EXACT * LR)
        assert abs(gap) > 1e-9 * LR


def test_the_closed_form_solves_the_equation_of_the_current_step() -> None:
    """α_l = α_{l,t-1} − β (H_l + 2λ (α_l − α_g)), with α_l on both sides."""
    model = build("mlp")
    optimizer = regularized(model, {("layer", "global"): 30.0}, "closed")
    for t in range(1, 5):
        backward(model, t)
        optimizer.step()
    last, old = {n: p.grad.clone() for n, p in model.named_parameters()}, optimizer.rates()
    backward(model, 5)
    optimizer.step()
    new = optimizer.rates()
    for layer, rate in new["layer"].items():
        total = -sum(float((p.grad * last[n]).sum()) for n, p in model.named_parameters() if layer_of(n) == layer)
        want = old["layer"][layer] - BETA * (total + 2 * 30.0 * (rate - new["global"]))
        assert rate == pytest.approx(want, rel=EXACT)


@pytest.mark.parametrize(
    ("pair", "moved"),
    [(("layer", "global"), "layer"), (("parameter", "layer"), "parameter"), (("parameter", "global"), "parameter")],
)
@pytest.mark.parametrize("solve", ["closed", "last"])
def test_each_lambda_pulls_its_child_alone(pair: tuple[str, str], moved: str, solve: str) -> None:
    ends = []
    for lam in (0.0, 10.0):
        model = build("mlp")
        pull = {("layer", "global"): 0.0, ("parameter", "layer"): 0.0, ("parameter", "global"): 0.0, pair: lam}
        optimizer = regularized(model, pull, solve)
        for t in range(1, 4):
            backward(model, t)
            optimizer.step()
            for p in model.parameters():
                p.data.zero_().add_(0.1)  # the same gradients either way
        ends.append(optimizer.rates())
    free, tied = ends
    for level in free:
        assert (str(free[level]) == str(tied[level])) == (level != moved)

    def spread(rates: dict[str, Any]) -> float:
        parent = rates[pair[1]]
        total = 0.0
        for name, _ in model.named_parameters():
            own = rates["layer"][layer_of(name)] if pair[0] == "layer" else rates["parameter"][name]
            total += float(
                torch.as_tensor(own - (parent if pair[1] == "global" else parent[layer_of(name)])).abs().sum()
            )
        return total

    assert spread(tied) < spread(free)


@pytest.mark.parametrize("solve", ["virtual", "closed"])
def test_the_pull_over_time_holds_every_rate_to_its_last_value(solve: str) -> None:
    """λ_ts (α_t − α_{t-1})²: the move of every level, the root's too, shrinks by 1 − 2βλ or by 1 / (1 + 2βλ)."""
    moved = []
    for ts in (0.0, 10.0):
        model = build("mlp")
        optimizer = two_steps(regularized(model, {("layer", "global"): 1e-9}, solve, over_time=ts), model)
        rates = optimizer.rates()
        moved.append([rates["global"] - LR, *(rate - LR for rate in rates["layer"].values())])
    shrink = 1 - 2 * BETA * 10.0 if solve == "virtual" else 1 / (1 + 2 * BETA * 10.0)
    assert moved[1] == pytest.approx([shrink * move for move in moved[0]], rel=1e-6)


@pytest.mark.parametrize("lam", [1.0, 0.5, 1e9])
def test_a_virtual_pull_that_is_no_weighted_mean_is_a_clear_error(lam: float) -> None:
    with pytest.raises(ValueError, match="virtual"):
        camhd.SGD(
            build("mlp"), lr=LR, hyper_lr=1.0, combine=camhd.combine.Regularized({("layer", "global"): lam})
        ).step()


def test_the_pulls_to_all_ancestors_count_together() -> None:
    pull = {("layer", "global"): 10.0, ("parameter", "layer"): 30.0, ("parameter", "global"): 30.0}
    with pytest.raises(ValueError, match="parameter"):
        regularized(build("mlp"), pull).step()


@pytest.mark.parametrize("solve", REGULARIZED)
def test_the_leaf_moves_the_parameters(solve: str) -> None:
    model = build("mlp")
    optimizer = regularized(model, {("layer", "global"): 5.0}, solve)
    for t in range(1, 6):
        backward(model, t)
        before = snapshot(model)
        optimizer.step()
    for name, p in model.named_parameters():
        want = before[name] - optimizer.rates()["layer"][layer_of(name)] * p.grad
        torch.testing.assert_close(p.detach(), want, rtol=EXACT, atol=EXACT)


# Theorem 2.


def quadratic() -> tuple[Callable[[Tensor], Tensor], Tensor, float]:
    """½ (θ − θ*)ᵀ A (θ − θ*) with a condition number of 20, its minimum, and L."""
    generator = torch.Generator().manual_seed(3)
    basis, _ = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64))
    a = basis @ torch.diag(torch.linspace(0.25, 5.0, 6, dtype=torch.float64)) @ basis.T
    best = torch.linspace(-2.0, 2.0, 6, dtype=torch.float64)
    return lambda x: 0.5 * (x - best) @ a @ (x - best), best, 5.0


def bounded_gradient() -> tuple[Callable[[Tensor], Tensor], Tensor, float]:
    """Σ √(1 + (θ − θ*)²) along six axes: convex, smooth, with a gradient that never passes 1 per axis."""
    best = torch.linspace(-2.0, 2.0, 6, dtype=torch.float64)
    return lambda x: (1 + (x - best) ** 2).sqrt().sum(), best, 1.0


def minimise(
    problem: tuple[Callable[[Tensor], Tensor], Tensor, float], start: float, steps: int, **options: Any
) -> float:
    """The distance to the minimum after gradient descent that starts with rates of ``start`` / L."""
    f, best, smoothness = problem
    model = nn.Module()
    model.a, model.b = (nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in range(2))
    optimizer = camhd.SGD(model, lr=start / smoothness, lr_limit=0.9 / smoothness, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        f(torch.cat([model.a, model.b])).backward()
        optimizer.step()
    return float((torch.cat([model.a, model.b]) - best).detach().norm())


LEVELS = [("global",), ("global", "layer"), ("global", "layer", "parameter")]
DECAYS = {"exp(-rt)": 0.2, "1/t²": lambda t: 1 / t**2}


@pytest.mark.alike(6)
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("levels", LEVELS, ids=chain_name)
@pytest.mark.parametrize("start", [1e-6, 0.5, 1.9, 5.0, 20.0])
def test_theorem_2_gradient_descent_on_a_quadratic_converges_from_any_rate(
    start: float, levels: tuple[str, ...], decay: str
) -> None:
    """The theorem asks for a bounded gradient, so that rates grow no faster than t; here max_lr sees to it."""
    options = {"levels": levels, "decay": DECAYS[decay], "hyper_lr": 1e-2, "combine_lr": 1e-3, "max_lr": 5.0}
    assert minimise(quadratic(), start, 1000, **options) < CLOSE


@pytest.mark.alike(6)
@pytest.mark.parametrize("combine", ["fixed", "normalized", "softmax"])
@pytest.mark.parametrize("beta", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("start", [1e-6, 100.0])
def test_theorem_2_holds_for_any_hyper_lr_where_the_gradient_is_bounded(
    start: float, beta: float, combine: str
) -> None:
    options = {"levels": ("global", "layer", "parameter"), "decay": 0.05, "hyper_lr": beta, "combine": combine}
    assert minimise(bounded_gradient(), start, 800, **options) < CLOSE


def test_without_the_decay_the_same_rate_does_not_converge() -> None:
    """So it is τ that theorem 2 owes its convergence to."""
    assert minimise(quadratic(), 5.0, 100, levels=("global",), hyper_lr=0.0) > 1e3
