"""Weighted means: α* = Σ γ_i α_i with γ on the simplex, fixed or learned (spec, section 4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .base import Combination, Places, State, off_simplex, to_simplex


class Linear(Combination):
    """α* = Σ γ_i α_i, one γ for the whole network. Its state may have further dimensions in front."""

    linear = True

    @abstractmethod
    def weights(self, state: State) -> Tensor:
        """γ along the last dimension."""

    def mix(self, state: State, places: Places) -> Tensor:
        return weighted_sum(self.weights(state).unbind(-1), places.rates)

    def shares(self, state: State, places: Places) -> Sequence[Tensor]:
        return self.weights(state).unbind(-1)  # ∂α*/∂α_i = γ_i

    def gradient(self, state: State, places: Places, hyper: Tensor) -> State:
        return self.slope(state, [rate * hyper for rate in places.rates], places.layer)

    def slope(self, state: State, products: Sequence[Tensor], layer: Tensor | int) -> State:
        # ∂f/∂γ_i = Σ_p α_i(p) h_p  (Algorithm 1, with the rate inside the sum)
        return {"weights": torch.stack([product.sum() for product in products])}

    def trouble(self, state: State) -> str | None:
        return super().trouble(state) or off_simplex(self.weights(state))

    def describe(self, state: State, names: Sequence[str], layers: Sequence[str]) -> Mapping[str, Any]:
        return dict(zip(names, self.weights(state).tolist(), strict=True))


class Normalized(Linear):
    """γ_i ← γ_i − δ ∂f/∂γ_i, negative ones to 0, then γ_i/Σγ: Algorithm 1 of the paper."""

    def start(self, weights: Tensor, layers: int) -> State:
        return {"weights": weights.clone()}

    def weights(self, state: State) -> Tensor:
        return state["weights"]

    def learn(self, state: State, gradient: State, rate: float) -> State:
        weights = state["weights"]
        return {"weights": to_simplex(weights - rate * gradient["weights"], fallback=weights)}


class Fixed(Normalized):
    """γ as given: δ = 0."""

    learns = False

    def learn(self, state: State, gradient: State, rate: float) -> State:
        return state


class Softmax(Linear):
    """γ = softmax(c), and the step is taken on c: ∂f/∂c_i = γ_i (∂f/∂γ_i − Σ_j γ_j ∂f/∂γ_j)."""

    def start(self, weights: Tensor, layers: int) -> State:
        if (weights <= 0).any():
            raise ValueError(
                f"'weights' must be above 0 with combine='softmax', which cannot give a weight of 0, got "
                f"{tuple(weights.tolist())}; use combine='normalized', or a small positive weight."
            )
        return {"logits": weights.log()}

    def weights(self, state: State) -> Tensor:
        return state["logits"].softmax(-1)

    def learn(self, state: State, gradient: State, rate: float) -> State:
        weights, slope = self.weights(state), gradient["weights"]
        return {"logits": state["logits"] - rate * weights * (slope - (weights * slope).sum(-1, keepdim=True))}


class PerLayer(Combination):
    """Each layer has a γ of its own, trained by its own part of the sum.

    >>> PerLayer("softmax")
    PerLayer('softmax')
    """

    by_layer = True
    linear = True

    def __init__(self, combine: str | Linear = "normalized") -> None:
        if isinstance(combine, Linear):
            self.each = combine
        elif combine in LINEAR:
            self.each = LINEAR[combine]()
        else:
            raise ValueError(
                f"'combine' of PerLayer must be one of {', '.join(map(repr, LINEAR))} or such an object, "
                f"got {combine!r}."
            )
        self.learns = self.each.learns

    def __repr__(self) -> str:
        return f"PerLayer({next((k for k, v in LINEAR.items() if type(self.each) is v), self.each)!r})"

    def start(self, weights: Tensor, layers: int) -> State:
        one = self.each.start(weights, layers)
        return {name: value.expand(layers, *value.shape).clone() for name, value in one.items()}

    def grow(self, state: State, weights: Tensor, layers: int) -> State:
        fresh = self.start(weights, layers)
        return {name: torch.cat([state[name], fresh[name][len(state[name]) :]]) for name in fresh}

    def _weights(self, state: State, places: Places) -> Sequence[Tensor]:
        return self.each.weights(state)[places.layer].unbind(-1)

    def mix(self, state: State, places: Places) -> Tensor:
        return weighted_sum(self._weights(state, places), places.rates)

    def shares(self, state: State, places: Places) -> Sequence[Tensor]:
        return self._weights(state, places)

    def gradient(self, state: State, places: Places, hyper: Tensor) -> State:
        return self.slope(state, [rate * hyper for rate in places.rates], places.layer)

    def slope(self, state: State, products: Sequence[Tensor], layer: Tensor | int) -> State:
        assert isinstance(layer, Tensor)
        zeros = torch.zeros_like(self.each.weights(state))
        return {"weights": zeros.index_add_(0, layer, torch.stack(list(products), -1))}

    def learn(self, state: State, gradient: State, rate: float) -> State:
        return self.each.learn(state, gradient, rate)

    def trouble(self, state: State) -> str | None:
        return self.each.trouble(state)

    def describe(self, state: State, names: Sequence[str], layers: Sequence[str]) -> Mapping[str, Any]:
        rows = self.each.weights(state).tolist()
        return {layer: dict(zip(names, row, strict=True)) for layer, row in zip(layers, rows, strict=True)}


LINEAR: dict[str, type[Linear]] = {"normalized": Normalized, "softmax": Softmax, "fixed": Fixed}


def weighted_sum(weights: Sequence[Tensor], rates: Sequence[Tensor]) -> Tensor:
    """Σ γ_i α_i."""
    total = weights[0] * rates[0]
    for weight, rate in zip(weights[1:], rates[1:], strict=True):
        total = torch.addcmul(total, rate, weight)
    return total
