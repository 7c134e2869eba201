"""What every combination does: turn one rate per level into the rate that moves a scalar."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

State = dict[str, Tensor]


class Places(NamedTuple):
    """Some scalars of the network, and what the tree has for each of them."""

    rates: Sequence[Tensor]  # α_i there, root to leaf, broadcastable to each other
    layer: Tensor | int  # the layer each place belongs to, or the one layer of them all
    unit: Tensor | float  # lr at the start, for what must be free of its scale


class Ancestors(NamedTuple):
    """The rates above each group of a level, root first, gathered at that level's groups."""

    last: Sequence[Tensor]  # α_{j,t-1}
    virtual: Sequence[Tensor]  # α̂_j: moved by their own hypergradient, nothing else
    settled: Sequence[Tensor]  # α_{j,t}: as they are from now on


class Combination(ABC):
    """α* = g(α_1 … α_n): how the levels' rates become one, and how that is learned."""

    learns = True  # has weights that 'combine_lr' moves
    by_layer = False  # looks at the layer of each place
    settles = False  # ties the levels to each other after they moved (regularised rates)
    linear = False  # α* = Σ γ_i α_i with the same γ for all scalars of a layer, whatever the rates are
    convex = True  # α* lies between the levels' rates, hence within their bounds
    at_last_move = False  # derivatives belong to the weights of the last move, not to the present ones

    def check(self, names: Sequence[str], hyper_lrs: Sequence[float]) -> None:  # noqa: B027 - nothing to check for most
        """Say what is wrong with this combination for these levels (root to leaf), if anything is."""

    @abstractmethod
    def start(self, weights: Tensor, layers: int) -> State:
        """The state before the first step, from the plain weights γ."""

    def grow(self, state: State, weights: Tensor, layers: int) -> State:
        """The same state for a tree that has got more layers."""
        return state

    @abstractmethod
    def mix(self, state: State, places: Places) -> Tensor:
        """α*, the combined rate at each place."""

    @abstractmethod
    def shares(self, state: State, places: Places) -> Sequence[Tensor]:
        """∂α*/∂α_i for each level, broadcastable to the places."""

    def gradient(self, state: State, places: Places, hyper: Tensor) -> State:
        """∂f/∂state: the derivatives of α* weighted with h and summed over the places."""
        return {}

    def slope(self, state: State, products: Sequence[Tensor], layer: Tensor | int) -> State:
        """The same for one that is `linear`, from α_i h of every level at each place."""
        return {}

    def learn(self, state: State, gradient: State, rate: float) -> State:
        """The state after one step of size `rate` (δ) against its gradient."""
        return state

    def trouble(self, state: State) -> str | None:
        """What keeps a state that was saved from being one of this combination's, if anything does."""
        return None if all(bool(value.isfinite().all()) for value in state.values()) else "must be finite"

    def settle(
        self, path: Sequence[str], last: Tensor, virtual: Tensor, above: Ancestors, hyper_lr: Tensor | float
    ) -> Tensor:
        """The rates of the last level of `path` (root first) after they were tied to those above."""
        return virtual

    @abstractmethod
    def describe(self, state: State, names: Sequence[str], layers: Sequence[str]) -> Mapping[str, Any]:
        """The weights for a person to read: by level, or by layer and level."""


def off_simplex(weights: Tensor) -> str | None:
    """What keeps weights from the simplex, if anything does: more than rounding."""
    fits = bool((weights >= 0).all()) and bool(((weights.sum(-1) - 1).abs() < 1e-3).all())
    return None if fits else "must be weights of 0 or more that sum to 1"


def to_simplex(weights: Tensor, fallback: Tensor) -> Tensor:
    """γ/Σγ after negative weights were set to 0; `fallback` where nothing is left."""
    positive = weights.clamp_min(0)
    total = positive.sum(-1, keepdim=True)
    return torch.where(total > 0, positive / torch.where(total > 0, total, 1), fallback)
