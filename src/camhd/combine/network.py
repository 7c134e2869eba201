"""A small network in place of the weighted mean (the paper's g(α̂_1 … α̂_n; θ))."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .base import Combination, Places, State


class Network(Combination):
    """α* = Σ γ_i α_i + u · w₂ᵀ tanh(W₁ α/u + b₁), with u the lr at the start.

    w₂ = 0 at the start, so it begins as the plain weighted mean. All of γ, W₁, b₁, w₂ learn by the
    chain rule through h; γ is not held on the simplex here. A combined rate that the network puts
    outside [min_lr, max_lr] is brought back to the bound; its derivative is that of the network
    without the bound, so that it can come back.

    Args:
        hidden: how many hidden units.
        seed: of W₁, which starts random so that the hidden units differ.
    """

    convex = False
    at_last_move = True  # the only point at which ∂f/∂w is what autograd would give

    def __init__(self, hidden: int = 8, seed: int = 0) -> None:
        if not isinstance(hidden, int):
            raise TypeError(f"'hidden' must be a whole number, got {hidden!r}.")
        if hidden < 1:
            raise ValueError(f"'hidden' must be at least 1, got {hidden}; use combine='normalized' for none.")
        self.hidden, self.seed = hidden, seed

    def __repr__(self) -> str:
        return f"Network(hidden={self.hidden}, seed={self.seed})"

    def start(self, weights: Tensor, layers: int) -> State:
        levels = len(weights)
        random = torch.Generator().manual_seed(self.seed)
        first = torch.randn(self.hidden, levels, generator=random, dtype=torch.float64) / levels**0.5
        return {
            "mean": weights.clone(),
            "w1": first.to(weights),
            "b1": weights.new_zeros(self.hidden),
            "w2": weights.new_zeros(self.hidden),
        }

    def _hidden(self, state: State, places: Places) -> tuple[Tensor, Tensor]:
        """α/u with levels along the last dimension, and tanh(W₁ α/u + b₁)."""
        scaled = torch.stack(torch.broadcast_tensors(*[rate / places.unit for rate in places.rates]), -1)
        return scaled, torch.tanh(scaled @ state["w1"].T + state["b1"])

    def mix(self, state: State, places: Places) -> Tensor:
        scaled, hidden = self._hidden(state, places)
        return places.unit * (scaled @ state["mean"] + hidden @ state["w2"])

    def shares(self, state: State, places: Places) -> Sequence[Tensor]:
        _, hidden = self._hidden(state, places)
        return (state["mean"] + ((1 - hidden**2) * state["w2"]) @ state["w1"]).unbind(-1)

    def gradient(self, state: State, places: Places, hyper: Tensor) -> State:
        scaled, hidden = self._hidden(state, places)
        weight = (hyper * places.unit).reshape(-1)  # h · u at each place
        scaled, hidden = (at.reshape(len(weight), at.shape[-1]) for at in (scaled, hidden))  # of no place at all, too
        back = weight[:, None] * (1 - hidden**2) * state["w2"]
        return {"mean": weight @ scaled, "w1": back.T @ scaled, "b1": back.sum(0), "w2": weight @ hidden}

    def learn(self, state: State, gradient: State, rate: float) -> State:
        return {name: value - rate * gradient[name] for name, value in state.items()}

    def describe(self, state: State, names: Sequence[str], layers: Sequence[str]) -> Mapping[str, Any]:
        return dict(zip(names, state["mean"].tolist(), strict=True))
