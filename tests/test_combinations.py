"""Combinations by themselves: derivatives against autograd, steps against the equations of sections 4 and 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from camhd import combine
from camhd.combine import Ancestors, Places
from camhd.combine.base import Combination, to_simplex
from compare import close

LAYERS, LEVELS, PLACES = 3, 4, 7


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1


FORMS: dict[str, Callable[[], Combination]] = {
    "normalized": combine.Normalized,
    "softmax": combine.Softmax,
    "per-layer normalized": combine.PerLayer,
    "per-layer softmax": lambda: combine.PerLayer("softmax"),
    "network": lambda: combine.Network(hidden=3, seed=5),
}


def somewhere(form: Combination, layers: int = LAYERS) -> dict[str, Tensor]:
    """A state that is not the first one: no two numbers in it are equal."""
    start = form.start(torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64), layers)
    return {name: value + 0.3 * draw(*value.shape, seed=i) for i, (name, value) in enumerate(start.items())}


def places(rates: list[Tensor]) -> Places:
    layer = torch.tensor([0, 0, 1, 2, 2, 2, 1])
    return Places(rates, layer, draw(PLACES, seed=9))


def weights_of(form: Any, state: dict[str, Tensor]) -> Tensor:
    return form.each.weights(state) if isinstance(form, combine.PerLayer) else form.weights(state)


@pytest.mark.parametrize("name", FORMS)
def test_shares_are_the_derivatives_of_the_combined_rate(name: str) -> None:
    form = FORMS[name]()
    state = somewhere(form)
    rates = [draw(PLACES, seed=20 + i).requires_grad_() for i in range(LEVELS)]
    hyper = draw(PLACES, seed=30)
    wanted = torch.autograd.grad((form.mix(state, places(rates)) * hyper).sum(), rates)
    shares = form.shares(state, places([rate.detach() for rate in rates]))
    assert len(shares) == LEVELS
    for share, want in zip(shares, wanted, strict=True):
        close(share * hyper, want)


@pytest.mark.parametrize("name", FORMS)
def test_one_step_of_what_is_learned_is_one_along_autograds_gradient(name: str) -> None:
    """Normalised: on γ and back onto the simplex. Softmax: on the logits. Network: on every weight."""
    form = FORMS[name]()
    state = {key: value.requires_grad_() for key, value in somewhere(form).items()}
    rates, hyper, rate = [draw(PLACES, seed=20 + i) for i in range(LEVELS)], draw(PLACES, seed=30) - 0.5, 0.7
    slopes = torch.autograd.grad((form.mix(state, places(rates)) * hyper).sum(), list(state.values()))
    wanted = dict(zip(state, slopes, strict=True))
    state = {key: value.detach() for key, value in state.items()}
    found = form.learn(state, form.gradient(state, places(rates), hyper), rate)
    moved = {key: state[key] - rate * wanted[key] for key in state}
    if name.endswith("normalized"):
        moved = {"weights": moved["weights"].clamp_min(0) / moved["weights"].clamp_min(0).sum(-1, keepdim=True)}
    assert found.keys() == moved.keys()
    for key, value in moved.items():
        close(found[key], value)
    if form.linear:
        products = [r * hyper for r in rates]
        for key, value in form.gradient(state, places(rates), hyper).items():
            close(form.slope(state, products, places(rates).layer)[key], value)


@pytest.mark.parametrize("name", FORMS)
def test_all_start_as_the_plain_weighted_mean(name: str) -> None:
    form, gamma = FORMS[name](), torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    state = form.start(gamma, LAYERS)
    rates = [draw(PLACES, seed=i) for i in range(LEVELS)]
    close(form.mix(state, places(rates)), sum(g * r for g, r in zip(gamma, rates, strict=True)))
    gamma += 1  # the state is its own
    close(form.mix(state, places(rates)), sum(g * r for g, r in zip(gamma - 1, rates, strict=True)))


def test_what_is_fixed_stays_and_says_so() -> None:
    state = somewhere(combine.Fixed())
    assert combine.Fixed().learn(state, {"weights": draw(LEVELS)}, 1.0) is state
    assert not combine.Fixed().learns
    assert not combine.PerLayer("fixed").learns
    assert not combine.Regularized(1.0).learns
    assert all(form().learns for form in FORMS.values())


def test_further_layers_start_afresh_and_the_others_stay() -> None:
    form, gamma = combine.PerLayer(), torch.tensor([0.25, 0.75], dtype=torch.float64)
    state = {"weights": draw(2, 2)}
    grown = form.grow(state, gamma, 4)["weights"]
    assert torch.equal(grown, torch.cat([state["weights"], gamma.expand(2, 2)]))
    assert combine.Network().grow(state, gamma, 4) is state


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.2, 0.6], [0.25, 0.75]),
        ([-1.0, 0.5], [0.0, 1.0]),
        ([-1.0, -0.5], [0.3, 0.7]),
        ([0.0, 0.0], [0.3, 0.7]),
        ([1e-300, 0.0], [1.0, 0.0]),
    ],
)
def test_back_onto_the_simplex(weights: list[float], expected: list[float]) -> None:
    """Negative ones are set to 0 first; if all vanish, γ stays as it was. Row by row."""
    fallback = torch.tensor([0.3, 0.7], dtype=torch.float64)
    found = to_simplex(torch.tensor([weights, [3.0, 1.0]], dtype=torch.float64), fallback)
    close(found, torch.tensor([expected, [0.75, 0.25]], dtype=torch.float64))


@pytest.mark.parametrize("solve", ["virtual", "closed", "last"])
@pytest.mark.parametrize("over_time", [0.0, 0.4])
def test_tied_rates_solve_the_equations_of_section_5(solve: str, over_time: float) -> None:
    """Each is where the penalised objective's gradient step lands; λ differ for every pair, and one is left out."""
    beta, strength = 0.3, {("unit", "global"): 0.2, ("unit", "layer"): 0.5, ("layer", "global"): 0.7}
    form = combine.Regularized(strength, over_time, solve)
    last, virtual = draw(5, seed=1), draw(5, seed=2)
    above = Ancestors(*[[draw(5, seed=10 * i + j) for j in range(2)] for i in range(1, 4)])
    found = form.settle(("global", "layer", "unit"), last, virtual, above, beta)
    ties = list(zip((0.2, 0.5), range(2), strict=True))
    if solve == "last":
        want = virtual - beta * sum(2 * lam * (last - above.last[j]) for lam, j in ties)
    elif solve == "virtual":
        slope = sum(2 * lam * (virtual - above.virtual[j]) for lam, j in ties) + 2 * over_time * (virtual - last)
        want = virtual - beta * slope
    else:
        left = virtual + beta * (sum(2 * lam * above.settled[j] for lam, j in ties) + 2 * over_time * last)
        want = left / (1 + beta * (2 * 0.7 + 2 * over_time))
    close(found, want)
    partial = combine.Regularized({("unit", "layer"): 0.5}, over_time, solve)
    none = combine.Regularized({("unit", "global"): 0.0, ("unit", "layer"): 0.5}, over_time, solve)
    path = ("global", "layer", "unit")
    close(partial.settle(path, last, virtual, above, beta), none.settle(path, last, virtual, above, beta))
    everywhere = combine.Regularized(0.5, over_time, solve).settle(path, last, virtual, above, beta)
    pairs = {("unit", "global"): 0.5, ("unit", "layer"): 0.5}
    close(everywhere, combine.Regularized(pairs, over_time, solve).settle(path, last, virtual, above, beta))


def test_tied_rates_move_by_the_leafs_rate_alone() -> None:
    form, rates = combine.Regularized(1.0), [draw(PLACES, seed=i) for i in range(3)]
    assert torch.equal(form.mix({}, places(rates)), rates[-1])
    assert [float(share) for share in form.shares({}, places(rates))] == [1.0] * 3
    assert form.start(draw(3), 1) == {}


@pytest.mark.parametrize(
    ("strength", "over_time", "hyper_lrs", "fits"),
    [
        (0.5, 0.0, [0.9, 0.9], True),
        (0.5, 0.0, [1.0, 1.0], False),  # 2βλ = 1
        (0.5, 0.0, [1.0, 0.99], True),  # the root has nothing above it
        (0.5, 0.6, [0.9, 0.5], False),  # but its own past
        (0.2, 0.3, [0.9, 0.9], True),
        (0.0, 0.0, [0.9, 0.9], False),  # nothing ties it
        (0.0, 0.3, [0.9, 0.9], True),
        ({("layer", "global"): 0.5}, 0.0, [0.9, 0.9], True),
        ({}, 0.0, [0.9, 0.9], False),
        (0.5, 0.0, [0.9, 0.0], False),
    ],
)
def test_virtual_rates_need_a_pull_between_0_and_1(
    strength: Any, over_time: float, hyper_lrs: list[float], fits: bool
) -> None:
    form = combine.Regularized(strength, over_time)
    if fits:
        form.check(("global", "layer"), hyper_lrs)
    else:
        with pytest.raises(ValueError, match="must lie between 0 and 1 with solve='virtual'"):
            form.check(("global", "layer"), hyper_lrs)
    combine.Regularized(strength, over_time, solve="closed").check(("global", "layer"), hyper_lrs)


@pytest.mark.parametrize("pair", [("global", "layer"), ("layer", "layer"), ("unit", "global")])
def test_only_pairs_of_a_level_and_one_above_it_can_be_tied(pair: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="is no such pair"):
        combine.Regularized({pair: 0.5}).check(("global", "layer"), [0.5, 0.5])


@pytest.mark.parametrize("bad", [-1.0, float("inf"), float("nan")])
def test_ties_are_finite_and_not_negative(bad: float) -> None:
    for make in (lambda: combine.Regularized(bad), lambda: combine.Regularized(1.0, over_time=bad)):
        with pytest.raises(ValueError, match="must be 0 or more and finite"):
            make()
    assert combine.Regularized(0.0).over_time == 0.0


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="'hidden' must be at least 1, got 0"):
        combine.Network(hidden=0)
    assert len(combine.Network(hidden=1).start(draw(2), 1)["w2"]) == 1
    with pytest.raises(ValueError, match="'weights' must be above 0 with combine='softmax'"):
        combine.Softmax().start(torch.tensor([0.0, 1.0]), 1)
    with pytest.raises(ValueError, match="'combine' of PerLayer must be one of"):
        combine.PerLayer("network")
    with pytest.raises(ValueError, match="'combine' must be one of"):
        combine.combination("mean")
    with pytest.raises(ValueError, match="'combine' must be one of"):
        combine.combination(3)
    assert isinstance(combine.combination("softmax"), combine.Softmax)
    own = combine.PerLayer(combine.Softmax())
    assert isinstance(own.each, combine.Softmax)
    assert combine.combination(own) is own


def test_a_networks_first_weights_have_the_variance_of_one_over_the_levels() -> None:
    """W₁ from N(0, 1/n), as a sum over n levels asks for; b₁ and w₂ at 0; another seed is another network."""
    first = combine.Network(hidden=4000).start(torch.full((4,), 0.25, dtype=torch.float64), 1)
    assert first["w1"].shape == (4000, 4)
    assert abs(float(first["w1"].std()) - 0.5) < 0.01
    assert not first["b1"].any()
    assert not first["w2"].any()
    assert not torch.equal(first["w1"], combine.Network(4000, seed=1).start(draw(4), 1)["w1"])
